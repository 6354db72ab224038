//! Deleting objects: the row goes, its content is handed to the reaper, by one statement; O(1), whatever the size.

use time::OffsetDateTime;

use super::Storage;
use super::error::{ErrorKind, Result};
use super::index::objects::{self, DeleteOutcome};
use super::types::{BucketName, EtagSet, ObjectKey};

/// A key to delete, and what must hold for it.
#[derive(Clone, Debug)]
pub struct DeleteObject {
    /// Which.
    pub key: ObjectKey,
    /// Its ETag must be one of these.
    pub if_match: Option<EtagSet>,
    /// Its size must be this.
    pub if_match_size: Option<u64>,
    /// It must have been published in this second.
    pub if_match_last_modified: Option<OffsetDateTime>,
}

impl Storage {
    /// Deletes an object; a key without object is deleted already.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`]; [`ErrorKind::NoSuchKey`] and [`ErrorKind::PreconditionFailed`] where there is a
    /// condition; those of the database.
    pub async fn delete_object(&self, bucket: &BucketName, object: DeleteObject) -> Result<()> {
        let outcomes = objects::delete(&self.db, bucket, &[object]).await?;
        outcomes.into_iter().next().map_or(Err(ErrorKind::Internal.into()), result)
    }

    /// Deletes objects in one transaction; the outcomes are in the order given.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database; then nothing was deleted.
    pub async fn delete_objects(&self, bucket: &BucketName, objects: Vec<DeleteObject>) -> Result<Vec<Result<()>>> {
        let outcomes = objects::delete(&self.db, bucket, &objects).await?;
        Ok(outcomes.into_iter().map(result).collect())
    }
}

fn result(outcome: DeleteOutcome) -> Result<()> {
    match outcome {
        DeleteOutcome::Done => Ok(()),
        DeleteOutcome::NoSuchKey => Err(ErrorKind::NoSuchKey.into()),
        DeleteOutcome::PreconditionFailed => Err(ErrorKind::PreconditionFailed.into()),
    }
}
