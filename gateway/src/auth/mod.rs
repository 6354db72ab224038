//! Who may do what.
//!
//! In this release there is one identity, root, whose key pair comes from the configuration. s3s verifies signatures
//! with the secret that [`RootAuth`] gives it; [`Gate`] then decides on every request, anonymous ones included. s3s skips
//! all checks where no authentication is set, so both are always installed together.

mod access;
pub mod policy;

use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};
use sha2::{Digest as _, Sha256};

pub use access::{Gate, OperationSlot};

/// The key pair of root. `Debug` of the secret shows nothing.
#[derive(Clone, Debug)]
pub struct RootCredentials {
    /// Access key id.
    pub access_key: String,
    /// Secret access key.
    pub secret_key: SecretKey,
}

/// Who owns buckets and objects, as S3 shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// A canonical user id: 64 hexadecimal digits.
    pub id: String,
    /// A name for people.
    pub display_name: String,
}

impl Owner {
    /// Root. Its id does not depend on its key pair, so that a new pair owns what the old one did.
    #[must_use]
    pub fn root() -> Self {
        Self { id: hex::encode(Sha256::digest(b"lobgate:root")), display_name: "root".to_owned() }
    }
}

/// Looks up secrets for s3s.
pub struct RootAuth(RootCredentials);

impl RootAuth {
    /// Knows the one pair.
    #[must_use]
    pub fn new(root: RootCredentials) -> Self {
        Self(root)
    }
}

#[async_trait::async_trait]
impl S3Auth for RootAuth {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == self.0.access_key {
            return Ok(self.0.secret_key.clone());
        }
        Err(s3_error!(InvalidAccessKeyId, "The AWS Access Key Id you provided does not exist in our records."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> RootCredentials {
        RootCredentials { access_key: "root".to_owned(), secret_key: SecretKey::from("hidden-secret") }
    }

    #[tokio::test]
    async fn unknown_keys_are_refused_with_403() {
        let auth = RootAuth::new(root());
        assert!(auth.get_secret_key("root").await.is_ok_and(|s| s.expose() == "hidden-secret"));
        let error = auth.get_secret_key("other").await.err();
        assert_eq!(error.and_then(|e| e.status_code()), Some(http::StatusCode::FORBIDDEN));
    }

    #[test]
    fn secrets_are_not_printed() {
        assert!(!format!("{:?}", root()).contains("hidden"));
    }

    #[test]
    fn the_owner_looks_like_a_canonical_user() {
        let id = Owner::root().id;
        assert!(id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    }
}
