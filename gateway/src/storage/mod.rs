//! TEMPORARY SIGNATURES for the protocol layer: the bodies come from main.
#![allow(missing_docs, unused_variables, clippy::todo, clippy::missing_errors_doc, clippy::unused_async)]
pub mod error;
pub mod types;
use std::{ops::Range, pin::Pin};
use bytes::Bytes;
pub use error::{ErrorKind, Result, StorageError};
use futures::Stream;
use types::*;

/// Bytes from the client; the error is the stream's own and comes back as `ErrorKind::Body` with it as the source.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>> + Send>>;
/// Bytes to the client.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Cheap to clone.
#[derive(Clone)]
pub struct Storage {}

/// What to compute while bytes arrive (MD5 and length always are).
#[derive(Clone, Debug, Default)]
pub struct StageOptions {
    /// Length the client declared; staging fails with IncompleteBody when the body is shorter or longer.
    pub length: Option<u64>,
    /// Checksums to compute.
    pub checksums: Vec<ChecksumAlgorithm>,
    /// SHA-256 that the request's signature covers and that the body stream itself verifies (x-amz-content-sha256 hex).
    pub signed_sha256: Option<[u8; 32]>,
    /// EntityTooLarge beyond it.
    pub max_length: u64,
}
/// Bytes received, not yet visible. Dropping it leaves nothing behind.
pub struct Staged {}
impl Staged {
    pub fn size(&self) -> u64 { todo!() }
    /// 16 bytes.
    pub fn md5(&self) -> [u8; 16] { todo!() }
    /// A checksum named in StageOptions.
    pub fn checksum(&self, algorithm: ChecksumAlgorithm) -> Option<&[u8]> { todo!() }
}
#[derive(Clone, Debug)]
pub struct PublishObject {
    pub bucket: BucketName,
    pub key: ObjectKey,
    pub attributes: Attributes,
    pub checksum: Option<Checksum>,
    pub conditions: WriteConditions,
}
#[derive(Clone, Debug)]
pub struct Published { pub etag: String, pub size: u64, pub last_modified: time::OffsetDateTime }

/// An object found, its content held against removal until this (or the stream from it) is dropped.
pub struct Located { pub info: ObjectInfo, /* private */ }
impl Located {
    /// The bytes that the request asks for; None: unsatisfiable (416). For RangeRequest::Part: that part's bytes.
    pub fn range(&self) -> Option<Range<u64>> { todo!() }
    /// The part asked for by RangeRequest::Part on a multipart object.
    pub fn part(&self) -> Option<&PartInfo> { todo!() }
    /// Streams `self.range()`.
    pub fn open(self) -> ByteStream { todo!() }
}
#[derive(Clone, Debug)]
pub struct CreateUpload {
    pub bucket: BucketName, pub key: ObjectKey, pub attributes: Attributes,
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>, pub initiator: String,
}
#[derive(Clone, Debug)]
pub struct Upload {
    pub id: UploadId, pub key: ObjectKey, pub attributes: Attributes,
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>, pub initiated_at: time::OffsetDateTime, pub initiator: String,
}
#[derive(Clone, Debug)]
pub struct PublishPart { pub bucket: BucketName, pub key: ObjectKey, pub upload: UploadId, pub number: u32, pub checksum: Option<Checksum> }
#[derive(Clone, Debug)]
pub struct CompletedPart { pub number: u32, pub etag: String, /* unquoted */ pub checksum: Option<(ChecksumAlgorithm, Vec<u8>)> }
#[derive(Clone, Debug)]
pub struct CompleteUpload {
    pub bucket: BucketName, pub key: ObjectKey, pub upload: UploadId,
    /// In ascending order of number, checked by the protocol (InvalidPartOrder).
    pub parts: Vec<CompletedPart>,
    pub conditions: WriteConditions,
    /// Whole-object checksum the client declares; another value fails with ErrorKind::ChecksumMismatch.
    pub expected_checksum: Option<Checksum>,
    /// x-amz-mp-object-size
    pub expected_size: Option<u64>,
}
#[derive(Clone, Debug)]
pub struct Completed { pub published: Published, pub checksum: Option<Checksum>, pub parts_count: u32 }

