//! `lobgate drill`: what is broken on purpose costs nothing that was acknowledged, and where something does, it is found.

use std::path::Path;
use std::process::Output;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::bench::{LEFT, Running, on_a_server_that_lets_us, rows};
use crate::harness::server::{lobgate, text};
use crate::harness::{Database, database, eventually};

/// The name of a drill's scratch database.
const SCRATCH: &str = "SELECT datname::text FROM pg_database WHERE datname LIKE 'lobgate\\_bench\\_%'";
const LOADED: &str = "SELECT count(*) FROM lobgate.object";

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(output)))
}

/// Runs a short drill to its end, which is a clean one.
async fn drilled(database: &Database, arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let all = [arguments, &["--clients", "4", "--json"]].concat();
    let output = Running::start_command("drill", database, directory.path(), &all).ended().await;
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    assert_eq!(std::fs::read_dir(directory.path()).expect("list").count(), 0, "files left behind");
    assert_eq!(database.count(LEFT).await, 0, "{arguments:?} left something behind");
    let report = report(&output);
    assert_eq!(report["name"], arguments[0]);
    assert_nothing_lost(&report);
    report
}

fn assert_nothing_lost(report: &Value) {
    let verdict = &rows(report, "verdict")[0];
    for broken in ["lost", "wrong", "resurrected", "unreadable", "leaked", "problems"] {
        assert_eq!(verdict[broken], 0.0, "{broken} in {verdict}");
    }
    for counted in ["faults", "acknowledged", "keys"] {
        assert!(verdict[counted].as_f64().is_some_and(|number| number > 0.0), "{counted} in {verdict}");
    }
    assert_eq!(rows(report, "phases").len(), 3);
    assert!(rows(report, "wal")[0]["wal_per_byte"].as_f64().is_some_and(|ratio| ratio > 0.0), "{report}");
    assert!(report["shortfalls"].is_null(), "{report}");
}

#[tokio::test]
async fn terminated_sessions_cost_nothing_that_was_acknowledged() {
    let database = on_a_server_that_lets_us().await;
    let report = drilled(&database, &["backends", "--seconds", "1.5"]).await;
    let faults = &rows(&report, "faults")[0];
    assert!(faults["sessions"].as_f64() >= faults["blows"].as_f64(), "{faults}");
    assert!(faults["recovered_ms"].is_f64(), "{faults}");
}

#[tokio::test]
async fn killed_gateways_cost_nothing_that_was_acknowledged_and_a_foreign_server_is_not_touched() {
    let database = on_a_server_that_lets_us().await;
    let started = "SELECT extract(epoch FROM pg_postmaster_start_time())::bigint";
    let before = database.count(started).await;
    let report = drilled(&database, &["crash", "--rounds", "1"]).await;
    assert_eq!(database.count(started).await, before);
    let round = &rows(&report, "faults")[0];
    assert_eq!((&round["gateways"], &round["servers"]), (&2.0.into(), &0.0.into()), "{round}");
    assert!(round["gateways_ready_ms"].is_f64() && round["success_ms"].is_f64(), "{round}");
    assert!(report["findings"].to_string().contains("never touched"), "{report}");
}

#[tokio::test]
async fn an_outage_costs_nothing_that_was_acknowledged() {
    let database = on_a_server_that_lets_us().await;
    let report = drilled(&database, &["outage", "--seconds", "2.5"]).await;
    let faults = &rows(&report, "faults")[0];
    assert!(faults["refused"].as_f64().is_some_and(|count| count > 0.0), "{faults}");
    assert!(faults["refusal_p99_ms"].is_f64() && faults["recovered_ms"].is_f64(), "{faults}");
}

#[tokio::test]
async fn a_private_server_is_killed_and_recovers_everything() {
    let home = tempfile::Builder::new().prefix("lobgate-test-home-").tempdir().expect("a directory");
    let mut command = lobgate(&["drill", "crash", "--rounds", "1", "--clients", "4", "--json", "--data-dir"]);
    command.arg(home.path().join("data"));
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("a thread").expect("run the drill");
    assert!(output.status.success(), "{}", text(&output));
    let report = report(&output);
    assert_nothing_lost(&report);
    let round = &rows(&report, "faults")[0];
    assert_eq!(round["servers"], 1.0, "{round}");
    assert!(round["server_ready_ms"].is_f64() && round["server_success_ms"].is_f64(), "{round}");
}

