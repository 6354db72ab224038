//! Checksums that a client declares, against what was received.
//!
//! A client declares at most one checksum, in a header or announced in `x-amz-trailer` and sent after the body, and
//! independently a Content-MD5. Everything declared is compared before anything is published: a mismatch is `BadDigest`
//! and nothing is stored. A client that declares nothing gets CRC64NVME over the whole object computed, as S3 does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderMap;
use s3s::{S3Error, S3ErrorCode, S3Result, TrailingHeaders, s3_error};

use crate::storage::Staged;
use crate::storage::digest::{Digester, Digests};
use crate::storage::types::{Checksum, ChecksumAlgorithm, ChecksumType};

use super::error::custom;

/// Computed where a client declares nothing (AWS: "Checking object integrity").
pub(super) const DEFAULT_ALGORITHM: ChecksumAlgorithm = ChecksumAlgorithm::Crc64Nvme;

/// The header or trailer that carries an algorithm's value.
pub(super) fn header_name(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc32 => "x-amz-checksum-crc32",
        ChecksumAlgorithm::Crc32c => "x-amz-checksum-crc32c",
        ChecksumAlgorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
        ChecksumAlgorithm::Sha1 => "x-amz-checksum-sha1",
        ChecksumAlgorithm::Sha256 => "x-amz-checksum-sha256",
        ChecksumAlgorithm::Sha512 => "x-amz-checksum-sha512",
        ChecksumAlgorithm::Md5 => "x-amz-checksum-md5",
        ChecksumAlgorithm::XxHash64 => "x-amz-checksum-xxhash64",
        ChecksumAlgorithm::XxHash3 => "x-amz-checksum-xxhash3",
        ChecksumAlgorithm::XxHash128 => "x-amz-checksum-xxhash128",
    }
}

fn digest_bytes(algorithm: ChecksumAlgorithm) -> usize {
    match algorithm {
        ChecksumAlgorithm::Crc32 | ChecksumAlgorithm::Crc32c => 4,
        ChecksumAlgorithm::Crc64Nvme | ChecksumAlgorithm::XxHash64 | ChecksumAlgorithm::XxHash3 => 8,
        ChecksumAlgorithm::Md5 | ChecksumAlgorithm::XxHash128 => 16,
        ChecksumAlgorithm::Sha1 => 20,
        ChecksumAlgorithm::Sha256 => 32,
        ChecksumAlgorithm::Sha512 => 64,
    }
}

/// What a request says of the bytes it sends.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Declared {
    content_md5: Option<Vec<u8>>,
    checksum: Option<(ChecksumAlgorithm, Where)>,
}

/// Where the value of a declared checksum is.
#[derive(Debug, PartialEq)]
enum Where {
    Header(Vec<u8>),
    Trailer,
}

impl Declared {
    /// Parses the headers of an upload.
    pub(super) fn from_headers(headers: &HeaderMap) -> S3Result<Self> {
        let in_header = header_checksum(headers)?.map(|(algorithm, value)| (algorithm, Where::Header(value)));
        let announced = announced_trailer(headers)?.map(|algorithm| (algorithm, Where::Trailer));
        let checksum = match (in_header, announced) {
            (Some(_), Some(_)) => return Err(too_many()),
            (one, other) => one.or(other),
        };
        check_sdk_algorithm(headers, checksum.as_ref().map(|(algorithm, _)| *algorithm))?;
        Ok(Self { content_md5: content_md5(headers)?, checksum })
    }

    /// Whether nothing is declared.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The declared algorithm.
    pub(super) fn algorithm(&self) -> Option<ChecksumAlgorithm> {
        self.checksum.as_ref().map(|(algorithm, _)| *algorithm)
    }

    /// Compares what was received with everything declared. The body must have been read to its end: trailers come
    /// after it.
    pub(super) fn verify(&self, received: &Digests, trailers: Option<&TrailingHeaders>) -> S3Result<()> {
        if self.content_md5.as_ref().is_some_and(|md5| *md5 != received.md5) {
            return Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received."));
        }
        let Some((algorithm, declared_where)) = &self.checksum else { return Ok(()) };
        let from_trailer;
        let declared = match declared_where {
            Where::Header(value) => value,
            Where::Trailer => {
                from_trailer = trailer_value(*algorithm, trailers)?;
                &from_trailer
            }
        };
        if received.checksum(*algorithm) == Some(declared.as_slice()) { Ok(()) } else { Err(mismatch(*algorithm)) }
    }
}

/// What a request says of the XML document that it carries, and the digests of what has arrived of it.
pub(crate) struct DeclaredDocument {
    declared: Declared,
    received: Digester,
}

