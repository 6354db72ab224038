//! What can be changed of a version once it is there, and how a bucket keeps versions.
//!
//! All of it is decided by functions of the schema, under the lock of the key's latest version: a lock set and a deletion
//! never pass each other. A locked version is kept by triggers on the table, whatever statement comes.

use super::Storage;
use super::error::Result;
use super::index::{buckets, versions};
use super::types::{BucketName, ObjectKey};
use super::version_types::{DefaultRetention, Retention, Tags, VersionId, Versioning};

/// A version of an object, or its latest one.
#[derive(Clone, Debug)]
pub struct ObjectVersion {
    /// In which bucket.
    pub bucket: BucketName,
    /// Under which key.
    pub key: ObjectKey,
    /// Which; `None`: the latest.
    pub version: Option<VersionId>,
}

impl Storage {
    /// Replaces the tags of a version; none deletes them. Returns which version it is, where the bucket has versions.
    ///
    /// # Errors
    /// [`NoSuchBucket`](super::ErrorKind::NoSuchBucket), [`NoSuchKey`](super::ErrorKind::NoSuchKey),
    /// [`NoSuchVersion`](super::ErrorKind::NoSuchVersion), [`DeleteMarker`](super::ErrorKind::DeleteMarker).
    pub async fn set_tags(&self, object: &ObjectVersion, tags: &Tags) -> Result<Option<VersionId>> {
        Ok(versions::set_tags(&self.db, object, tags).await?)
    }

    /// Replaces the access control list of a version.
    ///
    /// # Errors
    /// As [`Storage::set_tags`].
    pub async fn set_acl(&self, object: &ObjectVersion, acl: &serde_json::Value) -> Result<Option<VersionId>> {
        Ok(versions::set_acl(&self.db, object, acl).await?)
    }

    /// The owner of a version and its access control list, if it has one; `None`: there is no such version.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn object_acl(&self, object: &ObjectVersion) -> Result<Option<(String, Option<serde_json::Value>)>> {
        Ok(versions::acl(&self.db, object).await?)
    }

    /// Replaces the retention of a version; `bypass`: also where that weakens one in GOVERNANCE mode.
    ///
    /// # Errors
    /// As [`Storage::set_tags`]; [`NoObjectLock`](super::ErrorKind::NoObjectLock) where the bucket has none,
    /// [`Locked`](super::ErrorKind::Locked) where the retention there is may not be weakened.
    pub async fn set_retention(
        &self,
        object: &ObjectVersion,
        retention: Option<Retention>,
        bypass: bool,
    ) -> Result<Option<VersionId>> {
        Ok(versions::set_retention(&self.db, object, retention, bypass).await?)
    }

    /// Sets or lifts the legal hold of a version.
    ///
    /// # Errors
    /// As [`Storage::set_tags`]; [`NoObjectLock`](super::ErrorKind::NoObjectLock) where the bucket has none.
    pub async fn set_legal_hold(&self, object: &ObjectVersion, hold: bool) -> Result<Option<VersionId>> {
        Ok(versions::set_legal_hold(&self.db, object, hold).await?)
    }

    /// Sets a bucket's versioning.
    ///
    /// # Errors
    /// [`NoSuchBucket`](super::ErrorKind::NoSuchBucket); [`InvalidBucketState`](super::ErrorKind::InvalidBucketState) where
    /// it has object lock, which needs versions.
    pub async fn set_versioning(&self, bucket: &BucketName, versioning: Versioning) -> Result<()> {
        Ok(buckets::set_versioning(&self.db, bucket, versioning).await?)
    }

    /// Switches object lock on, which cannot be undone, and sets what new versions are retained by.
    ///
    /// # Errors
    /// [`NoSuchBucket`](super::ErrorKind::NoSuchBucket); [`InvalidBucketState`](super::ErrorKind::InvalidBucketState) where
    /// versioning is not enabled.
    pub async fn set_object_lock(&self, bucket: &BucketName, default: Option<DefaultRetention>) -> Result<()> {
        Ok(buckets::set_object_lock(&self.db, bucket, default).await?)
    }
}