/// Damages a drill's store behind the gateways' back, again and again until the drill ends.
async fn damaged(database: &Database, directory: &Path, damage: &str) -> Output {
    let arguments = ["backends", "--seconds", "1", "--clients", "4", "--json"];
    let running = Running::start_command("drill", database, directory, &arguments);
    let ended = running.ended();
    let damaging = async {
        loop {
            let name = database.superuser().await.query_opt(SCRATCH, &[]).await.expect("the databases");
            let url = name.map(|row| database.cluster.url(row.get(0)));
            let config = url.map(|url| url.parse::<tokio_postgres::Config>().expect("a URL"));
            // The database comes and goes, and sessions are terminated.
            if let Some(config) = config
                && let Ok((client, connection)) = config.connect(tokio_postgres::NoTls).await
            {
                let driving = tokio::spawn(connection);
                if client.query_one(LOADED, &[]).await.is_ok_and(|row| row.get::<_, i64>(0) > 10) {
                    let _ = client.batch_execute(damage).await;
                }
                driving.abort();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        output = ended => output,
        () = damaging => unreachable!("it goes on until the drill ends"),
    }
}

#[tokio::test]
async fn what_is_lost_changed_or_leaked_on_purpose_is_found() {
    let database = on_a_server_that_lets_us().await;
    for (damage, found) in [
        ("DELETE FROM lobgate.object", "lost"),
        ("UPDATE lobgate.content SET inline = set_byte(inline, 8, 255) WHERE length(inline) > 8", "wrong"),
        ("SELECT lo_from_bytea(0, 'stray')", "leaked"),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let output = damaged(&database, directory.path(), damage).await;
        assert_eq!(output.status.code(), Some(3), "{damage}: {}", text(&output));
        let report = report(&output);
        let verdict = &rows(&report, "verdict")[0];
        assert!(verdict[found].as_f64().is_some_and(|number| number > 0.0), "{damage}: {verdict}");
        let told = report["shortfalls"].to_string();
        assert!(told.contains(&format!("{found}: ")), "{damage}: {told}");
        assert_eq!(database.count(LEFT).await, 0, "{damage}: something is left behind");
    }
}

#[tokio::test]
async fn a_drill_that_is_stopped_leaves_nothing() {
    let database = on_a_server_that_lets_us().await;
    let directory = tempfile::tempdir().expect("a directory");
    for drill in [&["backends", "--seconds", "600"][..], &["crash", "--rounds", "500"], &["outage", "--seconds", "600"]]
    {
        let running = Running::start_command("drill", &database, directory.path(), drill);
        eventually("the drill is under way", async || {
            let Some(row) = database.superuser().await.query_opt(SCRATCH, &[]).await.expect("the databases") else {
                return false;
            };
            let scratch = database.cluster.superuser(row.get(0));
            let client = database::connect(&scratch).await;
            client.query_one(LOADED, &[]).await.is_ok_and(|row| row.get::<_, i64>(0) > 0)
        })
        .await;
        running.signal(Signal::SIGINT);
        let output = running.ended().await;
        assert_eq!(output.status.code(), Some(1), "{drill:?}: {}", text(&output));
        assert!(text(&output).contains("nothing is left"), "{drill:?}: {}", text(&output));
        assert_eq!(database.count(LEFT).await, 0, "{drill:?}");
    }
}

#[tokio::test]
async fn what_a_drill_cannot_do_is_said_in_a_sentence() {
    let database = Database::create().await;
    let url = database.url();
    for (arguments, code, said) in [
        (&["backends", "--seconds", "0"][..], 2, "from 0.5 to 3600"),
        (&["crash", "--rounds", "0"], 2, "1..=1000"),
        (&["outage", "--clients", "0"], 2, "--clients"),
        (&["outage", "--database-url", "postgres://u@a,b/d"], 2, "2 servers"),
        (&["backends", "--html", "/none/such.html"], 2, "--html"),
        (&["backends", "--seconds", "1", "--database-url", &url], 1, "CREATEDB"),
    ] {
        let output = lobgate(&[&["drill"], arguments].concat()).output().expect("run lobgate");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{arguments:?}: {}", text(&output));
    }
    for drill in ["backends", "crash", "outage"] {
        let help = text(&lobgate(&["drill", drill, "--help"]).output().expect("run lobgate"));
        assert!(help.contains("Example") && help.lines().count() < 40, "{} lines: {help}", help.lines().count());
    }
}
