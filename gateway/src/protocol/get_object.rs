//! GetObject and HeadObject.
//!
//! One query locates the object and holds its content. 404, 304, 412 and 416 are decided from that, in this order,
//! before a byte of content is read; after the headers the only way to fail is to cut the connection.

use http::{Extensions, HeaderMap, StatusCode};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use crate::storage::types::{Checksum, ObjectInfo, RangeRequest};
use crate::storage::{Located, ObjectVersion};

use super::checksum_fields::{ChecksumTexts, set_checksum};
use super::conditions::ReadConditions;
use super::error::from_storage;
use super::{Answer, Gateway, SetAside, body, expiration_headers, metadata, object_lock, parties, range, versions};

/// Sets what GetObject and HeadObject say alike.
macro_rules! describe {
    ($output:ident, $info:expr, $selected:expr, $with_checksum:expr) => {{
        let (info, selected): (&ObjectInfo, &Selected) = ($info, $selected);
        let attributes = info.attributes.clone();
        let content_type = attributes.content_type.unwrap_or_else(|| metadata::DEFAULT_CONTENT_TYPE.to_owned());
        $output.accept_ranges = Some("bytes".to_owned());
        $output.content_length = Some(signed(selected.length));
        $output.content_range.clone_from(&selected.content_range);
        $output.content_type = metadata::sendable(Some(content_type));
        $output.content_encoding = metadata::sendable(attributes.content_encoding);
        $output.content_disposition = metadata::sendable(attributes.content_disposition);
        $output.content_language = metadata::sendable(attributes.content_language);
        $output.cache_control = metadata::sendable(attributes.cache_control);
        $output.expires = metadata::sendable(attributes.expires);
        $output.website_redirect_location = metadata::sendable(attributes.website_redirect_location);
        $output.storage_class = attributes.storage_class.map(StorageClass::from);
        $output.metadata = metadata::returned_metadata(attributes.user_metadata);
        $output.e_tag = Some(ETag::Strong(info.etag.clone()));
        $output.last_modified = Some(info.last_modified.into());
        $output.version_id = versions::text(info.version);
        $output.tag_count = (!info.tags.is_empty()).then(|| i32::try_from(info.tags.len()).unwrap_or(i32::MAX));
        $output.object_lock_mode = info.retention.map(|r| ObjectLockMode::from_static(r.mode.as_str()));
        $output.object_lock_retain_until_date = info.retention.map(|r| r.until.into());
        $output.object_lock_legal_hold_status = info.legal_hold.map(object_lock::hold_status);
        $output.parts_count = selected.parts_count.map(signed32);
        if $with_checksum {
            $output.checksum_type = set_checksum!($output, selected.checksum_texts(info));
        }
    }};
}

/// GetObject.
pub(super) async fn get(gateway: &Gateway, mut req: S3Request<GetObjectInput>) -> Answer<GetObjectOutput> {
    gateway.admit(&req)?;
    restore(&mut req.headers, req.extensions.remove());
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    let wanted = range::requested(&req.headers, req.input.part_number)?;
    let located =
        gateway.storage.locate(&object, wanted).await.map_err(|error| parties::of_missing(&req.extensions, error))?;
    parties::confirm(&req.extensions, &object, &located.info).await?;
    let selected = select(&located, wanted, &req.headers)?;

    let mut output = GetObjectOutput::default();
    describe!(output, &located.info, &selected, wants_checksum(req.input.checksum_mode.as_ref()));
    output.expiration = expiration(&located.info, &req.extensions, &object);
    let status = selected.status();
    output.body = Some(body::outgoing(located.open().await.map_err(from_storage)?));
    Ok(S3Response::with_status(output, status))
}

/// HeadObject: as GetObject, without the body.
pub(super) async fn head(gateway: &Gateway, mut req: S3Request<HeadObjectInput>) -> Answer<HeadObjectOutput> {
    gateway.admit(&req)?;
    restore(&mut req.headers, req.extensions.remove());
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    let wanted = range::requested(&req.headers, req.input.part_number)?;
    let located =
        gateway.storage.head(&object, wanted).await.map_err(|error| parties::of_missing(&req.extensions, error))?;
    parties::confirm(&req.extensions, &object, &located.info).await?;
    let selected = select(&located, wanted, &req.headers)?;

    let mut output = HeadObjectOutput::default();
    describe!(output, &located.info, &selected, wants_checksum(req.input.checksum_mode.as_ref()));
    output.expiration = expiration(&located.info, &req.extensions, &object);
    Ok(S3Response::with_status(output, selected.status()))
}

/// `x-amz-expiration`: of a current version, so not of one that the client named.
fn expiration(info: &ObjectInfo, extensions: &Extensions, object: &ObjectVersion) -> Option<String> {
    let (key, tags) = (object.key.as_str(), &info.tags);
    if object.version.is_some() {
        return None;
    }
    expiration_headers::expiration(extensions, key, tags, info.size, info.last_modified)
}

/// Puts headers back that were set aside before s3s saw them.
fn restore(headers: &mut HeaderMap, set_aside: Option<SetAside>) {
    if let Some(SetAside(originals)) = set_aside {
        headers.extend(originals);
    }
}

fn wants_checksum(mode: Option<&ChecksumMode>) -> bool {
    mode.is_some_and(|m| m.as_str().eq_ignore_ascii_case("ENABLED"))
}

/// The bytes that an answer holds.
pub(super) struct Selected {
    length: u64,
    /// `Content-Range`, for an answer of 206.
    content_range: Option<String>,
    /// The checksum over exactly these bytes, where one is stored.
    checksum: Option<Checksum>,
    /// The number of parts that a composite checksum names.
    composite_of: Option<u32>,
    /// `x-amz-mp-parts-count`, for a `partNumber` of a multipart object.
    parts_count: Option<u32>,
}

impl Selected {
    fn status(&self) -> StatusCode {
        if self.content_range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK }
    }
}

/// Decides the answer: the conditions first, then the range.
fn select(located: &Located, wanted: RangeRequest, headers: &HeaderMap) -> S3Result<Selected> {
    let info = &located.info;
    ReadConditions::of_read(headers).check_read(info)?;
    let bytes = located.range().ok_or_else(|| range::not_satisfiable(wanted, info.size))?;
    let length = bytes.end.saturating_sub(bytes.start);
    let partial = wanted != RangeRequest::Whole && length > 0;
    let content_range = partial.then(|| format!("bytes {}-{}/{}", bytes.start, bytes.end.saturating_sub(1), info.size));
    let of_part = matches!(wanted, RangeRequest::Part(_));
    let (checksum, composite_of) = match (wanted, located.part()) {
        (RangeRequest::Whole, _) | (RangeRequest::Part(_), None) => (info.checksum.clone(), info.parts_count),
        (RangeRequest::Part(_), Some(part)) => (part.checksum.clone(), None),
        _ => (None, None),
    };
    let parts_count = info.parts_count.filter(|_| of_part);
    Ok(Selected { length, content_range, checksum, composite_of, parts_count })
}

impl Selected {
    fn checksum_texts(&self, object: &ObjectInfo) -> ChecksumTexts {
        let mut texts = ChecksumTexts::new(self.checksum.as_ref(), self.composite_of);
        // A part's value is reported under the type of its object.
        if let (Some(_), Some(whole)) = (&texts.kind, &object.checksum) {
            texts.kind = Some(super::checksum_fields::checksum_type(whole.kind));
        }
        texts
    }
}

/// 64-bit sizes as s3s has them.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Counts and numbers as s3s has them.
pub(super) fn signed32(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
