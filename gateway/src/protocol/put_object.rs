//! PutObject.
//!
//! Everything that can be refused from the headers is refused before the body is read. The body is then staged and
//! verified against what was declared, and only then published, with the conditions decided by the publishing statement.

use s3s::dto::*;
use s3s::{S3Request, S3Response};

use crate::storage::PublishObject;

use super::body::Upload;
use super::checksum_fields::{ChecksumTexts, set_checksum};
use super::checksums::{DEFAULT_ALGORITHM, Declared};
use super::error::from_storage;
use super::{Answer, Gateway, body, checksums, conditions, metadata, names};

/// PutObject.
pub(super) async fn put(gateway: &Gateway, mut req: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
    gateway.admit(&req)?;
    let (bucket, key) = (names::bucket(&req.input.bucket), names::key(&req.input.key)?);
    let attributes = metadata::attributes(&req.headers, req.input.metadata.take())?;
    let conditions = conditions::of_write(&req.headers)?;
    let declared = Declared::from_headers(&req.headers)?;
    let algorithm = declared.algorithm().unwrap_or(DEFAULT_ALGORITHM);

    let upload = Upload {
        headers: &req.headers,
        trailers: req.trailing_headers.as_ref(),
        content: req.input.body.take(),
        declared,
        algorithms: vec![algorithm],
        replaces: Some((bucket.clone(), key.clone())),
    };
    let staged = body::stage(&gateway.storage, upload).await?;

    let checksum = checksums::full_object(&staged, algorithm);
    let texts = ChecksumTexts::new(checksum.as_ref(), None);
    let owner = gateway.owner.id.clone();
    let object = PublishObject { bucket, key, owner, attributes, checksum, conditions };
    let published = gateway.storage.publish_object(staged, object).await.map_err(from_storage)?;

    let mut output = PutObjectOutput { e_tag: Some(ETag::Strong(published.etag)), ..Default::default() };
    output.checksum_type = set_checksum!(output, texts);
    Ok(S3Response::new(output))
}
