//! Rows of small objects: GET and PUT of 4 KiB over 32 connections.

use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::{Client, Statement};

use super::bars::{BARE, Bound, Line, Measure, OURS, Side, in_turns};
use super::connection::Upload;
use super::endpoint::Endpoint;
use super::load::{Heads, Requests, Until, at, on_sessions};
use super::stage::Stage;

const SIZE: u64 = 4 << 10;
const CONNECTIONS: usize = 32;
/// Objects that are read in turns.
const OBJECTS: u64 = 200;
/// Requests signed before the clock starts, for each second.
const PREPARED: f64 = 6000.0;

/// The plainest statement that gives metadata and bytes of an object.
pub(super) const LOCATE: &str = "SELECT o.size, o.etag, o.last_modified, o.attributes, c.inline
FROM lobgate.object o JOIN lobgate.content c ON c.id = o.content_id
WHERE o.bucket_id = $1 AND o.key = $2 AND o.is_latest AND NOT o.is_delete_marker";

const TABLES: &str = "CREATE TABLE bare_content (
    id uuid PRIMARY KEY, inline bytea, size bigint NOT NULL, md5 bytea, sha256 bytea
);
CREATE TABLE bare_object (
    bucket_id integer NOT NULL, key text COLLATE \"C\" NOT NULL, content_id uuid NOT NULL, size bigint NOT NULL,
    etag text NOT NULL, last_modified timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (bucket_id, key)
)";

/// The plainest statement that stores an object in two tables, without triggers, checks or foreign keys.
pub(super) const INSERT: &str = "WITH c AS (
    INSERT INTO bare_content (id, inline, size, md5, sha256) VALUES ($1, $2, octet_length($2::bytea), $3, $4)
    RETURNING id, size
)
INSERT INTO bare_object (bucket_id, key, content_id, size, etag) SELECT 1, $5, c.id, c.size, encode($3, 'hex') FROM c";

/// A session with its statement.
struct Prepared {
    client: Client,
    statement: Statement,
}

async fn prepared(stage: &Stage<'_>, sql: &str) -> anyhow::Result<Arc<[Arc<Prepared>]>> {
    let mut sessions = Vec::new();
    for client in stage.lab.connect_many(CONNECTIONS).await? {
        let statement = client.prepare(sql).await?;
        sessions.push(Arc::new(Prepared { client, statement }));
    }
    // A server that takes fewer connections has as many statements under way, some of them pipelined.
    Ok(sessions.iter().cycle().take(CONNECTIONS).cloned().collect())
}

pub(super) async fn get(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let seconds = stage.args.seconds;
    let body = stage.body(SIZE);
    let mut sides = Vec::new();
    for endpoint in stage.endpoints() {
        sides.push(match stored(&endpoint, &body).await {
            Err(error) => Side::failed(&endpoint.name, &error),
            Ok(requests) => {
                requests
                    .run(&stage.crew, CONNECTIONS, Until::time(seconds.min(0.5)), 0)
                    .await
                    .map(drop)
                    .or_else(later)?;
                let requests = Arc::new(requests);
                Side::new(&endpoint.name, move || {
                    let requests = Arc::clone(&requests);
                    async move { Ok(requests.run(&stage.crew, CONNECTIONS, Until::time(seconds), 0).await?.rate()) }
                })
            }
        });
    }
    let bucket = stage.bucket_id().await?;
    let keys: Arc<[String]> = (0..OBJECTS).map(key).collect();
    let sessions = prepared(stage, LOCATE).await?;
    sides.push(Side::new(BARE, move || {
        let (sessions, keys) = (Arc::clone(&sessions), Arc::clone(&keys));
        async move {
            let run = on_sessions(&sessions, Until::time(seconds), move |session: Arc<Prepared>, number| {
                let keys = Arc::clone(&keys);
                async move {
                    let key = &keys[at(number % OBJECTS)];
                    let row = session.client.query_one(&session.statement, &[&bucket, key]).await?;
                    let bytes = row.try_get::<_, Option<&[u8]>>(4)?.map_or(0, <[u8]>::len) as u64;
                    // Beyond the limit of inline bytes there is a large object.
                    anyhow::ensure!(
                        bytes == SIZE,
                        "the bare query gave {bytes} bytes: is storage.inline_max below 4KiB?"
                    );
                    Ok(bytes)
                }
            });
            Ok(run.await?.rate())
        }
    }));
    let standing = in_turns(stage.lab, row, Measure::PerSecond, sides).await;
    Ok(standing.lines(&[
        ("s3s-fs", Bound::AtLeast(12.0)),
        ("garage", Bound::AtLeast(20.0)),
        (BARE, Bound::AtLeast(0.6)),
    ]))
}

