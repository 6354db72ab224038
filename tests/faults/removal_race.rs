//! Reaper, sweep and readers race on purpose, over two gateways of which one stands still past its lease again and again:
//! never a wrong byte, never a hole served as success, nothing left over.
//!
//! `CHAOS_SECONDS` makes it longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::inspect::{assert_consistent, assert_empty, large_objects, until_reclaimed};
use crate::harness::server::{run, text};
use crate::harness::{Gateway, RawRequest, Stage, bytes, eventually, path};

const SETTINGS: &[(&str, &str)] = &[
    ("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"),
    ("LOBGATE_STORAGE_READ_WINDOW", "64KiB"),
    ("LOBGATE_STORAGE_READ_AHEAD", "1"),
    ("LOBGATE_CACHE_MEMORY", "0"),
    ("LOBGATE_GC_INTERVAL", "100ms"),
    ("LOBGATE_GC_LEASE", "1s"),
];
const KEYS: u64 = 6;
/// Several windows each, so that a read lasts.
const LENGTH: usize = 700_000;

fn key(rng: &mut fastrand::Rng) -> String {
    format!("k{}", rng.u64(..KEYS))
}

/// Replaces and deletes objects, each body another one.
async fn write(endpoint: String, next: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    let mut rng = fastrand::Rng::new();
    while !stop.load(Ordering::Relaxed) {
        let target = path(&key(&mut rng));
        if rng.u8(..4) == 0 {
            let deleted = RawRequest::new(&endpoint, "DELETE", &target).send().await;
            assert_eq!(deleted.status, 204, "{}", deleted.text());
        } else {
            let value = next.fetch_add(1, Ordering::Relaxed);
            let put = RawRequest::new(&endpoint, "PUT", &target).header("x-amz-meta-value", &value.to_string());
            let stored = put.body(bytes(value, LENGTH)).send().await;
            assert_eq!(stored.status, 200, "{}", stored.text());
        }
    }
}

/// Reads at a leisurely pace. Gives how many reads were whole, and how many broke off.
async fn read(endpoint: String, stop: Arc<AtomicBool>) -> (u64, u64) {
    let (mut rng, mut whole, mut broken) = (fastrand::Rng::new(), 0, 0);
    while !stop.load(Ordering::Relaxed) {
        let mut connection = RawRequest::new(&endpoint, "GET", &path(&key(&mut rng))).open().await;
        let head = connection.read_head().await;
        if head.status != 200 {
            assert!(matches!(head.status, 404 | 500 | 503), "{}", head.status);
            continue;
        }
        let value: u64 = head.header("x-amz-meta-value").and_then(|value| value.parse().ok()).expect("a number");
        let data = bytes(value, LENGTH);
        let mut got = Vec::new();
        while got.len() < LENGTH {
            let piece = connection.read_some(50_000.min(LENGTH - got.len())).await;
            if piece.is_empty() {
                break;
            }
            got.extend(piece);
            tokio::time::sleep(Duration::from_millis(rng.u64(0..30))).await;
        }
        assert!(got == data[..got.len()], "WRONG BYTES of body {value}");
        *(if got.len() == LENGTH { &mut whole } else { &mut broken }) += 1;
    }
    (whole, broken)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reaper_sweep_and_readers_race_and_no_read_sees_a_hole() {
    let stage = Stage::with(SETTINGS).await;
    let twin = Gateway::start(&stage.database.url(), SETTINGS).await;
    let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(1)));
    let steady = stage.gateway.endpoint.clone();
    let writers: Vec<_> =
        (0..2).map(|_| tokio::spawn(write(steady.clone(), Arc::clone(&next), Arc::clone(&stop)))).collect();
    let readers = |endpoint: &str| -> Vec<_> {
        (0..5).map(|_| tokio::spawn(read(endpoint.to_owned(), Arc::clone(&stop)))).collect()
    };
    let (of_steady, of_frozen) = (readers(&steady), readers(&twin.endpoint));
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("orphans.json").to_str().expect("a path").to_owned();
    let (begun, seconds) = (Instant::now(), super::setting("CHAOS_SECONDS", 8));
    let mut freezes = 0;
    while begun.elapsed().as_secs() < seconds {
        twin.signal(Signal::SIGSTOP);
        let reported = run(&stage.database.url(), &["sweep", "report", "--output", &report]).await;
        assert!(reported.status.success(), "{}", text(&reported));
        let purged = run(&stage.database.url(), &["sweep", "purge", "--report", &report]).await;
        assert!(purged.status.success(), "{}", text(&purged));
        // Longer than the lease: the reaper may go on without it.
        tokio::time::sleep(Duration::from_millis(1300)).await;
        twin.signal(Signal::SIGCONT);
        freezes += 1;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("a writer");
    }
    let sum = async |readers: Vec<tokio::task::JoinHandle<(u64, u64)>>| {
        let mut all = (0, 0);
        for reader in readers {
            let (whole, broken) = reader.await.expect("a reader");
            all = (all.0 + whole, all.1 + broken);
        }
        all
    };
    let (steady, frozen) = (sum(of_steady).await, sum(of_frozen).await);
    eprintln!(
        "{} bodies; reads whole and broken off: {steady:?}, and {frozen:?} through a gateway frozen {freezes} times",
        next.load(Ordering::Relaxed)
    );
    assert_eq!(steady.1, 0, "a gateway that keeps its lease finishes every read");
    assert!(steady.0 > 0 && frozen.0 > 0);
    until_reclaimed(&stage.database).await;
    assert_consistent(&stage.database).await;
    let owned = "SELECT count(*) FROM lobgate.content WHERE loid IS NOT NULL";
    assert_eq!(large_objects(&stage.database).await, stage.database.count(owned).await);
    for number in 0..KEYS {
        eventually("it is deleted", || async {
            stage.request("DELETE", &path(&format!("k{number}"))).send().await.status == 204
        })
        .await;
    }
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}
