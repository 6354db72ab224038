//! What was fetched ahead of clients, so that it can be taken back from those that do not read.
//!
//! A window fetched ahead holds its share of the download budget. A client that stands still keeps it for as long as it is
//! waited for, and a few of them would keep everybody else from reading. So whoever waits for memory takes back what has lain
//! ready for a while; its reader fetches it again when its client goes on. Invariant: a slot is emptied once, by its reader
//! or by somebody who needs the memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// A window that has been fetched for so long without being taken is one of a client that does not read.
const IDLE: Duration = Duration::from_secs(1);
/// Fewest entries that are looked through for those that are gone.
const LEAST_PRUNED: usize = 256;

/// A place for a window on its way.
pub(super) type Slot<F> = Arc<Mutex<Option<F>>>;

/// All windows fetched ahead.
pub(super) struct ReadAhead<F>(Mutex<Slots<F>>);

struct Slots<F> {
    /// In the order in which they were begun.
    by_age: VecDeque<(Instant, Weak<Mutex<Option<F>>>)>,
    prune_at: usize,
}

impl<F> ReadAhead<F> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Slots { by_age: VecDeque::new(), prune_at: LEAST_PRUNED }))
    }

    /// Keeps a window for its reader.
    pub(super) fn hold(&self, fetch: F) -> Slot<F> {
        let slot = Arc::new(Mutex::new(Some(fetch)));
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.by_age.len() >= slots.prune_at {
            slots.by_age.retain(|(_, slot)| slot.strong_count() > 0);
            slots.prune_at = (2 * slots.by_age.len()).max(LEAST_PRUNED);
        }
        slots.by_age.push_back((Instant::now(), Arc::downgrade(&slot)));
        slot
    }

    /// Takes back what has lain ready for too long.
    pub(super) fn reclaim(&self) {
        let mut idle = Vec::new();
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, slot)) = slots.by_age.pop_front_if(|(since, _)| since.elapsed() >= IDLE) {
            idle.extend(slot.upgrade().and_then(|slot| take(&slot)));
        }
        drop(slots);
        // Windows are given up, and fetches with them, under no lock.
        drop(idle);
    }
}

/// Empties a slot; nothing where that has been done.
pub(super) fn take<F>(slot: &Slot<F>) -> Option<F> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_lies_ready_is_taken_back_after_a_while_and_once() {
        let ahead = ReadAhead::new();
        let [old, taken] = [ahead.hold(1), ahead.hold(2)];
        assert_eq!(take(&taken), Some(2));
        ahead.reclaim();
        tokio::time::advance(IDLE).await;
        let young = ahead.hold(3);
        ahead.reclaim();
        assert_eq!((take(&old), take(&taken), take(&young)), (None, None, Some(3)));
    }

    #[test]
    fn slots_that_are_gone_are_forgotten() {
        let ahead = ReadAhead::new();
        let kept = ahead.hold(0);
        for number in 0..10 * LEAST_PRUNED {
            drop(ahead.hold(number));
        }
        assert!(ahead.0.lock().unwrap().by_age.len() <= LEAST_PRUNED);
        drop(kept);
    }
}
