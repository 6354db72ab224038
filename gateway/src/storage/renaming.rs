//! RenameObject: an object goes under another key of its bucket. No bytes move and nobody sees both keys or neither: one
//! transaction, which decides all conditions under the locks on both keys.

use time::OffsetDateTime;

use super::error::Result;
use super::index::renaming;
use super::staged_writer::detached;
use super::types::{BucketName, EtagSet, ObjectKey};
use super::{Storage, new_id};
use crate::db::Lane;

/// What must hold for a version.
#[derive(Clone, Debug, Default)]
pub struct VersionConditions {
    /// It has one of these ETags.
    pub if_match: Option<EtagSet>,
    /// It has none of these, or does not exist.
    pub if_none_match: Option<EtagSet>,
    /// It was published after this second; void beside `if_none_match`.
    pub if_modified_since: Option<OffsetDateTime>,
    /// It was not published after this second; void beside `if_match`.
    pub if_unmodified_since: Option<OffsetDateTime>,
}

/// An object to rename.
#[derive(Clone, Debug)]
pub struct RenameObject {
    /// In which bucket.
    pub bucket: BucketName,
    /// Its key.
    pub source: ObjectKey,
    /// Its new key; an object that has it is replaced.
    pub key: ObjectKey,
    /// Who owns the delete marker that a versioned bucket keeps in its place.
    pub owner: String,
    /// Under which token the same rename may be repeated for a day, without being done twice.
    pub token: Option<String>,
    /// What must hold for the object.
    pub source_conditions: VersionConditions,
    /// What must hold for the object that has the new key.
    pub conditions: VersionConditions,
}

impl Storage {
    /// Renames an object.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`](super::ErrorKind::NoSuchBucket), [`ErrorKind::NoSuchKey`](super::ErrorKind::NoSuchKey),
    /// [`ErrorKind::PreconditionFailed`](super::ErrorKind::PreconditionFailed),
    /// [`ErrorKind::TokenOfAnother`](super::ErrorKind::TokenOfAnother), and those of the database.
    pub async fn rename_object(&self, rename: RenameObject) -> Result<()> {
        let storage = self.clone();
        detached(async move {
            let guard = storage.reads.begin().await?;
            let tx = storage.db.begin("rename_object", Lane::Short).await?;
            let write = new_id();
            renaming::rename(&tx, write, new_id(), &rename).await?;
            storage.commit_with_receipt(tx, write, &guard).await
        })
        .await
    }
}
