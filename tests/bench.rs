//! `lobgate bench`: every command measures, says so in JSON, and leaves nothing behind however it ends.

use std::path::Path;
use std::process::{Child, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::cluster::{Cluster, ROLE};
use crate::harness::server::{lobgate, run, text};
use crate::harness::{DEADLINE, Database, Stage, bytes, eventually, forget, kill_at_end};

/// Everything of a bench that the server has: databases, schemas, and large objects that no database took along.
pub(crate) const LEFT: &str =
    "SELECT (SELECT count(*) FROM pg_database WHERE datname LIKE 'lobgate\\_bench\\_%' AND datdba =
        (SELECT datdba FROM pg_database WHERE datname = current_database()))
    + (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lobgate\\_bench\\_%')
    + (SELECT count(*) FROM pg_largeobject_metadata)";

/// A command that is killed when the test fails.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn start(database: &Database, directory: &Path, arguments: &[&str]) -> Self {
        Self::start_command("bench", database, directory, arguments)
    }

    pub(crate) fn start_command(command: &str, database: &Database, directory: &Path, arguments: &[&str]) -> Self {
        let mut command = lobgate(&[command]);
        command.args(arguments).args(["--database-url", &database.url()]).current_dir(directory);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.expect("run lobgate bench");
        kill_at_end(child.id());
        Self(Some(child))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().expect("a running command").id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.0.as_ref().expect("a running command");
        kill(Pid::from_raw(i32::try_from(child.id()).expect("a process id")), signal).expect("signal the bench");
    }

    pub(crate) async fn ended(mut self) -> Output {
        let child = self.0.take().expect("a running command");
        let pid = child.id();
        let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
        let ended = tokio::time::timeout(DEADLINE, waiting).await.expect("the bench ends");
        forget(pid);
        ended.expect("the waiting thread").expect("its output")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
            forget(child.id());
        }
    }
}

/// A database whose owner may make others. The cluster is the test's own: a right that all tests' role had would be
/// another stage than they expect.
pub(crate) async fn on_a_server_that_lets_us() -> Database {
    let cluster = Cluster::start(false);
    let database = Database::create_on(cluster).await;
    database.execute(&format!("ALTER ROLE {ROLE} CREATEDB")).await;
    database
}

/// Runs a command with `--json` to its end and returns the report.
async fn measured(database: &Database, arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let all = [arguments, &["--json", "--rounds", "1"]].concat();
    let output = Running::start(database, directory.path(), &all).ended().await;
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    let left: Vec<_> = std::fs::read_dir(directory.path()).expect("list").flatten().collect();
    assert!(left.is_empty(), "files left behind: {left:?}");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", text(&output)));
    assert_eq!(report["format"], 1);
    assert_eq!(report["name"], arguments[0]);
    assert!(!report["command_line"].as_str().expect("a line").contains(crate::harness::cluster::ROLE_PASSWORD));
    assert_eq!(database.count(LEFT).await, 0, "{arguments:?} left something behind");
    report
}

/// The rows of a table of a report; every number in them is one and none is negative.
pub(crate) fn rows<'a>(report: &'a Value, table: &str) -> &'a Vec<Value> {
    let tables = report["tables"].as_array().expect("tables");
    let found = tables.iter().find(|t| t["id"] == table).unwrap_or_else(|| panic!("no table {table} in {report}"));
    let rows = found["rows"].as_array().expect("rows");
    assert!(!rows.is_empty(), "{table} is empty");
    for row in rows {
        for (key, value) in row.as_object().expect("a row") {
            assert!(value.as_f64().is_none_or(|number| number >= 0.0), "{key} of {row}");
        }
    }
    rows
}

/// Each of the named figures is there and above zero in every row.
fn positive(report: &Value, table: &str, keys: &[&str]) {
    for row in rows(report, table) {
        for key in keys {
            assert!(row[*key].as_f64().is_some_and(|number| number > 0.0), "{key} of {row}");
        }
    }
}

#[tokio::test]
async fn curves_measures_three_ways_to_store() {
    let database = Database::create().await;
    let report = measured(&database, &["curves", "--max-size", "16KiB"]).await;
    for way in ["large_object", "inline", "file"] {
        positive(&report, way, &["size_bytes", "operations", "put_mb_s", "put_p50_ms", "get_mb_s", "get_p99_ms"]);
        assert_eq!(rows(&report, way).len(), 2);
    }
    assert!(report["facts"]["fsync"].is_string() && report["facts"]["server_version"].is_string(), "{report}");
    assert!(!report["plots"].as_array().expect("plots").is_empty());
}

