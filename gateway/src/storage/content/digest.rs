//! Digests of bytes as they arrive: one pass, whatever is asked for.

use bytes::Bytes;
use crc_fast::CrcAlgorithm;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use std::hash::Hasher as _;
use twox_hash::{XxHash3_64, XxHash3_128, XxHash64};

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

#[allow(clippy::large_enum_variant, reason = "one per body")]
enum Hasher {
    Crc(crc_fast::Digest),
    Sha1(Sha1),
    Sha512(Sha512),
    XxHash64(XxHash64),
    XxHash3(XxHash3_64),
    XxHash128(XxHash3_128),
    /// Taken from the digester's own SHA-256.
    Sha256,
    /// Taken from the digester's own MD5.
    Md5,
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
                Hasher::Sha512(sha512) => sha512.update(bytes),
                Hasher::XxHash64(hash) => hash.write(bytes),
                Hasher::XxHash3(hash) => hash.write(bytes),
                Hasher::XxHash128(hash) => hash.write(bytes),
                Hasher::Sha256 | Hasher::Md5 => {}
            }
        }
    }

    /// The digests of all bytes taken.
    #[must_use]
    pub fn finish(self) -> Digests {
        let sha256: Option<[u8; 32]> = self.sha256.map(|h| h.finalize().into());
        let md5 = self.md5.finish();
        let checksums = self
            .checksums
            .into_iter()
            .map(|(algorithm, hasher)| {
                let value = match hasher {
                    Hasher::Crc(crc) => crc_bytes(algorithm, crc.finalize()),
                    Hasher::Sha1(sha1) => sha1.finalize().to_vec(),
                    Hasher::Sha512(sha512) => sha512.finalize().to_vec(),
                    // In the canonical form of xxHash: big-endian.
                    Hasher::XxHash64(hash) => hash.finish().to_be_bytes().to_vec(),
                    Hasher::XxHash3(hash) => hash.finish().to_be_bytes().to_vec(),
                    Hasher::XxHash128(hash) => hash.finish_128().to_be_bytes().to_vec(),
                    Hasher::Sha256 => sha256.map(|h| h.to_vec()).unwrap_or_default(),
                    Hasher::Md5 => md5.to_vec(),
                };
                (algorithm, value)
            })
            .collect();
        Digests { md5, sha256, checksums }
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
            (None, ChecksumAlgorithm::Sha512) => Self::Sha512(Sha512::new()),
            (None, ChecksumAlgorithm::XxHash64) => Self::XxHash64(XxHash64::with_seed(0)),
            (None, ChecksumAlgorithm::XxHash3) => Self::XxHash3(XxHash3_64::new()),
            (None, ChecksumAlgorithm::XxHash128) => Self::XxHash128(XxHash3_128::new()),
            (None, ChecksumAlgorithm::Md5) => Self::Md5,
            (None, _) => Self::Sha256,
        }
    }
}

/// Joins CRCs: that of two byte strings one behind the other from their own, without the bytes.
///
/// A CRC is a remainder of polynomials over GF(2), here with the bits reversed, as all of S3's are: the first string's is
/// shifted by the length of the second (multiplied by a power of x modulo the polynomial), then the second's is added. The
/// power is kept for the next time: the parts of an object are of one length, save the last.
pub struct CrcJoiner {
    algorithm: ChecksumAlgorithm,
    /// The polynomial, reversed, without its highest term.
    polynomial: u64,
    /// The polynomial 1, reversed: the highest bit.
    one: u64,
    /// A length in bytes and the power of x that shifts by it.
    last: (u64, u64),
}

