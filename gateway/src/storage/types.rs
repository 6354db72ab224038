//! The vocabulary of the engine: names, ranges, conditions and attributes, parsed once at the border.
//!
//! A value of one of these types is already valid, so nothing below the protocol layer checks again. Nothing here
//! knows S3's wire format: an ETag is the bare hex text, a checksum is raw bytes, a time is a timestamp.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::version_types::{DefaultRetention, Retention, Tags, VersionId, Versioning};

/// Longest object key in bytes of UTF-8 (AWS: "Object key names", User Guide).
pub const MAX_KEY_BYTES: usize = 1024;
/// Largest part number (AWS: "Amazon S3 multipart upload limits").
pub const MAX_PART_NUMBER: u32 = 10_000;
/// Smallest part but the last, in bytes (AWS: "Amazon S3 multipart upload limits").
pub const MIN_PART_BYTES: u64 = 5 << 20;

/// A bucket name. Its form was checked by the protocol layer; only existence is left to the index.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketName(String);

impl BucketName {
    /// Wraps a name that the protocol layer has validated.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An object key: 1 to 1024 bytes of UTF-8 without NUL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(String);

/// Why a text is not an object key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// A key has at least one byte.
    #[error("object key is empty")]
    Empty,
    /// A key has at most [`MAX_KEY_BYTES`] bytes.
    #[error("object key is longer than 1024 bytes")]
    TooLong,
    /// PostgreSQL's `text` cannot hold NUL.
    #[error("object key contains a NUL character")]
    Nul,
}

impl ObjectKey {
    /// Parses a key.
    ///
    /// # Errors
    /// [`InvalidKey`] for an empty text, one over 1024 bytes, or one with NUL.
    pub fn parse(key: impl Into<String>) -> Result<Self, InvalidKey> {
        let key = key.into();
        match key.len() {
            0 => Err(InvalidKey::Empty),
            n if n > MAX_KEY_BYTES => Err(InvalidKey::TooLong),
            _ if key.contains('\0') => Err(InvalidKey::Nul),
            _ => Ok(Self(key)),
        }
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Identity of a multipart upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UploadId(pub Uuid);

/// Checksum algorithms of S3 objects (AWS: "Checking object integrity").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChecksumAlgorithm {
    /// CRC-32 (ISO-HDLC).
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64/NVME; what S3 computes when a client declares nothing.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// MD5.
    Md5,
    /// XXH64.
    XxHash64,
    /// XXH3 with 64 bits.
    XxHash3,
    /// XXH3 with 128 bits.
    XxHash128,
}

impl ChecksumAlgorithm {
    /// Every algorithm, in the order of AWS's documentation.
    pub const ALL: [Self; 10] = [
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Md5,
        Self::XxHash64,
        Self::XxHash3,
        Self::XxHash128,
    ];

    /// The name in S3's API and in the index.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha512 => "SHA512",
            Self::Md5 => "MD5",
            Self::XxHash64 => "XXHASH64",
            Self::XxHash3 => "XXHASH3",
            Self::XxHash128 => "XXHASH128",
        }
    }

    /// Parses the API name, in any letter case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.as_str().eq_ignore_ascii_case(name))
    }
}

/// How the checksum of a multipart object relates to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumType {
    /// The checksum of the parts' checksums.
    Composite,
    /// The checksum of all bytes.
    FullObject,
}

impl ChecksumType {
    /// The name in S3's API and in the index.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Composite => "COMPOSITE",
            Self::FullObject => "FULL_OBJECT",
        }
    }

    /// Parses the API name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Composite, Self::FullObject].into_iter().find(|t| t.as_str() == name)
    }
}

/// A checksum as stored with an object or a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Which algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// Over all bytes, or over the parts' checksums.
    pub kind: ChecksumType,
    /// The digest, raw.
    pub value: Vec<u8>,
}

impl Checksum {
    /// The checksum of all bytes.
    #[must_use]
    pub fn full_object(algorithm: ChecksumAlgorithm, value: Vec<u8>) -> Self {
        Self { algorithm, kind: ChecksumType::FullObject, value }
    }
}

/// What a client stored beside the bytes. Texts are as the client sent them. Its JSON form is the column `attributes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attributes {
    /// `Content-Type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// `Content-Encoding` without `aws-chunked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
    /// `Content-Disposition`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_disposition: Option<String>,
    /// `Content-Language`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_language: Option<String>,
    /// `Cache-Control`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<String>,
    /// `Expires`, verbatim: S3 does not parse it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub website_redirect_location: Option<String>,
    /// `x-amz-storage-class` where it is not STANDARD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class: Option<String>,
    /// `x-amz-meta-*`, names in lower case without the prefix, values decoded.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub user_metadata: BTreeMap<String, String>,
}

/// The tags of an `If-Match` or `If-None-Match` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagSet {
    /// `*`: whatever exists.
    Any,
    /// Any of these, without quotes.
    OneOf(Vec<String>),
}

impl EtagSet {
    /// Whether an existing object with this ETag is in the set.
    #[must_use]
    pub fn contains(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.iter().any(|t| t == etag),
        }
    }
}

