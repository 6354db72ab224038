//! Backups as PostgreSQL makes them, each brought back to life and verified: dump and restore, a base backup recovered to a
//! point in time, a standby that serves reads and takes over.
//!
//! `config/backup.md` tells operators the same steps.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::harness::cluster::{Cluster, ROLE, command};
use crate::harness::inspect::{assert_consistent, assert_verified, until_reclaimed};
use crate::harness::{Database, Gateway, RawRequest, Stage, bytes, eventually, path};
use crate::multipart;

const SETTINGS: &[(&str, &str)] = &[("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"), ("LOBGATE_GC_INTERVAL", "100ms")];
/// In all forms of storage; the last one is a multipart upload.
const KEYS: [(&str, usize); 4] = [("inline", 1000), ("buffered", 150_000), ("streamed", 700_000), ("parts", 5_300_000)];

fn data(key: &str) -> Vec<u8> {
    let (at, (_, length)) = (0_u64..).zip(KEYS).find(|(_, (name, _))| *name == key).expect("a known key");
    bytes(at, length)
}

async fn fill(stage: &Stage) {
    for (key, _) in &KEYS[..3] {
        stage.put(key, &data(key)).await;
    }
    let whole = data("parts");
    let (first, last) = whole.split_at(5 << 20);
    multipart::upload(stage, "parts", &[first.to_vec(), last.to_vec()]).await;
    let copy = stage.request("PUT", &path("copy")).header("x-amz-copy-source", &path("parts")).send().await;
    assert_eq!(copy.status, 200, "{}", copy.text());
}

async fn assert_filled(endpoint: &str) {
    for (key, _) in KEYS {
        let got = RawRequest::new(endpoint, "GET", &path(key)).send().await;
        assert!(got.status == 200 && got.complete && got.body == data(key), "{key}: {}", got.status);
    }
    let copy = RawRequest::new(endpoint, "GET", &path("copy")).send().await;
    assert!(copy.body == data("parts"), "copy");
    let listed = RawRequest::new(endpoint, "GET", "/bucket?list-type=2").send().await;
    assert_eq!(listed.xml_all("Key"), ["buffered", "copy", "inline", "parts", "streamed"]);
}

