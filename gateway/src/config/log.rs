//! `[log]`: how much the gateway says, and in which form.
//!
//! Logs go to standard error. The filter is a list of `target=level` directives; whatever it says, targets that
//! would print secrets stay silent (see the `telemetry` module).

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::validate::require;

/// Form and amount of the log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// One line of text or one JSON object per event. Default `text`.
    pub format: LogFormat,
    /// Directives such as `info` or `info,lobgate::gc=debug`. Default `info`.
    pub filter: String,
}

/// Form of one log event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For log collectors.
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, filter: "info".to_owned() }
    }
}

impl LogConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let parsed = tracing_subscriber::EnvFilter::try_new(&self.filter);
        require(
            parsed.is_ok(),
            "log.filter",
            "must be a list of directives such as \"info\" or \"info,lobgate::gc=debug\"",
        )
    }
}
