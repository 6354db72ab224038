//! Deleting objects: the row goes, its content is handed to the reaper, by one statement; O(1), whatever the size. In a
//! versioned bucket a delete marker takes its place instead, unless a version is named.

use time::OffsetDateTime;

use super::error::{ErrorKind, Result};
use super::index::versions::{self, DeleteOutcome, Deletion};
use super::types::{BucketName, EtagSet, ObjectKey};
use super::version_types::VersionId;
use super::{Storage, new_id};

/// A key to delete, and what must hold for it.
#[derive(Clone, Debug)]
pub struct DeleteObject {
    /// Which.
    pub key: ObjectKey,
    /// A version that is to go for good; `None`: the latest, as the bucket's versioning says.
    pub version: Option<VersionId>,
    /// Its ETag must be one of these.
    pub if_match: Option<EtagSet>,
    /// Its size must be this.
    pub if_match_size: Option<u64>,
    /// It must have been published in this second.
    pub if_match_last_modified: Option<OffsetDateTime>,
}

/// Who deletes, and with which rights.
#[derive(Clone, Debug)]
pub struct Deleter {
    /// The owner of delete markers.
    pub owner: String,
    /// Whether retention in GOVERNANCE mode may be bypassed.
    pub bypass_governance: bool,
}

/// What a deletion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// The delete marker that was made, or the version that was named.
    pub version: Option<VersionId>,
    /// Whether that is a delete marker.
    pub is_delete_marker: bool,
}

impl Storage {
    /// Deletes an object; a key without object is deleted already.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`]; [`ErrorKind::NoSuchKey`] and [`ErrorKind::PreconditionFailed`] where there is a
    /// condition; [`ErrorKind::Locked`]; those of the database.
    pub async fn delete_object(&self, bucket: &BucketName, object: DeleteObject, by: &Deleter) -> Result<Deleted> {
        let outcomes = self.delete_objects(bucket, vec![object], by).await?;
        outcomes.into_iter().next().unwrap_or_else(|| Err(ErrorKind::Internal.into()))
    }

    /// Deletes objects in one transaction; the outcomes are in the order given.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database; then nothing was deleted.
    pub async fn delete_objects(
        &self,
        bucket: &BucketName,
        objects: Vec<DeleteObject>,
        by: &Deleter,
    ) -> Result<Vec<Result<Deleted>>> {
        let markers: Vec<_> = objects.iter().map(|_| new_id()).collect();
        let deletions = versions::delete(&self.db, bucket, &by.owner, &objects, &markers, by.bypass_governance).await?;
        Ok(deletions.into_iter().map(result).collect())
    }
}

fn result(deletion: Deletion) -> Result<Deleted> {
    match deletion.outcome {
        DeleteOutcome::Done => Ok(Deleted { version: deletion.version, is_delete_marker: deletion.is_delete_marker }),
        DeleteOutcome::NoSuchKey => Err(ErrorKind::NoSuchKey.into()),
        DeleteOutcome::PreconditionFailed => Err(ErrorKind::PreconditionFailed.into()),
        DeleteOutcome::Locked => Err(ErrorKind::Locked.into()),
    }
}
