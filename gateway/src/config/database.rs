//! `[database]`: how the gateway uses its PostgreSQL server.
//!
//! Two pools: one for the short statements of every request, one for the long transactions of streamed uploads,
//! so that slow uploads can't starve readers. Together they are what one gateway takes of the server's
//! `max_connections`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::units;
use super::validate::{require_duration, require_range};

/// Pools and timeouts towards the database.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// Connections for short statements and reads. 1..=1000, default 16.
    pub pool_size: usize,
    /// Connections for streamed uploads, apart from `pool_size`. 1..=1000, default 8.
    pub writer_pool_size: usize,
    /// Longest wait for a free connection before the client is told to slow down. 100ms..=10m, default 10s.
    #[serde(with = "units::duration")]
    pub pool_wait_timeout: Duration,
    /// Longest time to open a connection, per host of the URL. 100ms..=10m, default 5s.
    #[serde(with = "units::duration")]
    pub connect_timeout: Duration,
    /// Longest run of one statement, set on the server. 1s..=1d, default 60s.
    #[serde(with = "units::duration")]
    pub statement_timeout: Duration,
    /// Whether a connection pooler sits between gateway and server. Default `auto`.
    pub pooler: Pooler,
    /// Whether the server may be a standby, for a gateway that only reads until it is promoted. Default false.
    pub allow_standby: bool,
    /// Age at which an idle connection is replaced. 1m..=7d, default 30m.
    #[serde(with = "units::duration")]
    pub max_connection_age: Duration,
}

/// What stands between the gateway and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooler {
    /// Find out at start-up.
    #[default]
    Auto,
    /// A direct connection, or a pooler in session mode: settings of the session last.
    None,
    /// A pooler in transaction mode (PgBouncer, pgcat): nothing of the session lasts beyond a transaction.
    Transaction,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            pool_size: 16,
            writer_pool_size: 8,
            pool_wait_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(60),
            pooler: Pooler::Auto,
            allow_standby: false,
            max_connection_age: Duration::from_secs(30 * 60),
        }
    }
}

impl DatabaseConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        const SHORT: Duration = Duration::from_millis(100);
        const TEN_MINUTES: Duration = Duration::from_secs(600);
        const DAY: Duration = Duration::from_secs(86_400);
        require_range("database.pool_size", self.pool_size, 1..=1000)?;
        require_range("database.writer_pool_size", self.writer_pool_size, 1..=1000)?;
        require_duration("database.pool_wait_timeout", self.pool_wait_timeout, SHORT..=TEN_MINUTES)?;
        require_duration("database.connect_timeout", self.connect_timeout, SHORT..=TEN_MINUTES)?;
        require_duration("database.statement_timeout", self.statement_timeout, Duration::from_secs(1)..=DAY)?;
        require_duration("database.max_connection_age", self.max_connection_age, Duration::from_secs(60)..=7 * DAY)
    }
}
