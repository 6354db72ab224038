//! Which reads run here, told to the reaper as one snapshot that is older than all of them.
//!
//! Time is cut into epochs. An epoch begins with a snapshot fetched from the server; a read belongs to the epoch that
//! is current when it begins, which is before its locate query is sent: so its locate query sees everything that the
//! epoch's snapshot sees. The bound that this instance publishes is the snapshot of its oldest epoch with a read still
//! running, or of the current one. While a read runs, its epoch stays, and no fresher snapshot is published.
//!
//! The lease: a published bound is believed for a limited time only, by the server's clock. An instance that could not
//! renew it stops its reads before that time has passed since the last renewal was *sent*, by its own monotonic clock:
//! durations are compared, clocks never are.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::error::{ErrorKind, Result, StorageError};

/// Reads of this instance. Shared by whoever begins reads and by the heartbeat that publishes the bound.
#[derive(Debug)]
pub struct RunningReads {
    state: Mutex<State>,
    lease: Duration,
    /// Told of every renewal.
    renewal: Notify,
}

/// How long a read waits for a lease that has run out to be renewed: a database that restarts is back by then.
const RENEWAL_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct State {
    current: Arc<Epoch>,
    /// Older epochs, oldest first; those at the front are dropped once no read holds them.
    older: VecDeque<Arc<Epoch>>,
    /// When the last renewal that succeeded was sent.
    renewed: Instant,
    /// How often the lease has been lost and found again.
    generation: u64,
}

#[derive(Debug)]
struct Epoch {
    snapshot: String,
}

/// A read under way. It holds off the reaper until it is dropped.
#[derive(Clone, Debug)]
pub struct ReadGuard {
    reads: Arc<RunningReads>,
    /// Of the lease when the read began: the reaper knew of it without a gap only in this one.
    generation: u64,
    _epoch: Arc<Epoch>,
}

impl RunningReads {
    /// No reads yet; `snapshot` was taken by the registration sent at `sent`.
    #[must_use]
    pub fn new(snapshot: String, lease: Duration, sent: Instant) -> Self {
        let state =
            State { current: Arc::new(Epoch { snapshot }), older: VecDeque::new(), renewed: sent, generation: 0 };
        Self { state: Mutex::new(state), lease, renewal: Notify::new() }
    }

    /// Begins a read; call it before the locate query is sent. Where the lease has run out, waits for its renewal.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] where that takes too long.
    pub async fn begin(self: &Arc<Self>) -> Result<ReadGuard> {
        if let Some(guard) = self.try_begin() {
            return Ok(guard);
        }
        let renewed = async {
            loop {
                // Listening begins before the look, so that a renewal in between is not missed.
                let renewal = self.renewal.notified();
                if let Some(guard) = self.try_begin() {
                    return guard;
                }
                renewal.await;
            }
        };
        tokio::time::timeout(RENEWAL_WAIT, renewed)
            .await
            .map_err(|_| StorageError::new(ErrorKind::Unavailable, "the lease of this gateway could not be renewed"))
    }

    /// Whether reads may begin.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        self.holds_lease(&self.state())
    }

    fn try_begin(self: &Arc<Self>) -> Option<ReadGuard> {
        let state = self.state();
        let guard =
            || ReadGuard { reads: Arc::clone(self), generation: state.generation, _epoch: Arc::clone(&state.current) };
        self.holds_lease(&state).then(guard)
    }

    /// The snapshot to publish.
    #[must_use]
    pub fn bound(&self) -> String {
        let mut state = self.state();
        state.drop_finished();
        state.older.front().unwrap_or(&state.current).snapshot.clone()
    }

    /// Begins a new epoch: the bound was published by a renewal sent at `sent`, which answered with a fresh snapshot.
    pub fn renewed(&self, snapshot: String, sent: Instant) {
        let mut state = self.state();
        if !self.holds_lease(&state) {
            state.generation += 1;
        }
        state.renewed = sent;
        if state.current.snapshot != snapshot {
            let finished = std::mem::replace(&mut state.current, Arc::new(Epoch { snapshot }));
            state.older.push_back(finished);
            state.drop_finished();
        }
        drop(state);
        self.renewal.notify_waiters();
    }

    fn holds_lease(&self, state: &State) -> bool {
        state.renewed.elapsed() < self.lease
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn drop_finished(&mut self) {
        while self.older.front().is_some_and(|epoch| Arc::strong_count(epoch) == 1) {
            self.older.pop_front();
        }
    }
}

impl ReadGuard {
    /// Whether the read may go on.
    ///
    /// # Errors
    /// [`ErrorKind::ReadInterrupted`] where the lease has run out since it began, found again or not: the reaper may have
    /// worked without knowing of this read.
    pub fn check(&self) -> Result<()> {
        let state = self.reads.state();
        let unbroken = self.reads.holds_lease(&state) && state.generation == self.generation;
        drop(state);
        if unbroken { Ok(()) } else { Err(ErrorKind::ReadInterrupted.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads() -> Arc<RunningReads> {
        Arc::new(RunningReads::new("1:1:".into(), Duration::from_secs(30), Instant::now()))
    }

    #[tokio::test]
    async fn a_read_that_has_not_come_back_holds_the_bound() {
        let reads = reads();
        let pending = reads.begin().await.unwrap();
        reads.renewed("5:5:".into(), Instant::now());
        let later = reads.begin().await.unwrap();
        reads.renewed("9:9:".into(), Instant::now());
        assert_eq!(reads.bound(), "1:1:");
        drop(pending);
        assert_eq!(reads.bound(), "5:5:");
        drop(later);
        assert_eq!(reads.bound(), "9:9:");
    }

    #[tokio::test]
    async fn a_finished_younger_read_does_not_lift_the_bound_of_an_older_one() {
        let reads = reads();
        let old = reads.begin().await.unwrap();
        reads.renewed("5:5:".into(), Instant::now());
        drop(reads.begin().await.unwrap());
        reads.renewed("9:9:".into(), Instant::now());
        assert_eq!(reads.bound(), "1:1:");
        drop(old);
        assert_eq!(reads.bound(), "9:9:");
    }

    #[tokio::test(start_paused = true)]
    async fn reads_stop_when_the_lease_runs_out_and_go_on_when_it_is_renewed() {
        let reads = reads();
        let read = reads.begin().await.unwrap();
        tokio::time::advance(Duration::from_secs(31)).await;
        assert_eq!(read.check().unwrap_err().kind(), ErrorKind::ReadInterrupted);
        assert_eq!(reads.begin().await.unwrap_err().kind(), ErrorKind::Unavailable);
        reads.renewed("2:2:".into(), Instant::now());
        assert_eq!(read.check().unwrap_err().kind(), ErrorKind::ReadInterrupted, "the gap is not forgotten");
        assert!(reads.begin().await.is_ok());
    }
}
