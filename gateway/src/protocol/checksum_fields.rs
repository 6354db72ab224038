//! Writing a checksum into the ten fields that each of s3s's outputs has for it.
//!
//! s3s gives every output type its own fields of the same names; a macro fills them, so that no operation forgets one.

use s3s::dto;

use crate::storage::types::{Checksum, ChecksumAlgorithm, ChecksumType};

use super::checksums;

/// A checksum as texts, one of which is set.
#[derive(Clone, Debug, Default)]
pub(super) struct ChecksumTexts {
    pub(super) crc32: Option<String>,
    pub(super) crc32c: Option<String>,
    pub(super) crc64nvme: Option<String>,
    pub(super) sha1: Option<String>,
    pub(super) sha256: Option<String>,
    pub(super) sha512: Option<String>,
    pub(super) md5: Option<String>,
    pub(super) xxhash64: Option<String>,
    pub(super) xxhash3: Option<String>,
    pub(super) xxhash128: Option<String>,
    pub(super) kind: Option<dto::ChecksumType>,
}

impl ChecksumTexts {
    /// The texts of a checksum; `parts` marks a composite.
    pub(super) fn new(checksum: Option<&Checksum>, parts: Option<u32>) -> Self {
        let Some(checksum) = checksum else { return Self::default() };
        let mut texts = Self { kind: Some(checksum_type(checksum.kind)), ..Self::default() };
        let text = Some(checksums::encode(checksum, parts));
        match checksum.algorithm {
            ChecksumAlgorithm::Crc32 => texts.crc32 = text,
            ChecksumAlgorithm::Crc32c => texts.crc32c = text,
            ChecksumAlgorithm::Crc64Nvme => texts.crc64nvme = text,
            ChecksumAlgorithm::Sha1 => texts.sha1 = text,
            ChecksumAlgorithm::Sha256 => texts.sha256 = text,
            ChecksumAlgorithm::Sha512 => texts.sha512 = text,
            ChecksumAlgorithm::Md5 => texts.md5 = text,
            ChecksumAlgorithm::XxHash64 => texts.xxhash64 = text,
            ChecksumAlgorithm::XxHash3 => texts.xxhash3 = text,
            ChecksumAlgorithm::XxHash128 => texts.xxhash128 = text,
        }
        texts
    }
}

/// The type as s3s writes it.
pub(super) fn checksum_type(kind: ChecksumType) -> dto::ChecksumType {
    dto::ChecksumType::from_static(kind.as_str())
}

/// The algorithm as s3s writes it.
pub(super) fn checksum_algorithm(algorithm: ChecksumAlgorithm) -> dto::ChecksumAlgorithm {
    dto::ChecksumAlgorithm::from_static(algorithm.as_str())
}

/// Sets the checksum fields of an output.
macro_rules! set_checksum {
    ($output:expr, $texts:expr) => {{
        let texts: $crate::protocol::checksum_fields::ChecksumTexts = $texts;
        $output.checksum_crc32 = texts.crc32;
        $output.checksum_crc32c = texts.crc32c;
        $output.checksum_crc64nvme = texts.crc64nvme;
        $output.checksum_sha1 = texts.sha1;
        $output.checksum_sha256 = texts.sha256;
        $output.checksum_sha512 = texts.sha512;
        $output.checksum_md5 = texts.md5;
        $output.checksum_xxhash64 = texts.xxhash64;
        $output.checksum_xxhash3 = texts.xxhash3;
        $output.checksum_xxhash128 = texts.xxhash128;
        texts.kind
    }};
}
pub(super) use set_checksum;
