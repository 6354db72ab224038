//! Where the rows are measured: the gateway, the other endpoints, the load generator, and the database beneath ours.
//!
//! Invariant: all sides of a row are on this machine's loopback, or wherever the peers are, at the same time; none is
//! stopped while another is measured.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_postgres::Client;

use super::super::lab::Lab;
use super::super::noise::Noise;
use super::Args;
use super::endpoint::{Endpoint, locate};
use super::gateway::{self, Gateway, Plan};
use super::load::Crew;

/// Large objects unlinked in one transaction: each takes a slot of the server's lock table.
const UNLINK_BATCH: i64 = 200;

/// Removes objects of the gateway as its reaper would in the end, so that every round has the same room.
const WIPE: &str = "WITH o AS (
    DELETE FROM lobgate.object WHERE id IN (SELECT id FROM lobgate.object WHERE key LIKE $1 LIMIT $2)
    RETURNING content_id
), c AS (DELETE FROM lobgate.content WHERE id IN (SELECT content_id FROM o) RETURNING loid)
SELECT (SELECT count(*) FROM o) + 0 * (SELECT count(lo_unlink(loid)) FROM c WHERE loid IS NOT NULL)";

/// A server of files.
#[derive(Clone)]
pub(super) struct FileServer {
    pub(super) endpoint: Endpoint,
    pub(super) directory: PathBuf,
}

/// All that rows are measured with.
pub(super) struct Stage<'a> {
    pub(super) args: &'a Args,
    pub(super) lab: &'a Lab<'a>,
    /// URL of the scratch database.
    pub(super) url: String,
    pub(super) crew: Crew,
    /// The gateway as it is set.
    pub(super) ours: Endpoint,
    pub(super) peers: Vec<Endpoint>,
    pub(super) files: Vec<FileServer>,
    _gateway: Gateway,
}

impl<'a> Stage<'a> {
    /// Starts the gateway and makes the buckets.
    ///
    /// # Errors
    /// The gateway does not start, or an address can't be understood.
    pub(super) async fn set(args: &'a Args, lab: &'a Lab<'a>) -> anyhow::Result<Self> {
        let url = gateway::on_database(lab.url, lab.scratch.database()?);
        lab.progress.doing("starting the gateway");
        let gateway = Gateway::start(&Plan::on_database(lab.config, url.clone())).await?;
        let bucket = format!("lobgate-bench-{}", &uuid::Uuid::new_v4().simple().to_string()[..12]);
        let ours = Endpoint::find(gateway.peer(), &bucket).await?;
        ours.talk().await?.create_bucket().await?;
        let mut peers = Vec::new();
        for peer in &args.peers {
            let endpoint = Endpoint::find(peer, &bucket).await?;
            let mut talk = endpoint.talk().await?;
            if let Err(error) = talk.create_bucket().await {
                // Its rows will say so.
                tracing::warn!(error = format!("{error:#}"), "the endpoint can't be measured");
            }
            peers.push(endpoint);
        }
        let mut files = Vec::new();
        for (name, url) in &args.statics {
            let (host, address) = locate(url).await?;
            let signer = super::presign::Signer::new(&host, "none", "none", "none")?;
            let endpoint = Endpoint { name: name.clone(), address, signer, bucket: String::new() };
            let Some(directory) = args.static_dir.clone() else {
                anyhow::bail!("--static needs --static-dir: the directory that the server shows");
            };
            files.push(FileServer { endpoint, directory });
        }
        Ok(Self { args, lab, url, crew: Crew::new()?, ours, peers, files, _gateway: gateway })
    }

    /// Ours and the others that speak S3.
    pub(super) fn endpoints(&self) -> Vec<Endpoint> {
        std::iter::once(&self.ours).chain(&self.peers).cloned().collect()
    }

    /// Random bytes.
    pub(super) fn body(&self, length: u64) -> Vec<u8> {
        Noise::new().body(length).piece(0, length).to_vec()
    }

    /// The id of our bucket.
    pub(super) async fn bucket_id(&self) -> anyhow::Result<i32> {
        self.bucket_id_of(&self.ours.bucket).await
    }

    pub(super) async fn bucket_id_of(&self, bucket: &str) -> anyhow::Result<i32> {
        let client = self.lab.connect().await?;
        Ok(client.query_one("SELECT id FROM lobgate.bucket WHERE name = $1", &[&bucket]).await?.get(0))
    }

    /// A gateway like ours that keeps no block in memory; ours, where this version keeps none anyway. It is there for one
    /// row only: together their pools are more than a small server takes.
    pub(super) async fn uncached(&self) -> anyhow::Result<(Option<Gateway>, Endpoint)> {
        if gateway::cache(self.lab.config).is_none() {
            return Ok((None, self.ours.clone()));
        }
        let gateway = Gateway::start(&Plan::on_database(self.lab.config, self.url.clone()).uncached()).await?;
        let endpoint = Endpoint::find(gateway.peer(), &self.ours.bucket).await?;
        Ok((Some(gateway), endpoint))
    }

    /// Removes our objects below a prefix with their bytes, and lets new ones have the room.
    pub(super) async fn wipe(&self, client: &Client, prefix: &str) -> anyhow::Result<()> {
        let pattern = format!("{prefix}%");
        while client.query_one(WIPE, &[&pattern, &UNLINK_BATCH]).await?.get::<_, i64>(0) > 0 {}
        self.lab.reclaim(client).await?;
        Ok(())
    }

    /// Removes what was stored at the others.
    pub(super) async fn strike(&self) -> Vec<String> {
        let mut left = Vec::new();
        for peer in &self.peers {
            if let Err(error) = peer.clear().await {
                left.push(format!(
                    "the bucket {} at {}, if it was made, is left behind: {error:#}",
                    peer.bucket, peer.name
                ));
            }
        }
        left
    }

    /// Sessions for bare work, shared by the closures of a side.
    pub(super) async fn bare(&self, count: usize) -> anyhow::Result<Vec<Arc<super::super::bare::Bare>>> {
        let mut sessions = Vec::new();
        for client in self.lab.connect_many(count).await? {
            sessions.push(Arc::new(super::super::bare::Bare::new(client).await?));
        }
        anyhow::ensure!(sessions.len() == count, "the server takes only {} connections of {count}", sessions.len());
        Ok(sessions)
    }
}
