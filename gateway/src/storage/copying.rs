//! Copies: a reference to the same content, not the same bytes again.
//!
//! CopyObject never moves bytes. UploadPartCopy does not either, where the range is exactly one stored content: so a
//! large object is copied in parts by reference if it was uploaded in those parts. The foreign key decides the race
//! with the reaper (see `lobgate.reap`): a copy that comes too late fails, and its caller locates again.

use super::error::{ErrorKind, Result, StorageError};
use super::index::objects::ExistingContent;
use super::index::{objects, uploads};
use super::read_plan::Segment;
use super::staged_writer::{detached, is_content_gone};
use super::types::{Checksum, ChecksumAlgorithm, PartInfo};
use super::{Located, PublishObject, PublishPart, Published, StageOptions, Storage, new_id};
use crate::db::{DbError, Lane};
use crate::storage::digest::Digester;
use futures::{StreamExt, TryStreamExt};

impl Storage {
    /// Publishes the located object's content under another key (or the same, with other attributes).
    ///
    /// # Errors
    /// As [`Storage::publish_object`]; [`ErrorKind::ReadInterrupted`] where the source has been reaped: locate again.
    pub async fn copy_object(&self, source: &Located, object: PublishObject) -> Result<Published> {
        let storage = self.clone();
        let (content, size, etag) = (source.content, source.info.size, source.info.etag.clone());
        let parts_count = source.info.parts_count;
        detached(async move {
            let guard = storage.reads.begin().await?;
            let tx = storage.db.begin("copy_object", Lane::Short).await?;
            let write = new_id();
            let existing = ExistingContent { write, content, size, etag: &etag, parts_count };
            let written = objects::publish(&tx, &existing, &object).await.map_err(gone_or)?;
            storage.commit_with_receipt(tx, write, &guard).await?;
            Ok(Published { etag, size, written })
        })
        .await
    }

    /// Reads the located bytes once for a checksum that is not stored.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn checksum_of(&self, source: &Located, algorithm: ChecksumAlgorithm) -> Result<Vec<u8>> {
        let mut digester = Digester::new(&[algorithm]);
        let mut bytes = source.reopen();
        while let Some(piece) = bytes.next().await {
            digester.update(&piece?);
        }
        digester.finish().checksums.pop().map(|(_, v)| v).ok_or_else(|| ErrorKind::Internal.into())
    }

    /// Makes the located range a part of an upload, with the checksum of the upload's algorithm.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchUpload`], and those of reading and writing.
    pub async fn copy_part(
        &self,
        source: Located,
        mut part: PublishPart,
        algorithm: Option<ChecksumAlgorithm>,
    ) -> Result<PartInfo> {
        let range = source.range().ok_or(ErrorKind::Internal)?;
        let length = range.end - range.start;
        if let [segment] = &source.segments[..]
            && segment.start == range.start
            && segment.size == length
            && let Some(shared) = self.share_part(&source, segment, &part, algorithm).await?
        {
            return Ok(shared);
        }
        let checksums: Vec<_> = algorithm.into_iter().collect();
        let options = StageOptions { length: Some(length), checksums, max_length: length, ..StageOptions::default() };
        let body = source.reopen().map_err(|e| Box::new(e) as Box<dyn std::error::Error + Send + Sync>);
        let staged = self.stage(Box::pin(body), options).await.map_err(unwrap_body)?;
        part.checksum =
            algorithm.and_then(|a| staged.digests().checksum(a).map(|value| Checksum::full_object(a, value.to_vec())));
        self.publish_part(staged, part).await
    }

    /// Shares a whole content as a part. `None` where it was reaped, so that its bytes have to be copied from the read
    /// that still holds them, or where its MD5 is not at hand.
    async fn share_part(
        &self,
        source: &Located,
        segment: &Segment,
        part: &PublishPart,
        algorithm: Option<ChecksumAlgorithm>,
    ) -> Result<Option<PartInfo>> {
        let Some(md5) = objects::content_md5(&self.db, segment.content).await? else { return Ok(None) };
        let checksum = match algorithm {
            None => None,
            Some(algorithm) => Some(Checksum::full_object(algorithm, self.checksum_of(source, algorithm).await?)),
        };
        let part = PublishPart { checksum, ..part.clone() };
        let (storage, content, size) = (self.clone(), segment.content, segment.size);
        detached(async move {
            let guard = storage.reads.begin().await?;
            let tx = storage.db.begin("copy_part", Lane::Short).await?;
            let last_modified = match uploads::publish_part(&tx, content, size, &md5, &part).await {
                Ok(last_modified) => last_modified,
                Err(e) if is_content_gone(&e) => return Ok(None),
                Err(e) => return Err(e.into()),
            };
            storage.commit_with_receipt(tx, new_id(), &guard).await?;
            let etag = hex::encode(&md5);
            Ok(Some(PartInfo { number: part.number, size, start: 0, etag, checksum: part.checksum, last_modified }))
        })
        .await
    }
}

fn gone_or(error: DbError) -> StorageError {
    if is_content_gone(&error) { StorageError::new(ErrorKind::ReadInterrupted, error) } else { error.into() }
}

/// A failed read of the source came through the body stream: it is our own error, not the client's.
fn unwrap_body(error: StorageError) -> StorageError {
    if error.kind() != ErrorKind::Body {
        return error;
    }
    match error.into_source().map(<dyn std::error::Error + Send + Sync>::downcast::<StorageError>) {
        Some(Ok(inner)) => *inner,
        _ => ErrorKind::Internal.into(),
    }
}
