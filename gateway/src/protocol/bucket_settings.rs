//! What is configured on a bucket: its tags and its public access block. Each is a document of its kind.
//!
//! What decides who may do what is remembered by gateways, so whoever changes it here lets this one forget at once; the
//! others are told by the database.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use serde::{Deserialize, Serialize};

use crate::auth::PublicAccessBlock;
use crate::storage::bucket_settings::Setting;
use crate::storage::version_types::Tags;

use super::error::{custom, from_storage, internal};
use super::{Answer, Gateway, names, parties, tagging};

/// The document of a kind, decoded.
pub(super) async fn stored<T: for<'a> Deserialize<'a>>(
    gateway: &Gateway,
    bucket: &str,
    setting: Setting,
) -> S3Result<Option<T>> {
    let document = gateway.storage.bucket_setting(&names::bucket(bucket), setting).await.map_err(from_storage)?;
    document.map(|text| serde_json::from_str(&text).map_err(|_| internal())).transpose()
}

/// A document, encoded.
pub(super) fn document<T: Serialize>(value: &T) -> S3Result<String> {
    serde_json::to_string(value).map_err(|_| internal())
}

/// Stores a document of a kind.
pub(super) async fn store<T: Serialize + Sync>(
    gateway: &Gateway,
    bucket: &str,
    setting: Setting,
    value: &T,
) -> S3Result<()> {
    let document = document(value)?;
    gateway.storage.put_bucket_setting(&names::bucket(bucket), setting, &document).await.map_err(from_storage)
}

/// Removes the document of a kind.
pub(super) async fn remove(gateway: &Gateway, bucket: &str, setting: Setting) -> S3Result<()> {
    gateway.storage.delete_bucket_setting(&names::bucket(bucket), setting).await.map_err(from_storage)
}

/// GetBucketTagging.
pub(super) async fn get_tagging(
    gateway: &Gateway,
    req: S3Request<GetBucketTaggingInput>,
) -> Answer<GetBucketTaggingOutput> {
    gateway.admit(&req)?;
    let tags: Option<Tags> = stored(gateway, &req.input.bucket, Setting::Tagging).await?;
    let tags = tags.ok_or_else(|| s3_error!(NoSuchTagSet, "The TagSet does not exist"))?;
    Ok(S3Response::new(GetBucketTaggingOutput { tag_set: tagging::tag_set(&tags) }))
}

/// PutBucketTagging.
pub(super) async fn put_tagging(
    gateway: &Gateway,
    req: S3Request<PutBucketTaggingInput>,
) -> Answer<PutBucketTaggingOutput> {
    gateway.admit(&req)?;
    let tags = tagging::of_bucket(&req.input.tagging.tag_set)?;
    store(gateway, &req.input.bucket, Setting::Tagging, &tags).await?;
    Ok(S3Response::new(PutBucketTaggingOutput::default()))
}

/// DeleteBucketTagging.
pub(super) async fn delete_tagging(
    gateway: &Gateway,
    req: S3Request<DeleteBucketTaggingInput>,
) -> Answer<DeleteBucketTaggingOutput> {
    gateway.admit(&req)?;
    remove(gateway, &req.input.bucket, Setting::Tagging).await?;
    Ok(S3Response::new(DeleteBucketTaggingOutput::default()))
}

/// GetPublicAccessBlock.
pub(super) async fn get_public_access_block(
    gateway: &Gateway,
    req: S3Request<GetPublicAccessBlockInput>,
) -> Answer<GetPublicAccessBlockOutput> {
    gateway.admit(&req)?;
    let block: Option<PublicAccessBlock> = stored(gateway, &req.input.bucket, Setting::PublicAccessBlock).await?;
    let block = block.ok_or_else(|| {
        custom(
            "NoSuchPublicAccessBlockConfiguration",
            http::StatusCode::NOT_FOUND,
            "The public access block configuration was not found",
        )
    })?;
    let configuration = PublicAccessBlockConfiguration {
        block_public_acls: Some(block.block_public_acls),
        block_public_policy: Some(block.block_public_policy),
        ignore_public_acls: Some(block.ignore_public_acls),
        restrict_public_buckets: Some(block.restrict_public_buckets),
    };
    Ok(S3Response::new(GetPublicAccessBlockOutput { public_access_block_configuration: Some(configuration) }))
}

/// PutPublicAccessBlock.
pub(super) async fn put_public_access_block(
    gateway: &Gateway,
    req: S3Request<PutPublicAccessBlockInput>,
) -> Answer<PutPublicAccessBlockOutput> {
    gateway.admit(&req)?;
    let given = req.input.public_access_block_configuration;
    let block = PublicAccessBlock {
        block_public_acls: given.block_public_acls.unwrap_or(false),
        ignore_public_acls: given.ignore_public_acls.unwrap_or(false),
        block_public_policy: given.block_public_policy.unwrap_or(false),
        restrict_public_buckets: given.restrict_public_buckets.unwrap_or(false),
    };
    store(gateway, &req.input.bucket, Setting::PublicAccessBlock, &block).await?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(PutPublicAccessBlockOutput::default()))
}

/// DeletePublicAccessBlock.
pub(super) async fn delete_public_access_block(
    gateway: &Gateway,
    req: S3Request<DeletePublicAccessBlockInput>,
) -> Answer<DeletePublicAccessBlockOutput> {
    gateway.admit(&req)?;
    remove(gateway, &req.input.bucket, Setting::PublicAccessBlock).await?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(DeletePublicAccessBlockOutput::default()))
}
