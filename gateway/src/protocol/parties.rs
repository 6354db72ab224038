//! Who is who in a request: who sent it, who owns the bucket, who will own what it writes; and what it may do beside what
//! its path names.
//!
//! The gate leaves a [`Permit`] in every request. Invariant: a request without one comes from a service without
//! authentication, which exists for fuzzing alone; everything is root's there.

use http::{Extensions, HeaderMap};
use s3s::dto;
use s3s::{S3Error, S3Result};

use crate::auth::{BucketRules, Owner, Permit, Resource};
use crate::storage::types::{BucketName, ObjectInfo, ObjectKey};
use crate::storage::version_types::Tags;
use crate::storage::{ObjectVersion, StorageError};

use super::admission;
use super::error::from_storage;

/// The permit of a request.
pub(super) fn permit(extensions: &Extensions) -> Option<&Permit> {
    extensions.get()
}

/// What decides about the bucket of a request.
pub(super) fn rules(extensions: &Extensions) -> Option<&BucketRules> {
    permit(extensions).and_then(Permit::rules)
}

/// Who sent a request; for one that nobody signed, the bucket's owner.
pub(super) fn caller(extensions: &Extensions) -> Owner {
    let caller = permit(extensions).and_then(Permit::caller).map(|caller| caller.owner.clone());
    caller.unwrap_or_else(|| bucket_owner(extensions))
}

/// Who owns the bucket of a request.
pub(super) fn bucket_owner(extensions: &Extensions) -> Owner {
    rules(extensions).map_or_else(Owner::root, |rules| rules.owner.clone())
}

/// Who owns what a request writes. `full_control`: it grants the bucket's owner full control.
pub(super) fn writer(extensions: &Extensions, full_control: bool) -> Owner {
    permit(extensions).map_or_else(Owner::root, |permit| permit.owner_of_objects(full_control))
}

/// Whose buckets a caller sees: users see their own, root sees all.
pub(super) fn own_buckets(extensions: &Extensions) -> Option<&str> {
    let caller = permit(extensions).and_then(Permit::caller)?;
    (!caller.is_root).then_some(caller.owner.id.as_str())
}

/// An owner in an answer.
pub(super) fn shown(owner: Owner) -> dto::Owner {
    dto::Owner { display_name: Some(owner.display_name).filter(|name| !name.is_empty()), id: Some(owner.id) }
}

/// The owners that a listing may show by name.
pub(super) struct Owners([Owner; 2]);

impl Owners {
    /// Those that a request knows.
    pub(super) fn of(extensions: &Extensions) -> Self {
        Self([bucket_owner(extensions), caller(extensions)])
    }

    /// An owner by its id.
    pub(super) fn shown(&self, id: &str) -> dto::Owner {
        let known = self.0.iter().find(|owner| owner.id == id).cloned();
        shown(known.unwrap_or_else(|| Owner { id: id.to_owned(), display_name: String::new() }))
    }

    /// As [`Owners::shown`], of who began an upload.
    pub(super) fn initiator(&self, id: &str) -> dto::Initiator {
        let dto::Owner { display_name, id } = self.shown(id);
        dto::Initiator { display_name, id }
    }
}

/// Lets this gateway forget what it knew of a bucket that was changed.
pub(super) fn forget(extensions: &Extensions, bucket: &str) {
    if let Some(permit) = permit(extensions) {
        permit.directory().forget_bucket(bucket);
    }
}

/// What is said of an object that cannot be read: whether it is there is told to those who may list the bucket.
pub(super) fn of_missing(extensions: &Extensions, error: StorageError) -> S3Error {
    let error = from_storage(error);
    match permit(extensions) {
        Some(permit) => permit.of_missing(error),
        None => error,
    }
}

