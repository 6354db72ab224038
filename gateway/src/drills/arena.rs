//! Where a drill takes place: gateways as processes on a scratch database, clients that load them, a way to the server.
//!
//! The gateways are this binary with the operator's settings, but for those that make a drill short: bodies are streamed
//! from [`STREAMED_FROM`] on, so that no client needs 16 MiB to see it; the reaper looks often, and where gateways are killed
//! their lease is short, so that what they held is reclaimed within seconds; pools are small, so that two gateways fit beside
//! a third.
//! Invariant: an arena that is dropped stops its clients and its gateways, in this order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;
use tokio_postgres::Client as Session;

use crate::bench::lab::Progress;
use crate::bench::limit::endpoint::Endpoint;
use crate::bench::limit::gateway::{Gateway, Plan};
use crate::bench::scratch::Scratch;
use crate::config::{Config, format_size};
use crate::db::Target;

use super::body::Sizes;
use super::client::Client;
use super::ledger::Ledger;
use super::record::Record;
use super::sender::Doors;

/// Bodies beyond this are streamed, unless they lie in their row.
const STREAMED_FROM: u64 = 1 << 20;
/// Longest heartbeat of a gateway, and longest lease of one that will be killed.
const INTERVAL: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(5);
/// Connections of a gateway.
const POOL: usize = 8;
const WRITER_POOL: usize = 4;
/// A step of the progress bar.
const TICK: Duration = Duration::from_millis(100);
/// How long the server is waited for.
const SERVER_PATIENCE: Duration = Duration::from_secs(1800);
/// Between two tries.
const SERVER_PAUSE: Duration = Duration::from_millis(50);

/// The means of a drill.
pub(super) struct Arena<'a> {
    /// Settings of the gateways.
    pub(super) config: Config,
    /// URL of the scratch database, past any proxy.
    pub(super) url: String,
    pub(super) scratch: &'a Scratch,
    pub(super) progress: Progress,
    pub(super) doors: Doors,
    /// URL that the gateways have.
    through: String,
    gateways: Vec<Option<Gateway>>,
    bucket: String,
}

/// Clients at work; dropping it stops them.
pub(super) struct Load {
    clients: JoinSet<(Record, Vec<Ledger>)>,
    stop: Arc<AtomicBool>,
}

/// The settings of a drill's gateways; `mortal` where they will be killed.
pub(super) fn settings(config: &Config, mortal: bool) -> Config {
    let mut config = config.clone();
    config.gc.interval = config.gc.interval.min(INTERVAL);
    if mortal {
        config.gc.lease = config.gc.lease.min(LEASE).max(3 * config.gc.interval);
    }
    config.database.pool_size = config.database.pool_size.min(POOL);
    config.database.writer_pool_size = config.database.writer_pool_size.min(WRITER_POOL);
    let storage = &mut config.storage;
    storage.buffer_max = storage.buffer_max.min(STREAMED_FROM.max(storage.inline_max));
    // Requests are sent over plain HTTP on the loopback.
    config.tls = crate::config::TlsConfig::default();
    config
}

impl<'a> Arena<'a> {
    /// An arena whose gateways are all down.
    pub(super) fn new(config: Config, scratch: &'a Scratch, urls: (String, String), gateways: usize) -> Self {
        let (url, through) = urls;
        Self {
            config,
            url,
            scratch,
            progress: Progress::new(),
            doors: Doors::new(gateways),
            through,
            gateways: (0..gateways).map(|_| None).collect(),
            bucket: "lobgate-drill".to_owned(),
        }
    }

    /// Starts the gateways that are down, side by side, and says how long the slowest took.
    ///
    /// # Errors
    /// One does not serve.
    pub(super) async fn start(&mut self) -> anyhow::Result<Duration> {
        let plan = Plan::on_database(&self.config, self.through.clone());
        let down: Vec<usize> = (0..self.gateways.len()).filter(|at| self.gateways[*at].is_none()).collect();
        let starting = down.iter().map(|_| Gateway::start(&plan));
        let mut slowest = Duration::ZERO;
        for (at, started) in down.iter().zip(futures::future::join_all(starting).await) {
            let gateway = started?;
            slowest = slowest.max(gateway.took());
            self.doors.set(*at, Some(Endpoint::find(gateway.peer(), &self.bucket).await?));
            self.gateways[*at] = Some(gateway);
        }
        Ok(slowest)
    }

    /// Makes the bucket.
    ///
    /// # Errors
    /// No gateway is up, or it refused.
    pub(super) async fn create_bucket(&self) -> anyhow::Result<()> {
        let gateway = self.gateways.iter().flatten().next().context("no gateway is up")?;
        Endpoint::find(gateway.peer(), &self.bucket).await?.talk().await?.create_bucket().await
    }

