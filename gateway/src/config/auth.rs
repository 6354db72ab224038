//! `[auth]`: which ways of signing a request are accepted, what the secret keys of users are encrypted with, and whose
//! the objects of new buckets are.
//!
//! Signature version 4 is always on. Version 2 (HMAC-SHA1, the request's headers largely unsigned) is for clients that
//! know nothing else, so it is off unless it is asked for.

use serde::{Deserialize, Serialize};

use super::Secret;
use super::error::ConfigError;
use super::validate::require;

/// Length of a configured encryption key, characters.
const ENCRYPTION_KEY_LENGTH: std::ops::RangeInclusive<usize> = 32..=1024;

/// Object ownership, by its names in S3 (AWS: "Controlling ownership of objects").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
pub enum ObjectOwnership {
    /// The bucket's owner; lists are switched off.
    #[default]
    BucketOwnerEnforced,
    /// Who writes them, but the bucket's owner where the writer grants it full control.
    BucketOwnerPreferred,
    /// Who writes them.
    ObjectWriter,
}

/// Accepted signatures, users' secrets and ownership.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// Accept signature version 2 as well. Default false.
    pub sigv2: bool,
    /// What users' secret keys are encrypted with in the database, 32..=1024 characters, random; the same for all
    /// gateways of a database. Default generated, in `data_dir/encryption-key`.
    pub encryption_key: Option<Secret<String>>,
    /// Object ownership of buckets that are created without `x-amz-object-ownership`. Default `BucketOwnerEnforced`.
    pub default_object_ownership: ObjectOwnership,
}

impl AuthConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let sound = self.encryption_key.as_ref().is_none_or(|key| ENCRYPTION_KEY_LENGTH.contains(&key.expose().len()));
        require(sound, "auth.encryption_key", "must be 32 to 1024 characters long: openssl rand -hex 32 gives one")
    }
}
