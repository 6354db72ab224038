//! CopyObject and UploadPartCopy: the source's content under another key or as a part, without moving bytes where the
//! engine can share them.
//!
//! The source is located as for a read, so its content is held until the copy is published, whatever happens to the
//! source meanwhile. Conditions on the source are decided here, those on the destination by the publishing statement.

use http::HeaderMap;
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::storage::types::{Attributes, RangeRequest};
use crate::storage::types::{Checksum as StoredChecksum, ChecksumType as Kind};
use crate::storage::version_types::DeleteMarker;
use crate::storage::{Located, ObjectVersion, PublishObject, PublishPart, StorageError};

use super::checksum_fields::{ChecksumTexts, set_checksum};
use super::conditions::ReadConditions;
use super::error::{from_storage, not_implemented};
use super::multipart::upload_id;
use super::{
    Answer, Gateway, acl, checksums, conditions, expiration_headers, metadata, names, object_lock, parties, range,
    versions,
};

/// CopyObject.
pub(super) async fn copy(gateway: &Gateway, mut req: S3Request<CopyObjectInput>) -> Answer<CopyObjectOutput> {
    gateway.admit(&req)?;
    let (bucket, key) = (names::bucket(&req.input.bucket), names::key(&req.input.key)?);
    let from = source_in(&req.headers)?;
    let replace = replaces_metadata(req.input.metadata_directive.as_ref())?;
    let algorithm = req.input.checksum_algorithm.as_ref().map(|a| checksums::algorithm(a.as_str())).transpose()?;
    let replace_tags = replaces_tags(req.input.tagging_directive.as_ref())?;
    let onto_itself = bucket == from.bucket && key == from.key && from.version.is_none();
    if onto_itself && !replace && !replace_tags && !changes_anything(&req.headers) {
        return Err(s3_error!(
            InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing the \
             object's metadata, storage class, website redirect location or encryption attributes."
        ));
    }

    let source = gateway.storage.locate(&from, RangeRequest::Whole).await;
    let found = (&from, source.as_ref().ok().map(|source| &source.info));
    let tags = crate::auth::copies_tags(&req.headers).then_some((&bucket, &key));
    parties::admit_source(&req.headers, &req.extensions, found, tags).await?;
    let source = source.map_err(from_copy_source)?;
    ReadConditions::of_copy_source(&req.headers).check_copy_source(&source.info)?;
    let (owner, acl) = acl::of_write(&req.headers, &req.extensions).await?;
    let mut settings = object_lock::settings(&req.headers)?;
    settings.acl = acl;
    if !replace_tags {
        settings.tags.clone_from(&source.info.tags);
    }
    let tags = settings.tags.clone();
    let object = PublishObject {
        bucket,
        key,
        owner: owner.id,
        attributes: copied_attributes(&source, &req.headers, replace.then(|| req.input.metadata.take()))?,
        checksum: copied_checksum(gateway, &source, algorithm).await?,
        conditions: conditions::of_write(&req.headers)?,
        settings,
    };
    let texts = ChecksumTexts::new(object.checksum.as_ref(), source.info.parts_count);
    let published = gateway.storage.copy_object(&source, object).await.map_err(from_storage)?;

    let since = published.written.last_modified;
    let expiration = expiration_headers::expiration(&req.extensions, &req.input.key, &tags, published.size, since);
    let mut result = CopyObjectResult {
        e_tag: Some(ETag::Strong(published.etag)),
        last_modified: Some(published.written.last_modified.into()),
        ..Default::default()
    };
    result.checksum_type = set_checksum!(result, texts);
    let output = CopyObjectOutput {
        copy_object_result: Some(result),
        copy_source_version_id: versions::text(source.info.version),
        version_id: versions::text(published.written.version),
        expiration,
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

/// The source that the header `x-amz-copy-source` names. It is form-encoded: a plus is a space, as S3 reads it (and s3s
/// does not).
fn source_in(headers: &HeaderMap) -> S3Result<ObjectVersion> {
    let text = headers.get("x-amz-copy-source").and_then(|v| v.to_str().ok()).unwrap_or_default();
    let source = CopySource::parse(&text.replace('+', "%20"));
    source_of(&source.map_err(|_| s3_error!(InvalidArgument, "Copy Source must mention the source bucket and key"))?)
}

/// The source that a parsed `x-amz-copy-source` names.
fn source_of(source: &CopySource) -> S3Result<ObjectVersion> {
    match source {
        CopySource::Bucket { bucket, key, version_id } => versions::object(bucket, key, version_id.as_deref()),
        CopySource::AccessPoint { .. } | CopySource::Outpost { .. } => Err(not_implemented("access points")),
    }
}

fn replaces_metadata(directive: Option<&MetadataDirective>) -> S3Result<bool> {
    match directive.map(MetadataDirective::as_str) {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "Unknown metadata directive.")),
    }
}

fn replaces_tags(directive: Option<&TaggingDirective>) -> S3Result<bool> {
    match directive.map(TaggingDirective::as_str) {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "Unknown tagging directive.")),
    }
}

