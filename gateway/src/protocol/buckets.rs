//! ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation.
//!
//! A gateway is in one region, the configured one. Creating a bucket that the caller already owns answers 409
//! `BucketAlreadyOwnedByYou` in every region: AWS answers 200 in us-east-1 only, for the sake of old clients, and
//! clients that know one answer know both.

use http::{HeaderMap, HeaderName, HeaderValue};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::storage::bucket_settings::Setting;
use crate::storage::types;

use super::error::{from_storage, not_implemented};
use super::{Answer, Gateway, acl, bucket_settings, listing_token, names, parties, tagging};

/// Buckets in one answer (AWS: `max-buckets`).
const MAX_BUCKETS: u32 = 10_000;
/// The region that S3 writes as an empty location.
const DEFAULT_REGION: &str = "us-east-1";

/// ListBuckets.
pub(super) async fn list(gateway: &Gateway, req: S3Request<ListBucketsInput>) -> Answer<ListBucketsOutput> {
    gateway.admit(&req)?;
    let max = match req.input.max_buckets.map(u32::try_from) {
        None => MAX_BUCKETS,
        Some(Ok(max @ 1..=MAX_BUCKETS)) => max,
        Some(_) => {
            return Err(s3_error!(InvalidArgument, "Argument max-buckets must be an integer between 1 and 10000"));
        }
    };
    let after = req.input.continuation_token.as_deref().map(listing_token::decode).transpose()?;
    let prefix = names::comparable(req.input.prefix.clone())?.unwrap_or_default();
    let elsewhere = req.input.bucket_region.as_ref().is_some_and(|r| *r != gateway.region);

    let page = if elsewhere {
        types::Page { entries: Vec::new(), truncated: false }
    } else {
        gateway
            .storage
            .list_buckets(&prefix, after.as_deref(), max, parties::own_buckets(&req.extensions))
            .await
            .map_err(from_storage)?
    };
    let next = page.truncated.then(|| page.entries.last().map(|b| listing_token::encode(b.name.as_str()))).flatten();
    let output = ListBucketsOutput {
        buckets: Some(page.entries.into_iter().map(|b| bucket(b, &gateway.region)).collect()),
        continuation_token: next,
        owner: Some(parties::shown(parties::caller(&req.extensions))),
        prefix: req.input.prefix.map(|p| names::xml_text(&p).into_owned()),
    };
    Ok(S3Response::new(output))
}

fn bucket(bucket: types::Bucket, region: &str) -> Bucket {
    Bucket {
        bucket_region: Some(region.to_owned()),
        creation_date: Some(bucket.created_at.into()),
        name: Some(bucket.name.as_str().to_owned()),
        ..Default::default()
    }
}

/// CreateBucket.
pub(super) async fn create(gateway: &Gateway, req: S3Request<CreateBucketInput>) -> Answer<CreateBucketOutput> {
    gateway.admit(&req)?;
    if let Some(configuration) = &req.input.create_bucket_configuration {
        check_configuration(configuration, &gateway.region)?;
    }
    let name = names::new_bucket(&req.input.bucket)?;
    let owner = parties::caller(&req.extensions);
    let mut settings = acl::of_new_bucket(gateway.default_ownership, &req.headers, &req.extensions, &owner).await?;
    let tags = req.input.create_bucket_configuration.and_then(|configuration| configuration.tags);
    if let Some(set) = tags.filter(|set| !set.is_empty()) {
        settings.push((Setting::Tagging, bucket_settings::document(&tagging::of_bucket(&set)?)?));
    }
    let object_lock = req.input.object_lock_enabled_for_bucket.unwrap_or(false);
    gateway.storage.create_bucket(&name, &owner.id, object_lock, &settings).await.map_err(from_storage)?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{name}")), ..Default::default() }))
}

fn check_configuration(configuration: &CreateBucketConfiguration, region: &str) -> S3Result<()> {
    if configuration.bucket.is_some() || configuration.location.is_some() {
        return Err(not_implemented("directory buckets"));
    }
    match configuration.location_constraint.as_ref().map(BucketLocationConstraint::as_str) {
        None | Some("") => Ok(()),
        Some(constraint) if constraint == region => Ok(()),
        Some("EU") if region == "eu-west-1" => Ok(()),
        Some(constraint) if !is_region(constraint) => {
            Err(s3_error!(InvalidLocationConstraint, "The specified location-constraint is not valid"))
        }
        Some(constraint) => Err(s3_error!(
            IllegalLocationConstraintException,
            "The {constraint} location constraint is incompatible for the region specific endpoint this request was \
             sent to."
        )),
    }
}

/// Whether a text has the form of the names of AWS's regions, as `us-gov-west-1`.
fn is_region(text: &str) -> bool {
    let mut words = text.split('-');
    let place = words.next().is_some_and(|word| word.len() == 2 && word.bytes().all(|b| b.is_ascii_lowercase()));
    let number = words.next_back().is_some_and(|word| word.len() == 1 && word.bytes().all(|b| b.is_ascii_digit()));
    let directions: Vec<_> = words.collect();
    let named = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
    text == "EU" || place && number && matches!(directions.len(), 1 | 2) && directions.iter().all(named)
}

/// HeadBucket.
pub(super) async fn head(gateway: &Gateway, req: S3Request<HeadBucketInput>) -> Answer<HeadBucketOutput> {
    gateway.admit(&req)?;
    gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    let output = HeadBucketOutput { bucket_region: Some(gateway.region.clone()), ..Default::default() };
    let mut headers = HeaderMap::new();
    if let Ok(region) = HeaderValue::from_str(&gateway.region) {
        headers.insert(HeaderName::from_static("x-amz-bucket-region"), region);
    }
    Ok(S3Response::with_headers(output, headers))
}

/// DeleteBucket.
pub(super) async fn delete(gateway: &Gateway, req: S3Request<DeleteBucketInput>) -> Answer<DeleteBucketOutput> {
    gateway.admit(&req)?;
    gateway.storage.delete_bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(DeleteBucketOutput::default()))
}

/// GetBucketLocation.
pub(super) async fn location(
    gateway: &Gateway,
    req: S3Request<GetBucketLocationInput>,
) -> Answer<GetBucketLocationOutput> {
    gateway.admit(&req)?;
    gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    let region = (gateway.region != DEFAULT_REGION).then(|| BucketLocationConstraint::from(gateway.region.clone()));
    Ok(S3Response::new(GetBucketLocationOutput { location_constraint: region }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_must_be_the_gateways() {
        let configuration = |constraint: &'static str| CreateBucketConfiguration {
            location_constraint: Some(BucketLocationConstraint::from_static(constraint)),
            ..Default::default()
        };
        assert!(check_configuration(&configuration("eu-north-1"), "eu-north-1").is_ok());
        assert!(check_configuration(&configuration("EU"), "eu-west-1").is_ok());
        assert!(check_configuration(&configuration(""), "eu-west-1").is_ok());
        for (constraint, code) in [
            ("us-west-2", "IllegalLocationConstraintException"),
            ("us-gov-west-1", "IllegalLocationConstraintException"),
            ("EU", "IllegalLocationConstraintException"),
            ("nowhere", "InvalidLocationConstraint"),
            ("us-west-2-", "InvalidLocationConstraint"),
            ("us-\u{1}-2", "InvalidLocationConstraint"),
        ] {
            let refused = check_configuration(&configuration(constraint), "us-east-1");
            assert_eq!(refused.map_err(|error| error.code().as_str().to_owned()), Err(code.to_owned()), "{constraint}");
        }
    }
}
