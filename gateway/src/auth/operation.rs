//! Which actions an operation is, in the language of policies (AWS: "Actions, resources, and condition keys for Amazon S3").

use http::HeaderMap;

/// Actions of an operation on what its path names.
///
/// `versioned`: the request names a version. An operation that is not listed is allowed to nobody but root.
#[must_use]
pub(super) fn actions(operation: &str, versioned: bool, headers: &HeaderMap) -> Vec<&'static str> {
    let version = |plain, of_version| if versioned { of_version } else { plain };
    match operation {
        "CreateBucket" => creating(headers),
        "ListBuckets" => vec!["s3:ListAllMyBuckets"],
        "HeadBucket" | "ListObjects" | "ListObjectsV2" => vec!["s3:ListBucket"],
        "ListObjectVersions" => vec!["s3:ListBucketVersions"],
        "ListMultipartUploads" => vec!["s3:ListBucketMultipartUploads"],
        "ListParts" => vec!["s3:ListMultipartUploadParts"],
        "GetObject" | "HeadObject" => vec![version("s3:GetObject", "s3:GetObjectVersion")],
        "GetObjectAttributes" => vec![
            version("s3:GetObject", "s3:GetObjectVersion"),
            version("s3:GetObjectAttributes", "s3:GetObjectVersionAttributes"),
        ],
        "PutObject" | "CopyObject" | "CreateMultipartUpload" | "PostObject" => writing(headers),
        "UploadPart" | "UploadPartCopy" | "CompleteMultipartUpload" => vec!["s3:PutObject"],
        "RenameObject" => vec!["s3:PutObject"],
        "DeleteObject" => {
            let mut actions = vec![version("s3:DeleteObject", "s3:DeleteObjectVersion")];
            actions.extend(bypass(headers));
            actions
        }
        "GetObjectAcl" => vec![version("s3:GetObjectAcl", "s3:GetObjectVersionAcl")],
        "PutObjectAcl" => vec![version("s3:PutObjectAcl", "s3:PutObjectVersionAcl")],
        "GetObjectTagging" => vec![version("s3:GetObjectTagging", "s3:GetObjectVersionTagging")],
        "PutObjectTagging" => vec![version("s3:PutObjectTagging", "s3:PutObjectVersionTagging")],
        "DeleteObjectTagging" => vec![version("s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging")],
        "PutObjectRetention" => {
            let mut actions = vec!["s3:PutObjectRetention"];
            actions.extend(bypass(headers));
            actions
        }
        other => single(other).into_iter().collect(),
    }
}

/// What a write needs beside the write itself.
fn writing(headers: &HeaderMap) -> Vec<&'static str> {
    let mut actions = vec!["s3:PutObject"];
    let has = |name: &str| headers.contains_key(name);
    if has("x-amz-tagging") {
        actions.push("s3:PutObjectTagging");
    }
    if has("x-amz-object-lock-mode") || has("x-amz-object-lock-retain-until-date") {
        actions.push("s3:PutObjectRetention");
    }
    if has("x-amz-object-lock-legal-hold") {
        actions.push("s3:PutObjectLegalHold");
    }
    actions
}

/// Whether a copy takes its source's tags along. It is judged once they are known.
#[must_use]
pub fn copies_tags(headers: &HeaderMap) -> bool {
    headers.get("x-amz-tagging-directive").is_none_or(|directive| directive.as_bytes() != b"REPLACE")
}

/// What the creation of a bucket needs beside it (AWS: `CreateBucket`, "Permissions").
fn creating(headers: &HeaderMap) -> Vec<&'static str> {
    let mut actions = vec!["s3:CreateBucket"];
    if sets_list(headers) {
        actions.push("s3:PutBucketAcl");
    }
    if headers.contains_key("x-amz-object-ownership") {
        actions.push("s3:PutBucketOwnershipControls");
    }
    let lock = headers.get("x-amz-bucket-object-lock-enabled");
    if lock.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true")) {
        actions.extend(["s3:PutBucketObjectLockConfiguration", "s3:PutBucketVersioning"]);
    }
    actions
}

/// Whether a write says who is granted what.
pub(super) fn sets_list(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name == "x-amz-acl" || name.as_str().starts_with("x-amz-grant-"))
}

fn bypass(headers: &HeaderMap) -> Option<&'static str> {
    let value = headers.get("x-amz-bypass-governance-retention")?;
    value.as_bytes().eq_ignore_ascii_case(b"true").then_some("s3:BypassGovernanceRetention")
}

