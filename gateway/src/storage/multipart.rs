//! Multipart uploads: parts are contents like any other, and completion strings them together without moving a byte.
//!
//! Completion locks the upload, compares the parts that the client names with those stored, makes a composite content
//! that refers to theirs, publishes it, and lets go of the upload's own references, all in one transaction. The upload's
//! row stays for a while with the answer, so that a client that repeats a completion whose reply it lost gets the same.

use md5::{Digest as _, Md5};
use time::OffsetDateTime;

use super::content::digest::{CrcJoiner, Digester};
use super::error::{ErrorKind, Result, StorageError};
use super::index::contents::{self, CompositePart};
use super::index::objects::{self, ExistingContent};
use super::index::uploads::{self, CompletedColumn, StoredPart};
use super::staged_writer::detached;
use super::types::{
    Attributes, BucketName, Checksum, ChecksumAlgorithm, ChecksumType, MIN_PART_BYTES, ObjectKey, Page, PartInfo,
    UploadId, WriteConditions,
};
use super::version_types::{VersionId, VersionSettings, Written};
use super::{PublishObject, Published, Storage, new_id};
use crate::db::Lane;

/// An upload to begin.
#[derive(Clone, Debug)]
pub struct CreateUpload {
    /// Into which bucket.
    pub bucket: BucketName,
    /// Under which key.
    pub key: ObjectKey,
    /// What is to be stored beside the bytes.
    pub attributes: Attributes,
    /// The checksum that the object is to have.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// Who began it; the owner of the object.
    pub initiator: String,
    /// What is to be set on the version.
    pub settings: VersionSettings,
}

/// An upload under way.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Its id.
    pub id: UploadId,
    /// The key it is for.
    pub key: String,
    /// What is to be stored beside the bytes.
    pub attributes: Attributes,
    /// The checksum that the object is to have.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// When it began.
    pub initiated_at: OffsetDateTime,
    /// Who began it.
    pub initiator: String,
    /// What is to be set on the version.
    pub settings: VersionSettings,
}

impl Upload {
    /// Who will own the object.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.settings.owner.as_deref().unwrap_or(&self.initiator)
    }
}

/// A part to publish.
#[derive(Clone, Debug)]
pub struct PublishPart {
    /// Bucket of the upload.
    pub bucket: BucketName,
    /// Key of the upload.
    pub key: ObjectKey,
    /// The upload.
    pub upload: UploadId,
    /// 1 to 10,000.
    pub number: u32,
    /// Its checksum, of the upload's algorithm.
    pub checksum: Option<Checksum>,
}

/// A part as the client names it on completion.
#[derive(Clone, Debug)]
pub struct CompletedPart {
    /// 1 to 10,000.
    pub number: u32,
    /// Without quotes.
    pub etag: String,
    /// The checksum it should have.
    pub checksum: Option<(ChecksumAlgorithm, Vec<u8>)>,
}

/// An upload to complete.
#[derive(Clone, Debug)]
pub struct CompleteUpload {
    /// Bucket of the upload.
    pub bucket: BucketName,
    /// Key of the upload.
    pub key: ObjectKey,
    /// The upload.
    pub upload: UploadId,
    /// In ascending order of their numbers, at least one.
    pub parts: Vec<CompletedPart>,
    /// What must hold at the moment of publishing.
    pub conditions: WriteConditions,
    /// The checksum that the object should have.
    pub expected_checksum: Option<Checksum>,
    /// The size that the object should have.
    pub expected_size: Option<u64>,
}

/// An upload completed.
#[derive(Clone, Debug)]
pub struct Completed {
    /// The object.
    pub published: Published,
    /// Its checksum.
    pub checksum: Option<Checksum>,
    /// How many parts it has.
    pub parts_count: u32,
}

impl Storage {
    /// Begins an upload.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], and those of the database.
    pub async fn create_upload(&self, upload: CreateUpload) -> Result<UploadId> {
        let id = UploadId(new_id());
        uploads::create(&self.db, id, &upload).await?;
        Ok(id)
    }

    /// Finds an upload under way.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::NoSuchUpload`].
    pub async fn upload(&self, bucket: &BucketName, key: &ObjectKey, id: UploadId) -> Result<Upload> {
        let found = uploads::find(&self.db, bucket, key, id, false).await?.ok_or(ErrorKind::NoSuchBucket)?;
        found.ok_or_else(|| ErrorKind::NoSuchUpload.into())
    }

