//! ListObjectVersions: a page of the engine's listing of versions.
//!
//! A page continues after its last entry: a version of a key, or a common prefix, which has no version.

use s3s::dto::*;
use s3s::{S3Request, S3Response, s3_error};

use crate::storage::types::Page;
use crate::storage::{ListVersions, ListedVersion, VersionEntry};

use super::checksum_fields::{checksum_algorithm, checksum_type};
use super::error::from_storage;
use super::get_object::{signed, signed32};
use super::list_objects::max_entries;
use super::names::NameEncoding;
use super::parties::Owners;
use super::{Answer, Gateway, metadata, names, versions};

/// ListObjectVersions.
pub(super) async fn list(
    gateway: &Gateway,
    req: S3Request<ListObjectVersionsInput>,
) -> Answer<ListObjectVersionsOutput> {
    gateway.admit(&req)?;
    let owners = Owners::of(&req.extensions);
    let input = req.input;
    let encoding = NameEncoding::parse(input.encoding_type.as_ref())?;
    let max = max_entries(input.max_keys, "max-keys")?;
    let delimiter = names::comparable(input.delimiter.clone())?.filter(|d| !d.is_empty());
    let key_marker = names::comparable(input.key_marker.clone())?.filter(|m| !m.is_empty());
    let version_marker = input.version_id_marker.as_deref();
    if version_marker.is_some() && key_marker.is_none() {
        return Err(s3_error!(InvalidArgument, "A version-id marker cannot be specified without a key marker."));
    }
    let query = ListVersions {
        prefix: names::comparable(input.prefix.clone())?.unwrap_or_default(),
        delimiter: delimiter.clone(),
        key_marker,
        version_marker: version_marker
            .map(|text| match text {
                "" => Err(s3_error!(InvalidArgument, "A version-id marker cannot be empty.")),
                text => versions::parse(text),
            })
            .transpose()?,
        max_entries: max,
    };
    let page = gateway.storage.list_versions(&names::bucket(&input.bucket), query).await.map_err(from_storage)?;

    let (next_key_marker, next_version_id_marker) = next_markers(&page, encoding);
    let mut output = ListObjectVersionsOutput {
        name: Some(input.bucket),
        prefix: Some(encoding.apply(&input.prefix.unwrap_or_default())),
        key_marker: Some(encoding.apply(&input.key_marker.unwrap_or_default())),
        version_id_marker: Some(input.version_id_marker.unwrap_or_default()),
        max_keys: Some(signed32(max)),
        is_truncated: Some(page.truncated),
        delimiter: delimiter.map(|d| encoding.apply(&d)),
        encoding_type: input.encoding_type,
        next_key_marker,
        next_version_id_marker,
        ..Default::default()
    };
    let (mut found, mut markers, mut prefixes) = (Vec::new(), Vec::new(), Vec::new());
    for entry in page.entries {
        match entry {
            VersionEntry::CommonPrefix(prefix) => {
                prefixes.push(CommonPrefix { prefix: Some(encoding.apply(&prefix)) });
            }
            VersionEntry::Version(version) if version.is_delete_marker => {
                markers.push(marker(&owners, &version, encoding));
            }
            VersionEntry::Version(version) => found.push(self::version(&owners, *version, encoding)),
        }
    }
    output.versions = Some(found);
    output.delete_markers = Some(markers);
    output.common_prefixes = Some(prefixes);
    Ok(S3Response::new(output))
}

fn next_markers(page: &Page<VersionEntry>, encoding: NameEncoding) -> (Option<String>, Option<String>) {
    match page.entries.last().filter(|_| page.truncated) {
        None => (None, None),
        Some(VersionEntry::CommonPrefix(prefix)) => (Some(encoding.apply(prefix)), None),
        Some(VersionEntry::Version(last)) => (Some(encoding.apply(&last.key)), Some(last.version.to_string())),
    }
}

fn version(owners: &Owners, version: ListedVersion, encoding: NameEncoding) -> ObjectVersion {
    ObjectVersion {
        checksum_algorithm: version.checksum.map(|(algorithm, _)| vec![checksum_algorithm(algorithm)]),
        checksum_type: version.checksum.map(|(_, kind)| checksum_type(kind)),
        e_tag: Some(ETag::Strong(version.etag)),
        is_latest: Some(version.is_latest),
        key: Some(encoding.apply(&version.key)),
        last_modified: Some(version.last_modified.into()),
        owner: Some(owners.shown(&version.owner)),
        restore_status: None,
        size: Some(signed(version.size)),
        storage_class: Some(ObjectVersionStorageClass::from(
            version.storage_class.unwrap_or_else(|| metadata::STANDARD.to_owned()),
        )),
        version_id: Some(version.version.to_string()),
    }
}

fn marker(owners: &Owners, marker: &ListedVersion, encoding: NameEncoding) -> DeleteMarkerEntry {
    DeleteMarkerEntry {
        is_latest: Some(marker.is_latest),
        key: Some(encoding.apply(&marker.key)),
        last_modified: Some(marker.last_modified.into()),
        owner: Some(owners.shown(&marker.owner)),
        version_id: Some(marker.version.to_string()),
    }
}