/// Operations that are one action, whatever the request.
fn single(operation: &str) -> Option<&'static str> {
    Some(match operation {
        "DeleteBucket" => "s3:DeleteBucket",
        "GetBucketLocation" => "s3:GetBucketLocation",
        "GetBucketVersioning" => "s3:GetBucketVersioning",
        "PutBucketVersioning" => "s3:PutBucketVersioning",
        "GetObjectLockConfiguration" => "s3:GetBucketObjectLockConfiguration",
        "PutObjectLockConfiguration" => "s3:PutBucketObjectLockConfiguration",
        "GetBucketTagging" => "s3:GetBucketTagging",
        "PutBucketTagging" | "DeleteBucketTagging" => "s3:PutBucketTagging",
        "GetPublicAccessBlock" => "s3:GetBucketPublicAccessBlock",
        "PutPublicAccessBlock" | "DeletePublicAccessBlock" => "s3:PutBucketPublicAccessBlock",
        "GetBucketOwnershipControls" => "s3:GetBucketOwnershipControls",
        "PutBucketOwnershipControls" | "DeleteBucketOwnershipControls" => "s3:PutBucketOwnershipControls",
        "GetBucketAcl" => "s3:GetBucketAcl",
        "PutBucketAcl" => "s3:PutBucketAcl",
        "GetBucketCors" => "s3:GetBucketCORS",
        "PutBucketCors" | "DeleteBucketCors" => "s3:PutBucketCORS",
        "GetBucketEncryption" => "s3:GetEncryptionConfiguration",
        "PutBucketEncryption" | "DeleteBucketEncryption" => "s3:PutEncryptionConfiguration",
        "GetBucketLifecycleConfiguration" => "s3:GetLifecycleConfiguration",
        "PutBucketLifecycleConfiguration" | "DeleteBucketLifecycle" => "s3:PutLifecycleConfiguration",
        "GetBucketPolicy" => "s3:GetBucketPolicy",
        "PutBucketPolicy" => "s3:PutBucketPolicy",
        "DeleteBucketPolicy" => "s3:DeleteBucketPolicy",
        "GetBucketPolicyStatus" => "s3:GetBucketPolicyStatus",
        "GetBucketReplication" => "s3:GetReplicationConfiguration",
        "DeleteBucketReplication" => "s3:PutReplicationConfiguration",
        "GetBucketWebsite" => "s3:GetBucketWebsite",
        "DeleteBucketWebsite" => "s3:DeleteBucketWebsite",
        "GetBucketRequestPayment" => "s3:GetBucketRequestPayment",
        "PutBucketRequestPayment" => "s3:PutBucketRequestPayment",
        "GetBucketAccelerateConfiguration" => "s3:GetAccelerateConfiguration",
        "PutBucketAccelerateConfiguration" => "s3:PutAccelerateConfiguration",
        "GetBucketLogging" => "s3:GetBucketLogging",
        "PutBucketLogging" => "s3:PutBucketLogging",
        "GetBucketNotificationConfiguration" => "s3:GetBucketNotification",
        "PutBucketNotificationConfiguration" => "s3:PutBucketNotification",
        "DeleteBucketAnalyticsConfiguration" => "s3:PutAnalyticsConfiguration",
        "DeleteBucketMetricsConfiguration" => "s3:PutMetricsConfiguration",
        "DeleteBucketInventoryConfiguration" => "s3:PutInventoryConfiguration",
        "DeleteBucketIntelligentTieringConfiguration" => "s3:PutIntelligentTieringConfiguration",
        "GetBucketAnalyticsConfiguration" | "ListBucketAnalyticsConfigurations" => "s3:GetAnalyticsConfiguration",
        "GetBucketMetricsConfiguration" | "ListBucketMetricsConfigurations" => "s3:GetMetricsConfiguration",
        "GetBucketInventoryConfiguration" | "ListBucketInventoryConfigurations" => "s3:GetInventoryConfiguration",
        "GetBucketIntelligentTieringConfiguration" | "ListBucketIntelligentTieringConfigurations" => {
            "s3:GetIntelligentTieringConfiguration"
        }
        "AbortMultipartUpload" => "s3:AbortMultipartUpload",
        "GetObjectRetention" => "s3:GetObjectRetention",
        "GetObjectLegalHold" => "s3:GetObjectLegalHold",
        "PutObjectLegalHold" => "s3:PutObjectLegalHold",
        _ => return None,
    })
}
