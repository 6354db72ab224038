//! Requester Pays buckets on the wire. Nothing is charged here; what counts is that, as with S3, nobody but the owner gets
//! at such a bucket without saying that they pay. The gate sees to that.

use s3s::dto::*;
use s3s::{S3Request, S3Response};

use crate::storage::bucket_settings::Setting;

use super::error::malformed_xml;
use super::{Answer, Gateway, bucket_settings, parties};

/// GetBucketRequestPayment.
pub(super) async fn get(
    gateway: &Gateway,
    req: S3Request<GetBucketRequestPaymentInput>,
) -> Answer<GetBucketRequestPaymentOutput> {
    gateway.admit(&req)?;
    let stored: Option<String> = bucket_settings::stored(gateway, &req.input.bucket, Setting::RequestPayment).await?;
    let payer = stored.unwrap_or_else(|| Payer::BUCKET_OWNER.to_owned());
    Ok(S3Response::new(GetBucketRequestPaymentOutput { payer: Some(Payer::from(payer)) }))
}

/// PutBucketRequestPayment.
pub(super) async fn put(
    gateway: &Gateway,
    req: S3Request<PutBucketRequestPaymentInput>,
) -> Answer<PutBucketRequestPaymentOutput> {
    gateway.admit(&req)?;
    match req.input.request_payment_configuration.payer.as_str() {
        Payer::BUCKET_OWNER => bucket_settings::remove(gateway, &req.input.bucket, Setting::RequestPayment).await?,
        payer @ Payer::REQUESTER => {
            bucket_settings::store(gateway, &req.input.bucket, Setting::RequestPayment, &payer).await?;
        }
        _ => return Err(malformed_xml()),
    }
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(PutBucketRequestPaymentOutput::default()))
}
