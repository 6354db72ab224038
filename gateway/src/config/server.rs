//! `[server]`: what one gateway process accepts from its clients.
//!
//! Every limit here bounds something a client could otherwise make grow: sockets, requests in flight, time spent
//! waiting. Timeouts are idle timeouts: a steady transfer above `min_transfer_rate` is never cut off by them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::units;
use super::validate::{require_duration, require_range, require_size};

/// Limits and timeouts of the listening side.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Open client connections; further ones wait in the accept queue. 1..=1000000, default 10000.
    pub max_connections: usize,
    /// Requests being served at once; further ones are told to slow down (503). 1..=1000000, default 1024.
    pub max_requests: usize,
    /// Longest wait for a request's complete headers. 1s..=1h, default 15s.
    #[serde(with = "units::duration")]
    pub header_read_timeout: Duration,
    /// Longest pause between two pieces of a request body. 1s..=1d, default 60s.
    #[serde(with = "units::duration")]
    pub body_idle_timeout: Duration,
    /// Longest time a client may take no bytes of a response. 1s..=1d, default 60s.
    #[serde(with = "units::duration")]
    pub write_idle_timeout: Duration,
    /// Bytes per second that a client has to send of a body, or take of a response, in the long run: it is given up when it
    /// is an idle timeout behind. 0 (no limit) ..=1GiB, default 4KiB.
    #[serde(with = "units::size")]
    pub min_transfer_rate: u64,
    /// Time given to running requests when the gateway stops. 0s..=1h, default 30s.
    #[serde(with = "units::duration")]
    pub shutdown_grace: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_requests: 1024,
            header_read_timeout: Duration::from_secs(15),
            body_idle_timeout: Duration::from_secs(60),
            write_idle_timeout: Duration::from_secs(60),
            min_transfer_rate: 4 << 10,
            shutdown_grace: Duration::from_secs(30),
        }
    }
}

impl ServerConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        const SECOND: Duration = Duration::from_secs(1);
        const HOUR: Duration = Duration::from_secs(3600);
        const DAY: Duration = Duration::from_secs(86_400);
        require_range("server.max_connections", self.max_connections, 1..=1_000_000)?;
        require_range("server.max_requests", self.max_requests, 1..=1_000_000)?;
        require_duration("server.header_read_timeout", self.header_read_timeout, SECOND..=HOUR)?;
        require_duration("server.body_idle_timeout", self.body_idle_timeout, SECOND..=DAY)?;
        require_duration("server.write_idle_timeout", self.write_idle_timeout, SECOND..=DAY)?;
        require_size("server.min_transfer_rate", self.min_transfer_rate, 0..=1 << 30)?;
        require_duration("server.shutdown_grace", self.shutdown_grace, Duration::ZERO..=HOUR)
    }
}
