//! Byte budgets: how much memory bodies may take at once, whoever they belong to.
//!
//! A permit is taken before the bytes are and travels with them, so that the sum of all buffers is bounded by
//! configuration, whatever clients do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::{ErrorKind, Result, StorageError};

/// Budgets count in KiB: a semaphore has fewer permits than memory has bytes.
const UNIT: u64 = 1024;

/// Memory to be shared.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    semaphore: Arc<Semaphore>,
    units: u32,
    wait: Duration,
    waiting: Arc<AtomicUsize>,
}

/// A share of a budget, given back when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    _permit: OwnedSemaphorePermit,
}

impl Budget {
    /// A budget of so many bytes; a share is waited for at most `wait`.
    #[must_use]
    pub(super) fn new(bytes: u64, wait: Duration) -> Self {
        let units = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4);
        let semaphore = Arc::new(Semaphore::new(units as usize));
        Self { semaphore, units, wait, waiting: Arc::default() }
    }

    /// Waits for a share. A request larger than the whole budget takes all of it.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] where none came free in time.
    pub(super) async fn take(&self, bytes: u64) -> Result<Permit> {
        let _waiting = Waiting::begin(&self.waiting);
        let acquire = Arc::clone(&self.semaphore).acquire_many_owned(self.share(bytes));
        match tokio::time::timeout(self.wait, acquire).await {
            Ok(Ok(permit)) => Ok(Permit { _permit: permit }),
            _ => Err(StorageError::new(ErrorKind::Busy, "no buffer memory became free in time")),
        }
    }

    /// Whether somebody waits for a share.
    #[must_use]
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Takes a share if it is free now.
    #[must_use]
    pub(super) fn try_take(&self, bytes: u64) -> Option<Permit> {
        Arc::clone(&self.semaphore).try_acquire_many_owned(self.share(bytes)).ok().map(|p| Permit { _permit: p })
    }

    fn share(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).clamp(1, self.units)
    }
}

/// Somebody waits, until this is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_spent_budget_is_busy_until_a_share_comes_back() {
        let budget = Budget::new(4 << 10, Duration::from_secs(1));
        let all = budget.take(1 << 30).await.unwrap();
        assert_eq!(budget.take(1).await.unwrap_err().kind(), ErrorKind::Busy);
        assert!(budget.try_take(1).is_none());
        drop(all);
        assert!(budget.take(1).await.is_ok());
    }
}
