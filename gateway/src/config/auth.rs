//! `[auth]`: which ways of signing a request are accepted, and what the secret keys of users are encrypted with.
//!
//! Signature version 4 is always on. Version 2 (HMAC-SHA1, the request's headers largely unsigned) is for clients that
//! know nothing else, so it is off unless it is asked for.

use serde::{Deserialize, Serialize};

use super::Secret;
use super::error::ConfigError;
use super::validate::require;

/// Length of a configured encryption key, characters.
const ENCRYPTION_KEY_LENGTH: std::ops::RangeInclusive<usize> = 32..=1024;

/// Accepted signatures, and users' secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// Accept signature version 2 as well. Default false.
    pub sigv2: bool,
    /// What users' secret keys are encrypted with in the database, 32..=1024 characters, random; the same for all
    /// gateways of a database. Default generated, in `data_dir/encryption-key`.
    pub encryption_key: Option<Secret<String>>,
}

impl AuthConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let sound = self.encryption_key.as_ref().is_none_or(|key| ENCRYPTION_KEY_LENGTH.contains(&key.expose().len()));
        require(sound, "auth.encryption_key", "must be 32 to 1024 characters long: openssl rand -hex 32 gives one")
    }
}