fn succeed(mut program: Command) {
    let done = program.output().expect("run the program");
    assert!(done.status.success(), "{program:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn a_dump_restored_elsewhere_has_every_byte_and_goes_on() {
    let stage = Stage::with(SETTINGS).await;
    fill(&stage).await;
    stage.put("deleted", &bytes(9, 200_000)).await;
    stage.delete("deleted").await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("lobgate.dump");
    let cluster = &stage.database.cluster;
    let programs = cluster.binaries();
    // While the gateway runs, by the role that owns the database.
    let mut dump = Command::new(programs.join("pg_dump"));
    dump.args(["--format=custom", "--file"]).arg(&file).arg(stage.database.url());
    succeed(dump);
    stage.put("later", b"not in the dump").await;
    let restored = Database::empty_on(Arc::clone(cluster)).await;
    let mut restore = Command::new(programs.join("pg_restore"));
    restore.args(["--no-owner", "--exit-on-error", "--dbname", &restored.url()]).arg(&file);
    succeed(restore);
    let gateway = Gateway::start(&restored.url(), SETTINGS).await;
    assert_filled(&gateway.endpoint).await;
    assert_verified(&restored).await;
    let put = RawRequest::new(&gateway.endpoint, "PUT", &path("new")).body(bytes(10, 300_000)).send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    let deleted = RawRequest::new(&gateway.endpoint, "DELETE", &path("new")).send().await;
    assert_eq!(deleted.status, 204);
    until_reclaimed(&restored).await;
    assert_consistent(&restored).await;
}

/// Copies the running server's files.
fn base_backup(cluster: &Cluster, to: &Path, more: &[&str]) {
    let mut backup = command(&cluster.binaries().join("pg_basebackup"), Path::new("/"));
    backup.args(["-h", &cluster.host, "-p", &cluster.port.to_string(), "-U", "postgres", "--checkpoint=fast", "-D"]);
    backup.arg(to.join("data")).args(more);
    succeed(backup);
}

#[tokio::test]
async fn a_base_backup_is_recovered_to_a_point_in_time() {
    let archive = crate::harness::cluster::directory("lobgate-test-archive-");
    let archiving = [
        "archive_mode=on".to_owned(),
        format!("archive_command=cp %p {}/%f", archive.path().display()),
        "wal_level=replica".to_owned(),
    ];
    let primary = Cluster::start_with(&archiving).await;
    let stage = Stage::on(Database::create_on(Arc::clone(&primary)).await, SETTINGS).await;
    stage.put("inline", b"of the backup, replaced later").await;
    let copy = crate::harness::cluster::directory("lobgate-test-pg-");
    base_backup(&primary, copy.path(), &[]);
    fill(&stage).await;
    let client = stage.database.superuser().await;
    client.batch_execute("SELECT pg_create_restore_point('before_the_mistake')").await.expect("a restore point");
    for (key, _) in KEYS {
        stage.delete(key).await;
    }
    until_reclaimed(&stage.database).await;
    let last = client.query_one("SELECT pg_walfile_name(pg_current_wal_lsn())", &[]).await.expect("its name");
    client.batch_execute("SELECT pg_switch_wal()").await.expect("the end of the WAL file");
    let last: String = last.get(0);
    let archived = format!("SELECT count(*) FROM pg_stat_archiver WHERE last_archived_wal >= '{last}'");
    eventually("it is archived", || async { stage.database.count(&archived).await == 1 }).await;
    let name = stage.database.name.clone();
    drop(stage);
    let recovery = [
        format!("restore_command=cp {}/%f %p", archive.path().display()),
        "recovery_target_name=before_the_mistake".to_owned(),
        "recovery_target_action=promote".to_owned(),
    ];
    fs::write(copy.path().join("data/recovery.signal"), "").expect("the signal file");
    let recovered = Cluster::start_on(copy, &recovery).await;
    let database = Database::existing(Arc::clone(&recovered), &name);
    eventually("recovery has ended", || async {
        database.count("SELECT count(*) WHERE NOT pg_is_in_recovery()").await == 1
    })
    .await;
    let gateway = Gateway::start(&database.url(), SETTINGS).await;
    assert_filled(&gateway.endpoint).await;
    assert_verified(&database).await;
    until_reclaimed(&database).await;
    assert_consistent(&database).await;
}

#[tokio::test]
async fn a_standby_serves_reads_refuses_writes_and_takes_over() {
    let primary = Cluster::start_with(&["wal_level=replica".to_owned()]).await;
    let stage = Stage::on(Database::create_on(Arc::clone(&primary)).await, SETTINGS).await;
    fill(&stage).await;
    let copy = crate::harness::cluster::directory("lobgate-test-pg-");
    base_backup(&primary, copy.path(), &["--write-recovery-conf"]);
    let standby = Cluster::start_on(copy, &[]).await;
    let database = Database::existing(Arc::clone(&standby), &stage.database.name);
    // Without being asked to, nobody serves from a standby.
    let mut refused = Gateway::spawn(&database.url(), SETTINGS);
    assert!(!refused.ended().await.success());
    assert!(refused.log().contains("database.allow_standby"), "{}", refused.log());
    let settings = [SETTINGS, &[("LOBGATE_DATABASE_ALLOW_STANDBY", "true")]].concat();
    let reader = Gateway::start(&database.url(), &settings).await;
    assert_filled(&reader.endpoint).await;
    let ready = RawRequest::new(&reader.admin, "GET", "/health/ready").anonymous().send().await;
    assert_eq!(ready.status, 200, "{}", ready.text());
    let mut verify = crate::harness::server::lobgate(&["verify", "--database-url", &database.url()]);
    verify.env("LOBGATE_DATABASE_ALLOW_STANDBY", "true");
    succeed(verify);
    for (method, body) in [("PUT", &bytes(1, 400_000)[..]), ("PUT", b"x"), ("DELETE", b"")] {
        let write = RawRequest::new(&reader.endpoint, method, &path("inline")).body(body).send().await;
        assert_eq!(write.status, 503, "{method}: {}", write.text());
    }
    // Through one URL with both servers, as after any failover: the primary dies, the standby is promoted.
    let url = format!(
        "postgres://{ROLE}:{}@127.0.0.1:{},127.0.0.1:{}/{}?target_session_attrs=read-write",
        crate::harness::cluster::ROLE_PASSWORD,
        primary.port,
        standby.port,
        database.name
    );
    let gateway = Gateway::start(&url, SETTINGS).await;
    let put = |key: &'static str| RawRequest::new(&gateway.endpoint, "PUT", &path(key)).body(bytes(77, 200_000));
    assert_eq!(put("before").send().await.status, 200);
    let caught_up = "SELECT count(*) FROM lobgate.object WHERE key = 'before'";
    eventually("the standby has it", || async { database.count(caught_up).await == 1 }).await;
    let dying = Arc::clone(&primary);
    tokio::task::spawn_blocking(move || dying.kill_9()).await.expect("kill the primary");
    assert_eq!(put("during").send().await.status, 503);
    let promoted = "SELECT pg_promote()::int::bigint";
    assert_eq!(database.count(promoted).await, 1);
    eventually("writes go to the new primary", || async { put("after").send().await.status == 200 }).await;
    assert_filled_too(&gateway.endpoint).await;
    eventually("the reader writes as well", || async {
        RawRequest::new(&reader.endpoint, "PUT", &path("after")).body("x").send().await.status == 200
    })
    .await;
    assert_verified(&database).await;
    until_reclaimed(&database).await;
    assert_consistent(&database).await;
}

async fn assert_filled_too(endpoint: &str) {
    for (key, _) in KEYS {
        let got = RawRequest::new(endpoint, "GET", &path(key)).send().await;
        assert!(got.status == 200 && got.body == data(key), "{key}: {}", got.status);
    }
    for key in ["before", "after"] {
        let got = RawRequest::new(endpoint, "GET", &path(key)).send().await;
        assert!(got.status == 200 && got.body == bytes(77, 200_000), "{key}: {}", got.status);
    }
}
