//! Lifecycle rules at work: a bucket is claimed, its versions are gone through in pages, and what its rules no longer keep
//! is deleted.
//!
//! What goes was judged by what a page said. Invariant: it is deleted only where it still is what was judged (the same
//! version at the same place; for a current version the same ETag and time), which the deleting statements see to, as they
//! see to locks; whatever came in between stays.

use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use super::error::{ErrorKind, Result};
use super::index::lifecycle;
use super::lifecycle::Candidate;
use super::listing::{beyond_all_keys, prefix_end};
use super::types::{BucketName, EtagSet, ObjectKey};
use super::version_types::Tags;
use super::{DeleteObject, Deleter, Storage, new_id};

/// A bucket whose rules are being applied.
#[derive(Clone, Debug)]
pub struct LifecycleRun {
    /// Which run.
    pub run: Uuid,
    /// Which bucket, even where its name is another's by now.
    pub(super) bucket_id: i32,
    /// Its name.
    pub bucket: BucketName,
    /// Its owner, who will own delete markers.
    pub owner: String,
    /// Its rules as they are stored ([`Lifecycle`](super::lifecycle::Lifecycle)).
    pub document: String,
    /// The moment by which everything is judged.
    pub started_at: OffsetDateTime,
}

/// The latest version of a key.
#[derive(Clone, Debug)]
pub struct CurrentVersion {
    /// Its key.
    pub key: String,
    /// Its place among the versions.
    pub place: i64,
    /// Whether it says that the key was deleted.
    pub is_delete_marker: bool,
    /// Whether it is a delete marker and all that the key has.
    pub is_alone: bool,
    /// Its ETag.
    pub etag: String,
    /// Its length in bytes.
    pub size: u64,
    /// Its tags.
    pub tags: Tags,
    /// When it was published.
    pub last_modified: OffsetDateTime,
}

/// A version that newer ones took the place of.
#[derive(Clone, Debug)]
pub struct PastVersion {
    /// Its key.
    pub key: String,
    /// Its place among the versions.
    pub place: i64,
    /// Whether it says that the key was deleted.
    pub is_delete_marker: bool,
    /// Its length in bytes.
    pub size: u64,
    /// Its tags.
    pub tags: Tags,
    /// When it was published.
    pub last_modified: OffsetDateTime,
    /// When the latest version of its key was published.
    pub latest_since: Option<OffsetDateTime>,
}

impl CurrentVersion {
    /// What rules are asked about.
    #[must_use]
    pub fn candidate(&self) -> Candidate<'_> {
        let object = (!self.is_delete_marker).then_some((&self.tags, self.size));
        Candidate { key: &self.key, object, last_modified: self.last_modified }
    }
}

impl PastVersion {
    /// What rules are asked about.
    #[must_use]
    pub fn candidate(&self) -> Candidate<'_> {
        let object = (!self.is_delete_marker).then_some((&self.tags, self.size));
        Candidate { key: &self.key, object, last_modified: self.last_modified }
    }
}

impl Storage {
    /// Claims a bucket whose rules are due: never applied, not since midnight (UTC), or not as they are now.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn claim_lifecycle(&self, claim: Duration) -> Result<Option<LifecycleRun>> {
        Ok(lifecycle::claim(&self.db, new_id(), claim.as_secs_f64()).await?)
    }

    /// Renews a claim. False: the run is over, since the bucket, its rules or the claim are others by now.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn renew_lifecycle(&self, run: &LifecycleRun, claim: Duration) -> Result<bool> {
        Ok(lifecycle::renew(&self.db, run, claim.as_secs_f64(), false).await?)
    }

    /// Ends a run: its bucket is not due again before the next midnight, or a change of its rules.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn finish_lifecycle(&self, run: &LifecycleRun) -> Result<()> {
        Ok(lifecycle::renew(&self.db, run, 0.0, true).await.map(drop)?)
    }

    /// The latest versions of keys with a prefix, after a key, at most `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn current_versions(
        &self,
        run: &LifecycleRun,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<CurrentVersion>> {
        // Keys have no NUL, so nothing lies between a key and the key with U+0001 appended.
        let from = after.map_or_else(|| prefix.to_owned(), |key| format!("{key}\u{1}"));
        Ok(lifecycle::current(&self.db, run.bucket_id, (&from, &end_of(prefix)), limit).await?)
    }

    /// The past versions of keys with a prefix, newest first for each key, after a version (its key and place), at most
    /// `limit`.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn past_versions(
        &self,
        run: &LifecycleRun,
        prefix: &str,
        after: Option<(&str, i64)>,
        limit: u32,
    ) -> Result<Vec<PastVersion>> {
        let from = after.unwrap_or((prefix, i64::MAX));
        Ok(lifecycle::past(&self.db, run.bucket_id, from, &end_of(prefix), limit).await?)
    }

    /// Deletes current versions as a client would, where they still are current: a delete marker takes the place of each in
    /// a versioned bucket. Returns how many.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database.
    pub async fn expire_current(&self, run: &LifecycleRun, versions: &[CurrentVersion]) -> Result<u64> {
        let deletions = versions.iter().filter_map(|version| {
            Some(DeleteObject {
                key: ObjectKey::parse(&version.key).ok()?,
                version: None,
                if_match: Some(EtagSet::OneOf(vec![version.etag.clone()])),
                if_match_size: Some(version.size),
                if_match_last_modified: Some(version.last_modified),
            })
        });
        let by = Deleter { owner: run.owner.clone(), bypass_governance: false };
        let mut expired = 0;
        for outcome in self.delete_objects(&run.bucket, deletions.collect(), &by).await? {
            match outcome {
                Ok(_) => expired += 1,
                Err(error) => match error.kind() {
                    // Another has deleted or replaced it, or it is locked: it stays as it is.
                    ErrorKind::NoSuchKey | ErrorKind::PreconditionFailed | ErrorKind::Locked => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(expired)
    }

    /// Deletes past versions, and delete markers that are all that their keys have, for good; by key and place. Returns how
    /// many: locked ones and what changed its place stay.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database.
    pub async fn expire_versions(&self, run: &LifecycleRun, versions: &[(&str, i64)]) -> Result<u64> {
        let (keys, places): (Vec<_>, Vec<_>) = versions.iter().copied().unzip();
        Ok(lifecycle::expire(&self.db, &run.bucket, &keys, &places).await?)
    }
}

fn end_of(prefix: &str) -> String {
    prefix_end(prefix).unwrap_or_else(beyond_all_keys)
}