#[tokio::test]
async fn chunks_measures_writing_and_reading_by_size_of_statement() {
    let database = Database::create().await;
    let report = measured(&database, &["chunks", "--size", "128KiB"]).await;
    positive(&report, "writes", &["chunk_bytes", "lowrite_mb_s", "lo_put_mb_s", "pipelined_mb_s"]);
    positive(&report, "reads", &["window_bytes", "lo_get_mb_s", "p50_ms", "p99_ms"]);
    assert_eq!(rows(&report, "writes").len(), 3);
}

#[tokio::test]
async fn anatomy_measures_steps_and_who_waits_for_whom() {
    let database = Database::create().await;
    let arguments = ["anatomy", "--pool", "2", "--readers", "1,3", "--window", "4KiB", "--operations", "3"];
    let report = measured(&database, &arguments).await;
    positive(&report, "steps", &["operations", "p50_ms", "p99_ms"]);
    assert_eq!(rows(&report, "steps").len(), 4);
    positive(&report, "handles", &["readers", "held_p50_ms", "windows_p50_ms", "held_mb_s", "windows_mb_s"]);
    assert_eq!(rows(&report, "handles").len(), 2);
}

#[tokio::test]
async fn reput_measures_the_probe_at_every_size() {
    let database = Database::create().await;
    let report = measured(&database, &["reput", "--max-size", "16KiB"]).await;
    positive(&report, "reput", &["size_bytes", "put_p50_ms", "sha256_p50_ms", "probe_p50_ms", "times_cheaper"]);
    assert_eq!(rows(&report, "reput").len(), 2);
}

#[tokio::test]
async fn readers_measures_them_together() {
    let database = Database::create().await;
    let arguments = ["readers", "--max-readers", "3", "--time", "20ms", "--objects", "2", "--size", "64KiB"];
    let report = measured(&database, &arguments).await;
    positive(&report, "readers", &["readers", "mb_s", "window_p50_ms", "window_p99_ms"]);
    let levels: Vec<_> = rows(&report, "readers").iter().filter_map(|row| row["readers"].as_f64()).collect();
    assert_eq!(levels, [1.0, 2.0, 3.0]);
}

#[tokio::test]
async fn churn_counts_pages_and_shows_that_space_is_kept() {
    let database = on_a_server_that_lets_us().await;
    let report = measured(&database, &["churn", "--cycles", "4", "--objects", "3", "--size", "256KiB"]).await;
    let cycles = rows(&report, "cycles");
    assert_eq!(cycles.len(), 5);
    for row in &cycles[..4] {
        assert_eq!(row["written_pages"], 384.0, "{row}");
        assert_eq!(row["live_pages"], 384.0, "{row}");
        assert_eq!(row["live_bytes"], 786_432.0, "{row}");
    }
    let size = |at: usize| cycles[at]["relation_bytes"].as_f64().expect("a size");
    assert!(size(0) > 786_432.0, "{report}");
    assert_eq!(cycles[4]["live_pages"], 0.0);
    assert!(size(4) >= size(3), "space is not returned: {report}");
    assert!(size(3) < size(0) * 3.0, "space is reused: {report}");
}

#[tokio::test]
async fn list_measures_pages_and_rollups() {
    let database = Database::create().await;
    let report = measured(&database, &["list", "--objects", "2500", "--directories", "7"]).await;
    for way in ["plain", "keys", "index", "rollup", "grouped"] {
        positive(&report, way, &["objects", "page_entries", "page_p50_ms", "entries_per_second"]);
        let entries = if way == "rollup" || way == "grouped" { 7.0 } else { 1000.0 };
        assert_eq!(rows(&report, way).last().expect("a row")["page_entries"], entries, "{way}");
        let (few, entries) = (&rows(&report, way)[0], if entries > 7.0 { 25.0 } else { 7.0 });
        assert_eq!(few["page_entries"], entries, "{way}, of 25 objects");
    }
}

#[tokio::test]
async fn a_page_that_cannot_be_written_is_told_before_anything_is_measured() {
    let database = Database::create().await;
    let told = run(&database.url(), &["bench", "reput", "--html", "/nowhere/report.html"]).await;
    assert!(!told.status.success() && text(&told).contains("--html /nowhere/report.html"), "{}", text(&told));
    let left = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'lobgate_bench_%'";
    assert_eq!(database.count(left).await, 0);
}

#[tokio::test]
async fn a_role_that_may_not_create_databases_measures_in_a_schema_and_leaves_no_large_object() {
    let database = Database::create().await;
    let report = measured(&database, &["curves", "--max-size", "4KiB"]).await;
    let scratch = report["facts"]["scratch"].as_str().expect("it says where");
    assert!(scratch.starts_with("schema lobgate_bench_"), "{scratch}");
}

#[tokio::test]
async fn a_role_that_may_create_databases_measures_in_one_and_drops_it() {
    let database = on_a_server_that_lets_us().await;
    let report = measured(&database, &["curves", "--max-size", "4KiB"]).await;
    let scratch = report["facts"]["scratch"].as_str().expect("it says where");
    assert!(scratch.starts_with("database lobgate_bench_"), "{scratch}");
}

