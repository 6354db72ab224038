//! Listings of multipart uploads under way, in the order of their keys and then of their initiation.
//!
//! Uploads are few, so common prefixes are folded here: the scan stops at the first upload that is rolled up and is
//! entered anew behind everything with that prefix.

use uuid::Uuid;

use super::error::Result;
use super::index::uploads;
use super::listing::{common_prefix, prefix_end};
use super::types::{BucketName, MAX_KEY_BYTES, Page, UploadId};
use super::{Storage, Upload};

/// Which uploads to list.
#[derive(Clone, Debug, Default)]
pub struct ListUploads {
    /// Keys that begin with this.
    pub prefix: String,
    /// Keys are rolled up to the first occurrence of this after the prefix.
    pub delimiter: Option<String>,
    /// Keys after this, and uploads of this key after `upload_id_marker`.
    pub key_marker: Option<String>,
    /// Only with `key_marker`.
    pub upload_id_marker: Option<UploadId>,
    /// At most so many entries.
    pub max_entries: u32,
}

/// An entry of such a listing.
#[derive(Clone, Debug)]
pub enum UploadEntry {
    /// An upload.
    Upload(Box<Upload>),
    /// Keys rolled up.
    CommonPrefix(String),
}

impl Storage {
    /// Uploads under way in a bucket.
    ///
    /// # Errors
    /// [`NoSuchBucket`](super::ErrorKind::NoSuchBucket), and those of the database.
    pub async fn list_uploads(&self, bucket: &BucketName, query: ListUploads) -> Result<Page<UploadEntry>> {
        self.bucket(bucket).await?;
        let max = query.max_entries as usize;
        let mut entries = Vec::new();
        let mut after = upload_marker(&query);
        while let Some((key, id)) = after.take().filter(|_| max > 0) {
            let limit = query.max_entries.saturating_add(1);
            let found = uploads::list(&self.db, bucket, &query.prefix, (&key, id), limit).await?;
            for upload in found {
                let rolled = common_prefix(&upload.key, &query.prefix, query.delimiter.as_deref()).map(str::to_owned);
                if entries.len() == max {
                    return Ok(Page { entries, truncated: true });
                }
                let Some(prefix) = rolled else {
                    entries.push(UploadEntry::Upload(Box::new(upload)));
                    after = None;
                    continue;
                };
                // The scan is entered anew behind everything that is rolled up here.
                after = prefix_end(&prefix).map(|end| (before(&end), Uuid::max()));
                entries.push(UploadEntry::CommonPrefix(prefix));
                break;
            }
        }
        Ok(Page { entries, truncated: false })
    }
}

/// Where a listing of uploads begins: after this key, or after this upload of it. `None`: nothing can follow.
fn upload_marker(query: &ListUploads) -> Option<(String, Uuid)> {
    let Some(key) = &query.key_marker else { return Some((String::new(), Uuid::max())) };
    if common_prefix(key, &query.prefix, query.delimiter.as_deref()) == Some(key) {
        return prefix_end(key).map(|end| (before(&end), Uuid::max()));
    }
    Some((key.clone(), query.upload_id_marker.map_or(Uuid::max(), |id| id.0)))
}

/// A text that sorts before `end` and after or at everything that `end` is the end of: its last character lowered by
/// one, then the last character of all, as often as a key is long.
fn before(end: &str) -> String {
    let mut text = end.to_owned();
    let last = text.pop().map_or(0, u32::from);
    if let Some(previous) = (0..last).rev().find_map(char::from_u32).filter(|c| *c != '\0') {
        text.push(previous);
    }
    text.extend(std::iter::repeat_n(char::MAX, MAX_KEY_BYTES / char::MAX.len_utf8() + 1));
    text
}