    /// Finds an upload that is under way or was completed a while ago: what CompleteMultipartUpload may name.
    ///
    /// # Errors
    /// As [`Storage::upload`].
    pub async fn completable_upload(&self, bucket: &BucketName, key: &ObjectKey, id: UploadId) -> Result<Upload> {
        let found = uploads::find(&self.db, bucket, key, id, true).await?.ok_or(ErrorKind::NoSuchBucket)?;
        found.ok_or_else(|| ErrorKind::NoSuchUpload.into())
    }

    /// Ends an upload without an object.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::NoSuchUpload`].
    pub async fn abort_upload(&self, bucket: &BucketName, key: &ObjectKey, id: UploadId) -> Result<()> {
        if uploads::abort(&self.db, bucket, key, id).await? {
            return Ok(());
        }
        self.bucket(bucket).await?;
        Err(ErrorKind::NoSuchUpload.into())
    }

    /// Aborts an upload that a listing showed.
    ///
    /// # Errors
    /// As [`Storage::abort_upload`].
    pub async fn abort_listed_upload(&self, bucket: &BucketName, upload: &Upload) -> Result<()> {
        let key = ObjectKey::parse(&upload.key).map_err(|_| ErrorKind::NoSuchUpload)?;
        self.abort_upload(bucket, &key, upload.id).await
    }

    /// The parts of an upload, after a number, at most `max`.
    ///
    /// # Errors
    /// As [`Storage::upload`].
    pub async fn list_parts(
        &self,
        bucket: &BucketName,
        key: &ObjectKey,
        id: UploadId,
        after: u32,
        max: u32,
    ) -> Result<(Upload, Page<PartInfo>)> {
        let upload = self.upload(bucket, key, id).await?;
        let algorithm = upload.checksum.map(|c| c.0);
        let parts = uploads::parts(&self.db, id, algorithm, after, max.saturating_add(1)).await?;
        let truncated = parts.len() > max as usize;
        let entries = parts.into_iter().take(max as usize).map(|p| p.info).collect();
        Ok((upload, Page { entries, truncated }))
    }

    /// Makes an object of an upload's parts.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchUpload`], [`ErrorKind::InvalidPart`], [`ErrorKind::EntityTooSmall`],
    /// [`ErrorKind::ChecksumMismatch`], those of [`Storage::publish_object`]; the upload is then as it was.
    pub async fn complete_upload(&self, complete: CompleteUpload) -> Result<Completed> {
        let storage = self.clone();
        detached(async move { storage.complete(complete).await }).await
    }

    async fn complete(&self, complete: CompleteUpload) -> Result<Completed> {
        let CompleteUpload { bucket, key, upload: id, parts, conditions, expected_checksum, expected_size } = complete;
        let guard = self.reads.begin().await?;
        let tx = self.db.begin("complete_upload", Lane::Short).await?;
        let Some((upload, answered)) = uploads::lock(&tx, &bucket, &key, id).await? else {
            drop(tx);
            self.bucket(&bucket).await?;
            return Err(ErrorKind::NoSuchUpload.into());
        };
        if let Some(answer) = answered {
            // An earlier release did not note which parts it was.
            if answer.named.as_ref().is_some_and(|named| *named != digest_of(&parts)) {
                return Err(ErrorKind::NoSuchUpload.into());
            }
            return Ok(repeated(answer));
        }
        let stored = uploads::locked_parts(&tx, id, upload.checksum.map(|c| c.0)).await?;
        let chosen = choose(stored, &parts)?;
        let size = chosen.iter().map(|p| p.info.size).sum();
        if expected_size.is_some_and(|expected| expected != size) {
            return Err(ErrorKind::SizeMismatch.into());
        }
        let checksum = upload.checksum.and_then(|(algorithm, kind)| object_checksum(algorithm, kind, &chosen));
        if expected_checksum.as_ref().is_some_and(|expected| checksum.as_ref().is_some_and(|c| c != expected)) {
            return Err(ErrorKind::ChecksumMismatch.into());
        }
        let etag = object_etag(&chosen);
        let parts_count = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
        let content = new_id();
        contents::insert_composite(&tx, content, size, &composite(&chosen)).await?;
        let object = PublishObject {
            bucket,
            key,
            owner: upload.owner().to_owned(),
            attributes: upload.attributes,
            checksum: checksum.clone(),
            conditions,
            settings: upload.settings,
        };
        let existing = ExistingContent { write: content, content, size, etag: &etag, parts_count: Some(parts_count) };
        let written = objects::publish(&tx, &existing, &object).await?;
        let completed = Completed { published: Published { etag, size, written }, checksum, parts_count };
        uploads::complete(&tx, id, &answer(&completed, digest_of(&parts))).await?;
        self.commit_settled(tx, content, &guard).await?;
        Ok(completed)
    }
}

