//! Rows of large objects read: windows from the database, blocks from the gateway's cache.

use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;

use super::super::bare::{Bare, Located};
use super::bars::{BARE, Bound, Line, Measure, Side, in_turns};
use super::connection::Upload;
use super::endpoint::Endpoint;
use super::load::{Heads, Requests, Until, at, on_sessions};
use super::small::later;
use super::stage::{FileServer, Stage};

/// Connections of the bare side that are tried for several streams: the best number of them counts.
const BARE_CONNECTIONS: [usize; 4] = [1, 2, 4, 8];
/// Objects of 1 MiB that are read in turns.
const MEDIUM_OBJECTS: u64 = 16;
const MEDIUM: u64 = 1 << 20;

/// Where a large object of the gateway is.
const FIND: &str = "SELECT c.loid, c.size FROM lobgate.object o JOIN lobgate.content c ON c.id = o.content_id
WHERE o.bucket_id = $1 AND o.key = $2 AND o.is_latest AND NOT o.is_delete_marker";

/// What is read, and by how many at once.
#[derive(Clone)]
struct Reading {
    prefix: &'static str,
    objects: u64,
    size: u64,
    streams: usize,
}

impl Reading {
    fn key(&self, number: u64) -> String {
        format!("{}/{number:03}", self.prefix)
    }

    fn requests(&self, endpoint: &Endpoint, heads: Vec<Bytes>) -> Requests {
        Requests {
            name: endpoint.name.clone(),
            address: endpoint.address,
            heads: Heads::Turns(heads.into()),
            body: Upload::none(),
            expected: Some(self.size),
            patient: false,
        }
    }

    /// Reads by HTTP.
    fn side<'a>(&self, stage: &'a Stage<'_>, name: &str, requests: Requests) -> Side<'a> {
        let (requests, streams) = (Arc::new(requests), self.streams);
        Side::new(name, move || {
            let requests = Arc::clone(&requests);
            async move { Ok(requests.run(&stage.crew, streams, Until::time(stage.args.seconds), 0).await?.speed()) }
        })
    }

    /// Stores the objects through one endpoint, compares one with what another gives, and reads from that.
    async fn s3_side<'a>(&self, stage: &'a Stage<'_>, store: &Endpoint, read: &Endpoint, body: &[u8]) -> Side<'a> {
        let stored = async {
            let mut talk = store.talk().await?;
            for number in 0..self.objects {
                talk.put(&self.key(number), body).await?;
            }
            let mut talk = read.talk().await?;
            for number in 0..self.objects {
                talk.compare(&self.key(number), body).await?;
            }
            anyhow::Ok(())
        };
        if let Err(error) = stored.await {
            return Side::failed(&read.name, &error);
        }
        let heads = (0..self.objects).map(|number| read.head("GET", &self.key(number), None)).collect();
        self.side(stage, &read.name, self.requests(read, heads))
    }

