//! `[storage]`: how object bytes move between clients and large objects.
//!
//! Bodies up to `inline_max` live in a table row, bodies up to `buffer_max` are received whole before their
//! transaction begins, longer ones are streamed. `upload_memory` and `download_memory` bound what all requests
//! together may hold. Chunks and windows are multiples of 2048 bytes, the page of a large object, so that no write
//! touches a page twice.

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::units;
use super::validate::{require, require_multiple, require_range, require_size};

/// Bytes in one row of `pg_largeobject` (`LOBLKSIZE` of a standard build).
pub const LARGE_OBJECT_PAGE: u64 = 2048;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Sizes and memory budgets of the storage engine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorageConfig {
    /// Largest body kept in its table row instead of a large object, bytes. 0..=1MiB, default 64KiB.
    #[serde(with = "units::size")]
    pub inline_max: u64,
    /// Largest body received whole before its transaction begins, bytes. `inline_max`..=256MiB, default 16MiB.
    #[serde(with = "units::size")]
    pub buffer_max: u64,
    /// Bytes per write to a large object, a multiple of 2048. 2KiB..=16MiB, default 512KiB.
    #[serde(with = "units::size")]
    pub write_chunk: u64,
    /// Bytes per read of a large object and per block of the cache, a multiple of 2048. 2KiB..=16MiB, default 1MiB.
    #[serde(with = "units::size")]
    pub read_window: u64,
    /// Windows fetched ahead of the client, per download. 1..=32, default 4.
    pub read_ahead: usize,
    /// Bytes all running uploads may hold together, at least `buffer_max` and two chunks. up to 1TiB, default 128MiB.
    #[serde(with = "units::size")]
    pub upload_memory: u64,
    /// Bytes all running downloads may hold together, at least two windows. up to 1TiB, default 128MiB.
    #[serde(with = "units::size")]
    pub download_memory: u64,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            inline_max: 64 * KIB,
            buffer_max: 16 * MIB,
            write_chunk: 512 << 10,
            read_window: 1 << 20,
            read_ahead: 4,
            upload_memory: 128 << 20,
            download_memory: 128 << 20,
        }
    }
}

impl StorageConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        require_size("storage.inline_max", self.inline_max, 0..=MIB)?;
        require_size("storage.buffer_max", self.buffer_max, 0..=256 * MIB)?;
        require(self.buffer_max >= self.inline_max, "storage.buffer_max", "must be at least storage.inline_max")?;
        require_size("storage.write_chunk", self.write_chunk, LARGE_OBJECT_PAGE..=16 * MIB)?;
        require_multiple("storage.write_chunk", self.write_chunk, LARGE_OBJECT_PAGE)?;
        require_size("storage.read_window", self.read_window, LARGE_OBJECT_PAGE..=16 * MIB)?;
        require_multiple("storage.read_window", self.read_window, LARGE_OBJECT_PAGE)?;
        require_range("storage.read_ahead", self.read_ahead, 1..=32)?;
        require_size(
            "storage.upload_memory",
            self.upload_memory,
            self.buffer_max.max(2 * self.write_chunk)..=1024 * GIB,
        )?;
        require_size("storage.download_memory", self.download_memory, 2 * self.read_window..=1024 * GIB)
    }
}
