//! The gateway is killed before and after every statement of every write: the object is the old one or the new one, whole,
//! and which of them it is follows from where the COMMIT stands.
//!
//! The places are `gateway/src/failpoints.rs`, compiled into the binary that is tested and into none that is shipped.

use std::os::unix::process::ExitStatusExt as _;

use nix::sys::signal::Signal;

use crate::harness::inspect::{assert_consistent, assert_verified, until_reclaimed};
use crate::harness::server::{run, text};
use crate::harness::{Database, Gateway, RawRequest, Stage, bytes, eventually, path};
use crate::multipart;

/// What the gateway runs with that is there before and after.
const HEALTHY: &[(&str, &str)] = &[
    ("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"),
    ("LOBGATE_STORAGE_WRITE_CHUNK", "64KiB"),
    ("LOBGATE_GC_INTERVAL", "100ms"),
    ("LOBGATE_GC_LEASE", "2s"),
];
/// Lengths that are stored in a row, by one statement, and in chunks.
const INLINE: usize = 1000;
const BUFFERED: usize = 150_000;
const STREAMED: usize = 600_000;

/// What a place has to leave behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    Old,
    New,
}
use Left::{New, Old};

/// A gateway that dies where `place` is reached for the time after `passes` others.
async fn doomed(database: &Database, place: &str, passes: u32) -> Gateway {
    let armed = if passes == 0 { format!("{place}=return") } else { format!("{place}={passes}*off->return") };
    // Its background work is to reach nothing.
    let quiet = [("LOBGATE_GC_INTERVAL", "10m"), ("LOBGATE_GC_LEASE", "30m"), ("FAILPOINTS", armed.as_str())];
    let settings: Vec<_> = HEALTHY[..2].iter().copied().chain(quiet).collect();
    Gateway::start(&database.url(), &settings).await
}

/// Sends a request to a gateway that is killed at a place.
async fn killed_at(stage: &Stage, place: &str, passes: u32, request: impl FnOnce(&str) -> RawRequest) {
    let mut gateway = doomed(&stage.database, place, passes).await;
    let answer = request(&gateway.endpoint).try_send().await;
    assert!(answer.is_err(), "{place}: killed before it could answer, yet {answer:?}");
    let end = gateway.ended().await;
    assert_eq!(end.signal(), Some(Signal::SIGKILL as i32), "{place} is reached: {end:?}");
    // Its lease would hold the reaper back for half an hour, and nobody reads under it.
    stage.database.execute("DELETE FROM lobgate.instance WHERE lease = '30 min'").await;
}

async fn body_is(stage: &Stage, key: &str, data: Option<&[u8]>, place: &str) {
    let got = stage.request("GET", &path(key)).send().await;
    match data {
        Some(data) => assert!(got.status == 200 && got.complete && got.body == data, "{place}: {}", got.status),
        None => assert_eq!(got.status, 404, "{place}"),
    }
}

async fn assert_whole(stage: &Stage) {
    until_reclaimed(&stage.database).await;
    assert_verified(&stage.database).await;
}

/// Puts a body of a length over an object and over nothing, killed at every place.
async fn puts(length: usize, conditional: bool, places: &[(&str, u32, Left)]) {
    let stage = Stage::with(HEALTHY).await;
    for (number, (place, passes, left)) in (0_u64..).zip(places) {
        let (old, new) = (bytes(number, 100_000), bytes(1000 + number, length));
        for exists in [true, false] {
            let key = format!("{place}-{passes}-{exists}");
            if exists {
                stage.put(&key, &old).await;
            }
            let put = |endpoint: &str| RawRequest::new(endpoint, "PUT", &path(&key)).body(&new);
            let put = |endpoint: &str| match (conditional, exists) {
                (false, _) => put(endpoint),
                (true, false) => put(endpoint).header("if-none-match", "*"),
                (true, true) => put(endpoint).header("if-match", &format!("\"{}\"", crate::harness::md5_hex(&old))),
            };
            killed_at(&stage, place, *passes, put).await;
            let before = exists.then_some(&old[..]);
            body_is(&stage, &key, if *left == New { Some(&new) } else { before }, place).await;
            // Whoever was not told sends it again.
            let again = put(&stage.gateway.endpoint).send().await;
            let applied = conditional && *left == New;
            assert_eq!(again.status, if applied { 412 } else { 200 }, "{place}: {}", again.text());
            body_is(&stage, &key, Some(&new), place).await;
        }
    }
    assert_whole(&stage).await;
}