impl DeclaredDocument {
    /// `None` where nothing is declared. The `x-amz-checksum-*` headers of other operations than DeleteObjects are about
    /// something else than their document; one that comes in signed chunks is verified chunk by chunk.
    ///
    /// # Errors
    /// InvalidDigest or InvalidRequest: a value is none of its kind.
    pub(crate) fn of(headers: &HeaderMap, is_delete_objects: bool) -> S3Result<Option<Self>> {
        let payload = headers.get("x-amz-content-sha256").map(http::HeaderValue::as_bytes);
        if payload.is_some_and(|value| value.starts_with(b"STREAMING-")) {
            return Ok(None);
        }
        let declared = if is_delete_objects {
            Declared::from_headers(headers)?
        } else {
            Declared { content_md5: content_md5(headers)?, checksum: None }
        };
        if declared.is_empty() {
            return Ok(None);
        }
        let received = Digester::new(declared.algorithm().as_slice());
        Ok(Some(Self { declared, received }))
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.received.update(bytes);
    }

    /// Compares, at the end of the document.
    ///
    /// # Errors
    /// BadDigest.
    pub(crate) fn verify(self) -> S3Result<()> {
        self.declared.verify(&self.received.finish(), None)
    }
}

/// The checksum of a staged body, over all its bytes.
pub(super) fn full_object(staged: &Staged, algorithm: ChecksumAlgorithm) -> Option<Checksum> {
    let value = staged.digests().checksum(algorithm)?.to_vec();
    Some(Checksum::full_object(algorithm, value))
}

/// The one `x-amz-checksum-*` header with a value, decoded.
pub(super) fn header_checksum(headers: &HeaderMap) -> S3Result<Option<(ChecksumAlgorithm, Vec<u8>)>> {
    let mut found = None;
    for algorithm in ChecksumAlgorithm::ALL {
        let Some(value) = headers.get(header_name(algorithm)) else { continue };
        let value = decode(algorithm, value.as_bytes()).ok_or_else(|| invalid_value(header_name(algorithm)))?;
        if found.replace((algorithm, value)).is_some() {
            return Err(too_many());
        }
    }
    Ok(found)
}

fn announced_trailer(headers: &HeaderMap) -> S3Result<Option<ChecksumAlgorithm>> {
    let mut found = None;
    for value in headers.get_all("x-amz-trailer") {
        let list = String::from_utf8_lossy(value.as_bytes());
        for name in list.split(',').map(str::trim) {
            let algorithm = ChecksumAlgorithm::ALL.into_iter().find(|a| header_name(*a).eq_ignore_ascii_case(name));
            if let Some(algorithm) = algorithm
                && found.replace(algorithm).is_some()
            {
                return Err(too_many());
            }
        }
    }
    Ok(found)
}

fn trailer_value(algorithm: ChecksumAlgorithm, trailers: Option<&TrailingHeaders>) -> S3Result<Vec<u8>> {
    let name = header_name(algorithm);
    let of_name = |headers: &HeaderMap| headers.get_all(name).iter().cloned().collect::<Vec<_>>();
    let mut values = trailers.and_then(|t| t.read(of_name)).unwrap_or_default();
    // Of two, one would go unverified.
    let Some(value) = values.pop().filter(|_| values.is_empty()) else {
        return Err(custom(
            "MalformedTrailerError",
            http::StatusCode::BAD_REQUEST,
            "The request contained trailing data that was not well-formed or did not conform to our published schema.",
        ));
    };
    decode(algorithm, value.as_bytes()).ok_or_else(|| invalid_value(name))
}

/// `x-amz-sdk-checksum-algorithm` must name what is sent.
fn check_sdk_algorithm(headers: &HeaderMap, sent: Option<ChecksumAlgorithm>) -> S3Result<()> {
    const NAME: &str = "x-amz-sdk-checksum-algorithm";
    let Some(value) = headers.get(NAME) else { return Ok(()) };
    let named = algorithm(&String::from_utf8_lossy(value.as_bytes()))?;
    match sent {
        Some(sent) if sent == named => Ok(()),
        Some(_) => Err(invalid_value(NAME)),
        None => Err(s3_error!(
            InvalidRequest,
            "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers \
             were found."
        )),
    }
}

/// Parses the name of an algorithm.
pub(super) fn algorithm(name: &str) -> S3Result<ChecksumAlgorithm> {
    ChecksumAlgorithm::parse(name.trim()).ok_or_else(|| {
        s3_error!(
            InvalidRequest,
            "Checksum algorithm provided is unsupported. Please try again with any of the valid types: [CRC32, CRC32C, \
             CRC64NVME, SHA1, SHA256, SHA512, MD5, XXHASH64, XXHASH3, XXHASH128]"
        )
    })
}

