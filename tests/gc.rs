//! Collection: abandoned uploads expire, foreign large objects are reported before they are purged.

use crate::harness::inspect::{assert_consistent, assert_empty, large_objects, until_reclaimed};
use crate::harness::server::{run, text};
use crate::harness::{Database, Stage, bytes, eventually};
use crate::multipart;

/// Large objects that no content owns, made by the gateway's own role.
async fn strays(database: &Database, count: u32) -> Vec<u32> {
    let config: tokio_postgres::Config = database.url().parse().expect("a URL");
    let client = crate::harness::database::connect(&config).await;
    let query = "SELECT lo_from_bytea(0, 'stray') FROM generate_series(1, $1::bigint)";
    let rows = client.query(query, &[&i64::from(count)]).await.expect("stray large objects");
    rows.iter().map(|row| row.get(0)).collect()
}

async fn exists(database: &Database, oid: u32) -> bool {
    database.count(&format!("SELECT count(*) FROM pg_largeobject_metadata WHERE oid = {oid}")).await == 1
}

fn report() -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("report.json").to_str().expect("UTF-8").to_owned();
    (directory, file)
}

#[tokio::test]
async fn an_abandoned_upload_expires_and_its_parts_are_reclaimed() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms"), ("LOBGATE_GC_UPLOAD_EXPIRY", "7d")]).await;
    let id = multipart::create(&stage, "k").await;
    multipart::part(&stage, "k", &id, 1, &bytes(1, 100_000)).await;
    stage.put("kept", b"x").await;
    stage
        .database
        .execute(
            "UPDATE lobgate.upload SET initiated_at = initiated_at - interval '8 days'; \
             UPDATE lobgate.upload_part SET last_modified = last_modified - interval '8 days'",
        )
        .await;
    eventually("the upload is gone", || async {
        stage.database.count("SELECT count(*) FROM lobgate.upload").await == 0
    })
    .await;
    let done = multipart::complete(&stage, "k", &id, &[(1, &crate::harness::md5_hex(&bytes(1, 100_000)))]).send().await;
    assert_eq!(done.refusal(), (404, "NoSuchUpload".to_owned()));
    assert_eq!(stage.get("kept").await, b"x");
    stage.delete("kept").await;
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn an_upload_that_is_young_enough_is_left_alone() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    let id = multipart::create(&stage, "k").await;
    multipart::part(&stage, "k", &id, 1, b"part").await;
    // The collector has been at work once something removed is gone.
    stage.put("passing", &bytes(1, 100_000)).await;
    stage.delete("passing").await;
    until_reclaimed(&stage.database).await;
    let done = multipart::complete(&stage, "k", &id, &[(1, &crate::harness::md5_hex(b"part"))]).send().await;
    assert_eq!(done.status, 200);
}

#[tokio::test]
async fn a_sweep_purges_what_its_report_named_and_nothing_else() {
    let stage = Stage::start().await;
    let data = bytes(1, 100_000);
    stage.put("k", &data).await;
    let stray = strays(&stage.database, 3).await;
    let (_directory, file) = report();
    let reported = run(&stage.database.url(), &["sweep", "report", "--output", &file]).await;
    assert_eq!(reported.status.code(), Some(3), "something was found: {}", text(&reported));
    let written = std::fs::read_to_string(&file).expect("the report");
    for oid in &stray {
        assert!(written.contains(&oid.to_string()), "{oid} is in the report: {written}");
        assert!(exists(&stage.database, *oid).await, "a report removes nothing");
    }
    // One of the reported is claimed meanwhile, and one more stray appears.
    let claim = format!(
        "INSERT INTO lobgate.content (id, loid, size, md5) VALUES (gen_random_uuid(), {}, 5, decode(md5('stray'), 'hex'))",
        stray[0]
    );
    stage.database.execute(&claim).await;
    let late = strays(&stage.database, 1).await;
    let purged = run(&stage.database.url(), &["sweep", "purge", "--report", &file]).await;
    assert!(purged.status.success(), "{}", text(&purged));
    assert!(exists(&stage.database, stray[0]).await, "claimed since the report");
    assert!(!exists(&stage.database, stray[1]).await && !exists(&stage.database, stray[2]).await);
    assert!(exists(&stage.database, late[0]).await, "not in the report");
    assert!(stage.get("k").await == data);
    let again = run(&stage.database.url(), &["sweep", "purge", "--report", &file]).await;
    assert!(again.status.success(), "purging twice is harmless: {}", text(&again));
}

#[tokio::test]
async fn a_report_of_another_database_purges_nothing() {
    let (mine, other) = (Stage::start().await, Stage::start().await);
    let stray = strays(&mine.database, 1).await;
    let (_directory, file) = report();
    let reported = run(&mine.database.url(), &["sweep", "report", "--output", &file]).await;
    assert_eq!(reported.status.code(), Some(3), "{}", text(&reported));
    // The same number names something else over there.
    other
        .database
        .execute(&format!(
            "SELECT lo_create({}) WHERE NOT EXISTS \
        (SELECT 1 FROM pg_largeobject_metadata WHERE oid = {})",
            stray[0], stray[0]
        ))
        .await;
    let purged = run(&other.database.url(), &["sweep", "purge", "--report", &file]).await;
    assert!(!purged.status.success(), "{}", text(&purged));
    assert!(exists(&other.database, stray[0]).await);
}

#[tokio::test]
async fn a_clean_store_has_nothing_to_sweep() {
    let stage = Stage::start().await;
    stage.put("k", &bytes(1, 100_000)).await;
    let id = multipart::create(&stage, "m").await;
    multipart::part(&stage, "m", &id, 1, &bytes(2, 100_000)).await;
    let (_directory, file) = report();
    let reported = run(&stage.database.url(), &["sweep", "report", "--output", &file]).await;
    assert!(reported.status.success(), "{}", text(&reported));
    let purged = run(&stage.database.url(), &["sweep", "purge", "--report", &file]).await;
    assert!(purged.status.success(), "{}", text(&purged));
    assert_eq!(large_objects(&stage.database).await, 2);
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn collection_runs_by_hand_when_no_gateway_does() {
    let mut stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "10m"), ("LOBGATE_GC_LEASE", "30m")]).await;
    stage.put("k", &bytes(1, 100_000)).await;
    stage.delete("k").await;
    assert!(stage.gateway.terminate().await.success());
    let status = run(&stage.database.url(), &["gc", "status"]).await;
    assert!(status.status.success(), "{}", text(&status));
    let done = run(&stage.database.url(), &["gc", "run"]).await;
    assert!(done.status.success(), "{}", text(&done));
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn vacuumlo_finds_nothing_to_destroy() {
    let stage = Stage::start().await;
    let data = bytes(1, 100_000);
    stage.put("k", &data).await;
    // What vacuumlo does: it removes every large object that no column of type oid in an ordinary table mentions.
    let mentioned = "SELECT count(*) FROM information_schema.columns \
                     WHERE table_schema = 'lobgate' AND table_name = 'content' AND data_type = 'oid'";
    assert_eq!(stage.database.count(mentioned).await, 1);
    assert_consistent(&stage.database).await;
}
