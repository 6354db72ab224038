//! Removal: a read that has started finishes with the bytes it started with, and afterwards their pages are gone.

use nix::sys::signal::Signal;

use crate::harness::inspect::{assert_consistent, assert_empty, large_objects, until_reclaimed};
use crate::harness::raw::Connection;
use crate::harness::{Gateway, RawRequest, Stage, bytes, eventually, md5_hex, path};

const EAGER: (&str, &str) = ("LOBGATE_GC_INTERVAL", "100ms");
const LEASE: (&str, &str) = ("LOBGATE_GC_LEASE", "3s");
/// Far more than socket buffers, read-ahead and windows hold.
const LONG: usize = 24 << 20;

/// A reader that has got the head and the first bytes of the answer.
async fn begun(endpoint: &str, key: &str) -> (Connection, Vec<u8>) {
    let mut connection = RawRequest::new(endpoint, "GET", &path(key)).open().await;
    assert_eq!(connection.read_head().await.status, 200);
    let first = connection.read_some(1000).await;
    (connection, first)
}

#[tokio::test]
async fn ten_slow_readers_get_the_old_bytes_whole_whatever_happens_to_the_object() {
    let stage = Stage::with(&[EAGER, LEASE]).await;
    let twin = Gateway::start(&stage.database.url(), &[EAGER, LEASE]).await;
    for replace in [true, false] {
        let data = bytes(u64::from(replace), LONG);
        stage.put("k", &data).await;
        let mut readers = Vec::new();
        for number in 0..10 {
            let endpoint = if number % 2 == 0 { &stage.gateway.endpoint } else { &twin.endpoint };
            readers.push(begun(endpoint, "k").await);
        }
        if replace {
            stage.put("k", b"new").await;
            assert_eq!(stage.get("k").await, b"new", "later reads get the new bytes at once");
        } else {
            stage.delete("k").await;
            assert!(!stage.exists("k").await);
        }
        // The reaper is at work all the while: this object comes and goes under it.
        stage.put("passing", &bytes(9, 100_000)).await;
        stage.delete("passing").await;
        for (mut connection, mut got) in readers {
            got.extend(connection.read_some(LONG - got.len()).await);
            assert!(got == data, "the old bytes, whole");
        }
        until_reclaimed(&stage.database).await;
        assert_eq!(large_objects(&stage.database).await, 0, "the pages are gone");
        assert_consistent(&stage.database).await;
    }
}

#[tokio::test]
async fn readers_of_an_object_that_is_always_replaced_see_one_version_each() {
    let stage = Stage::with(&[EAGER]).await;
    let twin = Gateway::start(&stage.database.url(), &[EAGER]).await;
    stage.put("k", &bytes(0, 300_000)).await;
    let writing = async {
        for version in 1..40 {
            stage.put("k", &bytes(version, 300_000 + usize::try_from(version).unwrap())).await;
        }
    };
    let reading = |endpoint: String| async move {
        for _ in 0..40 {
            let got = RawRequest::new(&endpoint, "GET", &path("k")).send().await;
            assert_eq!(got.status, 200, "{}", got.text());
            assert!(got.complete);
            assert_eq!(got.header("etag"), Some(format!("\"{}\"", md5_hex(&got.body)).as_str()));
        }
    };
    let endpoints = [&stage.gateway.endpoint, &twin.endpoint, &stage.gateway.endpoint];
    let readers = futures::future::join_all(endpoints.map(|endpoint| reading(endpoint.clone())));
    tokio::join!(writing, readers);
    until_reclaimed(&stage.database).await;
    assert_consistent(&stage.database).await;
    assert_eq!(large_objects(&stage.database).await, 1);
}

#[tokio::test]
async fn a_copy_that_races_with_the_removal_of_its_source_is_whole_or_refused() {
    let stage = Stage::with(&[EAGER]).await;
    let data = bytes(3, 100_000);
    for round in 0..40 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        stage.put(&a, &data).await;
        let copy = stage.request("PUT", &path(&b)).header("x-amz-copy-source", &path(&a));
        let (copied, ()) = tokio::join!(copy.send(), stage.delete(&a));
        match copied.status {
            200 => assert!(stage.get(&b).await == data, "round {round}"),
            _ => assert_eq!(copied.refusal(), (404, "NoSuchKey".to_owned()), "round {round}"),
        }
    }
    until_reclaimed(&stage.database).await;
    assert_consistent(&stage.database).await;
    for round in 0..40 {
        let got = stage.request("GET", &path(&format!("b{round}"))).send().await;
        assert!(got.status == 404 || got.body == data, "round {round}");
    }
}

#[tokio::test]
async fn a_long_transaction_of_somebody_else_holds_no_removal_back() {
    let stage = Stage::with(&[EAGER]).await;
    let client = stage.database.superuser().await;
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()")
        .await
        .expect("a transaction");
    stage.put("k", &bytes(1, 100_000)).await;
    stage.delete("k").await;
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
    client.batch_execute("COMMIT").await.expect("the transaction was open all the while");
}

