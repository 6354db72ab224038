//! CreateMultipartUpload, UploadPart, AbortMultipartUpload, and the rules on an upload's checksum.
//!
//! An upload has one checksum algorithm and a type. CRC64NVME only spans the whole object, CRC32 and CRC32C can do both, the
//! others can only be composed. CRC32 and CRC32C are composed unless the client says otherwise. An upload that declares
//! nothing gets CRC64NVME, as S3 computes it; its parts may then declare whatever they like, which is verified and not
//! kept. A part that declares nothing gets the upload's checksum computed.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::storage::types::{ChecksumAlgorithm as Algorithm, ChecksumType as Kind, UploadId};
use crate::storage::{CreateUpload, PublishPart};

use super::body::Upload;
use super::checksum_fields::{ChecksumTexts, checksum_algorithm, checksum_type, set_checksum};
use super::checksums::{DEFAULT_ALGORITHM, Declared};
use super::error::{from_storage, no_object_lock, no_such_upload};
use super::{Answer, Gateway, acl, body, checksums, expiration_headers, metadata, names, object_lock, parties, range};

/// CreateMultipartUpload.
pub(super) async fn create(
    gateway: &Gateway,
    mut req: S3Request<CreateMultipartUploadInput>,
) -> Answer<CreateMultipartUploadOutput> {
    gateway.admit(&req)?;
    let (bucket, key) = (names::bucket(&req.input.bucket), names::key(&req.input.key)?);
    let attributes = metadata::attributes(&req.headers, req.input.metadata.take())?;
    let declared = declared_checksum(
        req.input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str),
        req.input.checksum_type.as_ref().map(ChecksumType::as_str),
    )?;
    let (owner, acl) = acl::of_write(&req.headers, &req.extensions).await?;
    let mut settings = object_lock::settings(&req.headers)?;
    settings.acl = acl;
    if settings.has_lock() && !gateway.storage.bucket(&bucket).await.map_err(from_storage)?.object_lock {
        return Err(no_object_lock());
    }
    let initiator = parties::caller(&req.extensions).id;
    settings.owner = Some(owner.id).filter(|owner| *owner != initiator);
    let upload = CreateUpload {
        bucket,
        key,
        attributes,
        checksum: declared.or(Some((DEFAULT_ALGORITHM, Kind::FullObject))),
        initiator,
        settings,
    };
    let id = gateway.storage.create_upload(upload).await.map_err(from_storage)?;
    let abort = expiration_headers::abort(&req.extensions, &req.input.key, OffsetDateTime::now_utc());
    let (abort_date, abort_rule_id) = abort.unzip();
    let output = CreateMultipartUploadOutput {
        bucket: Some(req.input.bucket),
        checksum_algorithm: declared.map(|(algorithm, _)| checksum_algorithm(algorithm)),
        checksum_type: declared.map(|(_, kind)| checksum_type(kind)),
        key: Some(names::xml_text(&req.input.key).into_owned()),
        upload_id: Some(format_upload_id(id)),
        abort_date,
        abort_rule_id,
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

/// The algorithm and type that an upload declares.
fn declared_checksum(algorithm: Option<&str>, kind: Option<&str>) -> S3Result<Option<(Algorithm, Kind)>> {
    let Some(algorithm) = algorithm else {
        return match kind {
            None => Ok(None),
            Some(_) => Err(s3_error!(
                InvalidRequest,
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
            )),
        };
    };
    let algorithm = checksums::algorithm(algorithm)?;
    let kind = match kind {
        None => default_kind(algorithm),
        Some(text) => Kind::parse(text).ok_or_else(|| checksums::invalid_value("x-amz-checksum-type"))?,
    };
    let possible = match algorithm {
        Algorithm::Crc64Nvme => kind == Kind::FullObject,
        Algorithm::Crc32 | Algorithm::Crc32c => true,
        _ => kind == Kind::Composite,
    };
    if possible {
        return Ok(Some((algorithm, kind)));
    }
    let (kind, name) = (kind.as_str(), algorithm.as_str().to_ascii_lowercase());
    Err(s3_error!(InvalidRequest, "The {kind} checksum type cannot be used with the {name} checksum algorithm."))
}

fn default_kind(algorithm: Algorithm) -> Kind {
    match algorithm {
        Algorithm::Crc64Nvme => Kind::FullObject,
        _ => Kind::Composite,
    }
}

/// UploadPart.
pub(super) async fn upload_part(gateway: &Gateway, mut req: S3Request<UploadPartInput>) -> Answer<UploadPartOutput> {
    gateway.admit(&req)?;
    let (bucket, key) = (names::bucket(&req.input.bucket), names::key(&req.input.key)?);
    let number = range::part_number(req.input.part_number)?;
    let id = upload_id(&req.input.upload_id)?;
    let declared = Declared::from_headers(&req.headers)?;
    let upload = gateway.storage.upload(&bucket, &key, id).await.map_err(from_storage)?;
    let algorithms = part_algorithms(upload.checksum.map(|(algorithm, _)| algorithm), declared.algorithm())?;

    let answered = declared.algorithm().or(algorithms.first().copied());
    let incoming = Upload {
        headers: &req.headers,
        trailers: req.trailing_headers.as_ref(),
        content: req.input.body.take(),
        declared,
        algorithms: algorithms.clone(),
        replaces: None,
    };
    let staged = body::stage(&gateway.storage, incoming).await?;

    let answered = answered.and_then(|algorithm| checksums::full_object(&staged, algorithm));
    let texts = ChecksumTexts::new(answered.as_ref(), None);
    let stored = algorithms.first().and_then(|algorithm| checksums::full_object(&staged, *algorithm));
    let part = PublishPart { bucket, key, upload: id, number, checksum: stored };
    let published = gateway.storage.publish_part(staged, part).await.map_err(from_storage)?;

    let mut output = UploadPartOutput { e_tag: Some(ETag::Strong(published.etag)), ..Default::default() };
    let _ = set_checksum!(output, texts);
    Ok(S3Response::new(output))
}

/// What to compute of a part: the upload's algorithm first, then the declared one.
fn part_algorithms(upload: Option<Algorithm>, declared: Option<Algorithm>) -> S3Result<Vec<Algorithm>> {
    match (upload, declared) {
        (Some(upload), Some(declared)) if upload != declared && upload != DEFAULT_ALGORITHM => {
            let expected = upload.as_str().to_ascii_lowercase();
            let actual = declared.as_str().to_ascii_lowercase();
            Err(s3_error!(
                InvalidRequest,
                "Checksum Type mismatch occurred, expected checksum Type: {expected}, actual checksum Type: {actual}"
            ))
        }
        (Some(upload), Some(declared)) if upload != declared => Ok(vec![upload, declared]),
        (upload, declared) => Ok(upload.or(declared).into_iter().collect()),
    }
}

/// AbortMultipartUpload.
pub(super) async fn abort(
    gateway: &Gateway,
    req: S3Request<AbortMultipartUploadInput>,
) -> Answer<AbortMultipartUploadOutput> {
    gateway.admit(&req)?;
    let (bucket, key) = (names::bucket(&req.input.bucket), names::key(&req.input.key)?);
    let id = upload_id(&req.input.upload_id)?;
    let upload = gateway.storage.upload(&bucket, &key, id).await;
    parties::confirm_upload(&req.extensions, upload.as_ref().ok().map(|upload| upload.initiator.as_str()))?;
    upload.map_err(from_storage)?;
    gateway.storage.abort_upload(&bucket, &key, id).await.map_err(from_storage)?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

/// The upload that a request names; a text that cannot be an id names none.
pub(super) fn upload_id(text: &str) -> S3Result<UploadId> {
    parse_upload_id(text).ok_or_else(no_such_upload)
}

/// Parses an upload id: the plain hyphenated form of a UUID, as it was given out.
pub(super) fn parse_upload_id(text: &str) -> Option<UploadId> {
    let id = Uuid::try_parse(text).ok()?;
    (format_upload_id(UploadId(id)) == text).then_some(UploadId(id))
}

/// An upload id as clients see it.
pub(super) fn format_upload_id(id: UploadId) -> String {
    id.0.hyphenated().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn declared(algorithm: Option<&str>, kind: Option<&str>) -> Result<Option<(Algorithm, Kind)>, String> {
        declared_checksum(algorithm, kind).map_err(|e| e.message().unwrap_or_default().to_owned())
    }

    #[test]
    fn each_algorithm_has_its_types() {
        assert_eq!(declared(Some("CRC32"), None), Ok(Some((Algorithm::Crc32, Kind::Composite))));
        assert_eq!(declared(Some("crc32c"), Some("FULL_OBJECT")), Ok(Some((Algorithm::Crc32c, Kind::FullObject))));
        assert_eq!(declared(Some("CRC64NVME"), None), Ok(Some((Algorithm::Crc64Nvme, Kind::FullObject))));
        assert_eq!(declared(None, None), Ok(None));
        assert_eq!(
            declared(Some("SHA256"), Some("FULL_OBJECT")),
            Err("The FULL_OBJECT checksum type cannot be used with the sha256 checksum algorithm.".to_owned())
        );
        assert!(declared(Some("CRC64NVME"), Some("COMPOSITE")).is_err());
        assert!(declared(None, Some("COMPOSITE")).is_err());
    }

    #[test]
    fn a_part_agrees_with_its_upload() {
        let (crc32, sha1, nvme) = (Algorithm::Crc32, Algorithm::Sha1, Algorithm::Crc64Nvme);
        assert_eq!(part_algorithms(Some(crc32), None).ok(), Some(vec![crc32]));
        assert_eq!(part_algorithms(Some(nvme), Some(sha1)).ok(), Some(vec![nvme, sha1]));
        assert!(part_algorithms(Some(crc32), Some(sha1)).is_err());
        assert_eq!(part_algorithms(None, Some(sha1)).ok(), Some(vec![sha1]));
    }

    #[test]
    fn only_given_out_ids_are_ids() {
        let id = UploadId(Uuid::new_v4());
        assert_eq!(parse_upload_id(&format_upload_id(id)), Some(id));
        assert_eq!(parse_upload_id(&id.0.simple().to_string()), None);
        assert_eq!(parse_upload_id(&format!("{{{}}}", id.0)), None);
    }

    proptest! {
        #[test]
        fn ids_never_panic(text in ".{0,60}") {
            let _ = upload_id(&text);
        }
    }
}
