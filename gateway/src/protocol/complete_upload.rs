//! CompleteMultipartUpload.
//!
//! The list of parts is checked here for form and order, and by the engine against what was uploaded, in the statement
//! that publishes the object. No bytes move, so the answer needs no keep-alive.

use http::HeaderMap;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{CompletedPart as PartInput, *};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::storage::types::{Checksum, ChecksumAlgorithm as Algorithm, ChecksumType as Kind, MAX_PART_NUMBER};
use crate::storage::{CompleteUpload, CompletedPart, Upload};

use super::checksum_fields::{ChecksumTexts, set_checksum};
use super::checksums::{DEFAULT_ALGORITHM, decode, header_name, invalid_value};
use super::error::{from_storage, malformed_xml};
use super::multipart::upload_id;
use super::{Answer, Gateway, conditions, expiration_headers, names, range};

/// CompleteMultipartUpload.
pub(super) async fn complete(
    gateway: &Gateway,
    req: S3Request<CompleteMultipartUploadInput>,
) -> Answer<CompleteMultipartUploadOutput> {
    gateway.admit(&req)?;
    let input = req.input;
    let (bucket, key) = (names::bucket(&input.bucket), names::key(&input.key)?);
    let id = upload_id(&input.upload_id)?;
    let listed = checked_order(input.multipart_upload.and_then(|u| u.parts).unwrap_or_default())?;
    let expected_size = input
        .mpu_object_size
        .map(u64::try_from)
        .transpose()
        .map_err(|_| s3_error!(InvalidRequest, "Value for x-amz-mp-object-size header is less than zero"))?;

    let upload = gateway.storage.completable_upload(&bucket, &key, id).await.map_err(from_storage)?;
    check_kind(&upload, input.checksum_type.as_ref())?;
    let complete = CompleteUpload {
        bucket,
        key,
        upload: id,
        parts: listed.into_iter().map(|part| completed_part(part, &upload)).collect::<S3Result<_>>()?,
        conditions: conditions::of_write(&req.headers)?,
        expected_checksum: expected_checksum(&req.headers, &upload)?,
        expected_size,
    };
    let completed = gateway.storage.complete_upload(complete).await.map_err(from_storage)?;

    let (tags, published) = (&upload.settings.tags, &completed.published);
    let since = published.written.last_modified;
    let expiration = expiration_headers::expiration(&req.extensions, &input.key, tags, published.size, since);
    let texts = ChecksumTexts::new(completed.checksum.as_ref(), Some(completed.parts_count));
    let mut output = CompleteMultipartUploadOutput {
        location: Some(location(&req.headers, &input.bucket, &input.key)),
        bucket: Some(input.bucket),
        key: Some(names::xml_text(&input.key).into_owned()),
        version_id: super::versions::text(published.written.version),
        expiration,
        e_tag: Some(ETag::Strong(published.etag.clone())),
        ..Default::default()
    };
    output.checksum_type = set_checksum!(output, texts);
    Ok(S3Response::new(output))
}

/// Parts with their numbers, which ascend.
fn checked_order(parts: Vec<PartInput>) -> S3Result<Vec<(u32, PartInput)>> {
    let too_many = parts.len() > usize::try_from(MAX_PART_NUMBER).unwrap_or(usize::MAX);
    if parts.is_empty() || too_many {
        return Err(malformed_xml());
    }
    let mut numbered = Vec::with_capacity(parts.len());
    let mut previous = 0;
    for part in parts {
        let number = range::part_number(part.part_number.ok_or_else(malformed_xml)?)?;
        if number <= previous {
            return Err(s3_error!(
                InvalidPartOrder,
                "The list of parts was not in ascending order. Parts must be ordered by part number."
            ));
        }
        previous = number;
        numbered.push((number, part));
    }
    Ok(numbered)
}

fn completed_part((number, part): (u32, PartInput), upload: &Upload) -> S3Result<CompletedPart> {
    let Some(etag) = part.e_tag.as_ref().map(|tag| tag.value().to_owned()) else {
        return Err(malformed_xml());
    };
    let texts = [
        (Algorithm::Crc32, part.checksum_crc32),
        (Algorithm::Crc32c, part.checksum_crc32c),
        (Algorithm::Crc64Nvme, part.checksum_crc64nvme),
        (Algorithm::Sha1, part.checksum_sha1),
        (Algorithm::Sha256, part.checksum_sha256),
        (Algorithm::Sha512, part.checksum_sha512),
        (Algorithm::Md5, part.checksum_md5),
        (Algorithm::XxHash64, part.checksum_xxhash64),
        (Algorithm::XxHash3, part.checksum_xxhash3),
        (Algorithm::XxHash128, part.checksum_xxhash128),
    ];
    let declared = upload.checksum.map(|(algorithm, _)| algorithm);
    let mut checksum = None;
    for (algorithm, text) in texts {
        let Some(text) = text else { continue };
        if Some(algorithm) != declared {
            // An upload that declared no algorithm keeps its own; what its parts declared was verified when they came.
            if declared == Some(DEFAULT_ALGORITHM) || declared.is_none() {
                continue;
            }
            return Err(mismatch(declared, algorithm));
        }
        let value = decode(algorithm, text.as_bytes()).ok_or_else(|| invalid_value(header_name(algorithm)))?;
        checksum = Some((algorithm, value));
    }
    Ok(CompletedPart { number, etag, checksum })
}

