//! Crashes: of the gateway, of a backend, of the whole server. What was acknowledged is there; nothing else is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::cluster::Cluster;
use crate::harness::inspect::{assert_verified, until_reclaimed};
use crate::harness::proxy::Proxy;
use crate::harness::raw::Connection;
use crate::harness::{Database, Gateway, RawRequest, Stage, bytes, client, eventually, path};
use crate::multipart;

const SETTINGS: &[(&str, &str)] = &[("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"), ("LOBGATE_GC_INTERVAL", "100ms")];

fn body_of(key: &str) -> Vec<u8> {
    let number: u64 = key.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a numbered key");
    bytes(number, [100, 3000, 100_000, 400_000][usize::try_from(number % 4).unwrap()])
}

/// Puts objects one after the other, until one fails or it is told to stop, and returns the keys that were acknowledged.
async fn put_until_failure(endpoint: String, name: String, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    let s3 = client::sdk(&endpoint);
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{name}-{number}");
        let put = s3.put_object().bucket("bucket").key(&key).body(client::body(&body_of(&key)));
        if put.send().await.is_err() {
            break;
        }
        acknowledged.push(key);
    }
    acknowledged
}

/// Runs four writers, calls `crash` once some objects are acknowledged, and returns all that were.
async fn write_until<F: Future<Output = ()>>(
    endpoint: &str,
    database: &Database,
    crash: impl FnOnce() -> F,
) -> Vec<String> {
    let stop = Arc::new(AtomicBool::new(false));
    let write = |name: u32| put_until_failure(endpoint.to_owned(), name.to_string(), Arc::clone(&stop));
    let writers: Vec<_> = (0..4).map(|name| tokio::spawn(write(name))).collect();
    eventually("some objects are stored", || async {
        database.count("SELECT count(*) FROM lobgate.object").await >= 20
    })
    .await;
    crash().await;
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.expect("the writer"));
    }
    assert!(!acknowledged.is_empty());
    acknowledged
}

async fn assert_all_there(endpoint: &str, acknowledged: &[String]) {
    for key in acknowledged {
        let got = RawRequest::new(endpoint, "GET", &path(key)).send().await;
        assert_eq!(got.status, 200, "{key} was acknowledged");
        assert!(got.body == body_of(key), "{key} whole");
    }
}

#[tokio::test]
async fn a_gateway_killed_in_the_middle_of_uploads_loses_nothing_acknowledged_and_leaves_nothing_else() {
    let Stage { mut gateway, database, s3: _s3 } = Stage::with(SETTINGS).await;
    let endpoint = gateway.endpoint.clone();
    let mut halves = Vec::new();
    for size in [10_000, 100_000, 900_000] {
        let request = RawRequest::new(&endpoint, "PUT", &path(&format!("half-{size}"))).body(bytes(1, size));
        let (head, body) = request.wire();
        let mut connection = Connection::open(&endpoint).await;
        assert!(connection.write(&head).await && connection.write(&body[..size - 1]).await);
        halves.push(connection);
    }
    let acknowledged = write_until(&endpoint, &database, || async { gateway.kill_9() }).await;
    drop(halves);
    let gateway = Gateway::start(&database.url(), SETTINGS).await;
    assert_all_there(&gateway.endpoint, &acknowledged).await;
    let halves = "SELECT count(*) FROM lobgate.object WHERE key LIKE 'half-%'";
    assert_eq!(database.count(halves).await, 0, "no half object");
    assert_verified(&database).await;
}

#[tokio::test]
async fn a_multipart_upload_goes_on_after_the_gateway_was_killed() {
    let mut stage = Stage::with(SETTINGS).await;
    let parts = [bytes(1, 5 << 20), bytes(2, 50_000)];
    let id = multipart::create(&stage, "k").await;
    multipart::part(&stage, "k", &id, 1, &parts[0]).await;
    stage.gateway.kill_9();
    stage.gateway = Gateway::start(&stage.database.url(), SETTINGS).await;
    stage.s3 = client::sdk(&stage.gateway.endpoint);
    multipart::part(&stage, "k", &id, 2, &parts[1]).await;
    let etags = parts.each_ref().map(|part| crate::harness::md5_hex(part));
    let done = multipart::complete(&stage, "k", &id, &[(1, &etags[0]), (2, &etags[1])]).send().await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(stage.get("k").await == parts.concat());
    assert_verified(&stage.database).await;
}

