//! Answers about what a bucket has none of: as S3 answers for a bucket on which it was never configured.
//!
//! Each is the truth here, since none of these can be set: setting them answers 501, but for what holds anyway.

use http::StatusCode;
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, s3_error};

use super::error::{custom, from_storage, malformed_xml, not_implemented};
use super::{Answer, Gateway, names};

/// An operation that answers the same for every bucket that exists, or by its input alone.
macro_rules! answer {
    ($(#[$doc:meta])* $name:ident, $input:ty, $output:ty, |$given:ident| $answer:expr) => {
        $(#[$doc])*
        pub(super) async fn $name(gateway: &Gateway, req: S3Request<$input>) -> Answer<$output> {
            gateway.admit(&req)?;
            gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
            let $given = req.input;
            let answer: Result<$output, S3Error> = $answer;
            answer.map(S3Response::new)
        }
    };
    ($(#[$doc:meta])* $name:ident, $input:ty, $output:ty, $answer:expr) => {
        answer!($(#[$doc])* $name, $input, $output, |_input| $answer);
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
answer!(
    /// DeleteBucketEncryption: there is none.
    delete_encryption, DeleteBucketEncryptionInput, DeleteBucketEncryptionOutput,
    Ok(DeleteBucketEncryptionOutput::default())
);
answer!(
    /// DeleteBucketReplication: there is none.
    delete_replication, DeleteBucketReplicationInput, DeleteBucketReplicationOutput,
    Ok(DeleteBucketReplicationOutput::default())
);
answer!(
    /// DeleteBucketWebsite: there is none.
    delete_website, DeleteBucketWebsiteInput, DeleteBucketWebsiteOutput,
    Ok(DeleteBucketWebsiteOutput::default())
);
answer!(
    /// DeleteBucketAnalyticsConfiguration.
    delete_analytics, DeleteBucketAnalyticsConfigurationInput, DeleteBucketAnalyticsConfigurationOutput,
    Err(not_found("NoSuchConfiguration", "The specified configuration does not exist."))
);
answer!(
    /// DeleteBucketMetricsConfiguration.
    delete_metrics, DeleteBucketMetricsConfigurationInput, DeleteBucketMetricsConfigurationOutput,
    Err(not_found("NoSuchConfiguration", "The specified configuration does not exist."))
);
answer!(
    /// DeleteBucketInventoryConfiguration.
    delete_inventory, DeleteBucketInventoryConfigurationInput, DeleteBucketInventoryConfigurationOutput,
    Err(not_found("NoSuchConfiguration", "The specified configuration does not exist."))
);
answer!(
    /// DeleteBucketIntelligentTieringConfiguration.
    delete_intelligent_tiering, DeleteBucketIntelligentTieringConfigurationInput, DeleteBucketIntelligentTieringConfigurationOutput,
    Err(not_found("NoSuchConfiguration", "The specified configuration does not exist."))
);
answer!(
    /// PutBucketAccelerateConfiguration: it is suspended, and cannot be enabled.
    put_accelerate, PutBucketAccelerateConfigurationInput, PutBucketAccelerateConfigurationOutput,
    |input| match input.accelerate_configuration.status.as_ref().map(BucketAccelerateStatus::as_str) {
        Some(BucketAccelerateStatus::SUSPENDED) => Ok(PutBucketAccelerateConfigurationOutput::default()),
        Some(BucketAccelerateStatus::ENABLED) => Err(not_implemented("transfer acceleration")),
        None | Some(_) => Err(malformed_xml()),
    }
);
answer!(
    /// PutBucketLogging: it is off, and cannot be switched on.
    put_logging, PutBucketLoggingInput, PutBucketLoggingOutput,
    |input| match input.bucket_logging_status.logging_enabled {
        None => Ok(PutBucketLoggingOutput::default()),
        Some(_) => Err(not_implemented("server access logging")),
    }
);
answer!(
    /// PutBucketNotificationConfiguration: nobody is notified, and nobody can be.
    put_notification, PutBucketNotificationConfigurationInput, PutBucketNotificationConfigurationOutput,
    |input| match input.notification_configuration == NotificationConfiguration::default() {
        true => Ok(PutBucketNotificationConfigurationOutput::default()),
        false => Err(not_implemented("event notifications")),
    }
);
