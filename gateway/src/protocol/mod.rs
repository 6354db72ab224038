//! The S3 face of the gateway: s3s's operations in, the engine's out.
//!
//! s3s parses requests, verifies signatures and serialises answers; what it leaves to us is why the modules
//! beside this one exist. Each group of operations has its file, and this one is their table of contents. The
//! layer knows HTTP and S3 and no SQL: it turns headers into the engine's vocabulary once, and decides nothing that
//! depends on what is stored unless the engine has told it (a read) or decides it in its publishing statement (a write).
//!
//! Operations that are not listed here answer 501 `NotImplemented` by s3s's default.

mod acl;
mod admission;
mod body;
mod bucket_policy;
mod bucket_settings;
mod buckets;
mod checksum_fields;
pub(crate) mod checksums;
mod complete_upload;
mod conditions;
mod copy_object;
pub(crate) mod cors;
mod delete_object;
pub(crate) mod error;
mod expiration_headers;
mod get_object;
mod lifecycle;
pub(crate) mod list_entries;
mod list_objects;
mod list_uploads;
mod list_versions;
mod listing_token;
mod metadata;
mod moment;
mod multipart;
pub(crate) mod names;
mod not_configured;
mod object_attributes;
mod object_lock;
mod parties;
mod post_object;
mod put_object;
pub(crate) mod range;
mod rename_object;
mod request_payment;
mod tagging;
mod versions;

use http::HeaderMap;
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result};

pub(crate) use post_object::{FormExtras, FormFound, unsigned_policy};

use crate::auth::ObjectOwnership;
use crate::storage::Storage;

/// Headers that s3s would refuse, set aside by the edge after the signature was verified with them in place.
#[derive(Clone, Debug)]
pub(crate) struct SetAside(pub(crate) HeaderMap);

/// The S3 operations over one storage.
#[derive(Clone)]
pub struct Gateway {
    storage: Storage,
    region: String,
    default_ownership: ObjectOwnership,
}

impl Gateway {
    /// The operations of a storage; `region` is what the gateway says it is in, `default_ownership` what buckets have that
    /// are created without a word about it.
    #[must_use]
    pub fn new(storage: Storage, region: String, default_ownership: ObjectOwnership) -> Self {
        Self { storage, region, default_ownership }
    }

    /// The first line of every operation: refuses what cannot be honoured.
    fn admit<T>(&self, req: &S3Request<T>) -> S3Result<()> {
        admission::check(req)
    }
}

type Answer<T> = S3Result<S3Response<T>>;

/// The trait, one line for each operation: its input and output, and who answers it.
macro_rules! operations {
    ($($name:ident: $input:ident => $output:ident = $answers:path;)*) => {
        #[async_trait::async_trait]
        impl S3 for Gateway {
            $(
                async fn $name(&self, req: S3Request<$input>) -> Answer<$output> {
                    $answers(self, req).await
                }
            )*
        }
    };
}