    /// Kills all gateways, and says how many that were.
    ///
    /// # Errors
    /// One can't be killed.
    pub(super) async fn kill(&mut self) -> anyhow::Result<u64> {
        let running: Vec<Gateway> = self.gateways.iter_mut().filter_map(Option::take).collect();
        let count = running.len() as u64;
        let killed = futures::future::join_all(running.into_iter().map(Gateway::kill)).await;
        for at in 0..self.doors.count() {
            self.doors.set(at, None);
        }
        killed.into_iter().collect::<anyhow::Result<()>>()?;
        Ok(count)
    }

    /// Sets clients to work.
    pub(super) fn load(&self, clients: u16) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let sizes = Sizes::of(&self.config.storage);
        let mut set = JoinSet::new();
        for number in 0..clients {
            set.spawn(Client::new(number, sizes, &self.doors).run(Arc::clone(&stop)));
        }
        Load { clients: set, stop }
    }

    /// Announces how long something will take.
    pub(super) fn expect(&self, time: Duration) {
        self.progress.expect(ticks(time));
    }

    /// Lets time pass, which is what a drill is made of.
    pub(super) async fn pass(&self, time: Duration) {
        for _ in 0..ticks(time) {
            tokio::time::sleep(TICK.min(time)).await;
            self.progress.step();
        }
    }

    /// A session on the scratch database, once the server takes one.
    ///
    /// # Errors
    /// It takes none for half an hour.
    pub(super) async fn session(&self) -> anyhow::Result<Session> {
        let target = Target::parse(&self.url)?;
        let begun = Instant::now();
        loop {
            match target.connect(self.config.database.connect_timeout).await {
                Ok(session) => return Ok(session),
                Err(error) if begun.elapsed() > SERVER_PATIENCE => return Err(error.into()),
                Err(_) => tokio::time::sleep(SERVER_PAUSE).await,
            }
        }
    }

    /// Bytes of WAL that the server has written since it was made.
    ///
    /// # Errors
    /// The statement failed.
    pub(super) async fn wal_written(&self) -> anyhow::Result<u64> {
        let position = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
        let bytes: i64 = self.session().await?.query_one(position, &[]).await?.get(0);
        Ok(u64::try_from(bytes)?)
    }

    /// How the gateways were set, sentence by sentence.
    pub(super) fn describe(&self) -> Vec<String> {
        let config = &self.config;
        vec![
            format!(
                "{} gateways with your settings, but at most {} + {} connections each, a heartbeat of {:?} and a lease of {:?}; \
                 bodies beyond {} are streamed.",
                self.gateways.len(),
                config.database.pool_size,
                config.database.writer_pool_size,
                config.gc.interval,
                config.gc.lease,
                format_size(config.storage.buffer_max),
            ),
            "Each client writes keys of its own and checks every answer; a GET is compared byte by byte.".to_owned(),
            "At the end every key is read again, lobgate verify's examination is made, and large objects are counted \
             against rows."
                .to_owned(),
        ]
    }
}

impl Load {
    /// Lets the clients finish what they are at, and collects what they noted.
    ///
    /// # Errors
    /// One of them failed.
    pub(super) async fn finish(mut self) -> anyhow::Result<(Record, Vec<Ledger>)> {
        self.stop.store(true, Ordering::Relaxed);
        let (mut record, mut ledgers) = (Record::default(), Vec::new());
        while let Some(ended) = self.clients.join_next().await {
            let (noted, keys) = ended.context("a client of the drill failed")?;
            record.extend(noted);
            ledgers.extend(keys);
        }
        Ok((record, ledgers))
    }
}

fn ticks(time: Duration) -> usize {
    usize::try_from(time.as_millis().div_ceil(TICK.as_millis().max(1))).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drill_is_quick_whatever_is_set() {
        let quick = settings(&Config::default(), true);
        assert_eq!((quick.storage.buffer_max, quick.gc.lease), (STREAMED_FROM, LEASE));
        let mut slow = Config::default();
        slow.storage.inline_max = 1 << 20;
        slow.storage.buffer_max = 1 << 20;
        slow.gc.interval = Duration::from_millis(100);
        slow.gc.lease = Duration::from_millis(300);
        let kept = settings(&slow, true);
        assert_eq!(settings(&Config::default(), false).gc.lease, Config::default().gc.lease);
        assert_eq!((kept.storage.buffer_max, kept.gc.lease), (1 << 20, Duration::from_millis(300)));
    }

    #[test]
    fn time_is_cut_into_ticks() {
        assert_eq!([0, 1, 100, 101].map(|ms| ticks(Duration::from_millis(ms))), [0, 1, 1, 2]);
    }
}
