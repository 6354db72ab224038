//! Rows of large objects stored, against every bare way to store as much over as many connections.
//!
//! What a side stored is removed before the next one's turn, and the room of large objects is made free again, so that all
//! of them write into pages that are there already and a run needs little disk.

use std::sync::Arc;

use tokio_postgres::Client;

use super::super::bare::{Bare, WRITES_IN_FLIGHT, signed};
use super::super::noise::Body;
use super::bars::{BARE, Bound, Line, Measure, OURS, Side, in_turns};
use super::connection::Upload;
use super::endpoint::Endpoint;
use super::load::{Heads, Requests, Until, on_sessions};
use super::stage::Stage;
use futures::{StreamExt as _, TryStreamExt as _};

/// Most bytes that a side stores in a round, whatever time is left.
const ROUND_MAX: u64 = 384 << 20;
/// Longest body of which a side's copy is held in memory.
const HELD: u64 = 16 << 20;
/// Longest body that goes into a row or a single statement.
const ONE_STATEMENT: u64 = 8 << 20;
/// `INV_READ | INV_WRITE` (libpq/libpq-fs.h).
const READ_WRITE: i32 = 0x0006_0000;

/// The ways without the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `lo_from_bytea` in a CTE with the row.
    OneStatement,
    /// `lo_create`, `lo_open` and `lowrite` of chunks, and the row, in one transaction.
    Lowrite,
    /// `lo_create` and `lo_put` of chunks, and the row, in one transaction.
    LoPut,
    /// `bytea` in the row.
    Inline,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::OneStatement => "bare lo_from_bytea",
            Self::Lowrite => "bare lowrite",
            Self::LoPut => "bare lo_put",
            Self::Inline => "bare inline row",
        }
    }

    fn fits(self, size: u64) -> bool {
        match self {
            Self::OneStatement | Self::Inline => size <= ONE_STATEMENT,
            Self::Lowrite => true,
            // Shorter bodies are one statement.
            Self::LoPut => size > ONE_STATEMENT,
        }
    }

    async fn put(self, session: &Bare, key: &str, body: &Body, chunk: u64) -> anyhow::Result<()> {
        match self {
            Self::OneStatement | Self::LoPut => session.put(key, body, chunk, None).await,
            Self::Inline => session.put_inline(key, body).await,
            Self::Lowrite => lowrite(&session.client, key, body, chunk).await,
        }
    }
}

async fn lowrite(client: &Client, key: &str, body: &Body, chunk: u64) -> anyhow::Result<()> {
    client.batch_execute("BEGIN").await?;
    let loid: u32 = client.query_one("SELECT lo_create(0)", &[]).await?.get(0);
    let descriptor: i32 = client.query_one("SELECT lo_open($1, $2)", &[&loid, &READ_WRITE]).await?.get(0);
    let write = client.prepare_typed("SELECT lowrite($1, $2)", &[]).await?;
    // Statements of a session run in the order in which they were sent.
    let writes = body.pieces(chunk).map(|(_, bytes)| {
        let write = &write;
        async move { client.execute(write, &[&descriptor, &bytes.as_ref()]).await }
    });
    futures::stream::iter(writes).buffered(WRITES_IN_FLIGHT).try_collect::<Vec<_>>().await?;
    let row = "INSERT INTO object (key, loid, size) VALUES ($1, $2, $3)";
    client.execute(row, &[&key, &loid, &signed(body.len())]).await?;
    client.batch_execute("COMMIT").await?;
    Ok(())
}

pub(super) async fn put(
    stage: &Stage<'_>,
    row: &'static str,
    size: u64,
    connections: usize,
) -> anyhow::Result<Vec<Line>> {
    let until =
        Until { operations: (ROUND_MAX / size.max(1)).max(connections as u64), ..Until::time(stage.args.seconds) };
    let mut sides = Vec::new();
    for endpoint in stage.endpoints() {
        sides.push(endpoint_side(stage, &endpoint, size, connections, until).await?);
    }
    let sessions: Arc<[Arc<Bare>]> = stage.bare(connections).await?.into();
    let ways = [Way::OneStatement, Way::Lowrite, Way::LoPut, Way::Inline];
    for way in ways.into_iter().filter(|way| way.fits(size)) {
        let sessions = Arc::clone(&sessions);
        let chunk = stage.lab.config.storage.write_chunk;
        sides.push(Side::new(way.name(), move || {
            let (sessions, mut noise) = (Arc::clone(&sessions), stage.lab.noise());
            async move {
                let bodies: Arc<[Body]> = (0..64).map(|_| noise.body(size)).collect();
                let run = on_sessions(&sessions, until, move |session: Arc<Bare>, number| {
                    let body = bodies[super::load::at(number) % bodies.len()].clone();
                    let key = format!("{row}-{number:06}");
                    async move { way.put(&session, &key, &body, chunk).await.map(|()| size) }
                })
                .await?;
                let client = &sessions[0].client;
                let keys = client.query("SELECT key FROM object", &[]).await?;
                let keys: Vec<String> = keys.iter().map(|found| found.get(0)).collect();
                sessions[0].delete(&keys).await?;
                if way == Way::Inline {
                    client.batch_execute("VACUUM object").await?;
                }
                stage.lab.reclaim(client).await?;
                Ok(run.speed())
            }
        }));
    }
    let standing = in_turns(stage.lab, row, Measure::MegabytesPerSecond, sides).await;
    let share = if connections == 1 { 1.4 } else { 0.9 };
    Ok(standing.lines(&[(BARE, Bound::AtLeast(0.85)), ("garage", Bound::AtLeast(share))]))
}

async fn endpoint_side<'a>(
    stage: &'a Stage<'_>,
    endpoint: &Endpoint,
    size: u64,
    connections: usize,
    until: Until,
) -> anyhow::Result<Side<'a>> {
    let body = stage.body(size.min(HELD));
    let proven = async {
        let mut talk = endpoint.talk().await?;
        talk.put("put-large/first", &body).await?;
        talk.compare("put-large/first", &body).await
    };
    if let Err(error) = proven.await {
        return Ok(Side::failed(&endpoint.name, &error));
    }
    let signed_for = endpoint.clone();
    let make = move |number| signed_for.head("PUT", &format!("put-large/{number:06}"), Some(size));
    let requests = Arc::new(Requests {
        name: endpoint.name.clone(),
        address: endpoint.address,
        heads: Heads::fresh(make),
        body: Upload::new(&body, size),
        expected: None,
        patient: false,
    });
    let session = Arc::new(stage.lab.connect().await?);
    let endpoint = Arc::new(endpoint.clone());
    Ok(Side::new(&endpoint.name.clone(), move || {
        let (requests, session, endpoint) = (Arc::clone(&requests), Arc::clone(&session), Arc::clone(&endpoint));
        async move {
            let run = requests.run(&stage.crew, connections, until, until.operations.min(2000)).await;
            if endpoint.name == OURS {
                stage.wipe(&session, "put-large/").await?;
            } else {
                endpoint.empty("put-large/").await?;
            }
            Ok(run?.speed())
        }
    }))
}
