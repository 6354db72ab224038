//! `[gc]`: how removed content, stale uploads and the read leases are looked after.
//!
//! A gateway publishes the snapshot of its running reads every `interval`; one that can't do so for `lease` stops
//! its own reads. The lease therefore spans several intervals, so that one lost heartbeat costs nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::units;
use super::validate::{require, require_duration, require_range};

/// Pace of the background work.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct GcConfig {
    /// Time between heartbeats and between two looks for removed content. 100ms..=10m, default 2s.
    #[serde(with = "units::duration")]
    pub interval: Duration,
    /// Time without a heartbeat after which a gateway counts as gone, at least 3 intervals. up to 1h, default 30s.
    #[serde(with = "units::duration")]
    pub lease: Duration,
    /// Large objects unlinked per transaction; each takes a slot of the server's lock table. 1..=1000, default 200.
    pub batch: u32,
    /// Age at which an unfinished multipart upload is dropped. 1m..=365d, default 7d.
    #[serde(with = "units::duration")]
    pub upload_expiry: Duration,
}

impl Default for GcConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(2),
            lease: Duration::from_secs(30),
            batch: 200,
            upload_expiry: Duration::from_secs(7 * 86_400),
        }
    }
}

impl GcConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        const HOUR: Duration = Duration::from_secs(3600);
        const YEAR: Duration = Duration::from_secs(365 * 86_400);
        require_duration("gc.interval", self.interval, Duration::from_millis(100)..=Duration::from_secs(600))?;
        require_duration("gc.lease", self.lease, Duration::from_millis(300)..=HOUR)?;
        require(self.lease >= 3 * self.interval, "gc.lease", "must be at least three times gc.interval")?;
        require_range("gc.batch", self.batch, 1..=1000)?;
        require_duration("gc.upload_expiry", self.upload_expiry, Duration::from_secs(60)..=YEAR)
    }
}