#[tokio::test]
async fn a_small_put_killed_anywhere_is_there_whole_or_not_at_all() {
    puts(INLINE, false, &[("before_put_object", 0, Old), ("after_put_object", 0, New)]).await;
}

#[tokio::test]
async fn a_conditional_put_killed_anywhere_is_there_whole_or_not_at_all() {
    puts(INLINE, true, &[("before_put_object", 0, Old), ("after_put_object", 0, New)]).await;
}

#[tokio::test]
async fn a_buffered_put_killed_anywhere_is_there_whole_or_not_at_all() {
    let places = [
        ("before_create_large_object_from", 0, Old),
        ("after_create_large_object_from", 0, Old),
        ("before_publish_large_object", 0, Old),
        ("after_publish_large_object", 0, Old),
        ("before_commit_write_large_object", 0, Old),
        ("after_commit_write_large_object", 0, New),
    ];
    puts(BUFFERED, false, &places).await;
}

#[tokio::test]
async fn a_streamed_put_killed_anywhere_is_there_whole_or_not_at_all() {
    let places = [
        ("before_create_large_object", 0, Old),
        ("after_create_large_object", 0, Old),
        ("before_put_chunk", 0, Old),
        ("after_put_chunk", 0, Old),
        ("after_put_chunk", 4, Old),
        ("before_publish_large_object", 0, Old),
        ("after_publish_large_object", 0, Old),
        ("before_commit_write_large_object", 0, Old),
        ("after_commit_write_large_object", 0, New),
    ];
    puts(STREAMED, true, &places).await;
}

#[tokio::test]
async fn deletions_and_copies_killed_anywhere_happened_or_did_not() {
    let stage = Stage::with(HEALTHY).await;
    let data = bytes(1, BUFFERED);
    for (place, left) in [("before_delete_objects", Old), ("after_delete_objects", New)] {
        stage.put(place, &data).await;
        killed_at(&stage, place, 0, |endpoint| RawRequest::new(endpoint, "DELETE", &path(place))).await;
        body_is(&stage, place, (left == Old).then_some(&data[..]), place).await;
    }
    stage.put("source", &data).await;
    let places = [
        ("before_publish_object", Old),
        ("after_publish_object", Old),
        ("before_commit_copy_object", Old),
        ("after_commit_copy_object", New),
    ];
    for (place, left) in places {
        let key = format!("copy-{place}");
        stage.put(&key, b"old").await;
        let copy =
            |endpoint: &str| RawRequest::new(endpoint, "PUT", &path(&key)).header("x-amz-copy-source", &path("source"));
        killed_at(&stage, place, 0, copy).await;
        body_is(&stage, &key, Some(if left == Old { b"old" } else { &data }), place).await;
    }
    assert_whole(&stage).await;
}

#[tokio::test]
async fn parts_killed_anywhere_are_sent_again_and_complete() {
    let stage = Stage::with(HEALTHY).await;
    let id = multipart::create(&stage, "k").await;
    let places = [
        (INLINE, "before_put_part", Old),
        (INLINE, "after_put_part", New),
        (BUFFERED, "before_publish_large_part", Old),
        (BUFFERED, "after_publish_large_part", Old),
        (STREAMED, "after_put_chunk", Old),
        (STREAMED, "before_commit_write_large_object", Old),
        (STREAMED, "after_commit_write_large_object", New),
    ];
    for (number, (length, place, left)) in (1_u64..).zip(places) {
        let target = format!("{}?partNumber={number}&uploadId={id}", path("k"));
        let data = bytes(number, length);
        killed_at(&stage, place, 0, |endpoint| RawRequest::new(endpoint, "PUT", &target).body(&data)).await;
        let listed = stage.request("GET", &format!("{}?uploadId={id}", path("k"))).send().await;
        let there = listed.xml_all("PartNumber").contains(&number.to_string());
        assert_eq!(there, left == New, "{place}: {}", listed.text());
    }
    let data = bytes(99, STREAMED);
    let sent = multipart::part(&stage, "k", &id, 1, &data).await;
    let done = multipart::complete(&stage, "k", &id, &[(1, sent.e_tag().expect("an ETag"))]).send().await;
    assert_eq!(done.status, 200, "{}", done.text());
    body_is(&stage, "k", Some(&data), "completed").await;
    assert_whole(&stage).await;
}

