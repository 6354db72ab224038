//! PutObject, and what it shares with the upload by a form.
//!
//! Everything that can be refused from the headers is refused before the body is read. The body is then staged and
//! verified against what was declared, and only then published, with the conditions decided by the publishing statement.

use http::{Extensions, HeaderMap};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, TrailingHeaders, s3_error};

use crate::storage::{PublishObject, Published};

use super::body::Upload;
use super::checksum_fields::{ChecksumTexts, set_checksum};
use super::checksums::{DEFAULT_ALGORITHM, Declared};
use super::error::from_storage;
use super::{
    Answer, Gateway, acl, body, checksums, conditions, expiration_headers, metadata, names, object_lock, versions,
};

/// PutObject.
pub(super) async fn put(gateway: &Gateway, mut req: S3Request<PutObjectInput>) -> Answer<PutObjectOutput> {
    gateway.admit(&req)?;
    let object = NewObject {
        bucket: &req.input.bucket,
        key: &req.input.key,
        headers: &req.headers,
        extensions: &req.extensions,
        trailers: req.trailing_headers.as_ref(),
        metadata: req.input.metadata.take(),
        content: req.input.body.take(),
    };
    let Stored { published, texts, expiration } = store(gateway, object).await?;
    let mut output = PutObjectOutput {
        e_tag: Some(ETag::Strong(published.etag)),
        version_id: versions::text(published.written.version),
        expiration,
        ..Default::default()
    };
    output.checksum_type = set_checksum!(output, texts);
    Ok(S3Response::new(output))
}

/// An object on its way in.
pub(super) struct NewObject<'a> {
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
    /// What a PutObject says of it.
    pub(super) headers: &'a HeaderMap,
    /// Who sent it.
    pub(super) extensions: &'a Extensions,
    /// Headers after the body.
    pub(super) trailers: Option<&'a TrailingHeaders>,
    /// `x-amz-meta-*`, decoded.
    pub(super) metadata: Option<Metadata>,
    pub(super) content: Option<StreamingBlob>,
}

/// An object stored, and what is told of it.
pub(super) struct Stored {
    pub(super) published: Published,
    /// Its checksum.
    pub(super) texts: ChecksumTexts,
    /// `x-amz-expiration`.
    pub(super) expiration: Option<String>,
}

/// Stores an object.
pub(super) async fn store(gateway: &Gateway, new: NewObject<'_>) -> S3Result<Stored> {
    let (bucket, key) = (names::bucket(new.bucket), names::key(new.key)?);
    let (owner, acl) = acl::of_write(new.headers, new.extensions).await?;
    let attributes = metadata::attributes(new.headers, new.metadata)?;
    let conditions = conditions::of_write(new.headers)?;
    let mut settings = object_lock::settings(new.headers)?;
    settings.acl = acl;
    let declared = Declared::from_headers(new.headers)?;
    if declared.is_empty() && settings.has_lock() {
        return Err(s3_error!(
            InvalidRequest,
            "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with Object Lock parameters"
        ));
    }
    let algorithm = declared.algorithm().unwrap_or(DEFAULT_ALGORITHM);

    let upload = Upload {
        headers: new.headers,
        trailers: new.trailers,
        content: new.content,
        declared,
        algorithms: vec![algorithm],
        replaces: Some((bucket.clone(), key.clone())),
    };
    let staged = body::stage(&gateway.storage, upload).await?;

    let checksum = checksums::full_object(&staged, algorithm);
    let texts = ChecksumTexts::new(checksum.as_ref(), None);
    let tags = settings.tags.clone();
    let object = PublishObject { bucket, key, owner: owner.id, attributes, checksum, conditions, settings };
    let published = gateway.storage.publish_object(staged, object).await.map_err(from_storage)?;
    let since = published.written.last_modified;
    let expiration = expiration_headers::expiration(new.extensions, new.key, &tags, published.size, since);
    Ok(Stored { published, texts, expiration })
}