    /// Writes the objects as files, compares one with what the server of files gives, and reads from that.
    async fn file_side<'a>(&self, stage: &'a Stage<'_>, server: &FileServer, body: &[u8]) -> Side<'a> {
        let name = |number: u64| format!("lobgate-bench-{}-{number:03}", self.prefix);
        let head = |number: u64| Bytes::from(format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", name(number)));
        let endpoint = &server.endpoint;
        let written = async {
            for number in 0..self.objects {
                let path = server.directory.join(name(number));
                tokio::fs::write(&path, body).await.with_context(|| format!("{} can't be written", path.display()))?;
            }
            let mut talk = endpoint.talk().await?;
            let got = talk.ok(&head(0), b"", "the file").await?;
            talk.same(&got, body, &name(0))
        };
        if let Err(error) = written.await {
            return Side::failed(&endpoint.name, &error);
        }
        let heads = (0..self.objects).map(head).collect();
        self.side(stage, &endpoint.name, self.requests(endpoint, heads))
    }
}

/// Objects that are not in the gateway's cache: through windows of large objects.
pub(super) async fn uncached(stage: &Stage<'_>, row: &'static str, streams: usize) -> anyhow::Result<Vec<Line>> {
    let reading = Reading { prefix: "get-large", objects: 4, size: stage.args.large, streams };
    let body = stage.body(reading.size);
    let (gateway, without_cache) = stage.uncached().await?;
    let mut sides = vec![reading.s3_side(stage, &stage.ours, &without_cache, &body).await];
    for peer in &stage.peers {
        sides.push(reading.s3_side(stage, peer, peer, &body).await);
    }
    let client = stage.lab.connect().await?;
    let bucket = stage.bucket_id().await?;
    let mut objects = Vec::new();
    for number in 0..reading.objects {
        let row = client.query_one(FIND, &[&bucket, &reading.key(number)]).await?;
        let loid: Option<u32> = row.try_get(0)?;
        let loid = loid.context("the object lies inline: --large must be above storage.inline_max")?;
        objects.push(Located { loid, size: reading.size });
    }
    let objects: Arc<[Located]> = objects.into();
    let levels: &[usize] = if streams == 1 { &[1] } else { &BARE_CONNECTIONS };
    let all = stage.bare(levels.iter().copied().max().unwrap_or(1)).await?;
    for connections in levels {
        let sessions: Arc<[Arc<Bare>]> = all[..*connections].into();
        let objects = Arc::clone(&objects);
        let name = format!("bare lo_get on {connections}");
        sides.push(Side::new(&name, move || {
            let (sessions, objects) = (Arc::clone(&sessions), Arc::clone(&objects));
            async move {
                let window = stage.lab.config.storage.read_window;
                let until = Until::time(stage.args.seconds);
                let run = on_sessions(&sessions, until, move |session: Arc<Bare>, number| {
                    let object = objects[at(number) % objects.len()];
                    async move { session.read(object, window).await.map(|()| object.size) }
                });
                Ok(run.await?.speed())
            }
        }));
    }
    let standing = in_turns(stage.lab, row, Measure::MegabytesPerSecond, sides).await;
    if let Some(gateway) = gateway {
        gateway.stop().await?;
    }
    let share = if streams == 1 { 1.0 } else { 0.9 };
    Ok(standing.lines(&[(BARE, Bound::AtLeast(share)), ("garage", Bound::AtLeast(1.0))]))
}

/// Objects that were read before.
pub(super) async fn cached(stage: &Stage<'_>, row: &'static str, large: bool) -> anyhow::Result<Vec<Line>> {
    anyhow::ensure!(stage.lab.config.cache.memory > 0, "the cache is off: set cache.memory");
    let reading = if large {
        Reading { prefix: "get-cached-large", objects: 1, size: stage.args.large, streams: 1 }
    } else {
        Reading { prefix: "get-cached-medium", objects: MEDIUM_OBJECTS, size: MEDIUM.min(stage.args.large), streams: 8 }
    };
    let body = stage.body(reading.size);
    let mut sides = Vec::new();
    for endpoint in stage.endpoints() {
        sides.push(reading.s3_side(stage, &endpoint, &endpoint, &body).await);
    }
    for server in &stage.files {
        sides.push(reading.file_side(stage, server, &body).await);
    }
    // Twice at least, since a cache may take in only what is asked for again.
    let heads = (0..reading.objects).map(|number| stage.ours.head("GET", &reading.key(number), None)).collect();
    let warm = reading.requests(&stage.ours, heads);
    let twice = Until::operations(2 * reading.objects);
    warm.run(&stage.crew, reading.streams, twice, 0).await.map(drop).or_else(later)?;
    let standing = in_turns(stage.lab, row, Measure::MegabytesPerSecond, sides).await;
    for server in &stage.files {
        for number in 0..reading.objects {
            let file = server.directory.join(format!("lobgate-bench-{}-{number:03}", reading.prefix));
            // Where it could not be written there is none.
            let _ = tokio::fs::remove_file(file).await;
        }
    }
    Ok(standing.lines(&[("garage", Bound::AtLeast(3.0)), ("nginx", Bound::AtLeast(0.6))]))
}
