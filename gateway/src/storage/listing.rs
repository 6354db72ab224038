//! Listings: pages of keys and common prefixes in byte order, each from one scan of the index.

use time::OffsetDateTime;

use super::Storage;
use super::error::{ErrorKind, Result};
use super::index::listing::{self, Folding};
use super::types::{BucketName, ChecksumAlgorithm, ChecksumType, Page};

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct ListObjects {
    /// Keys that begin with this.
    pub prefix: String,
    /// Keys are rolled up to the first occurrence of this after the prefix.
    pub delimiter: Option<String>,
    /// Keys after this; where it is a common prefix itself, what lies after everything under it.
    pub after: Option<String>,
    /// At most so many entries.
    pub max_entries: u32,
}

/// An entry of a listing.
#[derive(Clone, Debug)]
pub enum ListEntry {
    /// An object.
    Object(ListedObject),
    /// Keys rolled up.
    CommonPrefix(String),
}

impl ListEntry {
    /// The key or the common prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Object(object) => &object.key,
            Self::CommonPrefix(prefix) => prefix,
        }
    }
}

/// What a listing tells of an object.
#[derive(Clone, Debug)]
pub struct ListedObject {
    /// Its key.
    pub key: String,
    /// Length in bytes.
    pub size: u64,
    /// ETag without quotes.
    pub etag: String,
    /// When it was published.
    pub last_modified: OffsetDateTime,
    /// `x-amz-storage-class` where it is not STANDARD.
    pub storage_class: Option<String>,
    /// Algorithm and type of its checksum.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
}

impl Storage {
    /// A page of a bucket's live objects.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database.
    pub async fn list_objects(&self, bucket: &BucketName, query: ListObjects) -> Result<Page<ListEntry>> {
        let bucket = bucket.as_str();
        let mut entries = match first_key(&query).filter(|_| query.max_entries > 0) {
            Some(from) => self.scan(bucket, &query, &from).await?,
            None => Vec::new(),
        };
        if entries.is_empty() && !listing::bucket_exists(&self.db, bucket).await? {
            return Err(ErrorKind::NoSuchBucket.into());
        }
        debug_assert!(entries.is_sorted_by(|a, b| a.name() < b.name()), "entries of a page ascend");
        let max = query.max_entries as usize;
        let truncated = entries.len() > max;
        entries.truncate(max);
        Ok(Page { entries, truncated })
    }

    /// One entry more than asked for, where there are so many.
    async fn scan(&self, bucket: &str, query: &ListObjects, from: &str) -> Result<Vec<ListEntry>> {
        let limit = query.max_entries.saturating_add(1);
        let end = prefix_end(&query.prefix).unwrap_or_else(beyond_all_keys);
        let range = (from, end.as_str());
        let Some(delimiter) = query.delimiter.as_deref().filter(|d| !d.is_empty()) else {
            return Ok(listing::plain(&self.db, bucket, range, limit).await?);
        };
        let folding = Folding {
            prefix_chars: u32::try_from(query.prefix.chars().count()).unwrap_or(u32::MAX),
            delimiter,
            skip: &prefix_end(delimiter).unwrap_or_else(|| format!("{delimiter}{}", beyond_all_keys())),
        };
        Ok(listing::delimited(&self.db, bucket, &folding, range, limit).await?)
    }
}

/// A text that sorts after every key: longer than a key can be, of the greatest character.
pub(super) fn beyond_all_keys() -> String {
    char::MAX.to_string().repeat(super::types::MAX_KEY_BYTES / char::MAX.len_utf8() + 1)
}

/// The least key that the page may begin with; `None` where no key can.
pub(super) fn first_key(query: &ListObjects) -> Option<String> {
    let Some(after) = &query.after else { return Some(query.prefix.clone()) };
    let next = if common_prefix(after, &query.prefix, query.delimiter.as_deref()) == Some(after) {
        prefix_end(after)?
    } else {
        // Keys have no NUL, so nothing lies between a key and the key with U+0001 appended.
        format!("{after}\u{1}")
    };
    Some(next.max(query.prefix.clone()))
}

/// The common prefix that a key is rolled up to.
pub(super) fn common_prefix<'a>(key: &'a str, prefix: &str, delimiter: Option<&str>) -> Option<&'a str> {
    let delimiter = delimiter.filter(|d| !d.is_empty())?;
    let rest = key.strip_prefix(prefix)?;
    let end = prefix.len() + rest.find(delimiter)? + delimiter.len();
    Some(&key[..end])
}

/// The least text that sorts after every text beginning with `prefix`; `None` where there is none.
pub(super) fn prefix_end(prefix: &str) -> Option<String> {
    let mut rest = prefix.to_owned();
    while let Some(last) = rest.pop() {
        let mut successors = (u32::from(last) + 1..=u32::from(char::MAX)).filter_map(char::from_u32);
        if let Some(next) = successors.next() {
            rest.push(next);
            return Some(rest);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_end_of_a_prefix_skips_surrogates_and_carries() {
        assert_eq!(prefix_end("a/").as_deref(), Some("a0"));
        assert_eq!(prefix_end("a\u{D7FF}").as_deref(), Some("a\u{E000}"));
        assert_eq!(prefix_end("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(prefix_end("\u{10FFFF}\u{10FFFF}"), None);
        assert_eq!(prefix_end(""), None);
    }

    #[test]
    fn a_marker_that_is_a_common_prefix_skips_all_of_it() {
        let query = |after: &str| ListObjects {
            delimiter: Some("/".into()),
            after: Some(after.into()),
            max_entries: 1,
            ..ListObjects::default()
        };
        assert_eq!(first_key(&query("a/")).as_deref(), Some("a0"));
        assert_eq!(first_key(&query("a/b")).as_deref(), Some("a/b\u{1}"));
    }

    proptest! {
        #[test]
        fn everything_with_the_prefix_sorts_before_its_end(prefix in "\\PC{1,4}", rest in "\\PC{0,4}", other in "\\PC{0,6}") {
            if let Some(end) = prefix_end(&prefix) {
                let key = format!("{prefix}{rest}");
                prop_assert!(key < end);
                prop_assert!(other.starts_with(&prefix) || other < prefix || other >= end);
            }
        }
    }
}
