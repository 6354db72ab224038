//! The server refuses: read-only, full, out of connections, deadlocked, too slow. Clients are told the truth in S3's words,
//! nothing is half stored, and service comes back by itself.

use std::time::Duration;

use tokio_postgres::Client;

use crate::harness::inspect::{assert_consistent, until_reclaimed};
use crate::harness::{Reply, Stage, bytes, eventually, path};

const SETTINGS: &[(&str, &str)] = &[
    ("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"),
    ("LOBGATE_GC_INTERVAL", "100ms"),
    ("LOBGATE_DATABASE_STATEMENT_TIMEOUT", "2s"),
    ("LOBGATE_DATABASE_POOL_WAIT_TIMEOUT", "1s"),
];
/// Stored in a row, by one statement, and in chunks.
const LENGTHS: [usize; 3] = [1000, 150_000, 600_000];

/// 503, with a code that SDKs repeat on and the header that says when.
fn assert_come_back(reply: &Reply) {
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(matches!(reply.xml("Code").as_deref(), Some("ServiceUnavailable" | "SlowDown")), "{}", reply.text());
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
}

async fn put(stage: &Stage, key: &str, data: &[u8]) -> Reply {
    stage.request("PUT", &path(key)).body(data).send().await
}

async fn until_put(stage: &Stage, key: &str, data: &[u8]) {
    eventually("writing works again", || async { put(stage, key, data).await.status == 200 }).await;
}

#[tokio::test]
async fn a_server_that_became_read_only_refuses_writes_and_serves_reads() {
    let stage = Stage::with(&[SETTINGS, &[("LOBGATE_GC_LEASE", "10m")]].concat()).await;
    stage.put("k", b"old").await;
    let name = &stage.database.name;
    let end_sessions = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
    );
    let read_only =
        |on: bool| format!("ALTER DATABASE {name} SET default_transaction_read_only = {on}; {end_sessions}");
    stage.database.execute(&read_only(true)).await;
    for _ in 0..10 {
        assert_eq!(stage.get("k").await, b"old");
    }
    // What was under way when the sessions ended may have happened, for all that can be asked of such a server.
    eventually("its answer is known", || async { put(&stage, "k", b"new").await.status == 503 }).await;
    for length in LENGTHS {
        assert_come_back(&put(&stage, "k", &bytes(1, length)).await);
    }
    assert_come_back(&stage.request("DELETE", &path("k")).send().await);
    let copy = stage.request("PUT", &path("copy")).header("x-amz-copy-source", &path("k")).send().await;
    assert_come_back(&copy);
    assert_eq!(stage.get("k").await, b"old");
    let administrator = stage.database.superuser().await;
    administrator.batch_execute("SET default_transaction_read_only = off").await.expect("a session that may write");
    administrator.batch_execute(&read_only(false)).await.expect("the end of it");
    for length in LENGTHS {
        until_put(&stage, "k", &bytes(1, length)).await;
        assert!(stage.get("k").await == bytes(1, length));
    }
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_server_out_of_connections_is_waited_for_or_said_to_be_busy() {
    let stage = Stage::with(SETTINGS).await;
    stage.put("k", b"x").await;
    let limit = |count: i32| format!("ALTER DATABASE {} CONNECTION LIMIT {count}", stage.database.name);
    // The superuser's own session does not count.
    stage.database.execute(&limit(3)).await;
    let answers = futures::future::join_all((0..60_u64).map(|number| {
        let stage = &stage;
        async move {
            let key = format!("k{number}");
            let data = bytes(number, LENGTHS[usize::try_from(number % 3).unwrap()]);
            let stored = put(stage, &key, &data).await;
            (key, data, stored, stage.request("GET", &path("k")).send().await)
        }
    }))
    .await;
    for (key, data, stored, read) in answers {
        match stored.status {
            200 => assert!(stage.get(&key).await == data, "{key}"),
            _ => {
                assert_come_back(&stored);
                assert!(!stage.exists(&key).await, "{key} was refused");
            }
        }
        if read.status == 200 {
            assert_eq!(read.body, b"x");
        } else {
            assert_come_back(&read);
        }
    }
    stage.database.execute(&limit(-1)).await;
    for length in LENGTHS {
        until_put(&stage, "k", &bytes(2, length)).await;
    }
    assert_consistent(&stage.database).await;
}

/// A session in a transaction that has locked an object's row.
async fn locking(stage: &Stage, key: &str) -> Client {
    let client = stage.database.superuser().await;
    let lock =
        format!("SET deadlock_timeout = '1h'; BEGIN; SELECT 1 FROM lobgate.object WHERE key = '{key}' FOR UPDATE");
    client.batch_execute(&lock).await.expect("the lock");
    client
}