/// Waits until the run has stored something, in a scratch of either kind.
pub(crate) async fn underway(database: &Database) {
    eventually("the bench measures", async || {
        let databases = "SELECT count(*) FROM pg_stat_activity WHERE datname LIKE 'lobgate\\_bench\\_%'";
        database.count(databases).await > 0 || database.count("SELECT count(*) FROM pg_largeobject_metadata").await > 0
    })
    .await;
}

const LONG: &[&str] = &["curves", "--rounds", "1000", "--max-size", "1MiB"];

async fn is_stopped_and_leaves_nothing(database: &Database, signal: Signal) {
    let directory = tempfile::tempdir().expect("a directory");
    let running = Running::start(database, directory.path(), LONG);
    underway(database).await;
    running.signal(signal);
    let output = running.ended().await;
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert_eq!(database.count(LEFT).await, 0, "{}", text(&output));
    assert_eq!(std::fs::read_dir(directory.path()).expect("list").count(), 0);
}

#[tokio::test]
async fn an_interrupted_bench_leaves_nothing_behind() {
    let schema = Database::create().await;
    is_stopped_and_leaves_nothing(&schema, Signal::SIGINT).await;
    let own = on_a_server_that_lets_us().await;
    is_stopped_and_leaves_nothing(&own, Signal::SIGTERM).await;
}

async fn is_killed_and_cleaned_up_after(database: &Database) {
    let directory = tempfile::tempdir().expect("a directory");
    let killed = Running::start(database, directory.path(), LONG);
    underway(database).await;
    killed.signal(Signal::SIGKILL);
    killed.ended().await;
    assert!(database.count(LEFT).await > 0, "something has to be left for this test to mean anything");
    // The server has to notice that the lock's session is gone.
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND database = \
                 (SELECT oid FROM pg_database WHERE datname = current_database())";
    eventually("the lock is released", async || database.count(locks).await == 0).await;
    measured(database, &["curves", "--max-size", "4KiB"]).await;
    let again = ["curves", "--max-size", "4KiB", "--rounds", "1"];
    let output = Running::start(database, directory.path(), &again).ended().await;
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(std::fs::read_dir(directory.path()).expect("list").count(), 0, "files of the killed run");
}

#[tokio::test]
async fn the_next_bench_removes_what_a_killed_one_left() {
    is_killed_and_cleaned_up_after(&Database::create().await).await;
    is_killed_and_cleaned_up_after(&on_a_server_that_lets_us().await).await;
}

#[tokio::test]
async fn a_running_bench_is_left_alone_by_another() {
    let database = on_a_server_that_lets_us().await;
    let directory = tempfile::tempdir().expect("a directory");
    let running = Running::start(&database, directory.path(), LONG);
    underway(&database).await;
    let output = Running::start(&database, directory.path(), &["curves", "--max-size", "4KiB"]).ended().await;
    assert!(output.status.success(), "{}", text(&output));
    let databases = "SELECT count(*) FROM pg_database WHERE datname LIKE 'lobgate\\_bench\\_%'";
    assert_eq!(database.count(databases).await, 1, "the running bench keeps its database");
    running.signal(Signal::SIGINT);
    running.ended().await;
    assert_eq!(database.count(LEFT).await, 0);
}

#[tokio::test]
async fn a_bench_beside_a_gateway_touches_nothing_of_it() {
    let stage = Stage::start().await;
    let body = bytes(1, 100_000);
    stage.put("kept", &body).await;
    let state = "SELECT (SELECT count(*) FROM pg_largeobject_metadata) * 1000 + (SELECT count(*) FROM lobgate.content)
        + (SELECT count(*) FROM lobgate.removed) + (SELECT count(*) FROM lobgate.object)";
    let before = stage.database.count(state).await;
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["churn", "--cycles", "2", "--objects", "2", "--size", "100KiB"];
    let output = Running::start(&stage.database, directory.path(), &arguments).ended().await;
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(stage.database.count(state).await, before);
    assert_eq!(stage.get("kept").await, body);
}

#[tokio::test]
async fn reports_are_written_as_page_and_pictures() {
    let database = Database::create().await;
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["curves", "--max-size", "4KiB", "--rounds", "1", "--html", "report.html", "--svg", "plots"];
    let output = Running::start(&database, directory.path(), &arguments).ended().await;
    assert!(output.status.success() && text(&output).contains("put, MB/s"), "{}", text(&output));
    let page = std::fs::read_to_string(directory.path().join("report.html")).expect("the page");
    assert!(page.contains("<svg") && !page.contains("<script") && !page.contains("href="), "{page}");
    let picture = std::fs::read_to_string(directory.path().join("plots/curves-put.svg")).expect("a picture");
    assert!(picture.starts_with("<svg"), "{picture}");
}
