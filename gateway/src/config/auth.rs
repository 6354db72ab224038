//! `[auth]`: which ways of signing a request are accepted.
//!
//! Signature version 4 is always on. Version 2 is a setting so that its refusal is a clear sentence at start-up
//! rather than a puzzle for an old client.

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::validate::require;

/// Accepted signature versions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// Accept signature version 2; not supported yet, so only `false` is valid. Default false.
    pub sigv2: bool,
}

impl AuthConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        require(!self.sigv2, "auth.sigv2", "must be false: signature version 2 is not supported yet")
    }
}
