//! Load: many connections that do the same over and over for a while, at an endpoint or at the database.
//!
//! Requests to endpoints are sent by two threads of their own, whatever the machine has: a load generator must not be what
//! is measured. What is under way when the time is up is waited for and counts, with the time it takes: so large requests
//! are not cut off, and every side is treated alike.
//! Invariant: a run without an error has seen a 2xx status and the expected length of every single response.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

use super::super::measure::{Samples, megabytes_per_second, per_second};
use super::connection::{Body, Connection, Upload};
use super::endpoint::shown;
use super::http::Reply;

/// Threads that send requests.
const THREADS: usize = 2;
/// Status of a refusal for want of room.
const SLOW_DOWN: u16 = 503;
/// Until it is tried again.
const PAUSE: Duration = Duration::from_millis(300);
/// How long it is tried.
const PATIENCE: Duration = Duration::from_secs(1800);

/// The threads that send requests.
pub(in super::super) struct Crew(Option<Runtime>);

impl Crew {
    pub(super) fn new() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    fn handle(&self) -> anyhow::Result<&Handle> {
        self.0.as_ref().map(Runtime::handle).context("the load generator has ended")
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Waiting for threads is not allowed where this is dropped.
            runtime.shutdown_background();
        }
    }
}

/// When a run ends: at the first of the two.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Until {
    /// No operation begins later.
    pub(in super::super) time: Duration,
    /// No more operations begin.
    pub(in super::super) operations: u64,
}

impl Until {
    /// As many as can be done in a time.
    pub(super) fn time(seconds: f64) -> Self {
        Self { time: Duration::from_secs_f64(seconds), operations: u64::MAX }
    }

    /// A number of operations.
    pub(super) fn operations(count: u64) -> Self {
        Self { time: Duration::from_secs(3600), operations: count }
    }
}

/// What was done.
#[derive(Debug, Default)]
pub(in super::super) struct Run {
    operations: u64,
    bytes: u64,
    elapsed: Duration,
    samples: Samples,
}

impl Run {
    /// Operations in a second.
    pub(super) fn rate(&self) -> f64 {
        per_second(self.operations, self.elapsed)
    }

    /// Megabytes in a second.
    pub(super) fn speed(&self) -> f64 {
        megabytes_per_second(self.bytes, self.elapsed)
    }

    /// Milliseconds of an operation, the median.
    pub(super) fn median(&self) -> anyhow::Result<f64> {
        self.samples.p50().context("nothing was measured")
    }
}

/// The heads of the requests of a run.
#[derive(Clone)]
pub(in super::super) enum Heads {
    /// These, in turns.
    Turns(Arc<[Bytes]>),
    /// Each once, never again.
    Fresh(Arc<Fresh>),
}

/// Heads that are made from a number which no other request has.
pub(in super::super) struct Fresh {
    next: AtomicU64,
    make: Box<dyn Fn(u64) -> Bytes + Send + Sync>,
}

impl Heads {
    /// Heads made from numbers that are never used twice.
    pub(super) fn fresh(make: impl Fn(u64) -> Bytes + Send + Sync + 'static) -> Self {
        Self::Fresh(Arc::new(Fresh { next: AtomicU64::new(0), make: Box::new(make) }))
    }

    /// The head of an operation of a run.
    fn take(&self, number: u64, shared: &Shared) -> Bytes {
        match self {
            Self::Turns(heads) => heads.get(at(number) % heads.len().max(1)).cloned().unwrap_or_default(),
            Self::Fresh(fresh) => {
                let prepared = shared.prepared.get(at(number)).cloned();
                prepared.unwrap_or_else(|| (fresh.make)(shared.first + number))
            }
        }
    }
}

/// Requests to an endpoint.
#[derive(Clone)]
pub(in super::super) struct Requests {
    /// Name of the endpoint, for errors.
    pub(in super::super) name: String,
    pub(in super::super) address: SocketAddr,
    pub(in super::super) heads: Heads,
    pub(in super::super) body: Upload,
    /// Bytes that every response has.
    pub(in super::super) expected: Option<u64>,
    /// Whether a request is sent again where the server asks to slow down, as every client does.
    pub(in super::super) patient: bool,
}

/// What the workers of a run share.
struct Shared {
    started: Instant,
    until: Until,
    begun: AtomicU64,
    first: u64,
    prepared: Vec<Bytes>,
}

