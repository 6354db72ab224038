//! DeleteObject and DeleteObjects.
//!
//! Deleting what is not there succeeds; in a versioned bucket a delete marker takes its place. Conditions are decided by the deleting statement. A batch answers for each key
//! by itself: a key that cannot be parsed fails alone.

use http::{Extensions, HeaderMap};
use s3s::dto::{Error as DeleteError, *};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::storage::types::EtagSet;
use crate::storage::{DeleteObject as Deletion, Deleted, Deleter};

use super::error::{from_storage, no_such_version};
use super::{Answer, Gateway, conditions, moment, names, object_lock, parties, versions};

/// Keys in one DeleteObjects (AWS: "DeleteObjects").
const MAX_KEYS: usize = 1000;

/// DeleteObject.
pub(super) async fn one(gateway: &Gateway, req: S3Request<DeleteObjectInput>) -> Answer<DeleteObjectOutput> {
    gateway.admit(&req)?;
    let bucket = names::bucket(&req.input.bucket);
    let deletion = Deletion {
        key: names::key(&req.input.key)?,
        version: req.input.version_id.as_deref().map(versions::parse).transpose()?,
        if_match: conditions::if_match(&req.headers),
        if_match_size: req.input.if_match_size.map(size).transpose()?,
        if_match_last_modified: req.input.if_match_last_modified_time.map(moment::of_timestamp).transpose()?,
    };
    let by = deleter(&req.headers, &req.extensions);
    let deleted = gateway.storage.delete_object(&bucket, deletion, &by).await.map_err(from_storage)?;
    let output = DeleteObjectOutput {
        delete_marker: deleted.is_delete_marker.then_some(true),
        version_id: versions::text(deleted.version),
        ..Default::default()
    };
    Ok(S3Response::new(output))
}

/// DeleteObjects.
pub(super) async fn many(gateway: &Gateway, req: S3Request<DeleteObjectsInput>) -> Answer<DeleteObjectsOutput> {
    gateway.admit(&req)?;
    let bucket = names::bucket(&req.input.bucket);
    let by = deleter(&req.headers, &req.extensions);
    let quiet = req.input.delete.quiet.unwrap_or(false);
    let objects = req.input.delete.objects;
    if objects.is_empty() || objects.len() > MAX_KEYS {
        return Err(s3_error!(
            MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema"
        ));
    }

    let mut named = Vec::with_capacity(objects.len());
    let mut deletions = Vec::with_capacity(objects.len());
    let mut errors = Vec::new();
    for object in objects {
        let name = (object.key.clone(), object.version_id.clone());
        let permitted = parties::admit_deletion(&req.extensions, &bucket, &name, by.bypass_governance).await;
        match permitted.and_then(|()| deletion(object)) {
            Ok(deletion) => {
                named.push(name);
                deletions.push(deletion);
            }
            Err(error) => errors.push(delete_error(name, &error)),
        }
    }

    let outcomes = gateway.storage.delete_objects(&bucket, deletions, &by).await.map_err(from_storage)?;
    let mut deleted = Vec::with_capacity(outcomes.len());
    for (name, outcome) in named.into_iter().zip(outcomes) {
        match outcome {
            Ok(_) if quiet => {}
            Ok(outcome) => deleted.push(deleted_object(name, outcome)),
            Err(error) => errors.push(delete_error(name, &from_storage(error))),
        }
    }
    let output = DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), ..Default::default() };
    Ok(S3Response::new(output))
}

fn deletion(object: ObjectIdentifier) -> S3Result<Deletion> {
    Ok(Deletion {
        key: names::key(&object.key)?,
        // In a batch what never was a version id is a version that is not there.
        version: object.version_id.map(|text| versions::parse(&text).map_err(|_| no_such_version())).transpose()?,
        if_match: object.e_tag.map(|tag| match tag.into_value() {
            any if any == "*" => EtagSet::Any,
            tag => EtagSet::OneOf(vec![tag]),
        }),
        if_match_size: object.size.map(size).transpose()?,
        if_match_last_modified: object.last_modified_time.map(moment::of_timestamp).transpose()?,
    })
}

fn size(bytes: i64) -> S3Result<u64> {
    u64::try_from(bytes).map_err(|_| s3_error!(InvalidArgument, "A size must not be negative"))
}

fn deleter(headers: &HeaderMap, extensions: &Extensions) -> Deleter {
    Deleter {
        owner: parties::writer(extensions, false).id,
        bypass_governance: object_lock::bypasses_governance(headers),
    }
}

/// A key as the request named it, and the version.
type Name = (String, Option<String>);

fn deleted_object((key, version_id): Name, deleted: Deleted) -> DeletedObject {
    DeletedObject {
        delete_marker: deleted.is_delete_marker.then_some(true),
        delete_marker_version_id: versions::text(deleted.version).filter(|_| deleted.is_delete_marker),
        key: Some(names::xml_text(&key).into_owned()),
        version_id,
    }
}

fn delete_error((key, version_id): Name, error: &S3Error) -> DeleteError {
    DeleteError {
        code: Some(error.code().as_str().to_owned()),
        key: Some(names::xml_text(&key).into_owned()),
        message: error.message().map(ToOwned::to_owned),
        version_id: version_id.map(|text| names::xml_text(&text).into_owned()),
    }
}
