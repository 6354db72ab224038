//! Answers about what a bucket has none of: as S3 answers for a bucket on which it was never configured.
//!
//! Each is the truth here, since none of these can be set: setting them answers 501.

use http::StatusCode;
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, s3_error};

use super::error::{custom, from_storage};
use super::{Answer, Gateway, names};

/// An operation that answers the same for every bucket that exists.
macro_rules! answer {
    ($(#[$doc:meta])* $name:ident, $input:ty, $output:ty, $answer:expr) => {
        $(#[$doc])*
        pub(super) async fn $name(gateway: &Gateway, req: S3Request<$input>) -> Answer<$output> {
            gateway.admit(&req)?;
            gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
            let answer: Result<$output, S3Error> = $answer;
            answer.map(S3Response::new)
        }
    };
}

fn not_found(code: &'static str, message: &'static str) -> S3Error {
    custom(code, StatusCode::NOT_FOUND, message)
}

answer!(
    /// GetBucketEncryption.
    encryption, GetBucketEncryptionInput, GetBucketEncryptionOutput,
    Err(not_found(
        "ServerSideEncryptionConfigurationNotFoundError",
        "The server side encryption configuration was not found"
    ))
);
answer!(
    /// GetBucketReplication.
    replication, GetBucketReplicationInput, GetBucketReplicationOutput,
    Err(s3_error!(ReplicationConfigurationNotFoundError, "The replication configuration was not found"))
);
answer!(
    /// GetBucketWebsite.
    website, GetBucketWebsiteInput, GetBucketWebsiteOutput,
    Err(s3_error!(NoSuchWebsiteConfiguration, "The specified bucket does not have a website configuration"))
);
answer!(
    /// GetBucketAnalyticsConfiguration.
    analytics, GetBucketAnalyticsConfigurationInput, GetBucketAnalyticsConfigurationOutput,
    Err(not_found("NoSuchConfiguration", "The specified configuration does not exist."))
);
answer!(
    /// GetBucketMetricsConfiguration.
    metrics, GetBucketMetricsConfigurationInput, GetBucketMetricsConfigurationOutput,
    Err(not_found("NoSuchConfiguration", "The specified configuration does not exist."))
);
answer!(
    /// GetBucketInventoryConfiguration.
    inventory, GetBucketInventoryConfigurationInput, GetBucketInventoryConfigurationOutput,
    Err(not_found("NoSuchConfiguration", "The specified configuration does not exist."))
);
answer!(
    /// GetBucketIntelligentTieringConfiguration.
    intelligent_tiering,
    GetBucketIntelligentTieringConfigurationInput, GetBucketIntelligentTieringConfigurationOutput,
    Err(not_found("NoSuchConfiguration", "The specified configuration does not exist."))
);
answer!(
    /// GetBucketRequestPayment: the owner pays.
    request_payment, GetBucketRequestPaymentInput, GetBucketRequestPaymentOutput,
    Ok(GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) })
);
answer!(
    /// GetBucketAccelerateConfiguration.
    accelerate, GetBucketAccelerateConfigurationInput, GetBucketAccelerateConfigurationOutput,
    Ok(GetBucketAccelerateConfigurationOutput::default())
);
answer!(
    /// GetBucketLogging.
    logging, GetBucketLoggingInput, GetBucketLoggingOutput,
    Ok(GetBucketLoggingOutput::default())
);
answer!(
    /// GetBucketNotificationConfiguration.
    notification, GetBucketNotificationConfigurationInput, GetBucketNotificationConfigurationOutput,
    Ok(GetBucketNotificationConfigurationOutput::default())
);
answer!(
    /// ListBucketAnalyticsConfigurations.
    analytics_list, ListBucketAnalyticsConfigurationsInput, ListBucketAnalyticsConfigurationsOutput,
    Ok(ListBucketAnalyticsConfigurationsOutput { is_truncated: Some(false), ..Default::default() })
);
answer!(
    /// ListBucketMetricsConfigurations.
    metrics_list, ListBucketMetricsConfigurationsInput, ListBucketMetricsConfigurationsOutput,
    Ok(ListBucketMetricsConfigurationsOutput { is_truncated: Some(false), ..Default::default() })
);
answer!(
    /// ListBucketInventoryConfigurations.
    inventory_list, ListBucketInventoryConfigurationsInput, ListBucketInventoryConfigurationsOutput,
    Ok(ListBucketInventoryConfigurationsOutput { is_truncated: Some(false), ..Default::default() })
);
answer!(
    /// ListBucketIntelligentTieringConfigurations.
    intelligent_tiering_list,
    ListBucketIntelligentTieringConfigurationsInput, ListBucketIntelligentTieringConfigurationsOutput,
    Ok(ListBucketIntelligentTieringConfigurationsOutput { is_truncated: Some(false), ..Default::default() })
);
