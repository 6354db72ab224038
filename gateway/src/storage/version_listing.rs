//! Listings of versions: every version of every key, newest first, and the common prefixes.

use time::OffsetDateTime;

use super::Storage;
use super::error::{ErrorKind, Result};
use super::index::{listing, version_listing};
use super::listing::{ListObjects, beyond_all_keys, first_key, prefix_end};
use super::types::{BucketName, ChecksumAlgorithm, ChecksumType, Page};
use super::version_types::VersionId;

/// Which versions to list.
#[derive(Clone, Debug, Default)]
pub struct ListVersions {
    /// Keys that begin with this.
    pub prefix: String,
    /// Keys are rolled up to the first occurrence of this after the prefix.
    pub delimiter: Option<String>,
    /// Keys after this, and versions of this key older than `version_marker`.
    pub key_marker: Option<String>,
    /// Only with `key_marker`.
    pub version_marker: Option<VersionId>,
    /// At most so many entries.
    pub max_entries: u32,
}

/// An entry of such a listing.
#[derive(Clone, Debug)]
pub enum VersionEntry {
    /// A version.
    Version(Box<ListedVersion>),
    /// Keys rolled up.
    CommonPrefix(String),
}

/// What a listing tells of a version.
#[derive(Clone, Debug)]
pub struct ListedVersion {
    /// Its key.
    pub key: String,
    /// Which.
    pub version: VersionId,
    /// Whether it is the newest of its key.
    pub is_latest: bool,
    /// Whether it has no bytes and says that the key was deleted.
    pub is_delete_marker: bool,
    /// Length in bytes.
    pub size: u64,
    /// ETag without quotes; empty for a delete marker.
    pub etag: String,
    /// When it was published.
    pub last_modified: OffsetDateTime,
    /// Who owns it.
    pub owner: String,
    /// `x-amz-storage-class` where it is not STANDARD.
    pub storage_class: Option<String>,
    /// Algorithm and type of its checksum.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
}

impl Storage {
    /// A page of a bucket's versions.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database.
    pub async fn list_versions(&self, bucket: &BucketName, query: ListVersions) -> Result<Page<VersionEntry>> {
        let bucket = bucket.as_str();
        let mut entries = Vec::new();
        if let Some((from, before)) = self.first_version(bucket, &query).await?.filter(|_| query.max_entries > 0) {
            let end = prefix_end(&query.prefix).unwrap_or_else(beyond_all_keys);
            let page = version_listing::Page {
                prefix: &query.prefix,
                delimiter: query.delimiter.as_deref().unwrap_or_default(),
                from: &from,
                before,
                end: &end,
                limit: query.max_entries.saturating_add(1),
            };
            entries = version_listing::list(&self.db, bucket, &page).await?;
        }
        if entries.is_empty() && !listing::bucket_exists(&self.db, bucket).await? {
            return Err(ErrorKind::NoSuchBucket.into());
        }
        let max = query.max_entries as usize;
        let truncated = entries.len() > max;
        entries.truncate(max);
        Ok(Page { entries, truncated })
    }

    /// Where a page begins: a key, and the place of a version of that key. A marker that was deleted meanwhile has no place;
    /// then all versions that the key still has are listed, so that none is passed over.
    async fn first_version(&self, bucket: &str, query: &ListVersions) -> Result<Option<(String, Option<i64>)>> {
        if let Some((key, version)) = query.key_marker.as_deref().zip(query.version_marker)
            && key.starts_with(&query.prefix)
        {
            let place = version_listing::place(&self.db, bucket, key, version).await?;
            return Ok(Some((key.to_owned(), place)));
        }
        let keys = ListObjects {
            prefix: query.prefix.clone(),
            delimiter: query.delimiter.clone(),
            after: query.key_marker.clone(),
            max_entries: query.max_entries,
        };
        Ok(first_key(&keys).map(|from| (from, None)))
    }
}