#[derive(Clone, Debug, Default)]
pub struct ListObjects {
    pub prefix: String, pub delimiter: Option<String>,
    /// Entries (keys or common prefixes) after this name only.
    pub after: Option<String>,
    /// 0..=1000
    pub max_entries: u32,
}
#[derive(Clone, Debug)]
pub enum ListEntry { Object(ListedObject), CommonPrefix(String) }
#[derive(Clone, Debug)]
pub struct ListedObject { pub key: String, pub size: u64, pub etag: String, pub last_modified: time::OffsetDateTime, pub storage_class: Option<String>, pub checksum: Option<(ChecksumAlgorithm, ChecksumType)> }
#[derive(Clone, Debug, Default)]
pub struct ListUploads { pub prefix: String, pub delimiter: Option<String>, pub key_marker: Option<String>, pub upload_id_marker: Option<UploadId>, pub max_entries: u32 }
#[derive(Clone, Debug)]
pub enum UploadEntry { Upload(Upload), CommonPrefix(String) }
#[derive(Clone, Debug)]
pub struct DeleteObject {
    pub key: ObjectKey,
    /// If-Match
    pub if_match: Option<EtagSet>,
    /// x-amz-if-match-size and -last-modified-time
    pub if_match_size: Option<u64>, pub if_match_last_modified: Option<time::OffsetDateTime>,
}

impl Storage {
    pub async fn create_bucket(&self, name: &BucketName, owner: &str) -> Result<()> { todo!() }
    pub async fn bucket(&self, name: &BucketName) -> Result<Bucket> { todo!() }
    pub async fn delete_bucket(&self, name: &BucketName) -> Result<()> { todo!() }
    /// Names with the prefix, after `after`, at most `max`.
    pub async fn list_buckets(&self, prefix: &str, after: Option<&str>, max: u32) -> Result<Page<Bucket>> { todo!() }
    /// Receives a body: digests, budget, and for long ones the large object, in an open transaction.
    pub async fn stage(&self, body: BodyStream, options: StageOptions) -> Result<Staged> { todo!() }
    pub async fn publish_object(&self, staged: Staged, object: PublishObject) -> Result<Published> { todo!() }
    /// Finds the object and what the range needs. NoSuchBucket, NoSuchKey.
    pub async fn locate(&self, bucket: &BucketName, key: &ObjectKey, range: RangeRequest) -> Result<Located> { todo!() }
    /// As locate, for HEAD: no content. `part`: partNumber.
    pub async fn head(&self, bucket: &BucketName, key: &ObjectKey, range: RangeRequest) -> Result<Located> { todo!() }
    /// Parts of a multipart object (GetObjectAttributes), after a number.
    pub async fn object_parts(&self, bucket: &BucketName, key: &ObjectKey, after: u32, max: u32) -> Result<(ObjectInfo, Page<PartInfo>)> { todo!() }
    /// Idempotent; the conditions are decided in the statement.
    pub async fn delete_object(&self, bucket: &BucketName, object: DeleteObject) -> Result<()> { todo!() }
    /// In the order given; one transaction.
    pub async fn delete_objects(&self, bucket: &BucketName, objects: Vec<DeleteObject>) -> Result<Vec<Result<()>>> { todo!() }
    /// Publishes the located source's content under another key; moves no bytes. Copies checksum from `object.checksum`.
    pub async fn copy_object(&self, source: &Located, object: PublishObject) -> Result<Published> { todo!() }
    /// Reads the located bytes once to compute a checksum that is not stored.
    pub async fn checksum_of(&self, source: &Located, algorithm: ChecksumAlgorithm) -> Result<Vec<u8>> { todo!() }
    pub async fn create_upload(&self, upload: CreateUpload) -> Result<UploadId> { todo!() }
    /// NoSuchBucket, NoSuchUpload (also when the key differs).
    pub async fn upload(&self, bucket: &BucketName, key: &ObjectKey, id: UploadId) -> Result<Upload> { todo!() }
    pub async fn publish_part(&self, staged: Staged, part: PublishPart) -> Result<PartInfo> { todo!() }
    /// UploadPartCopy of the located range; shares whole contents, copies bytes otherwise. Computes the upload's checksum if it has one.
    pub async fn copy_part(&self, source: Located, part: PublishPart, algorithm: Option<ChecksumAlgorithm>) -> Result<PartInfo> { todo!() }
    pub async fn complete_upload(&self, complete: CompleteUpload) -> Result<Completed> { todo!() }
    pub async fn abort_upload(&self, bucket: &BucketName, key: &ObjectKey, id: UploadId) -> Result<()> { todo!() }
    pub async fn list_parts(&self, bucket: &BucketName, key: &ObjectKey, id: UploadId, after: u32, max: u32) -> Result<(Upload, Page<PartInfo>)> { todo!() }
    pub async fn list_uploads(&self, bucket: &BucketName, query: ListUploads) -> Result<Page<UploadEntry>> { todo!() }
    pub async fn list_objects(&self, bucket: &BucketName, query: ListObjects) -> Result<Page<ListEntry>> { todo!() }
}
