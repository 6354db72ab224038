//! `[cache]`: blocks of large objects kept in front of the database.
//!
//! A block is what one window reads, so `storage.read_window` is also the cache's grain. The memory comes on top of
//! `storage.upload_memory` and `storage.download_memory`.

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::units::{self, format_size};
use super::validate::{require, require_size};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1024 * MIB;

/// Blocks that the cache must have room for: with fewer, a small queue for newcomers makes no sense.
const LEAST_BLOCKS: u64 = 16;

/// The block cache in front of the large objects.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Bytes of memory for blocks, at least 16 of `storage.read_window`, 0 for none. up to 16TiB, default 256MiB.
    #[serde(with = "units::size")]
    pub memory: u64,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { memory: 256 * MIB }
    }
}

impl CacheConfig {
    pub(super) fn validate(&self, read_window: u64) -> Result<(), ConfigError> {
        require_size("cache.memory", self.memory, 0..=16 * 1024 * GIB)?;
        let least = LEAST_BLOCKS * read_window;
        let demand = format!(
            "must be 0 or at least {LEAST_BLOCKS} times storage.read_window, {}, not {}",
            format_size(least),
            format_size(self.memory)
        );
        require(self.memory == 0 || self.memory >= least, "cache.memory", &demand)
    }
}
