//! Background work of a gateway: renewing its lease, reaping removed contents, expiring uploads, applying
//! lifecycle rules, vacuuming.
//!
//! Every gateway runs all of it; locks in the database see to it that one reaps at a time. Why a reader never meets a
//! hole is argued where it is decided, at `lobgate.reap` in the migrations; the part that lies with this process is in
//! `storage/running_reads.rs`. Work is paced by its own cost: after a round the reaper rests as long as the round took,
//! so that it never takes more than half of one connection's time.

mod lifecycle;
mod pace;
pub mod sweep;
mod trouble;
pub mod verify;

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::storage::maintenance::Reaped;
use crate::storage::{Lease, Storage};
use pace::Pace;
use trouble::Trouble;

/// Pages of large objects destroyed before they are vacuumed (128 MiB), and the least time between two vacuums: each
/// reads the index of all large objects.
const VACUUM_PAGES: u64 = 64 << 10;
const VACUUM_INTERVAL: Duration = Duration::from_secs(60);
/// Pause before a renewal that failed is tried again: reads stop when the lease runs out, and wait for it.
const RENEWAL_RETRY: Duration = Duration::from_millis(250);
/// Time between two looks for abandoned uploads, in rounds of the reaper.
const EXPIRY_ROUNDS: u32 = 30;
/// Time between two looks for buckets whose lifecycle rules are due, in rounds of the reaper.
const LIFECYCLE_ROUNDS: u32 = 10;
/// Uploads expired at once.
const EXPIRY_BATCH: u32 = 100;

/// What the background work needs to know.
#[derive(Clone, Debug)]
pub struct GcOptions {
    /// Time between two renewals of the lease, and between two looks for removed contents.
    pub interval: Duration,
    /// Large objects unlinked per transaction: each takes a slot of the server's lock table.
    pub batch: u32,
    /// Age at which an upload without activity is aborted.
    pub upload_expiry: Duration,
}

/// Starts the background work; it ends when `shutdown` is cancelled, the lease last.
pub fn start(storage: &Storage, lease: Lease, options: GcOptions, tasks: &TaskTracker, shutdown: &CancellationToken) {
    tasks.spawn(keep_lease(lease.clone(), options.interval, shutdown.clone()));
    let interval = options.interval * LIFECYCLE_ROUNDS;
    tasks.spawn(lifecycle::keep(storage.clone(), lease.clone(), interval, shutdown.clone()));
    let collector = Collector {
        storage: storage.clone(),
        lease,
        options,
        vacuum: Vacuum::default(),
        reaping: Trouble::with("destroying removed contents"),
        expiring: Trouble::with("aborting abandoned multipart uploads"),
    };
    tasks.spawn(collector.run(shutdown.clone()));
}

/// Renews a lease until told to stop. A renewal that fails is tried again soon; reads stop by themselves when the lease
/// has run out.
pub async fn keep_lease(lease: Lease, interval: Duration, shutdown: CancellationToken) {
    let mut trouble = Trouble::with("renewing the lease");
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => break,
            _ = ticks.tick() => {}
        }
        while let Err(error) = lease.renew().await {
            trouble.begins(&error);
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(interval.min(RENEWAL_RETRY)) => {}
            }
        }
        trouble.ends();
    }
}

struct Collector {
    storage: Storage,
    lease: Lease,
    options: GcOptions,
    vacuum: Vacuum,
    reaping: Trouble,
    expiring: Trouble,
}

impl Collector {
    async fn run(mut self, shutdown: CancellationToken) {
        let mut round = 0;
        let mut ticks = tokio::time::interval(self.options.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if self.lease.is_on_standby() {
                continue;
            }
            if round % EXPIRY_ROUNDS == 0 {
                self.expire().await;
            }
            round += 1;
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.reap() => {}
            }
            self.vacuum.run_if_due(&self.storage).await;
        }
    }

    async fn expire(&mut self) {
        match self.storage.expire_uploads(self.options.upload_expiry, EXPIRY_BATCH).await {
            Ok(aborted) => {
                self.expiring.ends();
                if aborted > 0 {
                    tracing::info!(aborted, "abandoned multipart uploads aborted");
                }
            }
            Err(error) => self.expiring.begins(&error),
        }
    }

    /// Reaps until nothing is left that may go.
    async fn reap(&mut self) {
        loop {
            let pace = Pace::begin();
            match self.storage.reap(self.options.batch).await {
                Ok(Some(reaped)) => {
                    self.reaping.ends();
                    self.vacuum.count(&reaped);
                    metrics::counter!("lobgate_reaped_contents_total").increment(reaped.contents);
                    metrics::counter!("lobgate_reaped_bytes_total").increment(reaped.bytes);
                    if reaped.seen == 0 {
                        return;
                    }
                    tracing::debug!(contents = reaped.contents, bytes = reaped.bytes, "removed contents destroyed");
                }
                Ok(None) => return,
                Err(error) => {
                    self.reaping.begins(&error);
                    return;
                }
            }
            pace.rest().await;
        }
    }
}

#[derive(Default)]
struct Vacuum {
    pages: u64,
    last: Option<Instant>,
    refused: bool,
}

impl Vacuum {
    fn count(&mut self, reaped: &Reaped) {
        self.pages += reaped.pages;
    }

    async fn run_if_due(&mut self, storage: &Storage) {
        let rested = self.last.is_none_or(|last| last.elapsed() >= VACUUM_INTERVAL);
        if self.refused || self.pages < VACUUM_PAGES || !rested {
            return;
        }
        let began = Instant::now();
        match storage.vacuum().await {
            Ok(()) => {
                tracing::info!(pages = self.pages, seconds = began.elapsed().as_secs(), "destroyed pages vacuumed")
            }
            Err(error) => {
                // Autovacuum does it too, later.
                tracing::warn!(%error, "large objects cannot be vacuumed by this role, which should own the database");
                self.refused = true;
            }
        }
        self.pages = 0;
        self.last = Some(Instant::now());
    }
}