operations! {
    list_buckets: ListBucketsInput => ListBucketsOutput = buckets::list;
    create_bucket: CreateBucketInput => CreateBucketOutput = buckets::create;
    head_bucket: HeadBucketInput => HeadBucketOutput = buckets::head;
    delete_bucket: DeleteBucketInput => DeleteBucketOutput = buckets::delete;
    get_bucket_location: GetBucketLocationInput => GetBucketLocationOutput = buckets::location;
    get_bucket_versioning: GetBucketVersioningInput => GetBucketVersioningOutput = versions::get_of_bucket;
    put_bucket_versioning: PutBucketVersioningInput => PutBucketVersioningOutput = versions::put_of_bucket;
    get_object_lock_configuration: GetObjectLockConfigurationInput => GetObjectLockConfigurationOutput = object_lock::get_configuration;
    put_object_lock_configuration: PutObjectLockConfigurationInput => PutObjectLockConfigurationOutput = object_lock::put_configuration;

    get_bucket_tagging: GetBucketTaggingInput => GetBucketTaggingOutput = bucket_settings::get_tagging;
    put_bucket_tagging: PutBucketTaggingInput => PutBucketTaggingOutput = bucket_settings::put_tagging;
    delete_bucket_tagging: DeleteBucketTaggingInput => DeleteBucketTaggingOutput = bucket_settings::delete_tagging;
    get_public_access_block: GetPublicAccessBlockInput => GetPublicAccessBlockOutput = bucket_settings::get_public_access_block;
    put_public_access_block: PutPublicAccessBlockInput => PutPublicAccessBlockOutput = bucket_settings::put_public_access_block;
    delete_public_access_block: DeletePublicAccessBlockInput => DeletePublicAccessBlockOutput = bucket_settings::delete_public_access_block;
    get_bucket_ownership_controls: GetBucketOwnershipControlsInput => GetBucketOwnershipControlsOutput = acl::get_ownership_controls;
    put_bucket_ownership_controls: PutBucketOwnershipControlsInput => PutBucketOwnershipControlsOutput = acl::put_ownership_controls;
    delete_bucket_ownership_controls: DeleteBucketOwnershipControlsInput => DeleteBucketOwnershipControlsOutput = acl::delete_ownership_controls;
    get_bucket_acl: GetBucketAclInput => GetBucketAclOutput = acl::get_of_bucket;
    put_bucket_acl: PutBucketAclInput => PutBucketAclOutput = acl::put_of_bucket;
    get_object_acl: GetObjectAclInput => GetObjectAclOutput = acl::get_of_object;
    put_object_acl: PutObjectAclInput => PutObjectAclOutput = acl::put_of_object;
    get_bucket_cors: GetBucketCorsInput => GetBucketCorsOutput = cors::get;
    put_bucket_cors: PutBucketCorsInput => PutBucketCorsOutput = cors::put;
    delete_bucket_cors: DeleteBucketCorsInput => DeleteBucketCorsOutput = cors::delete;
    get_bucket_lifecycle_configuration: GetBucketLifecycleConfigurationInput => GetBucketLifecycleConfigurationOutput = lifecycle::get;
    put_bucket_lifecycle_configuration: PutBucketLifecycleConfigurationInput => PutBucketLifecycleConfigurationOutput = lifecycle::put;
    delete_bucket_lifecycle: DeleteBucketLifecycleInput => DeleteBucketLifecycleOutput = lifecycle::delete;

    get_bucket_encryption: GetBucketEncryptionInput => GetBucketEncryptionOutput = not_configured::encryption;
    delete_bucket_encryption: DeleteBucketEncryptionInput => DeleteBucketEncryptionOutput = not_configured::delete_encryption;
    get_bucket_policy: GetBucketPolicyInput => GetBucketPolicyOutput = bucket_policy::get;
    put_bucket_policy: PutBucketPolicyInput => PutBucketPolicyOutput = bucket_policy::put;
    delete_bucket_policy: DeleteBucketPolicyInput => DeleteBucketPolicyOutput = bucket_policy::delete;
    get_bucket_policy_status: GetBucketPolicyStatusInput => GetBucketPolicyStatusOutput = bucket_policy::status;
    get_bucket_replication: GetBucketReplicationInput => GetBucketReplicationOutput = not_configured::replication;
    delete_bucket_replication: DeleteBucketReplicationInput => DeleteBucketReplicationOutput = not_configured::delete_replication;
    get_bucket_website: GetBucketWebsiteInput => GetBucketWebsiteOutput = not_configured::website;
    delete_bucket_website: DeleteBucketWebsiteInput => DeleteBucketWebsiteOutput = not_configured::delete_website;
    get_bucket_analytics_configuration: GetBucketAnalyticsConfigurationInput => GetBucketAnalyticsConfigurationOutput = not_configured::analytics;
    delete_bucket_analytics_configuration: DeleteBucketAnalyticsConfigurationInput => DeleteBucketAnalyticsConfigurationOutput = not_configured::delete_analytics;
    get_bucket_metrics_configuration: GetBucketMetricsConfigurationInput => GetBucketMetricsConfigurationOutput = not_configured::metrics;
    delete_bucket_metrics_configuration: DeleteBucketMetricsConfigurationInput => DeleteBucketMetricsConfigurationOutput = not_configured::delete_metrics;
    get_bucket_inventory_configuration: GetBucketInventoryConfigurationInput => GetBucketInventoryConfigurationOutput = not_configured::inventory;
    delete_bucket_inventory_configuration: DeleteBucketInventoryConfigurationInput => DeleteBucketInventoryConfigurationOutput = not_configured::delete_inventory;
    get_bucket_intelligent_tiering_configuration: GetBucketIntelligentTieringConfigurationInput => GetBucketIntelligentTieringConfigurationOutput = not_configured::intelligent_tiering;
    delete_bucket_intelligent_tiering_configuration: DeleteBucketIntelligentTieringConfigurationInput => DeleteBucketIntelligentTieringConfigurationOutput = not_configured::delete_intelligent_tiering;
    get_bucket_request_payment: GetBucketRequestPaymentInput => GetBucketRequestPaymentOutput = request_payment::get;
    put_bucket_request_payment: PutBucketRequestPaymentInput => PutBucketRequestPaymentOutput = request_payment::put;
    get_bucket_accelerate_configuration: GetBucketAccelerateConfigurationInput => GetBucketAccelerateConfigurationOutput = not_configured::accelerate;
    put_bucket_accelerate_configuration: PutBucketAccelerateConfigurationInput => PutBucketAccelerateConfigurationOutput = not_configured::put_accelerate;
    get_bucket_logging: GetBucketLoggingInput => GetBucketLoggingOutput = not_configured::logging;
    put_bucket_logging: PutBucketLoggingInput => PutBucketLoggingOutput = not_configured::put_logging;
    get_bucket_notification_configuration: GetBucketNotificationConfigurationInput => GetBucketNotificationConfigurationOutput = not_configured::notification;
    put_bucket_notification_configuration: PutBucketNotificationConfigurationInput => PutBucketNotificationConfigurationOutput = not_configured::put_notification;
    list_bucket_analytics_configurations: ListBucketAnalyticsConfigurationsInput => ListBucketAnalyticsConfigurationsOutput = not_configured::analytics_list;
    list_bucket_metrics_configurations: ListBucketMetricsConfigurationsInput => ListBucketMetricsConfigurationsOutput = not_configured::metrics_list;
    list_bucket_inventory_configurations: ListBucketInventoryConfigurationsInput => ListBucketInventoryConfigurationsOutput = not_configured::inventory_list;
    list_bucket_intelligent_tiering_configurations: ListBucketIntelligentTieringConfigurationsInput => ListBucketIntelligentTieringConfigurationsOutput = not_configured::intelligent_tiering_list;

    get_object: GetObjectInput => GetObjectOutput = get_object::get;
    head_object: HeadObjectInput => HeadObjectOutput = get_object::head;
    get_object_attributes: GetObjectAttributesInput => GetObjectAttributesOutput = object_attributes::get;
    get_object_tagging: GetObjectTaggingInput => GetObjectTaggingOutput = tagging::get;
    put_object_tagging: PutObjectTaggingInput => PutObjectTaggingOutput = tagging::put;
    delete_object_tagging: DeleteObjectTaggingInput => DeleteObjectTaggingOutput = tagging::delete;
    get_object_retention: GetObjectRetentionInput => GetObjectRetentionOutput = object_lock::get_retention;
    put_object_retention: PutObjectRetentionInput => PutObjectRetentionOutput = object_lock::put_retention;
    get_object_legal_hold: GetObjectLegalHoldInput => GetObjectLegalHoldOutput = object_lock::get_legal_hold;
    put_object_legal_hold: PutObjectLegalHoldInput => PutObjectLegalHoldOutput = object_lock::put_legal_hold;
    put_object: PutObjectInput => PutObjectOutput = put_object::put;
    post_object: PostObjectInput => PostObjectOutput = post_object::post;
    copy_object: CopyObjectInput => CopyObjectOutput = copy_object::copy;
    rename_object: RenameObjectInput => RenameObjectOutput = rename_object::rename;
    delete_object: DeleteObjectInput => DeleteObjectOutput = delete_object::one;
    delete_objects: DeleteObjectsInput => DeleteObjectsOutput = delete_object::many;

    list_objects: ListObjectsInput => ListObjectsOutput = list_objects::v1;
    list_objects_v2: ListObjectsV2Input => ListObjectsV2Output = list_objects::v2;
    list_object_versions: ListObjectVersionsInput => ListObjectVersionsOutput = list_versions::list;

    create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput = multipart::create;
    upload_part: UploadPartInput => UploadPartOutput = multipart::upload_part;
    upload_part_copy: UploadPartCopyInput => UploadPartCopyOutput = copy_object::copy_part;
    complete_multipart_upload: CompleteMultipartUploadInput => CompleteMultipartUploadOutput = complete_upload::complete;
    abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput = multipart::abort;
    list_parts: ListPartsInput => ListPartsOutput = list_uploads::parts;
    list_multipart_uploads: ListMultipartUploadsInput => ListMultipartUploadsOutput = list_uploads::uploads;
}
