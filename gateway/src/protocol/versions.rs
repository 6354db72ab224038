//! Versions: how requests name them and answers show them; the versioning of buckets.
//!
//! A version id is `null` or 32 hexadecimal digits. A text that never was an id is an argument that cannot be meant (400), an
//! id that names nothing is a version that is not there (404), as S3 tells them apart. A bucket that never was versioned
//! shows no version ids, though `null` names what it holds.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::storage::ObjectVersion;
use crate::storage::types::BucketName as Bucket;
use crate::storage::version_types::{VersionId, Versioning};

use super::error::{from_storage, malformed_xml, not_implemented};
use super::{Answer, Gateway, names};

/// The object, and the version of it, that a request names.
pub(super) fn object(bucket: &str, key: &str, version: Option<&str>) -> S3Result<ObjectVersion> {
    Ok(ObjectVersion { bucket: names::bucket(bucket), key: names::key(key)?, version: version.map(parse).transpose()? })
}

/// A version id in a request.
pub(super) fn parse(text: &str) -> S3Result<VersionId> {
    if text.is_empty() {
        return Err(s3_error!(InvalidArgument, "Version id cannot be the empty string"));
    }
    VersionId::parse(text).ok_or_else(|| s3_error!(InvalidArgument, "Invalid version id specified"))
}

/// A version id in an answer.
pub(super) fn text(version: Option<VersionId>) -> Option<String> {
    version.map(|version| version.to_string())
}

/// GetBucketVersioning: an empty configuration says that versioning was never enabled.
pub(super) async fn get_of_bucket(
    gateway: &Gateway,
    req: S3Request<GetBucketVersioningInput>,
) -> Answer<GetBucketVersioningOutput> {
    gateway.admit(&req)?;
    let bucket = gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    let status = bucket.versioning.map(|v| BucketVersioningStatus::from_static(v.as_str()));
    Ok(S3Response::new(GetBucketVersioningOutput { status, ..Default::default() }))
}

/// PutBucketVersioning.
pub(super) async fn put_of_bucket(
    gateway: &Gateway,
    req: S3Request<PutBucketVersioningInput>,
) -> Answer<PutBucketVersioningOutput> {
    gateway.admit(&req)?;
    let bucket: Bucket = names::bucket(&req.input.bucket);
    let configuration = req.input.versioning_configuration;
    match configuration.mfa_delete.as_ref().map(MFADelete::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled") => return Err(not_implemented("MfaDelete")),
        Some(_) => return Err(malformed_xml()),
    }
    let Some(status) = configuration.status else {
        return Err(s3_error!(IllegalVersioningConfigurationException, "The Versioning element must be specified"));
    };
    let versioning = Versioning::parse(status.as_str()).ok_or_else(malformed_xml)?;
    gateway.storage.set_versioning(&bucket, versioning).await.map_err(from_storage)?;
    Ok(S3Response::new(PutBucketVersioningOutput {}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_was_a_version_id_is_an_invalid_argument() {
        let code = |text: &str| parse(text).err().map(|e| e.code().as_str().to_owned());
        assert_eq!(code("null"), None);
        assert_eq!(code("0190a0b0c0d07e0f8a1b2c3d4e5f6071"), None);
        for text in ["", "v1", "NULL", "../x"] {
            assert_eq!(code(text).as_deref(), Some("InvalidArgument"), "{text}");
        }
    }
}