#[tokio::test]
async fn a_lock_that_is_not_given_up_in_time_refuses_the_write_and_nothing_else() {
    let stage = Stage::with(SETTINGS).await;
    stage.put("k", b"old").await;
    let holder = locking(&stage, "k").await;
    let writes = futures::future::join_all(LENGTHS.map(|length| {
        let stage = &stage;
        async move { put(stage, "k", &bytes(1, length)).await }
    }));
    let others = async {
        for length in LENGTHS {
            assert_eq!(put(&stage, "other", &bytes(2, length)).await.status, 200);
            assert_eq!(stage.get("k").await, b"old");
        }
    };
    let (refused, ()) = tokio::join!(writes, others);
    refused.iter().for_each(assert_come_back);
    assert_come_back(&stage.request("DELETE", &path("k")).send().await);
    holder.batch_execute("ROLLBACK").await.expect("the lock is given up");
    assert_eq!(stage.get("k").await, b"old");
    until_put(&stage, "k", b"new").await;
    until_reclaimed(&stage.database).await;
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_deadlock_is_tried_again() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    for key in ["a", "b"] {
        stage.put(key, b"x").await;
    }
    let holder = locking(&stage, "b").await;
    let document = "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>";
    let digest = crate::harness::base64(<md5::Md5 as md5::Digest>::digest(document.as_bytes()));
    let delete = stage.request("POST", "/bucket?delete").header("content-md5", &digest).body(document);
    let deleting = tokio::spawn(async move { delete.send().await });
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
        stage.database.name
    );
    eventually("it waits for b, and holds a", || async { stage.database.count(&waits).await > 0 }).await;
    // Now each waits for the other; the gateway's session notices first.
    holder.batch_execute("SELECT 1 FROM lobgate.object WHERE key = 'a' FOR UPDATE").await.expect("the other gives way");
    holder.batch_execute("COMMIT").await.expect("the locks are given up");
    let deleted = deleting.await.expect("the deletion");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(deleted.xml_all("Code"), Vec::<String>::new(), "{}", deleted.text());
    assert!(!stage.exists("a").await && !stage.exists("b").await);
}

#[tokio::test]
async fn writes_that_lose_a_deadlock_or_are_cancelled_are_tried_again_or_refused() {
    let stage = Stage::with(SETTINGS).await;
    stage.put("k", b"old").await;
    let cancel = format!(
        "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
        stage.database.name
    );
    for length in LENGTHS {
        let holder = locking(&stage, "k").await;
        let request = stage.request("PUT", &path("k")).body(bytes(1, length));
        let putting = tokio::spawn(async move { request.send().await });
        eventually("it waits and is cancelled", || async { stage.database.count(&cancel).await > 0 }).await;
        holder.batch_execute("ROLLBACK").await.expect("the lock is given up");
        let reply = putting.await.expect("the put");
        if reply.status == 200 {
            assert!(stage.get("k").await == bytes(1, length));
        } else {
            assert_come_back(&reply);
            assert_eq!(stage.get("k").await, b"old");
        }
        stage.put("k", b"old").await;
    }
    until_reclaimed(&stage.database).await;
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_full_disk_is_said_to_the_client_stores_nothing_and_is_recovered_from() {
    let Some(disk) = crate::harness::small_disk::SmallDisk::mount(96 << 20) else {
        eprintln!("this user may not mount a small disk: a full one is not tried");
        return;
    };
    let wal = crate::harness::cluster::directory("lobgate-test-wal-");
    let (place, log) = (disk.path().to_owned(), wal.path().join("pg_wal"));
    let cluster = tokio::task::spawn_blocking(move || crate::harness::cluster::Cluster::start_in(&place, &log))
        .await
        .expect("a cluster on the small disk");
    let database = crate::harness::Database::create_on(std::sync::Arc::clone(&cluster)).await;
    let stage = Stage::on(database, SETTINGS).await;
    let mut stored = Vec::new();
    let full = loop {
        let number = stored.len() as u64;
        assert!(number < 1000, "the disk fills");
        let data = bytes(number, LENGTHS[usize::try_from(number % 2).unwrap() + 1]);
        let reply = put(&stage, &format!("k{number}"), &data).await;
        if reply.status != 200 {
            break reply;
        }
        stored.push(data);
    };
    assert_come_back(&full);
    assert!(full.text().contains("no storage space left"), "{}", full.text());
    for (number, data) in stored.iter().enumerate() {
        assert!(stage.get(&format!("k{number}")).await == *data, "k{number}");
    }
    assert!(!stage.exists(&format!("k{}", stored.len())).await);
    disk.grow(400 << 20);
    until_put(&stage, "next", &bytes(9, 600_000)).await;
    until_reclaimed(&stage.database).await;
    assert_consistent(&stage.database).await;
    drop(stage);
    tokio::time::timeout(Duration::from_secs(60), tokio::task::spawn_blocking(move || drop(cluster)))
        .await
        .unwrap()
        .unwrap();
    drop(disk);
}
