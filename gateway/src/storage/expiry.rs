//! Lifecycle rules at work: a bucket is claimed, its versions are gone through in pages, and what its rules no longer keep
//! is deleted.
//!
//! What goes was judged by what a page said. Invariant: it is deleted only where it still is what was judged (the same
//! version at the same place with the same tags, and behind as many newer ones as its rule keeps), which the deleting
//! statements see to, as they see to locks; whatever came in between stays.

use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use super::error::Result;
use super::index::lifecycle;
use super::lifecycle::Candidate;
use super::listing::{beyond_all_keys, prefix_end};
use super::types::BucketName;
use super::version_types::Tags;
use super::{Storage, new_id};

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

/// A version that is to go for good.
#[derive(Clone, Copy, Debug)]
pub struct Expired<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its place among the versions.
    pub place: i64,
    /// Its tags.
    pub tags: &'a Tags,
    /// How many past versions of its key have to be newer.
    pub keep: u32,
}

impl CurrentVersion {
    /// As a delete marker that is to go.
    #[must_use]
    pub fn as_marker(&self) -> Expired<'_> {
        Expired { key: &self.key, place: self.place, tags: &self.tags, keep: 0 }
    }

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

    /// Deletes current versions as a client would, where they still are what was judged: a delete marker takes the place of
    /// each in a versioned bucket. Returns how many.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`](super::ErrorKind::NoSuchBucket), and those of the database.
    pub async fn expire_current(&self, run: &LifecycleRun, versions: &[CurrentVersion]) -> Result<u64> {
        let markers: Vec<_> = versions.iter().map(|_| new_id()).collect();
        Ok(lifecycle::expire_current(&self.db, run, versions, &markers).await?)
    }

    /// Deletes past versions, and delete markers that are all that their keys have, for good. Returns how many: locked ones
    /// and what is not any more what was judged stay.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`](super::ErrorKind::NoSuchBucket), and those of the database.
    pub async fn expire_versions(&self, run: &LifecycleRun, versions: &[Expired<'_>]) -> Result<u64> {
        Ok(lifecycle::expire(&self.db, &run.bucket, versions).await?)
    }
}

fn end_of(prefix: &str) -> String {
    prefix_end(prefix).unwrap_or_else(beyond_all_keys)
}
