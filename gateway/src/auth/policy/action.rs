//! The actions of S3 and what each is done to (AWS: "Actions, resources, and condition keys for Amazon S3").

use super::pattern;

/// What an action is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// All buckets together: `*`.
    Account,
    /// A bucket: `arn:aws:s3:::bucket`.
    Bucket,
    /// An object: `arn:aws:s3:::bucket/key`.
    Object,
}

const ACCOUNT: &[&str] = &["ListAllMyBuckets"];

const BUCKET: &[&str] = &[
    "CreateBucket",
    "DeleteBucket",
    "DeleteBucketPolicy",
    "DeleteBucketWebsite",
    "GetAccelerateConfiguration",
    "GetAnalyticsConfiguration",
    "GetBucketAcl",
    "GetBucketCORS",
    "GetBucketLocation",
    "GetBucketLogging",
    "GetBucketNotification",
    "GetBucketObjectLockConfiguration",
    "GetBucketOwnershipControls",
    "GetBucketPolicy",
    "GetBucketPolicyStatus",
    "GetBucketPublicAccessBlock",
    "GetBucketRequestPayment",
    "GetBucketTagging",
    "GetBucketVersioning",
    "GetBucketWebsite",
    "GetEncryptionConfiguration",
    "GetIntelligentTieringConfiguration",
    "GetInventoryConfiguration",
    "GetLifecycleConfiguration",
    "GetMetricsConfiguration",
    "GetReplicationConfiguration",
    "ListBucket",
    "ListBucketMultipartUploads",
    "ListBucketVersions",
    "PutAccelerateConfiguration",
    "PutAnalyticsConfiguration",
    "PutBucketAcl",
    "PutBucketCORS",
    "PutBucketLogging",
    "PutBucketNotification",
    "PutBucketObjectLockConfiguration",
    "PutBucketOwnershipControls",
    "PutBucketPolicy",
    "PutBucketPublicAccessBlock",
    "PutBucketRequestPayment",
    "PutBucketTagging",
    "PutBucketVersioning",
    "PutBucketWebsite",
    "PutEncryptionConfiguration",
    "PutIntelligentTieringConfiguration",
    "PutInventoryConfiguration",
    "PutLifecycleConfiguration",
    "PutMetricsConfiguration",
    "PutReplicationConfiguration",
];

const OBJECT: &[&str] = &[
    "AbortMultipartUpload",
    "BypassGovernanceRetention",
    "DeleteObject",
    "DeleteObjectTagging",
    "DeleteObjectVersion",
    "DeleteObjectVersionTagging",
    "GetObject",
    "GetObjectAcl",
    "GetObjectAttributes",
    "GetObjectLegalHold",
    "GetObjectRetention",
    "GetObjectTagging",
    "GetObjectTorrent",
    "GetObjectVersion",
    "GetObjectVersionAcl",
    "GetObjectVersionAttributes",
    "GetObjectVersionForReplication",
    "GetObjectVersionTagging",
    "GetObjectVersionTorrent",
    "ListMultipartUploadParts",
    "PutObject",
    "PutObjectAcl",
    "PutObjectLegalHold",
    "PutObjectRetention",
    "PutObjectTagging",
    "PutObjectVersionAcl",
    "PutObjectVersionTagging",
    "ReplicateDelete",
    "ReplicateObject",
    "ReplicateTags",
    "RestoreObject",
];

/// What the actions that a pattern names are done to; empty where it names none.
pub(super) fn levels(pattern: &str) -> Vec<Level> {
    let Some((service, name)) = pattern.split_once(':') else {
        return if pattern == "*" { vec![Level::Account, Level::Bucket, Level::Object] } else { Vec::new() };
    };
    if !pattern::action_matches(service, "s3") {
        return Vec::new();
    }
    let named = |actions: &[&str]| actions.iter().any(|action| pattern::action_matches(name, action));
    [(Level::Account, ACCOUNT), (Level::Bucket, BUCKET), (Level::Object, OBJECT)]
        .into_iter()
        .filter(|(_, actions)| named(actions))
        .map(|(level, _)| level)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_tells_what_it_is_done_to() {
        assert_eq!(levels("s3:GetObject"), [Level::Object]);
        assert_eq!(levels("s3:getobject"), [Level::Object]);
        assert_eq!(levels("s3:ListBucket"), [Level::Bucket]);
        assert_eq!(levels("s3:*"), [Level::Account, Level::Bucket, Level::Object]);
        assert_eq!(levels("s3:Get*"), [Level::Bucket, Level::Object]);
        assert_eq!(levels("s3:Nonsense"), []);
        assert_eq!(levels("ec2:*"), []);
    }
}