#[tokio::test]
async fn a_completion_killed_anywhere_can_be_repeated_and_gives_one_answer() {
    let stage = Stage::with(HEALTHY).await;
    let data = bytes(5, BUFFERED);
    let places = [
        ("before_lock_upload", Old),
        ("after_insert_composite_content", Old),
        ("after_insert_content_parts", Old),
        ("before_publish_object", Old),
        ("after_complete_upload", Old),
        ("before_commit_complete_upload", Old),
        ("after_commit_complete_upload", New),
    ];
    for (place, left) in places {
        let id = multipart::create(&stage, place).await;
        let part = multipart::part(&stage, place, &id, 1, &data).await;
        let etag = part.e_tag().expect("an ETag").to_owned();
        let (_, body) = multipart::complete(&stage, place, &id, &[(1, &etag)]).wire();
        let target = format!("{}?uploadId={id}", path(place));
        killed_at(&stage, place, 0, |endpoint| RawRequest::new(endpoint, "POST", &target).body(&body)).await;
        body_is(&stage, place, (left == New).then_some(&data[..]), place).await;
        let again = multipart::complete(&stage, place, &id, &[(1, &etag)]).send().await;
        assert_eq!(again.status, 200, "{place}: {}", again.text());
        body_is(&stage, place, Some(&data), place).await;
    }
    assert_whole(&stage).await;
}

#[tokio::test]
async fn a_migration_killed_anywhere_begins_anew() {
    let steps = 12;
    for passes in (0..steps).step_by(3) {
        let database = Database::virgin().await;
        let armed = format!("mid_migration={passes}*off->return");
        let mut dying = Gateway::spawn(&database.url(), &[("FAILPOINTS", &armed)]);
        assert_eq!(dying.ended().await.signal(), Some(Signal::SIGKILL as i32), "after {passes} steps");
        let there = "SELECT count(*) FROM pg_namespace WHERE nspname = 'lobgate'";
        eventually("its transaction is rolled back", || async { database.count(there).await == 0 }).await;
        let mut gateway = Gateway::spawn(&database.url(), &[]);
        gateway.ready().await;
    }
}

#[tokio::test]
async fn a_reaper_and_a_sweep_killed_at_work_leave_the_rest_to_the_next() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "10m"), ("LOBGATE_GC_LEASE", "30m")]).await;
    for number in 0..20 {
        let key = format!("k{number}");
        stage.put(&key, &bytes(number, BUFFERED)).await;
        stage.delete(&key).await;
    }
    let url = stage.database.url();
    // The lease of the gateway above would hold the reaper back: its snapshot is from before the deletions.
    stage.database.execute("UPDATE lobgate.instance SET heartbeat = '-infinity'").await;
    let reaping = [("LOBGATE_GC_INTERVAL", "100ms"), ("LOBGATE_GC_LEASE", "2s"), ("LOBGATE_GC_BATCH", "5")];
    for place in ["before_reap", "after_reap=1*off->return"] {
        let armed = if place.contains('=') { place.to_owned() } else { format!("{place}=return") };
        let mut settings = reaping.to_vec();
        settings.push(("FAILPOINTS", &armed));
        let mut dying = Gateway::spawn(&url, &settings);
        assert_eq!(dying.ended().await.signal(), Some(Signal::SIGKILL as i32), "{place}");
        assert_consistent(&stage.database).await;
    }
    let next = Gateway::start(&url, &reaping).await;
    until_reclaimed(&stage.database).await;
    drop(next);
    stage
        .database
        .execute(&format!(
            "SET ROLE {}; SELECT lo_from_bytea(0, 'x') FROM generate_series(1, 300)",
            crate::harness::cluster::ROLE
        ))
        .await;
    let report = tempfile::NamedTempFile::new().expect("a file");
    let file = report.path().to_str().expect("a path").to_owned();
    let reported = run(&url, &["sweep", "report", "--output", &file]).await;
    assert!(report.path().exists(), "{}", text(&reported));
    for (armed, left) in [("after_unlink_unclaimed=return", 300), ("after_commit_sweep=return", 100)] {
        let mut command =
            crate::harness::server::lobgate(&["sweep", "purge", "--report", &file, "--database-url", &url]);
        let ended = tokio::task::spawn_blocking(move || command.env("FAILPOINTS", armed).output()).await.unwrap();
        assert_eq!(ended.expect("run lobgate").status.signal(), Some(Signal::SIGKILL as i32), "{armed}");
        let orphans = "SELECT count(*) FROM pg_largeobject_metadata";
        eventually("the rest is there", || async { stage.database.count(orphans).await == left }).await;
    }
    let rest = run(&url, &["sweep", "purge", "--report", &file]).await;
    assert!(rest.status.success(), "{}", text(&rest));
    assert_consistent(&stage.database).await;
}