#[tokio::test]
async fn a_backend_terminated_in_the_middle_of_a_write_leaves_nothing_and_the_gateway_goes_on() {
    let stage = Stage::with(SETTINGS).await;
    let (head, body) = stage.request("PUT", &path("half")).body(bytes(1, 2_000_000)).wire();
    let mut connection = Connection::open(&stage.gateway.endpoint).await;
    assert!(connection.write(&head).await && connection.write(&body[..1_500_000]).await);
    let writing = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND backend_xid IS NOT NULL",
        stage.database.name
    );
    eventually("the upload is being written", || async { stage.database.count(&writing).await > 0 }).await;
    let terminate = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()",
        stage.database.name
    );
    stage.database.execute(&terminate).await;
    let reply = connection.exchange(&body[1_500_000..], false).await;
    assert!(matches!(reply.status, 500 | 503), "{} {}", reply.status, reply.text());
    assert!(reply.xml("Code").is_some(), "{}", reply.text());
    assert!(!stage.exists("half").await);
    eventually("requests succeed again", || async {
        stage.request("PUT", &path("next")).body("x").send().await.status == 200
    })
    .await;
    stage.database.execute(&terminate).await;
    assert_eq!(stage.get("next").await, b"x", "a dead pooled connection is not the client's problem");
    assert_verified(&stage.database).await;
}

#[tokio::test]
async fn a_server_killed_at_full_load_recovers_everything_acknowledged() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(true)).await.expect("a durable cluster");
    let database = Database::create_on(Arc::clone(&cluster)).await;
    let gateway = Gateway::start(&database.url(), SETTINGS).await;
    let s3 = client::sdk(&gateway.endpoint);
    s3.create_bucket().bucket("bucket").send().await.expect("a bucket");
    // The server is back while writers still ask what became of their last object.
    let endpoint = &gateway.endpoint;
    let acknowledged = write_until(endpoint, &database, || async {
        let killed = Arc::clone(&cluster);
        tokio::task::spawn_blocking(move || killed.kill_9()).await.expect("kill the server");
        let down = RawRequest::new(endpoint, "GET", &path("0-0")).send().await;
        assert_eq!(down.status, 503, "{}", down.text());
        let restarted = Arc::clone(&cluster);
        tokio::task::spawn_blocking(move || restarted.restart()).await.expect("restart the server");
        eventually("the gateway finds the server again", || async {
            RawRequest::new(endpoint, "GET", &path("0-0")).send().await.status == 200
        })
        .await;
    })
    .await;
    assert_all_there(&gateway.endpoint, &acknowledged).await;
    until_reclaimed(&database).await;
    assert_verified(&database).await;
}

#[tokio::test]
async fn a_commit_that_a_crash_swallowed_is_not_taken_for_a_later_one() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(true)).await.expect("a durable cluster");
    let database = Database::create_on(Arc::clone(&cluster)).await;
    let proxy = Proxy::start(&cluster).await;
    // Without background work, whose commits would write the upload's WAL along with their own.
    let quiet = [("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"), ("LOBGATE_GC_INTERVAL", "10m"), ("LOBGATE_GC_LEASE", "30m")];
    let gateway = Gateway::start(&proxy.url(&database.name), &quiet).await;
    client::sdk(&gateway.endpoint).create_bucket().bucket("bucket").send().await.expect("a bucket");
    let data = bytes(1, 600_000);
    proxy.swallow("COMMIT\0");
    let request = RawRequest::new(&gateway.endpoint, "PUT", &path("k")).body(&data);
    let putting = tokio::spawn(async move { request.send().await });
    eventually("the commit is on its way", || async { proxy.has_lost() }).await;
    let crashed = Arc::clone(&cluster);
    let crash = tokio::task::spawn_blocking(move || {
        crashed.kill_9();
        crashed.restart();
    });
    crash.await.expect("crash and recovery");
    // The server never heard of the upload's transaction: its number is given to somebody else's, which commits.
    let client = database.superuser().await;
    for _ in 0..100 {
        client.batch_execute("SELECT pg_current_xact_id()").await.expect("a transaction");
    }
    proxy.restore();
    let reply = putting.await.expect("the put");
    let got = RawRequest::new(&gateway.endpoint, "GET", &path("k")).send().await;
    match reply.status {
        200 => assert!(got.body == data, "acknowledged, so it is there: {}", got.status),
        500 | 503 => assert_eq!(got.status, 404),
        other => panic!("{other}: {}", reply.text()),
    }
    assert_verified(&database).await;
}