impl Shared {
    /// The number of the next operation, if there is to be one.
    fn next(&self, done: bool) -> Option<u64> {
        // Each worker has at least one, that a slow side has a figure too.
        if done && self.started.elapsed() >= self.until.time {
            return None;
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        (number < self.until.operations).then_some(number)
    }
}

impl Requests {
    /// Sends requests over some connections; `prepared` of them are signed before the clock starts.
    ///
    /// # Errors
    /// A request failed: the first failure ends the run.
    pub(super) async fn run(
        &self,
        crew: &Crew,
        connections: usize,
        until: Until,
        prepared: u64,
    ) -> anyhow::Result<Run> {
        let handle = crew.handle()?;
        let mut open = Vec::with_capacity(connections);
        for _ in 0..connections {
            let opening = handle.spawn(Connection::open(self.address)).await?;
            open.push(opening.with_context(|| format!("{} takes no connection", self.name))?);
        }
        let (first, prepared) = match &self.heads {
            Heads::Turns(_) => (0, Vec::new()),
            Heads::Fresh(fresh) => {
                let first = fresh.next.load(Ordering::Relaxed);
                (first, (first..first + prepared).map(|number| (fresh.make)(number)).collect())
            }
        };
        let shared = Arc::new(Shared { started: Instant::now(), until, begun: AtomicU64::new(0), first, prepared });
        let mut workers = JoinSet::new();
        for connection in open {
            let (requests, shared) = (self.clone(), Arc::clone(&shared));
            workers.spawn_on(async move { requests.work(connection, &shared).await }, handle);
        }
        let run = gather(workers, shared.started).await;
        if let Heads::Fresh(fresh) = &self.heads {
            fresh.next.store(first + shared.begun.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        run
    }

    async fn work(mut self, mut connection: Connection, shared: &Shared) -> anyhow::Result<Run> {
        let mut run = Run::default();
        let mut kept = Vec::new();
        while let Some(number) = shared.next(run.operations > 0) {
            let head = self.heads.take(number, shared);
            let begun = Instant::now();
            // Only the bodies of requests that store are short enough to be kept at no cost.
            let keep = (self.body.len() > 0).then_some(&mut kept);
            let reply = if self.patient {
                self.insist(&mut connection, &head, &mut kept).await
            } else {
                connection.exchange(&head, Body::Stamped(&mut self.body), keep).await
            };
            let reply = reply.with_context(|| format!("{} broke off", self.name))?;
            run.samples.push(begun.elapsed());
            let (name, status) = (&self.name, reply.status);
            anyhow::ensure!((200..300).contains(&status), "{name} answered with {status}: {}", shown(&kept));
            kept.clear();
            let wrong = self.expected.is_some_and(|expected| expected != reply.bytes);
            anyhow::ensure!(!wrong, "{name} answered with {} bytes instead of {:?}", reply.bytes, self.expected);
            run.operations += 1;
            run.bytes += reply.bytes + self.body.len();
        }
        Ok(run)
    }

    /// Sends a request until it is not refused for want of room.
    async fn insist(&mut self, connection: &mut Connection, head: &[u8], kept: &mut Vec<u8>) -> io::Result<Reply> {
        let begun = Instant::now();
        loop {
            kept.clear();
            // Long responses are no errors and are not kept.
            let keep = (self.body.len() > 0).then_some(&mut *kept);
            let outcome = connection.exchange(head, Body::Stamped(&mut self.body), keep).await;
            let refused = match &outcome {
                Ok(reply) => reply.status == SLOW_DOWN,
                // The refusal of an upload is lost where the server closes before it has read all of it.
                Err(error) => matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe),
            };
            if !refused || begun.elapsed() > PATIENCE {
                return outcome;
            }
            tokio::time::sleep(PAUSE).await;
            *connection = Connection::open(self.address).await?;
        }
    }
}

/// Lets each session do the same over and over; an operation gives its bytes.
///
/// # Errors
/// An operation failed.
pub(super) async fn on_sessions<S, O, F>(sessions: &[Arc<S>], until: Until, operation: O) -> anyhow::Result<Run>
where
    S: Send + Sync + 'static,
    O: Fn(Arc<S>, u64) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = anyhow::Result<u64>> + Send,
{
    let (begun, prepared) = (AtomicU64::new(0), Vec::new());
    let shared = Arc::new(Shared { started: Instant::now(), until, begun, first: 0, prepared });
    let mut workers = JoinSet::new();
    for session in sessions {
        let (session, shared, operation) = (Arc::clone(session), Arc::clone(&shared), operation.clone());
        workers.spawn(async move {
            let mut run = Run::default();
            while let Some(number) = shared.next(run.operations > 0) {
                let begun = Instant::now();
                run.bytes += operation(Arc::clone(&session), number).await?;
                run.samples.push(begun.elapsed());
                run.operations += 1;
            }
            anyhow::Ok(run)
        });
    }
    gather(workers, shared.started).await
}

async fn gather(mut workers: JoinSet<anyhow::Result<Run>>, started: Instant) -> anyhow::Result<Run> {
    let mut all = Run::default();
    while let Some(ended) = workers.join_next().await {
        let run = ended??;
        all.operations += run.operations;
        all.bytes += run.bytes;
        all.samples.extend(run.samples);
    }
    all.elapsed = started.elapsed();
    Ok(all)
}

/// A number as an index.
pub(super) fn at(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