/// The error comes again where it is measured.
pub(super) fn later(_: anyhow::Error) -> anyhow::Result<()> {
    Ok(())
}

fn key(number: u64) -> String {
    format!("get-4k/{number:06}")
}

/// Stores the objects, compares one with what came back, and gives the requests that read them.
async fn stored(endpoint: &Endpoint, body: &[u8]) -> anyhow::Result<Requests> {
    let mut talk = endpoint.talk().await?;
    for number in 0..OBJECTS {
        talk.put(&key(number), body).await?;
    }
    talk.compare(&key(0), body).await?;
    let heads: Vec<Bytes> = (0..OBJECTS).map(|number| endpoint.head("GET", &key(number), None)).collect();
    Ok(Requests {
        name: endpoint.name.clone(),
        address: endpoint.address,
        heads: Heads::Turns(heads.into()),
        body: Upload::none(),
        expected: Some(SIZE),
        patient: false,
    })
}

pub(super) async fn put(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let seconds = stage.args.seconds;
    let body = stage.body(SIZE);
    let mut sides = Vec::new();
    for endpoint in stage.endpoints() {
        let proven = async {
            let mut talk = endpoint.talk().await?;
            talk.put("put-4k/first", &body).await?;
            talk.compare("put-4k/first", &body).await
        };
        if let Err(error) = proven.await {
            sides.push(Side::failed(&endpoint.name, &error));
            continue;
        }
        let (name, at_endpoint) = (endpoint.name.clone(), endpoint.clone());
        let make = move |number| at_endpoint.head("PUT", &format!("put-4k/{number:09}"), Some(SIZE));
        let requests = Arc::new(Requests {
            name: name.clone(),
            address: endpoint.address,
            heads: Heads::fresh(make),
            body: Upload::new(&body, SIZE),
            expected: None,
            patient: false,
        });
        // Slow sides need fewer; what is missing is signed on the way.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let ready = if name == OURS { (PREPARED * seconds) as u64 } else { (PREPARED * seconds / 4.0) as u64 };
        sides.push(Side::new(&name, move || {
            let requests = Arc::clone(&requests);
            async move { Ok(requests.run(&stage.crew, CONNECTIONS, Until::time(seconds), ready).await?.rate()) }
        }));
    }
    stage.lab.connect().await?.batch_execute(TABLES).await?;
    let sessions = prepared(stage, INSERT).await?;
    let body: Bytes = body.into();
    sides.push(Side::new(BARE, move || {
        let (sessions, body) = (Arc::clone(&sessions), body.clone());
        async move {
            let run = on_sessions(&sessions, Until::time(seconds), move |session: Arc<Prepared>, _| {
                let body = body.clone();
                async move {
                    let id = uuid::Uuid::now_v7();
                    let (digest, key) = ([7_u8; 32], format!("put-4k/{id}"));
                    let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
                        [&id, &body.as_ref(), &&digest[..16], &&digest[..], &key];
                    session.client.execute(&session.statement, &parameters).await?;
                    Ok(SIZE)
                }
            });
            Ok(run.await?.rate())
        }
    }));
    let standing = in_turns(stage.lab, row, Measure::PerSecond, sides).await;
    Ok(standing.lines(&[
        ("s3s-fs", Bound::AtLeast(2.0)),
        ("garage", Bound::AtLeast(30.0)),
        (BARE, Bound::AtLeast(0.5)),
    ]))
}
