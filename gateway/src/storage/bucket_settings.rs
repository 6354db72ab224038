//! What is configured on a bucket: documents by kind. They are read when they are needed, never cached, so that a change
//! takes effect at once on every gateway.

use super::Storage;
use super::error::{ErrorKind, Result};
use super::index::bucket_settings;
use super::types::BucketName;

/// A kind of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Rules for requests from other origins.
    Cors,
    /// Which public access is refused, whatever policies and lists say.
    PublicAccessBlock,
    /// Tags of the bucket.
    Tagging,
    /// Its policy, as it was given.
    Policy,
    /// Its access control list.
    Acl,
    /// Who owns its objects.
    ObjectOwnership,
    /// When its versions and uploads expire.
    Lifecycle,
    /// That the requester pays.
    RequestPayment,
}

impl Setting {
    /// The name in the index.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cors => "cors",
            Self::PublicAccessBlock => "public_access_block",
            Self::Tagging => "tagging",
            Self::Policy => "policy",
            Self::Acl => "acl",
            Self::ObjectOwnership => "object_ownership",
            Self::Lifecycle => "lifecycle",
            Self::RequestPayment => "request_payment",
        }
    }
}

impl Storage {
    /// A bucket's configuration of a kind, if it has one.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database.
    pub async fn bucket_setting(&self, bucket: &BucketName, setting: Setting) -> Result<Option<String>> {
        let found = bucket_settings::find(&self.db, bucket, setting.as_str()).await?;
        found.ok_or_else(|| ErrorKind::NoSuchBucket.into())
    }

    /// Sets or replaces a bucket's configuration of a kind.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database.
    pub async fn put_bucket_setting(&self, bucket: &BucketName, setting: Setting, document: &str) -> Result<()> {
        if bucket_settings::put(&self.db, bucket, setting.as_str(), document).await? {
            return Ok(());
        }
        Err(ErrorKind::NoSuchBucket.into())
    }

    /// Removes a bucket's configuration of a kind; one that is not there is removed already.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database.
    pub async fn delete_bucket_setting(&self, bucket: &BucketName, setting: Setting) -> Result<()> {
        self.bucket(bucket).await?;
        Ok(bucket_settings::delete(&self.db, bucket, setting.as_str()).await?)
    }
}
