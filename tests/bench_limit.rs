//! `lobgate bench limit`: its rows have figures and verdicts, an endpoint that is wrong has none, and no gateway that it
//! started outlives it.

use std::path::Path;
use std::process::Output;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::bench::{LEFT, Running, on_a_server_that_lets_us, rows, underway};
use crate::harness::server::text;
use crate::harness::{Database, eventually};

/// As small as it goes.
const SMALL: &[&str] = &[
    "--quick",
    "--rounds",
    "1",
    "--seconds",
    "0.05",
    "--large",
    "2MiB",
    "--huge",
    "9MiB",
    "--rows",
    "1500",
    "--objects",
    "2000",
    "--parts",
    "10",
    "--streams",
    "2",
    "--stream-size",
    "3MiB",
    "--json",
];

/// Runs the rows to their end; the tests' server has no fsync, so it always finds fault.
async fn limit(database: &Database, arguments: &[&str]) -> (Value, Output) {
    let directory = tempfile::tempdir().expect("a directory");
    let all = [&["limit"], arguments, SMALL].concat();
    let output = Running::start(database, directory.path(), &all).ended().await;
    assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", text(&output));
    assert_eq!(std::fs::read_dir(directory.path()).expect("list").count(), 0, "files left behind");
    assert_eq!(database.count(LEFT).await, 0, "{arguments:?} left something behind");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", text(&output)));
    (report, output)
}

/// The rows have figures of ours, and verdicts that fit them.
async fn measures(only: &str, expected: &[&str]) {
    let database = on_a_server_that_lets_us().await;
    let (report, output) = limit(&database, &["--only", only]).await;
    let lines = rows(&report, "bars");
    for row in expected {
        let of_row: Vec<_> = lines.iter().filter(|line| line["row"] == *row).collect();
        assert!(!of_row.is_empty(), "no {row} in {report}");
        for line in of_row {
            assert!(line["ours"].as_f64().is_some_and(|figure| figure > 0.0), "{line}\n{}", text(&output));
            let verdict = line["verdict"].as_str().expect("a verdict");
            match line["theirs"].as_f64() {
                Some(theirs) => {
                    let ratio = line["ratio"].as_f64().expect("a ratio");
                    assert!((ratio - line["ours"].as_f64().expect("ours") / theirs).abs() < 1e-9, "{line}");
                    assert!(["ok", "short", "shown"].contains(&verdict), "{line}");
                }
                None => assert_eq!(verdict, "not measured", "{line}"),
            }
        }
    }
    let first = report["findings"][0].as_str().expect("a finding");
    assert!(first.starts_with("NOT DURABLE: the server runs with fsync off"), "{first}");
    assert!(!report["plots"].as_array().expect("plots").is_empty());
}

#[tokio::test]
async fn limit_measures_small_objects_and_reads_against_the_bare_server() {
    let expected = ["get-4k", "put-4k", "get-large", "get-large-x8", "get-cached-large", "get-cached-1m"];
    measures("get,put-4k", &expected).await;
}

#[tokio::test]
async fn limit_measures_writes_against_the_best_bare_way() {
    measures("put-1m,put-8m,put-huge", &["put-1m", "put-1m-x8", "put-8m", "put-8m-x8", "put-huge"]).await;
}

#[tokio::test]
async fn limit_measures_listings_and_growth() {
    let listings = ["list-page", "list-delimiter", "list-whole", "list-1000", "list-20-prefixes"];
    measures("list,growth", &[&listings[..], &["growth-get", "growth-put", "growth-list"]].concat()).await;
}

#[tokio::test]
async fn limit_measures_what_moves_no_bytes_and_the_process_itself() {
    let expected = ["delete-1000", "delete-large", "copy-large", "complete", "memory"];
    measures("delete,copy-large,complete,memory", &expected).await;
}

#[tokio::test]
async fn limit_measures_starts_with_a_private_server() {
    measures("start", &["start", "start-first"]).await;
}

#[tokio::test]
async fn limit_needs_a_role_that_may_create_databases() {
    let database = Database::create().await;
    let directory = tempfile::tempdir().expect("a directory");
    let output = Running::start(&database, directory.path(), &["limit", "--quick"]).ended().await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("CREATEDB"), "{}", text(&output));
    assert_eq!(database.count(LEFT).await, 0);
}