/// A source that cannot be had. One that is a delete marker is told apart by whether the client named that version.
fn from_copy_source(error: StorageError) -> S3Error {
    if error.cause::<DeleteMarker>().is_some_and(|marker| marker.named) {
        return s3_error!(
            InvalidRequest,
            "The source of a copy request may not specifically refer to a delete marker by version id."
        );
    }
    from_storage(error)
}

/// Whether a copy of an object onto itself does something: these are not copied from the source.
fn changes_anything(headers: &HeaderMap) -> bool {
    ["x-amz-storage-class", "x-amz-website-redirect-location", "x-amz-checksum-algorithm"]
        .iter()
        .any(|name| headers.contains_key(*name))
}

/// The source's attributes, or the request's. Storage class and redirect are always the request's, as S3 does.
fn copied_attributes(
    source: &Located,
    headers: &HeaderMap,
    replacement: Option<Option<Metadata>>,
) -> S3Result<Attributes> {
    match replacement {
        Some(user) => metadata::attributes(headers, user),
        None => Ok(Attributes {
            storage_class: metadata::storage_class(headers)?,
            website_redirect_location: metadata::website_redirect(headers)?,
            ..source.info.attributes.clone()
        }),
    }
}

/// The source's checksum; or, where another algorithm is asked for or none is stored, one over all bytes.
async fn copied_checksum(
    gateway: &Gateway,
    source: &Located,
    asked: Option<crate::storage::types::ChecksumAlgorithm>,
) -> S3Result<Option<StoredChecksum>> {
    let stored = source.info.checksum.as_ref();
    let algorithm = match (asked, stored) {
        (None, Some(stored)) => return Ok(Some(stored.clone())),
        (Some(asked), Some(stored)) if asked == stored.algorithm && stored.kind == Kind::FullObject => {
            return Ok(Some(stored.clone()));
        }
        (Some(asked), _) => asked,
        (None, None) => checksums::DEFAULT_ALGORITHM,
    };
    let value = gateway.storage.checksum_of(source, algorithm).await.map_err(from_storage)?;
    Ok(Some(StoredChecksum { algorithm, kind: Kind::FullObject, value }))
}

/// UploadPartCopy.
pub(super) async fn copy_part(gateway: &Gateway, req: S3Request<UploadPartCopyInput>) -> Answer<UploadPartCopyOutput> {
    gateway.admit(&req)?;
    let (bucket, key) = (names::bucket(&req.input.bucket), names::key(&req.input.key)?);
    let from = source_in(&req.headers)?;
    let number = range::part_number(req.input.part_number)?;
    let id = upload_id(&req.input.upload_id)?;
    let wanted = req.input.copy_source_range.as_deref().map_or(Ok(RangeRequest::Whole), range::copy_source_range)?;

    let upload = gateway.storage.upload(&bucket, &key, id).await.map_err(from_storage)?;
    let source = gateway.storage.locate(&from, wanted).await;
    let found = (&from, source.as_ref().ok().map(|source| &source.info));
    parties::admit_source(&req.headers, &req.extensions, found, None).await?;
    let source = source.map_err(from_copy_source)?;
    ReadConditions::of_copy_source(&req.headers).check_copy_source(&source.info)?;
    check_within(wanted, source.info.size)?;

    let copy_source_version_id = versions::text(source.info.version);
    let part = PublishPart { bucket, key, upload: id, number, checksum: None };
    let algorithm = upload.checksum.map(|(algorithm, _)| algorithm);
    let published = gateway.storage.copy_part(source, part, algorithm).await.map_err(from_storage)?;

    let mut result = CopyPartResult {
        e_tag: Some(ETag::Strong(published.etag)),
        last_modified: Some(published.last_modified.into()),
        ..Default::default()
    };
    let _ = set_checksum!(result, ChecksumTexts::new(published.checksum.as_ref(), None));
    let output = UploadPartCopyOutput { copy_part_result: Some(result), copy_source_version_id, ..Default::default() };
    Ok(S3Response::new(output))
}

/// A copied range lies wholly inside the source: unlike a read, a copy is never shortened.
fn check_within(wanted: RangeRequest, size: u64) -> S3Result<()> {
    match wanted {
        RangeRequest::Between { last, .. } if last >= size => {
            Err(s3_error!(InvalidRange, "Range specified is not valid for source object of size: {size}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_name_a_bucket_a_key_and_perhaps_a_version() {
        let parse =
            |text: &str| CopySource::parse(text).ok().map(|s| source_of(&s).map_err(|e| e.code().as_str().to_owned()));
        assert!(parse("/bucket/a%20b/c?versionId=null").is_some_and(|s| s.is_ok_and(|o| o.key.as_str() == "a b/c")));
        assert!(parse("bucket/key").is_some_and(|s| s.is_ok()));
        assert!(parse("bucket/key?versionId=v1").is_some_and(|s| s.is_err_and(|code| code == "InvalidArgument")));
        assert!(parse("bucket/").is_some_and(|s| s.is_err()));
    }

    #[test]
    fn copied_ranges_are_never_shortened() {
        let wanted = RangeRequest::Between { first: 0, last: 9 };
        assert!(check_within(wanted, 10).is_ok());
        assert!(check_within(wanted, 9).is_err());
        assert!(check_within(RangeRequest::Whole, 0).is_ok());
    }
}
