//! What decides about a bucket: its owner, its policy, its list, its object ownership, its public access block; and, since
//! answers tell of them, its lifecycle rules.

use serde::{Deserialize, Serialize};

use crate::config;
use crate::storage::bucket_settings::Setting;
use crate::storage::lifecycle::Lifecycle;
use crate::storage::users::BucketAccess;

use super::Owner;
use super::acl::{Acl, Canned};
use super::identity::account_of;
use super::policy::Policy;

/// A public access block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "S3 has four of them")]
pub struct PublicAccessBlock {
    /// Refuse requests that set public lists.
    pub block_public_acls: bool,
    /// Let public grants count for nothing.
    pub ignore_public_acls: bool,
    /// Refuse public policies.
    pub block_public_policy: bool,
    /// Let a public policy allow nothing to others than the owner.
    pub restrict_public_buckets: bool,
}

/// Who owns the objects of a bucket, and whether lists count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ObjectOwnership {
    /// The bucket's owner; lists are switched off.
    #[default]
    BucketOwnerEnforced,
    /// Who writes them, but the bucket's owner where the writer grants it full control.
    BucketOwnerPreferred,
    /// Who writes them.
    ObjectWriter,
}

impl From<config::ObjectOwnership> for ObjectOwnership {
    fn from(set: config::ObjectOwnership) -> Self {
        match set {
            config::ObjectOwnership::BucketOwnerEnforced => Self::BucketOwnerEnforced,
            config::ObjectOwnership::BucketOwnerPreferred => Self::BucketOwnerPreferred,
            config::ObjectOwnership::ObjectWriter => Self::ObjectWriter,
        }
    }
}

impl ObjectOwnership {
    /// What holds where the controls were deleted: as before S3 had them.
    pub const WITHOUT_CONTROLS: Self = Self::ObjectWriter;

    /// By its name in S3.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "BucketOwnerEnforced" => Self::BucketOwnerEnforced,
            "BucketOwnerPreferred" => Self::BucketOwnerPreferred,
            "ObjectWriter" => Self::ObjectWriter,
            _ => return None,
        })
    }

    /// Its name in S3.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BucketOwnerEnforced => "BucketOwnerEnforced",
            Self::BucketOwnerPreferred => "BucketOwnerPreferred",
            Self::ObjectWriter => "ObjectWriter",
        }
    }
}

/// What decides about a bucket.
#[derive(Debug)]
pub struct BucketRules {
    /// Its name.
    pub name: String,
    /// What its settings take as they are stored, bytes.
    pub stored_bytes: usize,
    /// Its owner.
    pub owner: Owner,
    /// Account of the owner.
    pub owner_account: String,
    /// Its policy, if it has one.
    pub policy: Option<Policy>,
    /// A policy that cannot be read denies everything but mending it.
    pub broken: bool,
    /// Its list; `None`: the owner's alone.
    pub acl: Option<Acl>,
    /// Its object ownership.
    pub ownership: ObjectOwnership,
    /// Whether who sends a request has to say that they pay for it.
    pub requester_pays: bool,
    /// Its public access block.
    pub block: PublicAccessBlock,
    /// Its lifecycle rules.
    pub lifecycle: Lifecycle,
}

impl BucketRules {
    /// Reads what is stored.
    #[must_use]
    pub fn read(name: &str, stored: BucketAccess) -> Self {
        let root = Owner::root();
        let display_name = match stored.owner_name {
            Some(name) => name,
            None if stored.owner == root.id => root.display_name,
            None => String::new(),
        };
        let mut broken = false;
        let text = |setting: Setting| stored.settings.get(setting.as_str());
        let policy = text(Setting::Policy).and_then(|document| {
            let policy = Policy::of_bucket(document, name);
            broken |= policy.is_err();
            policy.ok()
        });
        let mut told = |error: serde_json::Error| {
            broken = true;
            tracing::error!(bucket = name, %error, "a setting of the bucket cannot be read");
        };
        let acl = text(Setting::Acl).and_then(|t| serde_json::from_str(t).map_err(&mut told).ok());
        // `null`: its controls were deleted.
        let ownership: Option<Option<ObjectOwnership>> =
            text(Setting::ObjectOwnership).and_then(|t| serde_json::from_str(t).map_err(&mut told).ok());
        let block = text(Setting::PublicAccessBlock).and_then(|t| serde_json::from_str(t).map_err(&mut told).ok());
        // These decide nothing here: who applies them tells of what cannot be read.
        let lifecycle = text(Setting::Lifecycle).and_then(|t| serde_json::from_str(t).ok());
        Self {
            name: name.to_owned(),
            stored_bytes: stored.settings.values().map(String::len).sum(),
            owner_account: stored.owner_account.unwrap_or_else(|| account_of(&stored.owner)),
            owner: Owner { id: stored.owner, display_name },
            policy,
            broken,
            acl,
            ownership: ownership
                .map_or_else(ObjectOwnership::default, |set| set.unwrap_or(ObjectOwnership::WITHOUT_CONTROLS)),
            requester_pays: text(Setting::RequestPayment).is_some(),
            block: block.unwrap_or_default(),
            lifecycle: lifecycle.unwrap_or_default(),
        }
    }

    /// Whether lists count in it.
    #[must_use]
    pub fn has_acls(&self) -> bool {
        self.ownership != ObjectOwnership::BucketOwnerEnforced
    }

    /// Its list.
    #[must_use]
    pub fn acl(&self) -> Acl {
        self.acl.clone().unwrap_or_else(|| Canned::Private.acl(&self.owner.id, &self.owner.id))
    }

    /// Whether its policy is public.
    #[must_use]
    pub fn has_public_policy(&self) -> bool {
        self.policy.as_ref().is_some_and(Policy::is_public)
    }

    /// Whether a name (canonical id or account) is its owner's.
    #[must_use]
    pub fn is_owned_by(&self, name: &str) -> bool {
        self.owner.id == name || self.owner_account == name
    }
}
