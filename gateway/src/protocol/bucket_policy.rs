//! The policy of a bucket: stored as it was given, once it is known to be one that can be evaluated.

use std::collections::BTreeMap;

use http::StatusCode;
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::auth::policy::{Policy, with_principals};
use crate::auth::{BucketRules, Permit};
use crate::storage::bucket_settings::Setting;

use super::error::{custom, from_storage};
use super::{Answer, Gateway, names, parties};

fn malformed(message: impl Into<std::borrow::Cow<'static, str>>) -> S3Error {
    custom("MalformedPolicy", StatusCode::BAD_REQUEST, message)
}

fn no_policy() -> S3Error {
    s3_error!(NoSuchBucketPolicy, "The bucket policy does not exist")
}

async fn stored(gateway: &Gateway, bucket: &str) -> S3Result<String> {
    let document =
        gateway.storage.bucket_setting(&names::bucket(bucket), Setting::Policy).await.map_err(from_storage)?;
    document.ok_or_else(no_policy)
}

/// GetBucketPolicy.
pub(super) async fn get(gateway: &Gateway, req: S3Request<GetBucketPolicyInput>) -> Answer<GetBucketPolicyOutput> {
    gateway.admit(&req)?;
    let policy = stored(gateway, &req.input.bucket).await?;
    Ok(S3Response::new(GetBucketPolicyOutput { policy: Some(policy) }))
}

/// GetBucketPolicyStatus.
pub(super) async fn status(
    gateway: &Gateway,
    req: S3Request<GetBucketPolicyStatusInput>,
) -> Answer<GetBucketPolicyStatusOutput> {
    gateway.admit(&req)?;
    let document = stored(gateway, &req.input.bucket).await?;
    // One that cannot be read allows nothing to anybody.
    let is_public = Policy::of_bucket(&document, &req.input.bucket).is_ok_and(|policy| policy.is_public());
    Ok(S3Response::new(GetBucketPolicyStatusOutput {
        policy_status: Some(PolicyStatus { is_public: Some(is_public) }),
    }))
}

/// PutBucketPolicy.
pub(super) async fn put(gateway: &Gateway, req: S3Request<PutBucketPolicyInput>) -> Answer<PutBucketPolicyOutput> {
    gateway.admit(&req)?;
    let document = &req.input.policy;
    if document.contains('\0') {
        return Err(malformed("This policy contains invalid Json"));
    }
    let policy = Policy::of_bucket(document, &req.input.bucket).map_err(|error| malformed(error.to_string()))?;
    let renamed = with_principals(document, &lasting_names(&req.extensions, &policy).await?);
    let document = renamed.as_ref().unwrap_or(document);
    let blocked = parties::rules(&req.extensions).is_some_and(|rules: &BucketRules| rules.block.block_public_policy);
    if blocked && policy.is_public() {
        return Err(s3_error!(AccessDenied, "Access Denied"));
    }
    let bucket = names::bucket(&req.input.bucket);
    gateway.storage.put_bucket_setting(&bucket, Setting::Policy, document).await.map_err(from_storage)?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::with_status(PutBucketPolicyOutput::default(), StatusCode::NO_CONTENT))
}

/// Principals have to be somebody: one that is misspelt would be allowed nothing, and denied nothing. Those that are called by
/// a name that another may have one day get an ARN, whose account number nobody else will ever have.
async fn lasting_names(extensions: &http::Extensions, policy: &Policy) -> S3Result<BTreeMap<String, String>> {
    let mut names = BTreeMap::new();
    let Some(permit) = parties::permit(extensions) else { return Ok(names) };
    for name in policy.principals() {
        let Some((owner, arn)) = Permit::directory(permit).principal(name).await.map_err(from_storage)? else {
            return Err(malformed("Invalid principal in policy"));
        };
        let account = arn.split(':').nth(4).unwrap_or_default();
        let lasts = [&owner.id, &arn, account, &format!("arn:aws:iam::{account}:root")].contains(&name);
        if !lasts {
            names.insert(name.to_owned(), arn);
        }
    }
    Ok(names)
}

/// DeleteBucketPolicy.
pub(super) async fn delete(
    gateway: &Gateway,
    req: S3Request<DeleteBucketPolicyInput>,
) -> Answer<DeleteBucketPolicyOutput> {
    gateway.admit(&req)?;
    let bucket = names::bucket(&req.input.bucket);
    gateway.storage.delete_bucket_setting(&bucket, Setting::Policy).await.map_err(from_storage)?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(DeleteBucketPolicyOutput::default()))
}