/// The stored parts that the client names, in its order.
fn choose(mut stored: Vec<StoredPart>, named: &[CompletedPart]) -> Result<Vec<StoredPart>> {
    let mut chosen = Vec::with_capacity(named.len());
    // Both are in ascending order of part numbers.
    stored.reverse();
    for want in named {
        while stored.last().is_some_and(|p| p.info.number < want.number) {
            stored.pop();
        }
        let Some(part) =
            stored.pop_if(|p| p.info.number == want.number && p.info.etag.eq_ignore_ascii_case(&want.etag))
        else {
            return Err(StorageError::new(
                ErrorKind::InvalidPart,
                format!("part {} is not stored with that ETag", want.number),
            ));
        };
        if let Some((algorithm, value)) = &want.checksum
            && part.info.checksum.as_ref().is_none_or(|c| c.algorithm != *algorithm || c.value != *value)
        {
            return Err(StorageError::new(
                ErrorKind::InvalidPart,
                format!("part {} has another checksum", want.number),
            ));
        }
        chosen.push(part);
    }
    let all_but_last = chosen.iter().rev().skip(1);
    if all_but_last.into_iter().any(|part| part.info.size < MIN_PART_BYTES) {
        return Err(ErrorKind::EntityTooSmall.into());
    }
    Ok(chosen)
}

fn composite(parts: &[StoredPart]) -> Vec<CompositePart> {
    let mut start = 0;
    parts
        .iter()
        .map(|part| {
            let checksum = part.info.checksum.as_ref().map(|c| c.value.clone());
            let entry = CompositePart {
                number: part.info.number,
                start,
                size: part.info.size,
                content: part.content,
                checksum,
            };
            start += part.info.size;
            entry
        })
        .collect()
}

/// The MD5 of the parts' MD5s, and how many they are.
fn object_etag(parts: &[StoredPart]) -> String {
    let mut md5 = Md5::new();
    for part in parts {
        md5.update(&part.md5);
    }
    format!("{}-{}", hex::encode(md5.finalize()), parts.len())
}

/// The object's checksum from those of its parts, without reading a byte. `None` where a part has none.
fn object_checksum(algorithm: ChecksumAlgorithm, kind: ChecksumType, parts: &[StoredPart]) -> Option<Checksum> {
    let values: Option<Vec<_>> =
        parts.iter().map(|p| p.info.checksum.as_ref().map(|c| (c.value.as_slice(), p.info.size))).collect();
    let values = values?;
    let value = match kind {
        ChecksumType::Composite => {
            let mut digester = Digester::new(&[algorithm]);
            for (value, _) in values {
                digester.update(value);
            }
            digester.finish().checksums.pop()?.1
        }
        ChecksumType::FullObject => {
            let (first, rest) = values.split_first()?;
            let mut joiner = CrcJoiner::new(algorithm)?;
            rest.iter().fold(first.0.to_vec(), |whole, (value, size)| joiner.join(&whole, value, *size))
        }
    };
    Some(Checksum { algorithm, kind, value })
}

/// Tells lists of parts apart: a completion that names others is not the same one again.
fn digest_of(parts: &[CompletedPart]) -> String {
    let mut md5 = Md5::new();
    for part in parts {
        md5.update(part.number.to_be_bytes());
        md5.update(part.etag.to_ascii_lowercase());
        md5.update([0]);
    }
    hex::encode(md5.finalize())
}

fn answer(completed: &Completed, named: String) -> CompletedColumn {
    CompletedColumn {
        named: Some(named),
        etag: completed.published.etag.clone(),
        size: completed.published.size,
        last_modified_ns: completed.published.written.last_modified.unix_timestamp_nanos(),
        checksum: completed
            .checksum
            .as_ref()
            .map(|c| (c.algorithm.as_str().into(), c.kind.as_str().into(), hex::encode(&c.value))),
        parts_count: completed.parts_count,
        version: completed.published.written.version.map(|v| v.to_string()),
    }
}

fn repeated(answer: CompletedColumn) -> Completed {
    let last_modified =
        OffsetDateTime::from_unix_timestamp_nanos(answer.last_modified_ns).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let checksum = answer.checksum.and_then(|(algorithm, kind, value)| {
        Some(Checksum {
            algorithm: ChecksumAlgorithm::parse(&algorithm)?,
            kind: ChecksumType::parse(&kind)?,
            value: hex::decode(value).ok()?,
        })
    });
    let written = Written { last_modified, version: answer.version.as_deref().and_then(VersionId::parse) };
    let published = Published { etag: answer.etag, size: answer.size, written };
    Completed { published, checksum, parts_count: answer.parts_count }
}