/// What a wrong endpoint answers.
#[derive(Clone, Copy)]
enum Wrong {
    /// 403 to everything.
    Forbidden,
    /// 200, and for every object as many bytes as were wanted, but not those that were put.
    Bytes,
}

/// An endpoint that is wrong; gives the value of `--peer`.
async fn wrong_endpoint(how: Wrong) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, how));
        }
    });
    format!("garage=http://127.0.0.1:{port},AK,some-hidden-secret")
}

async fn answer(stream: TcpStream, how: Wrong) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut line, mut length, mut first) = (String::new(), 0, String::new());
        while stream.read_line(&mut line).await? > 2 {
            if first.is_empty() {
                first = line.clone();
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().expect("a length");
            }
            line.clear();
        }
        if first.is_empty() {
            return Ok(());
        }
        stream.read_exact(&mut vec![0; length]).await?;
        let reply = match how {
            Wrong::Forbidden => "HTTP/1.1 403 Forbidden\r\ncontent-length: 6\r\n\r\ndenied".to_owned(),
            Wrong::Bytes if first.starts_with("GET") => {
                format!("HTTP/1.1 200 OK\r\ncontent-length: 4096\r\n\r\n{}", "w".repeat(4096))
            }
            Wrong::Bytes => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
        };
        stream.write_all(reply.as_bytes()).await?;
    }
}

#[tokio::test]
async fn an_endpoint_that_is_wrong_fails_its_rows() {
    let database = on_a_server_that_lets_us().await;
    for (how, why) in [(Wrong::Forbidden, "with 403"), (Wrong::Bytes, "gave other bytes than were put")] {
        let peer = wrong_endpoint(how).await;
        let (report, output) = limit(&database, &["--only", "get-4k,put-4k", "--peer", &peer]).await;
        for row in ["get-4k", "put-4k"] {
            let mut lines = rows(&report, "bars").iter().filter(|line| line["row"] == row);
            let line = lines.find(|line| line["against"] == "garage").expect("a line for the endpoint");
            assert_eq!(line["verdict"], "failed", "{line}");
            assert!(line["theirs"].is_null() && line["ours"].as_f64().is_some(), "{line}");
        }
        let told = report["shortfalls"].as_array().expect("shortfalls").iter().filter_map(Value::as_str);
        assert_eq!(told.filter(|text| text.contains("garage") && text.contains(why)).count(), 2, "{report}");
        assert!(!text(&output).contains("some-hidden-secret"), "{}", text(&output));
    }
}

/// Processes that a process started.
fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn is_gateway(pid: u32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.ends_with(b"bench\0gateway\0")
}

/// Stops a run by a signal while it measures; its gateway ends with it. Private servers of starts too.
async fn ends_with_its_gateway(database: &Database, directory: &Path, signal: Signal) -> Output {
    let arguments = ["limit", "--only", "get-4k", "--seconds", "600", "--quick", "--rounds", "1000"];
    let running = Running::start(database, directory, &arguments);
    underway(database).await;
    let parent = running.id();
    eventually("the gateway runs", async || children(parent).into_iter().any(is_gateway)).await;
    let gateways: Vec<u32> = children(parent).into_iter().filter(|pid| is_gateway(*pid)).collect();
    running.signal(signal);
    let output = running.ended().await;
    eventually("the gateway has ended", async || !gateways.iter().any(|pid| is_gateway(*pid))).await;
    output
}

#[tokio::test]
async fn no_gateway_outlives_the_bench() {
    let database = on_a_server_that_lets_us().await;
    let directory = tempfile::tempdir().expect("a directory");
    let interrupted = ends_with_its_gateway(&database, directory.path(), Signal::SIGINT).await;
    assert_eq!(interrupted.status.code(), Some(1), "{}", text(&interrupted));
    assert_eq!(database.count(LEFT).await, 0, "{}", text(&interrupted));
    ends_with_its_gateway(&database, directory.path(), Signal::SIGKILL).await;
    assert_eq!(std::fs::read_dir(directory.path()).expect("list").count(), 0);
}
