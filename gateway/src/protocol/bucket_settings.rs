//! What is configured on a bucket: tags, public access block, ownership; and the answers about what cannot be configured.
//!
//! Clients and tools read every configuration of a bucket before they change one, so each is answered as S3 answers where
//! there is none. What this gateway does not do cannot be set: 501. Every bucket is in S3's default, BucketOwnerEnforced:
//! access control lists are read as the owner's full control, and refused with S3's own words where they are set.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use serde::{Deserialize, Serialize};

use crate::storage::bucket_settings::Setting;
use crate::storage::types::RangeRequest;
use crate::storage::version_types::Tags;

use super::error::{custom, from_storage, internal, malformed_xml, not_implemented};
use super::{Answer, Gateway, names, tagging, versions};

/// The document of a kind, decoded.
async fn stored<T: for<'a> Deserialize<'a>>(gateway: &Gateway, bucket: &str, setting: Setting) -> S3Result<Option<T>> {
    let document = gateway.storage.bucket_setting(&names::bucket(bucket), setting).await.map_err(from_storage)?;
    document.map(|text| serde_json::from_str(&text).map_err(|_| internal())).transpose()
}

async fn store<T: Serialize + Sync>(gateway: &Gateway, bucket: &str, setting: Setting, value: &T) -> S3Result<()> {
    let document = serde_json::to_string(value).map_err(|_| internal())?;
    gateway.storage.put_bucket_setting(&names::bucket(bucket), setting, &document).await.map_err(from_storage)
}

async fn remove(gateway: &Gateway, bucket: &str, setting: Setting) -> S3Result<()> {
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

/// A public access block as it is stored. Nothing is public here, so each of them holds.
#[derive(Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "S3 has four of them")]
struct Block {
    block_public_acls: bool,
    ignore_public_acls: bool,
    block_public_policy: bool,
    restrict_public_buckets: bool,
}

/// GetPublicAccessBlock.
pub(super) async fn get_public_access_block(
    gateway: &Gateway,
    req: S3Request<GetPublicAccessBlockInput>,
) -> Answer<GetPublicAccessBlockOutput> {
    gateway.admit(&req)?;
    let block: Option<Block> = stored(gateway, &req.input.bucket, Setting::PublicAccessBlock).await?;
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
    let block = Block {
        block_public_acls: given.block_public_acls.unwrap_or(false),
        ignore_public_acls: given.ignore_public_acls.unwrap_or(false),
        block_public_policy: given.block_public_policy.unwrap_or(false),
        restrict_public_buckets: given.restrict_public_buckets.unwrap_or(false),
    };
    store(gateway, &req.input.bucket, Setting::PublicAccessBlock, &block).await?;
    Ok(S3Response::new(PutPublicAccessBlockOutput::default()))
}

/// DeletePublicAccessBlock.
pub(super) async fn delete_public_access_block(
    gateway: &Gateway,
    req: S3Request<DeletePublicAccessBlockInput>,
) -> Answer<DeletePublicAccessBlockOutput> {
    gateway.admit(&req)?;
    remove(gateway, &req.input.bucket, Setting::PublicAccessBlock).await?;
    Ok(S3Response::new(DeletePublicAccessBlockOutput::default()))
}

/// GetBucketOwnershipControls.
pub(super) async fn get_ownership_controls(
    gateway: &Gateway,
    req: S3Request<GetBucketOwnershipControlsInput>,
) -> Answer<GetBucketOwnershipControlsOutput> {
    gateway.admit(&req)?;
    gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    let object_ownership = ObjectOwnership::from_static(ObjectOwnership::BUCKET_OWNER_ENFORCED);
    let controls = OwnershipControls { rules: vec![OwnershipControlsRule { object_ownership }] };
    Ok(S3Response::new(GetBucketOwnershipControlsOutput { ownership_controls: Some(controls) }))
}

/// PutBucketOwnershipControls: only what holds already.
pub(super) async fn put_ownership_controls(
    gateway: &Gateway,
    req: S3Request<PutBucketOwnershipControlsInput>,
) -> Answer<PutBucketOwnershipControlsOutput> {
    gateway.admit(&req)?;
    gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    match &req.input.ownership_controls.rules[..] {
        [rule] if rule.object_ownership.as_str() == ObjectOwnership::BUCKET_OWNER_ENFORCED => {
            Ok(S3Response::new(PutBucketOwnershipControlsOutput::default()))
        }
        [rule] if ["BucketOwnerPreferred", "ObjectWriter"].contains(&rule.object_ownership.as_str()) => {
            Err(not_implemented("object ownership other than BucketOwnerEnforced"))
        }
        _ => Err(malformed_xml()),
    }
}

fn owners_grant(gateway: &Gateway) -> Grants {
    let owner = gateway.owner();
    let grantee = Grantee {
        display_name: owner.display_name,
        email_address: None,
        id: owner.id,
        type_: Type::from_static(Type::CANONICAL_USER),
        uri: None,
    };
    vec![Grant { grantee: Some(grantee), permission: Some(Permission::from_static(Permission::FULL_CONTROL)) }]
}

/// What a request for an access control list is told.
pub(super) fn acls_refused() -> s3s::S3Error {
    s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs")
}

/// GetBucketAcl.
pub(super) async fn get_bucket_acl(gateway: &Gateway, req: S3Request<GetBucketAclInput>) -> Answer<GetBucketAclOutput> {
    gateway.admit(&req)?;
    gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    let (grants, owner) = (Some(owners_grant(gateway)), Some(gateway.owner()));
    Ok(S3Response::new(GetBucketAclOutput { grants, owner }))
}

/// PutBucketAcl.
pub(super) async fn put_bucket_acl(gateway: &Gateway, req: S3Request<PutBucketAclInput>) -> Answer<PutBucketAclOutput> {
    gateway.admit(&req)?;
    gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    Err(acls_refused())
}

/// GetObjectAcl.
pub(super) async fn get_object_acl(gateway: &Gateway, req: S3Request<GetObjectAclInput>) -> Answer<GetObjectAclOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    gateway.storage.head(&object, RangeRequest::Whole).await.map_err(from_storage)?;
    let (grants, owner) = (Some(owners_grant(gateway)), Some(gateway.owner()));
    Ok(S3Response::new(GetObjectAclOutput { grants, owner, ..Default::default() }))
}

/// PutObjectAcl.
pub(super) async fn put_object_acl(gateway: &Gateway, req: S3Request<PutObjectAclInput>) -> Answer<PutObjectAclOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    gateway.storage.head(&object, RangeRequest::Whole).await.map_err(from_storage)?;
    Err(acls_refused())
}
