//! ListParts and ListMultipartUploads.
//!
//! Uploads are listed in the order of their keys and, below one key, of their start; a page continues after the pair of
//! markers it ends with.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::storage::types::{Page, PartInfo};
use crate::storage::{ListUploads, Upload, UploadEntry};

use super::checksum_fields::{ChecksumTexts, checksum_algorithm, checksum_type, set_checksum};
use super::error::from_storage;
use super::get_object::{signed, signed32};
use super::list_objects::max_entries;
use super::multipart::{format_upload_id, parse_upload_id, upload_id};
use super::names::NameEncoding;
use super::parties::Owners;
use super::{Answer, Gateway, expiration_headers, metadata, names, parties};

/// ListParts.
pub(super) async fn parts(gateway: &Gateway, req: S3Request<ListPartsInput>) -> Answer<ListPartsOutput> {
    gateway.admit(&req)?;
    let owners = Owners::of(&req.extensions);
    let input = req.input;
    let (bucket, key) = (names::bucket(&input.bucket), names::key(&input.key)?);
    let id = upload_id(&input.upload_id)?;
    let max = max_entries(input.max_parts, "max-parts")?;
    let after = u32::try_from(input.part_number_marker.unwrap_or(0)).map_err(|_| {
        s3_error!(InvalidArgument, "Argument part-number-marker must be an integer between 0 and 2147483647")
    })?;

    let listed = gateway.storage.list_parts(&bucket, &key, id, after, max).await;
    parties::confirm_upload(&req.extensions, listed.as_ref().ok().map(|(upload, _)| upload.initiator.as_str()))?;
    let (upload, page) = listed.map_err(from_storage)?;
    let last = page.entries.last().map_or(after, |part| part.number);
    let (abort_date, abort_rule_id) =
        expiration_headers::abort(&req.extensions, &input.key, upload.initiated_at).unzip();
    let output = ListPartsOutput {
        abort_date,
        abort_rule_id,
        bucket: Some(input.bucket),
        checksum_algorithm: upload.checksum.map(|(algorithm, _)| checksum_algorithm(algorithm)),
        checksum_type: upload.checksum.map(|(_, kind)| checksum_type(kind)),
        initiator: Some(owners.initiator(&upload.initiator)),
        is_truncated: Some(page.truncated),
        key: Some(names::xml_text(&input.key).into_owned()),
        max_parts: Some(signed32(max)),
        next_part_number_marker: Some(signed32(last)),
        owner: Some(owners.shown(upload.owner())),
        part_number_marker: Some(signed32(after)),
        parts: Some(page.entries.iter().map(part).collect()),
        storage_class: Some(storage_class(&upload)),
        upload_id: Some(input.upload_id),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

fn part(part: &PartInfo) -> Part {
    let mut output = Part {
        e_tag: Some(ETag::Strong(part.etag.clone())),
        last_modified: Some(part.last_modified.into()),
        part_number: Some(signed32(part.number)),
        size: Some(signed(part.size)),
        ..Default::default()
    };
    let _ = set_checksum!(output, ChecksumTexts::new(part.checksum.as_ref(), None));
    output
}

fn storage_class(upload: &Upload) -> StorageClass {
    StorageClass::from(upload.attributes.storage_class.clone().unwrap_or_else(|| metadata::STANDARD.to_owned()))
}

/// ListMultipartUploads.
pub(super) async fn uploads(
    gateway: &Gateway,
    req: S3Request<ListMultipartUploadsInput>,
) -> Answer<ListMultipartUploadsOutput> {
    gateway.admit(&req)?;
    let owners = Owners::of(&req.extensions);
    let input = req.input;
    let encoding = NameEncoding::parse(input.encoding_type.as_ref())?;
    let max = max_entries(input.max_uploads, "max-uploads")?;
    let delimiter = names::comparable(input.delimiter.clone())?;
    let key_marker = names::comparable(input.key_marker.clone())?;
    let query = ListUploads {
        prefix: names::comparable(input.prefix.clone())?.unwrap_or_default(),
        delimiter: delimiter.clone(),
        // S3 ignores an upload-id-marker without a key-marker.
        upload_id_marker: key_marker
            .as_ref()
            .and(input.upload_id_marker.as_deref())
            .map(id_marker)
            .transpose()?
            .flatten(),
        key_marker,
        max_entries: max,
    };
    let page = gateway.storage.list_uploads(&names::bucket(&input.bucket), query).await.map_err(from_storage)?;

    let (next_key, next_id) = next_markers(&page);
    let truncated = page.truncated;
    let (uploads, common_prefixes) = entries(&owners, page, encoding);
    let output = ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        common_prefixes: Some(common_prefixes),
        delimiter: delimiter.map(|d| encoding.apply(&d)),
        encoding_type: input.encoding_type,
        is_truncated: Some(truncated),
        key_marker: Some(encoding.apply(&input.key_marker.unwrap_or_default())),
        max_uploads: Some(signed32(max)),
        next_key_marker: next_key.map(|name| encoding.apply(&name)),
        next_upload_id_marker: next_id,
        prefix: Some(encoding.apply(&input.prefix.unwrap_or_default())),
        upload_id_marker: Some(names::xml_text(&input.upload_id_marker.unwrap_or_default()).into_owned()),
        uploads: Some(uploads),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

fn id_marker(text: &str) -> S3Result<Option<crate::storage::types::UploadId>> {
    if text.is_empty() {
        return Ok(None);
    }
    let id = parse_upload_id(text).ok_or_else(|| s3_error!(InvalidArgument, "Invalid uploadId marker"))?;
    Ok(Some(id))
}

fn next_markers(page: &Page<UploadEntry>) -> (Option<String>, Option<String>) {
    if !page.truncated {
        return (None, None);
    }
    match page.entries.last() {
        Some(UploadEntry::Upload(upload)) => (Some(upload.key.as_str().to_owned()), Some(format_upload_id(upload.id))),
        Some(UploadEntry::CommonPrefix(prefix)) => (Some(prefix.clone()), None),
        None => (None, None),
    }
}

fn entries(
    owners: &Owners,
    page: Page<UploadEntry>,
    encoding: NameEncoding,
) -> (Vec<MultipartUpload>, Vec<CommonPrefix>) {
    let mut uploads = Vec::with_capacity(page.entries.len());
    let mut prefixes = Vec::new();
    for entry in page.entries {
        match entry {
            UploadEntry::Upload(upload) => uploads.push(MultipartUpload {
                checksum_algorithm: upload.checksum.map(|(algorithm, _)| checksum_algorithm(algorithm)),
                checksum_type: upload.checksum.map(|(_, kind)| checksum_type(kind)),
                initiated: Some(upload.initiated_at.into()),
                initiator: Some(owners.initiator(&upload.initiator)),
                key: Some(encoding.apply(upload.key.as_str())),
                owner: Some(owners.shown(upload.owner())),
                storage_class: Some(storage_class(&upload)),
                upload_id: Some(format_upload_id(upload.id)),
            }),
            UploadEntry::CommonPrefix(prefix) => prefixes.push(CommonPrefix { prefix: Some(encoding.apply(&prefix)) }),
        }
    }
    (uploads, prefixes)
}
