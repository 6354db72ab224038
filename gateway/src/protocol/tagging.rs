//! GetObjectTagging: nothing can be tagged in this release, so an object's tag set is empty, which is the truth.
//!
//! The aws cli asks for the tags of an object before it copies one in parts.

use s3s::dto::*;
use s3s::{S3Request, S3Response};

use crate::storage::types::RangeRequest;

use super::error::from_storage;
use super::{Answer, Gateway, names};

/// GetObjectTagging.
pub(super) async fn get(gateway: &Gateway, req: S3Request<GetObjectTaggingInput>) -> Answer<GetObjectTaggingOutput> {
    gateway.admit(&req)?;
    let (bucket, key) = (names::bucket(&req.input.bucket), names::key(&req.input.key)?);
    gateway.storage.head(&bucket, &key, RangeRequest::Whole).await.map_err(from_storage)?;
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set: TagSet::new(), ..Default::default() }))
}
