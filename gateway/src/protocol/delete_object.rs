//! DeleteObject and DeleteObjects.
//!
//! Deleting what is not there succeeds. Conditions are decided by the deleting statement. A batch answers for each key
//! by itself: a key that cannot be parsed fails alone.

use s3s::dto::{Error as DeleteError, *};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::storage::DeleteObject as Deletion;
use crate::storage::types::EtagSet;

use super::error::from_storage;
use super::{Answer, Gateway, admission, conditions, names};

/// Keys in one DeleteObjects (AWS: "DeleteObjects").
const MAX_KEYS: usize = 1000;

/// DeleteObject.
pub(super) async fn one(gateway: &Gateway, req: S3Request<DeleteObjectInput>) -> Answer<DeleteObjectOutput> {
    gateway.admit(&req)?;
    let bucket = names::bucket(&req.input.bucket);
    let deletion = Deletion {
        key: names::key(&req.input.key)?,
        if_match: conditions::if_match(&req.headers),
        if_match_size: req.input.if_match_size.map(size).transpose()?,
        if_match_last_modified: req.input.if_match_last_modified_time.map(Into::into),
    };
    gateway.storage.delete_object(&bucket, deletion).await.map_err(from_storage)?;
    Ok(S3Response::new(DeleteObjectOutput::default()))
}

/// DeleteObjects.
pub(super) async fn many(gateway: &Gateway, req: S3Request<DeleteObjectsInput>) -> Answer<DeleteObjectsOutput> {
    gateway.admit(&req)?;
    let bucket = names::bucket(&req.input.bucket);
    let quiet = req.input.delete.quiet.unwrap_or(false);
    let objects = req.input.delete.objects;
    if objects.is_empty() || objects.len() > MAX_KEYS {
        return Err(s3_error!(
            MalformedXML,
            "The XML you provided was not well-formed or did not validate against our published schema"
        ));
    }

    let mut keys = Vec::with_capacity(objects.len());
    let mut deletions = Vec::with_capacity(objects.len());
    let mut errors = Vec::new();
    for object in objects {
        let key = object.key.clone();
        match deletion(object) {
            Ok(deletion) => {
                keys.push(key);
                deletions.push(deletion);
            }
            Err(error) => errors.push(delete_error(&key, &error)),
        }
    }

    let outcomes = gateway.storage.delete_objects(&bucket, deletions).await.map_err(from_storage)?;
    let mut deleted = Vec::with_capacity(outcomes.len());
    for (key, outcome) in keys.iter().zip(outcomes) {
        match outcome {
            Ok(()) if quiet => {}
            Ok(()) => {
                deleted.push(DeletedObject { key: Some(names::xml_text(key).into_owned()), ..Default::default() })
            }
            Err(error) => errors.push(delete_error(key, &from_storage(error))),
        }
    }
    let output = DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), ..Default::default() };
    Ok(S3Response::new(output))
}

fn deletion(object: ObjectIdentifier) -> S3Result<Deletion> {
    admission::version(object.version_id.as_deref().unwrap_or_default())?;
    Ok(Deletion {
        key: names::key(&object.key)?,
        if_match: object.e_tag.map(|tag| match tag.into_value() {
            any if any == "*" => EtagSet::Any,
            tag => EtagSet::OneOf(vec![tag]),
        }),
        if_match_size: object.size.map(size).transpose()?,
        if_match_last_modified: object.last_modified_time.map(Into::into),
    })
}

fn size(bytes: i64) -> S3Result<u64> {
    u64::try_from(bytes).map_err(|_| s3_error!(InvalidArgument, "A size must not be negative"))
}

fn delete_error(key: &str, error: &S3Error) -> DeleteError {
    DeleteError {
        code: Some(error.code().as_str().to_owned()),
        key: Some(names::xml_text(key).into_owned()),
        message: error.message().map(ToOwned::to_owned),
        version_id: None,
    }
}