fn mismatch(expected: Option<Algorithm>, actual: Algorithm) -> s3s::S3Error {
    let expected = expected.map_or_else(|| "null".to_owned(), |a| a.as_str().to_ascii_lowercase());
    let actual = actual.as_str().to_ascii_lowercase();
    s3_error!(
        InvalidRequest,
        "Checksum Type mismatch occurred, expected checksum Type: {expected}, actual checksum Type: {actual}"
    )
}

fn check_kind(upload: &Upload, declared: Option<&ChecksumType>) -> S3Result<()> {
    let (Some(declared), Some((_, kind))) = (declared, upload.checksum) else { return Ok(()) };
    if declared.as_str() == kind.as_str() {
        return Ok(());
    }
    let kind = kind.as_str();
    Err(s3_error!(
        InvalidRequest,
        "The upload was created using the {kind} checksum mode. The complete request must use the same checksum mode."
    ))
}

/// The whole object's checksum that the client declares: of the upload's algorithm, a composite with or without `-N`.
fn expected_checksum(headers: &HeaderMap, upload: &Upload) -> S3Result<Option<Checksum>> {
    for algorithm in Algorithm::ALL {
        let Some(text) = headers.get(header_name(algorithm)) else { continue };
        let Some((of_upload, kind)) = upload.checksum else { continue };
        if of_upload != algorithm {
            return Err(mismatch(Some(of_upload), algorithm));
        }
        let bytes = text.as_bytes();
        let value = match (kind, bytes.iter().rposition(|b| *b == b'-')) {
            (Kind::Composite, Some(at)) => bytes.get(..at).unwrap_or_default(),
            _ => bytes,
        };
        let value = decode(algorithm, value).ok_or_else(|| invalid_value(header_name(algorithm)))?;
        return Ok(Some(Checksum { algorithm, kind, value }));
    }
    Ok(None)
}

/// Where the object is, by the host that the client used.
fn location(headers: &HeaderMap, bucket: &str, key: &str) -> String {
    let host = headers.get(http::header::HOST).and_then(|h| h.to_str().ok()).unwrap_or("localhost");
    let key = utf8_percent_encode(key, NON_ALPHANUMERIC);
    format!("http://{host}/{bucket}/{key}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn parts(numbers: &[i32]) -> Vec<PartInput> {
        numbers.iter().map(|n| PartInput { part_number: Some(*n), ..Default::default() }).collect()
    }

    fn code(parts: Vec<PartInput>) -> Option<String> {
        checked_order(parts).err().map(|e| e.code().as_str().to_owned())
    }

    #[test]
    fn parts_ascend_from_1_to_10000() {
        assert_eq!(code(parts(&[1, 2, 10_000])), None);
        assert_eq!(code(parts(&[2, 1])).as_deref(), Some("InvalidPartOrder"));
        assert_eq!(code(parts(&[1, 1])).as_deref(), Some("InvalidPartOrder"));
        assert_eq!(code(Vec::new()).as_deref(), Some("MalformedXML"));
        assert_eq!(code(vec![PartInput::default()]).as_deref(), Some("MalformedXML"));
        assert_eq!(code(parts(&[0])).as_deref(), Some("InvalidArgument"));
    }

    fn upload(checksum: Option<(Algorithm, Kind)>) -> Upload {
        Upload {
            id: crate::storage::types::UploadId(uuid::Uuid::nil()),
            key: "k".to_owned(),
            attributes: crate::storage::types::Attributes::default(),
            checksum,
            initiated_at: time::OffsetDateTime::UNIX_EPOCH,
            initiator: String::new(),
            settings: crate::storage::version_types::VersionSettings::default(),
        }
    }

    #[test]
    fn a_composite_may_name_its_parts() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-checksum-crc32", HeaderValue::from_static("AAAAAA==-2"));
        let composite = expected_checksum(&headers, &upload(Some((Algorithm::Crc32, Kind::Composite))));
        assert_eq!(composite.ok().flatten().map(|c| c.value), Some(vec![0; 4]));
        assert!(expected_checksum(&headers, &upload(Some((Algorithm::Crc32, Kind::FullObject)))).is_err());
        assert!(expected_checksum(&headers, &upload(Some((Algorithm::Sha1, Kind::Composite)))).is_err());
    }

    #[test]
    fn parts_of_an_undeclared_upload_may_carry_any_checksum() {
        let part = || PartInput {
            part_number: Some(1),
            e_tag: Some(ETag::Strong("abc".to_owned())),
            checksum_crc32: Some("AAAAAA==".to_owned()),
            ..Default::default()
        };
        let default = upload(Some((DEFAULT_ALGORITHM, Kind::FullObject)));
        assert!(completed_part((1, part()), &default).is_ok_and(|p| p.checksum.is_none()));
        assert!(completed_part((1, part()), &upload(Some((Algorithm::Sha1, Kind::Composite)))).is_err());
    }
}
