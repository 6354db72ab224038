//! The condition keys that a policy may look at (AWS: "Condition keys for Amazon S3", "AWS global condition context keys").
//!
//! A condition on a key that nothing ever sets would be a denial that never comes: a misspelt key is refused, and so is one that
//! S3 would set here and lobgate does not (tags of buckets and of users, the region, the version of TLS). Keys of what does not
//! exist here (networks, organisations, other services) are absent, as they are on AWS where they do not apply.

/// What S3 itself has; `*` stands for a name that the policy chooses.
const OF_S3: &[&str] = &[
    "s3:authtype",
    "s3:dataaccesspointaccount",
    "s3:dataaccesspointarn",
    "s3:accesspointnetworkorigin",
    "s3:delimiter",
    "s3:existingobjecttag/*",
    "s3:if-match",
    "s3:if-none-match",
    "s3:locationconstraint",
    "s3:max-keys",
    "s3:object-lock-legal-hold",
    "s3:object-lock-mode",
    "s3:object-lock-remaining-retention-days",
    "s3:object-lock-retain-until-date",
    "s3:objectcreationoperation",
    "s3:prefix",
    "s3:requestobjecttag/*",
    "s3:requestobjecttagkeys",
    "s3:resourceaccount",
    "s3:signatureage",
    "s3:signatureversion",
    "s3:versionid",
    "s3:x-amz-acl",
    "s3:x-amz-content-sha256",
    "s3:x-amz-copy-source",
    "s3:x-amz-grant-full-control",
    "s3:x-amz-grant-read",
    "s3:x-amz-grant-read-acp",
    "s3:x-amz-grant-write",
    "s3:x-amz-grant-write-acp",
    "s3:x-amz-metadata-directive",
    "s3:x-amz-object-ownership",
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-storage-class",
    "s3:x-amz-website-redirect-location",
];

const GLOBAL: &[&str] = &[
    "aws:calledvia",
    "aws:calledviafirst",
    "aws:calledvialast",
    "aws:currenttime",
    "aws:ec2instancesourceprivateipv4",
    "aws:ec2instancesourcevpc",
    "aws:epochtime",
    "aws:federatedprovider",
    "aws:multifactorauthage",
    "aws:multifactorauthpresent",
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalisawsservice",
    "aws:principalorgid",
    "aws:principalorgpaths",
    "aws:principalservicename",
    "aws:principalservicenameslist",
    "aws:principaltype",
    "aws:referer",
    "aws:requesttag/*",
    "aws:resourceaccount",
    "aws:resourceorgid",
    "aws:resourceorgpaths",
    "aws:securetransport",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceidentity",
    "aws:sourceip",
    "aws:sourceorgid",
    "aws:sourceorgpaths",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "aws:tagkeys",
    "aws:tokenissuetime",
    "aws:useragent",
    "aws:userid",
    "aws:username",
    "aws:viaawsservice",
    "aws:vpcsourceip",
];

/// Whether there is such a key; letters are the same in both cases. `foreign`: whether keys of other services count.
pub(super) fn is_known(key: &str, foreign: bool) -> bool {
    let key = key.to_ascii_lowercase();
    let listed = |keys: &[&str]| {
        keys.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => key.len() > start.len() && key.starts_with(start),
            None => key == *known,
        })
    };
    match key.split_once(':') {
        Some(("s3", _)) => listed(OF_S3),
        Some(("aws", _)) => listed(GLOBAL),
        Some((service, name)) => foreign && !service.is_empty() && !name.is_empty(),
        None => false,
    }
}