impl CrcJoiner {
    /// `None` for an algorithm that is not a CRC.
    #[must_use]
    pub fn new(algorithm: ChecksumAlgorithm) -> Option<Self> {
        // Polynomials of the CRC catalogue (reveng.sourceforge.io): CRC-32/ISO-HDLC, CRC-32/ISCSI, CRC-64/NVME.
        let (polynomial, one) = match algorithm {
            ChecksumAlgorithm::Crc32 => (0xedb8_8320, 1 << 31),
            ChecksumAlgorithm::Crc32c => (0x82f6_3b78, 1 << 31),
            ChecksumAlgorithm::Crc64Nvme => (0x9a6c_9329_ac4b_c9b5, 1 << 63),
            _ => return None,
        };
        Some(Self { algorithm, polynomial, one, last: (0, one) })
    }

    /// The CRC of the whole, from those of both and the length of the second in bytes.
    #[must_use]
    pub fn join(&mut self, first: &[u8], second: &[u8], second_length: u64) -> Vec<u8> {
        if self.last.0 != second_length {
            self.last = (second_length, self.shift(second_length));
        }
        crc_bytes(self.algorithm, self.multiply(self.last.1, crc_number(first)) ^ crc_number(second))
    }

    /// x to the power of 8 times the length.
    fn shift(&self, mut length: u64) -> u64 {
        let (mut power, mut square) = (self.one, self.one >> 8);
        while length > 0 {
            if length & 1 == 1 {
                power = self.multiply(power, square);
            }
            square = self.multiply(square, square);
            length >>= 1;
        }
        power
    }

    fn multiply(&self, a: u64, mut b: u64) -> u64 {
        let (mut product, mut bit) = (0, self.one);
        while bit > 0 {
            if a & bit != 0 {
                product ^= b;
            }
            b = if b & 1 == 1 { (b >> 1) ^ self.polynomial } else { b >> 1 };
            bit >>= 1;
        }
        product
    }
}

fn crc_algorithm(algorithm: ChecksumAlgorithm) -> Option<CrcAlgorithm> {
    match algorithm {
        ChecksumAlgorithm::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        ChecksumAlgorithm::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        ChecksumAlgorithm::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
        _ => None,
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
        assert!(hexed(ChecksumAlgorithm::Sha512).starts_with("d9e6762dd1c8eaf6d61b3c6192fc408d"));
        assert_eq!(hexed(ChecksumAlgorithm::Md5), "25f9e794323b453885f5181f1b624d0b");
        // as the tools of the xxHash project print them
        assert_eq!(hexed(ChecksumAlgorithm::XxHash64), "8cb841db40e6ae83");
        assert_eq!(hexed(ChecksumAlgorithm::XxHash3), "72dcb18b67a17dff");
        assert_eq!(hexed(ChecksumAlgorithm::XxHash128), "33119477ede5dcd5e9716427681d5860");
        assert_eq!(hex::encode(digests.md5), "25f9e794323b453885f5181f1b624d0b");
        assert_eq!(digests.sha256.map(hex::encode).as_deref(), Some(hexed(ChecksumAlgorithm::Sha256).as_str()));
    }

    proptest! {
        #[test]
        fn joined_crc_is_the_crc_of_the_whole(
            a in proptest::collection::vec(any::<u8>(), 0..300),
            b in proptest::collection::vec(any::<u8>(), 0..300),
            length in 0..5_u64 << 40,
        ) {
            for algorithm in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32c, ChecksumAlgorithm::Crc64Nvme] {
                let of = |bytes: &[u8]| {
                    let mut digester = Digester::new(&[algorithm]);
                    digester.update(bytes);
                    digester.finish().checksums.remove(0).1
                };
                let whole = of(&[a.clone(), b.clone()].concat());
                let mut joiner = CrcJoiner::new(algorithm).expect("a CRC");
                // Another length first: what is kept of it must not be taken for this one.
                let _ = joiner.join(&of(&b), &of(&a), a.len() as u64);
                prop_assert_eq!(joiner.join(&of(&a), &of(&b), b.len() as u64), whole.clone());
                let far = crc_fast::checksum_combine(
                    crc_algorithm(algorithm).expect("a CRC"), crc_number(&of(&a)), crc_number(&whole), length);
                prop_assert_eq!(crc_number(&joiner.join(&of(&a), &whole, length)), far);
            }
        }
    }
}