/// Lets a copy read its source.
/// `found`: what it is, if it is there; `tags`: whether it is copied with its tags, which the copy's place has to allow.
pub(super) async fn admit_source(
    headers: &HeaderMap,
    extensions: &Extensions,
    (source, found): (&ObjectVersion, Option<&ObjectInfo>),
    tags: Option<(&BucketName, &ObjectKey)>,
) -> S3Result<()> {
    let Some(permit) = permit(extensions) else { return Ok(()) };
    let version = source.version.map(|version| version.to_string());
    let rules = permit.require_source(resource(source, version.as_deref()), found, tags.is_some()).await?;
    admission::check_owner(headers, "x-amz-source-expected-bucket-owner", Some(&rules))?;
    let Some((bucket, key)) = tags else { return Ok(()) };
    let target = Resource { bucket: Some(bucket.as_str()), key: Some(key.as_str()), version: None };
    let none = Tags::new();
    permit.require_with_tags(Some("CopyObject"), (target, found.map_or(&none, |found| &found.tags)), headers).await
}

/// Lets an object that was found be read, where that depends on the object.
pub(super) async fn confirm(extensions: &Extensions, object: &ObjectVersion, found: &ObjectInfo) -> S3Result<()> {
    let Some(permit) = permit(extensions) else { return Ok(()) };
    let version = object.version.map(|version| version.to_string());
    permit.confirm(resource(object, version.as_deref()), found).await
}

/// Lets something be done to an upload, where that depends on who began it. Whether there is one is no secret to others alone.
pub(super) fn confirm_upload(extensions: &Extensions, initiator: Option<&str>) -> S3Result<()> {
    match permit(extensions) {
        Some(permit) => permit.confirm_upload(initiator.unwrap_or_default()),
        None => Ok(()),
    }
}

fn resource<'a>(object: &'a ObjectVersion, version: Option<&'a str>) -> Resource<'a> {
    Resource { bucket: Some(object.bucket.as_str()), key: Some(object.key.as_str()), version }
}

/// Lets a rename read its source and delete it.
/// `tags`: those that go along, which the new key has to allow.
pub(super) async fn admit_rename(
    extensions: &Extensions,
    bucket: &str,
    (source, key): (&str, &str),
    tags: Option<&Tags>,
) -> S3Result<()> {
    let Some(permit) = permit(extensions) else { return Ok(()) };
    let resource = Resource { bucket: Some(bucket), key: Some(source), version: None };
    permit.require("s3:GetObject", resource).await?;
    permit.require("s3:DeleteObject", resource).await?;
    let Some(tags) = tags else { return Ok(()) };
    permit.require_with_tags(None, (Resource { key: Some(key), ..resource }, tags), &HeaderMap::new()).await
}

/// Whether policies have a say in a request.
pub(super) fn judged_by_policies(extensions: &Extensions) -> bool {
    permit(extensions).is_some_and(Permit::is_judged_by_policies)
}

/// Lets a form write under its key.
/// `fields`: its fields as headers; `outer`: the headers that it came with.
pub(super) async fn admit_form(
    extensions: &Extensions,
    (bucket, key): (&str, &str),
    fields: &HeaderMap,
    outer: &HeaderMap,
    signature_v2: bool,
) -> S3Result<()> {
    let Some(permit) = permit(extensions) else { return Ok(()) };
    let resource = Resource { bucket: Some(bucket), key: Some(key), version: None };
    permit.require_form(resource, (fields, outer), signature_v2).await
}

/// Lets a batch delete one of its keys.
pub(super) async fn admit_deletion(
    extensions: &Extensions,
    bucket: &BucketName,
    (key, version): &(String, Option<String>),
    bypass_governance: bool,
) -> S3Result<()> {
    let Some(permit) = permit(extensions) else { return Ok(()) };
    let resource = Resource { bucket: Some(bucket.as_str()), key: Some(key), version: version.as_deref() };
    let action = if version.is_some() { "s3:DeleteObjectVersion" } else { "s3:DeleteObject" };
    permit.require_key(action, resource).await?;
    if bypass_governance {
        permit.require("s3:BypassGovernanceRetention", resource).await?;
    }
    Ok(())
}
