//! Digests of bytes as they arrive: one pass, whatever is asked for.

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::md5_lanes::{self, Md5, Stream};
use crate::storage::types::ChecksumAlgorithm;

/// Digests of a byte string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// MD5, always.
    pub md5: [u8; 16],
    /// SHA-256, where it is known: a signed payload's, or a checksum that was asked for.
    pub sha256: Option<[u8; 32]>,
    /// The checksums asked for.
    pub checksums: Vec<(ChecksumAlgorithm, Vec<u8>)>,
}

impl Digests {
    /// A checksum that was asked for.
    #[must_use]
    pub fn checksum(&self, algorithm: ChecksumAlgorithm) -> Option<&[u8]> {
        self.checksums.iter().find(|(a, _)| *a == algorithm).map(|(_, v)| v.as_slice())
    }
}

/// Computes [`Digests`] piece by piece.
pub struct Digester {
    md5: Md5,
    sha256: Option<Sha256>,
    checksums: Vec<(ChecksumAlgorithm, Hasher)>,
}

enum Hasher {
    Crc(crc_fast::Digest),
    Sha1(Sha1),
    /// Taken from the digester's own SHA-256.
    Sha256,
}

impl Digester {
    /// A digester of MD5 and of the given checksums.
    #[must_use]
    pub fn new(checksums: &[ChecksumAlgorithm]) -> Self {
        Self {
            md5: Md5::new(),
            sha256: checksums.contains(&ChecksumAlgorithm::Sha256).then(Sha256::new),
            checksums: checksums.iter().map(|a| (*a, Hasher::new(*a))).collect(),
        }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.update_others(bytes);
    }

    /// Takes the next pieces of several byte strings, whose MD5s are computed side by side.
    pub(super) fn update_all(digesters: &mut [(&mut Self, &[Bytes])]) {
        let mut streams: Vec<_> =
            digesters.iter_mut().map(|(digester, pieces)| Stream::new(&mut digester.md5, pieces)).collect();
        md5_lanes::update_all(&mut streams);
        for (digester, pieces) in digesters {
            pieces.iter().for_each(|piece| digester.update_others(piece));
        }
    }

    fn update_others(&mut self, bytes: &[u8]) {
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        for (_, hasher) in &mut self.checksums {
            match hasher {
                Hasher::Crc(crc) => crc.update(bytes),
                Hasher::Sha1(sha1) => sha1.update(bytes),
                Hasher::Sha256 => {}
            }
        }
    }

    /// The digests of all bytes taken.
    #[must_use]
    pub fn finish(self) -> Digests {
        let sha256: Option<[u8; 32]> = self.sha256.map(|h| h.finalize().into());
        let checksums = self
            .checksums
            .into_iter()
            .map(|(algorithm, hasher)| {
                let value = match hasher {
                    Hasher::Crc(crc) => crc_bytes(algorithm, crc.finalize()),
                    Hasher::Sha1(sha1) => sha1.finalize().to_vec(),
                    Hasher::Sha256 => sha256.map(|h| h.to_vec()).unwrap_or_default(),
                };
                (algorithm, value)
            })
            .collect();
        Digests { md5: self.md5.finish(), sha256, checksums }
    }
}

/// The SHA-256 of pieces one behind the other.
#[must_use]
pub fn sha256(pieces: &[Bytes]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.finalize().into()
}

impl Hasher {
    fn new(algorithm: ChecksumAlgorithm) -> Self {
        match (crc_algorithm(algorithm), algorithm) {
            (Some(crc), _) => Self::Crc(crc_fast::Digest::new(crc)),
            (None, ChecksumAlgorithm::Sha1) => Self::Sha1(Sha1::new()),
            (None, _) => Self::Sha256,
        }
    }
}

/// The CRC of two byte strings one behind the other, from their CRCs and the length of the second; `None` for an
/// algorithm that is not a CRC.
#[must_use]
pub fn combine(algorithm: ChecksumAlgorithm, first: &[u8], second: &[u8], second_length: u64) -> Option<Vec<u8>> {
    let crc = crc_algorithm(algorithm)?;
    let joined = crc_fast::checksum_combine(crc, crc_number(first), crc_number(second), second_length);
    Some(crc_bytes(algorithm, joined))
}

fn crc_algorithm(algorithm: ChecksumAlgorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        ChecksumAlgorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        ChecksumAlgorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        ChecksumAlgorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
        ChecksumAlgorithm::Sha1 | ChecksumAlgorithm::Sha256 => None,
    }
}

/// S3 writes CRCs in big-endian order, of their own width.
fn crc_bytes(algorithm: ChecksumAlgorithm, value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    if algorithm == ChecksumAlgorithm::Crc64Nvme { bytes.to_vec() } else { bytes[4..].to_vec() }
}

fn crc_number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| (n << 8) | u64::from(*b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn digests_of_known_text() {
        let mut digester = Digester::new(&ChecksumAlgorithm::ALL);
        digester.update(b"1234");
        digester.update(b"56789");
        let digests = digester.finish();
        // "check" values of the CRC catalogue (reveng.sourceforge.io) and RFC 1321 / FIPS 180 tools
        let hexed = |a| hex::encode(digests.checksum(a).unwrap());
        assert_eq!(hexed(ChecksumAlgorithm::Crc32), "cbf43926");
        assert_eq!(hexed(ChecksumAlgorithm::Crc32c), "e3069283");
        assert_eq!(hexed(ChecksumAlgorithm::Crc64Nvme), "ae8b14860a799888");
        assert_eq!(hexed(ChecksumAlgorithm::Sha1), "f7c3bc1d808e04732adf679965ccc34ca7ae3441");
        assert_eq!(hex::encode(digests.md5), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(digests.sha256.map(hex::encode).as_deref(), Some(hexed(ChecksumAlgorithm::Sha256).as_str()));
    }

    proptest! {
        #[test]
        fn combined_crc_is_the_crc_of_the_whole(a in proptest::collection::vec(any::<u8>(), 0..300), b in proptest::collection::vec(any::<u8>(), 0..300)) {
            for algorithm in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Crc64Nvme] {
                let of = |bytes: &[u8]| {
                    let mut digester = Digester::new(&[algorithm]);
                    digester.update(bytes);
                    digester.finish().checksums.remove(0).1
                };
                let whole = of(&[a.clone(), b.clone()].concat());
                prop_assert_eq!(combine(algorithm, &of(&a), &of(&b), b.len() as u64), Some(whole));
            }
        }
    }
}