#[tokio::test]
async fn a_gateway_that_lost_its_lease_stops_its_reads_rather_than_send_wrong_bytes() {
    let stage = Stage::with(&[EAGER, LEASE]).await;
    let twin = Gateway::start(&stage.database.url(), &[EAGER, LEASE]).await;
    let data = bytes(1, LONG);
    stage.put("k", &data).await;
    let (mut connection, mut got) = begun(&twin.endpoint, "k").await;
    twin.signal(Signal::SIGSTOP);
    stage.delete("k").await;
    // The frozen gateway can't renew its lease, so the other one may go on without it.
    until_reclaimed(&stage.database).await;
    twin.signal(Signal::SIGCONT);
    got.extend(connection.read_some(LONG - got.len()).await);
    assert!(got == data[..got.len()], "no byte is wrong");
    eventually("the thawed gateway serves again", || async {
        RawRequest::new(&twin.endpoint, "GET", "/bucket").send().await.status == 200
    })
    .await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn a_gateway_that_was_killed_holds_removal_back_only_until_its_lease_ends() {
    let stage = Stage::with(&[EAGER, LEASE]).await;
    let mut twin = Gateway::start(&stage.database.url(), &[EAGER, LEASE]).await;
    stage.put("k", &bytes(1, LONG)).await;
    let reader = begun(&twin.endpoint, "k").await;
    twin.kill_9();
    drop(reader);
    stage.delete("k").await;
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn many_removed_objects_are_reclaimed_in_batches() {
    let stage = Stage::with(&[EAGER]).await;
    let data = bytes(1, 70_000);
    for batch in (0..600).collect::<Vec<u32>>().chunks(24) {
        let puts = batch.iter().map(|number| {
            let mut unique = data.clone();
            unique[..4].copy_from_slice(&number.to_be_bytes());
            let (stage, key) = (&stage, number.to_string());
            async move { stage.put(&key, &unique).await }
        });
        futures::future::join_all(puts).await;
    }
    assert_eq!(large_objects(&stage.database).await, 600);
    let objects: String = (0..600).map(|number| format!("<Object><Key>{number}</Key></Object>")).collect();
    let body = format!("<Delete><Quiet>true</Quiet>{objects}</Delete>");
    let digest = crate::harness::base64(<md5::Md5 as md5::Digest>::digest(body.as_bytes()));
    let deleted = stage.request("POST", "/bucket?delete").header("content-md5", &digest).body(body).send().await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn what_a_published_snapshot_does_not_see_removed_waits_and_nothing_else_does() {
    let stage = Stage::with(&[EAGER]).await;
    for key in ["early", "seen", "late"] {
        stage.put(key, &bytes(1, 100_000)).await;
    }
    // It gets its transaction id before the snapshot is taken, and commits after.
    let client = stage.database.superuser().await;
    client.batch_execute("BEGIN; DELETE FROM lobgate.object WHERE key = 'early'").await.expect("a transaction");
    stage.delete("seen").await;
    stage
        .database
        .execute(
            "INSERT INTO lobgate.instance (id, lease, host, version) VALUES (gen_random_uuid(), '1 hour', 'test', 'test')",
        )
        .await;
    client.batch_execute("COMMIT").await.expect("committed");
    stage.delete("late").await;
    let contents = "SELECT count(*) FROM lobgate.content WHERE created_at > '-infinity' AND loid IS NOT NULL";
    eventually("what the snapshot sees removed is reclaimed", || async { stage.database.count(contents).await == 2 })
        .await;
    // A whole round finds no more to do: NULL is said where another reaper is at work.
    eventually("a round", || async {
        stage.database.count("SELECT count(*) FROM lobgate.reap(100, 100000) WHERE seen = 0").await == 1
    })
    .await;
    assert_eq!(stage.database.count(contents).await, 2, "what it does not see stays, whichever id it has");
    stage.database.execute("DELETE FROM lobgate.instance WHERE host = 'test'").await;
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn references_deleted_by_hand_all_at_once_are_all_told_to_the_reaper() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "10m"), ("LOBGATE_GC_LEASE", "30m")]).await;
    for number in 0..20 {
        stage.put(&format!("k{number}"), b"x").await;
    }
    let id = crate::multipart::create(&stage, "big").await;
    crate::multipart::part(&stage, "big", &id, 1, b"part").await;
    let before = stage.database.count("SELECT count(*) FROM lobgate.removed").await;
    stage.database.execute("DELETE FROM lobgate.object WHERE key LIKE 'k%'; DELETE FROM lobgate.upload").await;
    assert_eq!(stage.database.count("SELECT count(*) FROM lobgate.removed").await - before, 21);
    assert_consistent(&stage.database).await;
}