fn content_md5(headers: &HeaderMap) -> S3Result<Option<Vec<u8>>> {
    let Some(value) = headers.get("content-md5") else { return Ok(None) };
    match BASE64.decode(value.as_bytes()) {
        Ok(md5) if md5.len() == 16 => Ok(Some(md5)),
        _ => Err(s3_error!(InvalidDigest, "The Content-MD5 you specified was invalid.")),
    }
}

/// Decodes base64 of an algorithm's length.
pub(super) fn decode(algorithm: ChecksumAlgorithm, text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text.trim_ascii()).ok().filter(|value| value.len() == digest_bytes(algorithm))
}

/// Encodes a value as S3 does: base64, with `-N` for the composite of N parts.
pub(super) fn encode(checksum: &Checksum, parts: Option<u32>) -> String {
    let text = BASE64.encode(&checksum.value);
    match (checksum.kind, parts) {
        (ChecksumType::Composite, Some(parts)) => format!("{text}-{parts}"),
        _ => text,
    }
}

/// 400 for a header that does not hold what its name says.
pub(super) fn invalid_value(name: &str) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidRequest, format!("Value for {name} header is invalid."))
}

fn too_many() -> S3Error {
    s3_error!(InvalidRequest, "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
}

fn mismatch(algorithm: ChecksumAlgorithm) -> S3Error {
    let name = algorithm.as_str();
    s3_error!(BadDigest, "The {name} you specified did not match the calculated checksum.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    fn declared(pairs: &[(&'static str, &'static str)]) -> Result<Declared, String> {
        let headers: HeaderMap =
            pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        Declared::from_headers(&headers).map_err(|e| e.code().as_str().to_owned())
    }

    #[test]
    fn one_checksum_in_a_header_or_a_trailer() {
        let header = declared(&[("x-amz-checksum-crc32", "AAAAAA==")]).expect("declared");
        assert_eq!(header.checksum, Some((ChecksumAlgorithm::Crc32, Where::Header(vec![0; 4]))));
        let trailer =
            declared(&[("x-amz-trailer", "X-Amz-Checksum-SHA256"), ("x-amz-sdk-checksum-algorithm", "sha256")]);
        assert_eq!(trailer.map(|d| d.checksum), Ok(Some((ChecksumAlgorithm::Sha256, Where::Trailer))));
        assert_eq!(declared(&[]), Ok(Declared::default()));
    }

    #[test]
    fn contradictions_are_refused() {
        let invalid = Err("InvalidRequest".to_owned());
        assert_eq!(declared(&[("x-amz-checksum-crc32", "AAAAAA=="), ("x-amz-checksum-crc32c", "AAAAAA==")]), invalid);
        assert_eq!(
            declared(&[("x-amz-checksum-crc32", "AAAAAA=="), ("x-amz-trailer", "x-amz-checksum-sha1")]),
            invalid
        );
        assert_eq!(declared(&[("x-amz-checksum-crc32", "AAAA")]), invalid);
        assert_eq!(declared(&[("x-amz-checksum-crc32", "%%%")]), invalid);
        assert_eq!(declared(&[("x-amz-sdk-checksum-algorithm", "CRC32")]), invalid);
        assert_eq!(declared(&[("x-amz-sdk-checksum-algorithm", "CRC31")]), invalid);
        assert_eq!(
            declared(&[("x-amz-sdk-checksum-algorithm", "SHA1"), ("x-amz-checksum-crc32", "AAAAAA==")]),
            invalid
        );
        assert_eq!(declared(&[("content-md5", "AAAA")]), Err("InvalidDigest".to_owned()));
        assert_eq!(declared(&[("x-amz-checksum-sha512", "AAAA")]), invalid, "too short");
    }

    #[test]
    fn an_announced_trailer_must_come() {
        let error = trailer_value(ChecksumAlgorithm::Crc32, None).map_err(|e| e.code().as_str().to_owned());
        assert_eq!(error, Err("MalformedTrailerError".to_owned()));
    }

    #[test]
    fn composites_name_their_parts() {
        let checksum = |kind| Checksum { algorithm: ChecksumAlgorithm::Crc32, kind, value: vec![0; 4] };
        assert_eq!(encode(&checksum(ChecksumType::Composite), Some(3)), "AAAAAA==-3");
        assert_eq!(encode(&checksum(ChecksumType::FullObject), Some(3)), "AAAAAA==");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(value in "[ -~]{0,60}", index in 0_usize..5) {
            let name = header_name(ChecksumAlgorithm::ALL[index]);
            let mut headers = HeaderMap::new();
            for name in [name, "content-md5", "x-amz-trailer", "x-amz-sdk-checksum-algorithm"] {
                headers.insert(name, HeaderValue::from_str(&value).expect("visible ASCII"));
            }
            let _ = Declared::from_headers(&headers);
        }
    }
}
