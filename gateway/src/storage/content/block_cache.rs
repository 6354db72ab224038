//! Blocks of contents in memory, in front of `lo_get`.
//!
//! A block is what one aligned window reads: `storage.read_window` bytes of a content, fewer at its end. Contents never
//! change and their ids are never used twice, so nothing in here can be stale and nothing is ever invalidated: what was
//! deleted is not found in the index any more, and its blocks age out. Only bytes that came from the database whole and
//! of the right length are ever inserted; failures are not.
//!
//! The limit counts every block with what keeping it costs, and room is made before a block is inserted: the cache never
//! holds more than configured. A block is copied out of the driver's buffer into an allocation of its own size, so that
//! it holds what it is charged for, and the driver can fill the same buffer again. Eviction is S3-FIFO: a block that was
//! read once leaves from a small queue, so a scan through more than the cache holds costs the hot set nothing.
//!
//! The memory half of foyer, because it evicts before it inserts (moka evicts some time after: with blocks of a MiB that
//! is a limit exceeded by many) and brings no more than a hash table and queues. Its disk half would bring two compressors
//! in C and buffers that no limit counts; there is no disk tier.

use std::sync::Arc;

use bytes::Bytes;
use foyer_common::event::{Event, EventListener};
use foyer_memory::{Cache, CacheBuilder, S3FifoConfig};
use uuid::Uuid;

/// What keeping a block costs beside its bytes: the record, its places in the index and the queues, the allocation's
/// own header. A little generous.
const BLOCK_OVERHEAD_BYTES: usize = 512;
/// One lock over all blocks: it is held for a look-up or an insertion, thousands of times a second at most, and more
/// would divide the limit into parts that fill unevenly.
const SHARDS: usize = 1;

/// A block's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::storage) struct BlockKey {
    pub(in crate::storage) content: Uuid,
    /// Where the block begins in the content, bytes.
    pub(in crate::storage) offset: u64,
}

/// The blocks that are held. Cheap to clone.
#[derive(Clone)]
pub struct BlockCache {
    /// Absent: nothing is ever held.
    blocks: Option<Cache<BlockKey, Bytes>>,
}

impl BlockCache {
    /// A cache of at most so many bytes; 0 turns it off.
    #[must_use]
    pub fn new(memory: u64) -> Self {
        let capacity = usize::try_from(memory).unwrap_or(usize::MAX);
        let build = || {
            CacheBuilder::new(capacity)
                .with_shards(SHARDS)
                .with_eviction_config(S3FifoConfig::default())
                .with_weighter(|_: &BlockKey, block: &Bytes| block.len() + BLOCK_OVERHEAD_BYTES)
                .with_event_listener(Arc::new(CountEvictions))
                .build()
        };
        for name in ["lobgate_cache_hits_total", "lobgate_cache_misses_total", "lobgate_cache_evictions_total"] {
            metrics::counter!(name).increment(0);
        }
        metrics::gauge!("lobgate_cache_bytes").set(0.0);
        metrics::gauge!("lobgate_cache_limit_bytes").set(as_gauge(capacity));
        Self { blocks: (capacity > 0).then(build) }
    }

    /// A cache that holds nothing.
    #[must_use]
    pub fn off() -> Self {
        Self { blocks: None }
    }

    pub(in crate::storage) fn is_on(&self) -> bool {
        self.blocks.is_some()
    }

    /// The block, if it is held. Counts as use.
    pub(in crate::storage) fn get(&self, key: &BlockKey) -> Option<Bytes> {
        Some(self.blocks.as_ref()?.get(key)?.value().clone())
    }

    /// Whether the block is held. Does not count as use.
    pub(in crate::storage) fn contains(&self, key: &BlockKey) -> bool {
        self.blocks.as_ref().is_some_and(|blocks| blocks.contains(key))
    }

    /// Takes a block in, after making room for it.
    pub(in crate::storage) fn insert(&self, key: BlockKey, block: Bytes) {
        let Some(blocks) = &self.blocks else { return };
        if block.len() + BLOCK_OVERHEAD_BYTES <= blocks.capacity() {
            blocks.insert(key, block);
        }
        metrics::gauge!("lobgate_cache_bytes").set(as_gauge(blocks.usage()));
    }

    #[cfg(test)]
    fn usage(&self) -> usize {
        self.blocks.as_ref().map_or(0, Cache::usage)
    }
}

struct CountEvictions;

impl EventListener for CountEvictions {
    type Key = BlockKey;
    type Value = Bytes;

    fn on_leave(&self, reason: Event, _: &BlockKey, _: &Bytes) {
        if reason == Event::Evict {
            metrics::counter!("lobgate_cache_evictions_total").increment(1);
        }
    }
}

/// A gauge holds whole numbers up to 2^53 exactly.
#[allow(clippy::cast_precision_loss, reason = "no memory is that large")]
fn as_gauge(bytes: usize) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(content: u128, number: u64) -> BlockKey {
        BlockKey { content: Uuid::from_u128(content), offset: number << 10 }
    }

    fn block(bytes: usize) -> Bytes {
        Bytes::from(vec![7; bytes])
    }

    proptest! {
        #[test]
        fn the_limit_is_never_exceeded(limit in 1u64..200_000, sizes in proptest::collection::vec((0u64..40, 1usize..30_000), 1..200)) {
            let cache = BlockCache::new(limit);
            for (number, size) in sizes {
                cache.insert(key(1, number), block(size));
                prop_assert!(cache.usage() as u64 <= limit);
            }
        }
    }

    #[test]
    fn a_hot_set_survives_a_scan_through_ten_times_the_cache() {
        let cache = BlockCache::new(100 * (1024 + BLOCK_OVERHEAD_BYTES as u64));
        for number in 0..50 {
            cache.insert(key(1, number), block(1024));
            assert!(cache.get(&key(1, number)).is_some());
        }
        for number in 0..1000 {
            cache.insert(key(2, number), block(1024));
        }
        let survivors = (0..50).filter(|number| cache.contains(&key(1, *number))).count();
        assert_eq!(survivors, 50);
    }

    #[test]
    fn a_cache_of_nothing_holds_nothing() {
        let cache = BlockCache::new(0);
        cache.insert(key(1, 1), block(10));
        assert!(!cache.is_on() && cache.get(&key(1, 1)).is_none());
    }
}