/// Conditions that the publishing statement itself decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteConditions {
    /// The key must exist with one of these tags.
    pub if_match: Option<EtagSet>,
    /// The key must not exist with one of these tags.
    pub if_none_match: Option<EtagSet>,
}

/// The bytes a reader asks for, before the size is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeRequest {
    /// Everything.
    Whole,
    /// `first-last`, both inclusive, `first <= last`.
    Between {
        /// First byte.
        first: u64,
        /// Last byte, may lie beyond the end.
        last: u64,
    },
    /// `first-`: from a byte to the end.
    From {
        /// First byte.
        first: u64,
    },
    /// `-length`: the last bytes.
    Suffix {
        /// How many.
        length: u64,
    },
    /// `partNumber`: one part of a multipart object, or part 1 of any other.
    Part(u32),
}

/// What the index knows of an object.
#[derive(Clone, Debug)]
pub struct ObjectInfo {
    /// Length in bytes.
    pub size: u64,
    /// ETag without quotes.
    pub etag: String,
    /// When it was published, by the database server's clock, to the millisecond.
    pub last_modified: OffsetDateTime,
    /// What the client stored beside the bytes.
    pub attributes: Attributes,
    /// The object's checksum.
    pub checksum: Option<Checksum>,
    /// How many parts made it, for a multipart object.
    pub parts_count: Option<u32>,
    /// Which version it is; `None` where the bucket never was versioned.
    pub version: Option<VersionId>,
    /// Who owns it.
    pub owner: String,
    /// Its tags.
    pub tags: Tags,
    /// Until when it cannot be deleted, now or in the past.
    pub retention: Option<Retention>,
    /// Its legal hold, where one was ever set.
    pub legal_hold: Option<bool>,
}

/// One part of a multipart object or upload.
#[derive(Clone, Debug)]
pub struct PartInfo {
    /// 1 to 10,000.
    pub number: u32,
    /// Length in bytes.
    pub size: u64,
    /// Where the part starts in the object; 0 in an upload under way.
    pub start: u64,
    /// MD5 of the part's bytes, hex.
    pub etag: String,
    /// The part's checksum, where the upload has an algorithm.
    pub checksum: Option<Checksum>,
    /// When the part was stored; for a finished object, when the object was.
    pub last_modified: OffsetDateTime,
}

/// A bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Its name.
    pub name: BucketName,
    /// Who created it.
    pub owner: String,
    /// When, by the database server's clock.
    pub created_at: OffsetDateTime,
    /// Whether it keeps versions; `None`: it never did.
    pub versioning: Option<Versioning>,
    /// Whether versions in it can be locked.
    pub object_lock: bool,
    /// What new versions are retained by.
    pub default_retention: Option<DefaultRetention>,
}

/// A page of anything listed.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The entries, in byte order of their names.
    pub entries: Vec<T>,
    /// Whether more follow.
    pub truncated: bool,
}

/// Resolves a requested range against a size.
///
/// `None` means that the range cannot be satisfied (416). A suffix of an empty object and any range of it that starts
/// at or beyond its end are unsatisfiable, as RFC 9110, 14.1.2 says. [`RangeRequest::Part`] is not resolved here.
#[must_use]
pub fn resolve_range(request: RangeRequest, size: u64) -> Option<Range<u64>> {
    match request {
        RangeRequest::Whole | RangeRequest::Part(_) => Some(0..size),
        RangeRequest::Between { first, last } => (first < size).then(|| first..size.min(last.saturating_add(1))),
        RangeRequest::From { first } => (first < size).then_some(first..size),
        RangeRequest::Suffix { length } => (length > 0 && size > 0).then(|| size.saturating_sub(length)..size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_resolve_as_rfc_9110_says() {
        let between = |first, last| RangeRequest::Between { first, last };
        assert_eq!(resolve_range(RangeRequest::Whole, 0), Some(0..0));
        assert_eq!(resolve_range(between(0, 0), 1), Some(0..1));
        assert_eq!(resolve_range(between(0, u64::MAX), 5), Some(0..5));
        assert_eq!(resolve_range(between(5, 9), 5), None);
        assert_eq!(resolve_range(RangeRequest::From { first: 4 }, 5), Some(4..5));
        assert_eq!(resolve_range(RangeRequest::From { first: 0 }, 0), None);
        assert_eq!(resolve_range(RangeRequest::Suffix { length: 9 }, 5), Some(0..5));
        assert_eq!(resolve_range(RangeRequest::Suffix { length: 0 }, 5), None);
        assert_eq!(resolve_range(RangeRequest::Suffix { length: 1 }, 0), None);
    }

    #[test]
    fn keys_are_1_to_1024_bytes_without_nul() {
        assert_eq!(ObjectKey::parse(""), Err(InvalidKey::Empty));
        assert_eq!(ObjectKey::parse("a\0b"), Err(InvalidKey::Nul));
        assert!(ObjectKey::parse("é".repeat(512)).is_ok());
        assert_eq!(ObjectKey::parse("é".repeat(513)), Err(InvalidKey::TooLong));
        assert!(ObjectKey::parse("//\u{1}\u{10FFFF}/").is_ok());
    }
}
