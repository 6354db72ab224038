//! Fetches of blocks under way, so that a block is fetched once however many readers wait for it.
//!
//! A fetch is a task of its own: it goes on when the reader that began it leaves, as long as another one waits, and is
//! given up when none does. So whatever a fetch holds in memory is covered by the share of the download budget that each
//! of its readers brings. A block is in the cache before its fetch is forgotten, and the cache is asked once more before
//! a fetch begins: no reader can fall between the two. A failure goes to those who waited and is forgotten with the
//! fetch: the next reader begins a new one.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{Shared, WeakShared};
use tokio_util::task::AbortOnDropHandle;

use super::block_cache::{BlockCache, BlockKey};
use crate::storage::error::{ErrorKind, StorageError};

/// What comes of a fetch, for each of its readers.
type Landed = Result<Bytes, Arc<StorageError>>;
type BoxedLanding = Pin<Box<dyn Future<Output = Landed> + Send>>;
/// A reader's place on a fetch.
pub(in crate::storage) type Flight = Shared<BoxedLanding>;

/// Where a reader gets a block.
pub(in crate::storage) enum Boarding {
    /// The block is held.
    Held(Bytes),
    /// A fetch is under way, begun by this call or before.
    UnderWay(Flight),
}

/// The fetches under way. Cheap to clone.
#[derive(Clone, Default)]
pub(in crate::storage) struct Flights {
    by_block: Arc<Mutex<Departures>>,
}

#[derive(Default)]
struct Departures {
    next_number: u64,
    under_way: HashMap<BlockKey, (u64, WeakShared<BoxedLanding>)>,
}

impl Flights {
    /// The block, or a place on the fetch of it; `fetch` is begun where none is under way.
    pub(in crate::storage) fn board<F>(&self, cache: &BlockCache, key: BlockKey, fetch: F) -> Boarding
    where
        F: Future<Output = Result<Bytes, StorageError>> + Send + 'static,
    {
        let mut departures = self.departures();
        if let Some(flight) = departures.under_way.get(&key).and_then(|(_, flight)| flight.upgrade()) {
            return Boarding::UnderWay(flight);
        }
        if let Some(block) = cache.get(&key) {
            return Boarding::Held(block);
        }
        let number = departures.next_number;
        departures.next_number += 1;
        let entry = Entry { flights: self.clone(), key, number };
        let cache = cache.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            // Forgotten when the fetch has ended, whether or not anybody has looked at what came of it.
            let _entry = entry;
            let block = fetch.await.map_err(Arc::new)?;
            cache.insert(key, block.clone());
            Ok(block)
        }));
        let landing: BoxedLanding =
            Box::pin(
                async move { task.await.unwrap_or_else(|e| Err(Arc::new(StorageError::new(ErrorKind::Internal, e)))) },
            );
        let flight = landing.shared();
        if let Some(weak) = flight.downgrade() {
            departures.under_way.insert(key, (number, weak));
        }
        Boarding::UnderWay(flight)
    }

    fn departures(&self) -> MutexGuard<'_, Departures> {
        self.by_block.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A fetch's place in the table, given up when it has ended or its readers have left. Never dropped under the table's lock.
struct Entry {
    flights: Flights,
    key: BlockKey,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut departures = self.flights.departures();
        // A fetch that was given up may have a successor by now.
        if departures.under_way.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            departures.under_way.remove(&self.key);
        }
    }
}

/// What a failed fetch means to one of its readers.
pub(in crate::storage) fn landing_error(error: Arc<StorageError>) -> StorageError {
    StorageError::new(error.kind(), error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;
    use uuid::Uuid;

    use super::*;

    const KEY: BlockKey = BlockKey { content: Uuid::nil(), offset: 0 };

    struct Scene {
        cache: BlockCache,
        flights: Flights,
        fetches: Arc<AtomicUsize>,
        landing: Arc<Notify>,
    }

    impl Scene {
        fn new() -> Self {
            let (fetches, landing) = (Arc::default(), Arc::default());
            Self { cache: BlockCache::new(1 << 20), flights: Flights::default(), fetches, landing }
        }

        fn board(&self, outcome: Result<&'static str, ErrorKind>) -> Boarding {
            let (fetches, landing) = (Arc::clone(&self.fetches), Arc::clone(&self.landing));
            self.flights.board(&self.cache, KEY, async move {
                fetches.fetch_add(1, Ordering::SeqCst);
                landing.notified().await;
                outcome.map(|text| Bytes::from_static(text.as_bytes())).map_err(StorageError::from)
            })
        }

        fn flight(&self, outcome: Result<&'static str, ErrorKind>) -> Flight {
            match self.board(outcome) {
                Boarding::UnderWay(flight) => flight,
                Boarding::Held(_) => panic!("the block is held"),
            }
        }

        async fn until_forgotten(&self) {
            while !self.flights.departures().under_way.is_empty() {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn a_block_is_fetched_once_though_its_first_reader_leaves() {
        let scene = Scene::new();
        let first = scene.flight(Ok("block"));
        tokio::task::yield_now().await;
        let others: Vec<_> = (0..20).map(|_| scene.flight(Ok("another"))).collect();
        drop(first);
        scene.landing.notify_one();
        for block in futures::future::join_all(others).await {
            assert_eq!(block.expect("landed"), "block");
        }
        assert_eq!(scene.fetches.load(Ordering::SeqCst), 1);
        assert!(matches!(scene.board(Ok("another")), Boarding::Held(block) if block == "block"));
    }

    #[tokio::test]
    async fn a_fetch_that_nobody_waits_for_is_given_up() {
        let scene = Scene::new();
        drop(scene.flight(Ok("block")));
        scene.until_forgotten().await;
        assert!(!scene.cache.contains(&KEY));
        let again = scene.flight(Ok("block"));
        scene.landing.notify_one();
        assert!(again.await.is_ok());
    }

    #[tokio::test]
    async fn a_failure_that_its_reader_has_not_looked_at_is_nobody_else_s() {
        let scene = Scene::new();
        let unlooked = scene.flight(Err(ErrorKind::Unavailable));
        scene.landing.notify_one();
        scene.until_forgotten().await;
        let later = scene.flight(Ok("block"));
        scene.landing.notify_one();
        assert_eq!(later.await.expect("landed"), "block");
        assert!(unlooked.await.is_err());
    }

    #[tokio::test]
    async fn a_failure_reaches_all_who_wait_and_is_forgotten() {
        let scene = Scene::new();
        let waiting = [scene.flight(Err(ErrorKind::Busy)), scene.flight(Err(ErrorKind::Busy))];
        scene.landing.notify_one();
        for landed in futures::future::join_all(waiting).await {
            assert_eq!(landed.expect_err("failed").kind(), ErrorKind::Busy);
        }
        scene.until_forgotten().await;
        let again = scene.flight(Ok("block"));
        scene.landing.notify_one();
        assert_eq!(again.await.expect("landed"), "block");
    }
}
