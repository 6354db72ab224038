//! Access control lists: grants of a bucket or an object (AWS: "Access control list (ACL) overview").
//!
//! They decide only in buckets whose object ownership is not `BucketOwnerEnforced`. Invariant: an owner can always read
//! and write the list itself, so that nobody locks themselves out.

use serde::{Deserialize, Serialize};

use super::identity::Identity;

/// Grants in one list (AWS).
pub const MAX_GRANTS: usize = 100;

/// Who is granted something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grantee {
    /// A user, by canonical id.
    User(String),
    /// Everybody, known or not.
    AllUsers,
    /// Everybody who signs requests.
    AuthenticatedUsers,
    /// The service that writes access logs: nobody here.
    LogDelivery,
}

/// What is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Permission {
    /// Read the object, or list the bucket.
    Read,
    /// Create, overwrite and delete objects of the bucket.
    Write,
    /// Read the list.
    ReadAcp,
    /// Replace the list.
    WriteAcp,
    /// All of these.
    FullControl,
}

/// One grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// To whom.
    pub grantee: Grantee,
    /// What.
    pub permission: Permission,
}

/// A list without its owner, who is stored with the bucket or object.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Acl(pub Vec<Grant>);

/// Lists that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canned {
    /// `private`.
    Private,
    /// `public-read`.
    PublicRead,
    /// `public-read-write`.
    PublicReadWrite,
    /// `authenticated-read`.
    AuthenticatedRead,
    /// `bucket-owner-read`, of objects.
    BucketOwnerRead,
    /// `bucket-owner-full-control`, of objects.
    BucketOwnerFullControl,
    /// `log-delivery-write`, of buckets.
    LogDeliveryWrite,
    /// `aws-exec-read`: for a service that is not here.
    AwsExecRead,
}

impl Canned {
    /// The list of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "private" => Self::Private,
            "public-read" => Self::PublicRead,
            "public-read-write" => Self::PublicReadWrite,
            "authenticated-read" => Self::AuthenticatedRead,
            "bucket-owner-read" => Self::BucketOwnerRead,
            "bucket-owner-full-control" => Self::BucketOwnerFullControl,
            "log-delivery-write" => Self::LogDeliveryWrite,
            "aws-exec-read" => Self::AwsExecRead,
            _ => return None,
        })
    }

    /// Its grants.
    #[must_use]
    pub fn acl(self, owner: &str, bucket_owner: &str) -> Acl {
        let grant = |grantee, permission| Grant { grantee, permission };
        let mut grants = vec![grant(Grantee::User(owner.to_owned()), Permission::FullControl)];
        let bucket_owner = (bucket_owner != owner).then(|| Grantee::User(bucket_owner.to_owned()));
        match self {
            Self::Private | Self::AwsExecRead => {}
            Self::PublicRead => grants.push(grant(Grantee::AllUsers, Permission::Read)),
            Self::PublicReadWrite => {
                grants.push(grant(Grantee::AllUsers, Permission::Read));
                grants.push(grant(Grantee::AllUsers, Permission::Write));
            }
            Self::AuthenticatedRead => grants.push(grant(Grantee::AuthenticatedUsers, Permission::Read)),
            Self::BucketOwnerRead => grants.extend(bucket_owner.map(|who| grant(who, Permission::Read))),
            Self::BucketOwnerFullControl => grants.extend(bucket_owner.map(|who| grant(who, Permission::FullControl))),
            Self::LogDeliveryWrite => {
                grants.push(grant(Grantee::LogDelivery, Permission::Write));
                grants.push(grant(Grantee::LogDelivery, Permission::ReadAcp));
            }
        }
        Acl(grants)
    }
}

impl Acl {
    /// Whether it grants somebody something. `public`: whether grants to everybody count.
    #[must_use]
    pub fn grants(&self, caller: Option<&Identity>, permission: Permission, public: bool) -> bool {
        self.0.iter().any(|grant| {
            let fits = match &grant.grantee {
                Grantee::User(id) => caller.is_some_and(|caller| caller.owner.id == *id),
                Grantee::AllUsers => public,
                Grantee::AuthenticatedUsers => public && caller.is_some(),
                Grantee::LogDelivery => false,
            };
            fits && [permission, Permission::FullControl].contains(&grant.permission)
        })
    }

    /// Whether it grants anything to everybody (AWS: "The meaning of public").
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.0.iter().any(|grant| matches!(grant.grantee, Grantee::AllUsers | Grantee::AuthenticatedUsers))
    }
}
