//! Whether somebody may do something: policies, ownership and lists together.
//!
//! In this order (AWS: "How Amazon S3 authorizes a request"): a denial of any policy ends it; root may do everything else;
//! what a policy attached to the caller allows, or the bucket's policy; what is one's own, for users that no policies are
//! attached to; what a list grants, where lists count.
//! Invariant: where nothing says yes, the answer is no.

use super::acl::{Acl, Permission};
use super::bucket::BucketRules;
use super::identity::Identity;
use super::policy::{Context, Decision, Question};

/// A request as it is judged.
pub(super) struct Case<'a> {
    /// Who asks; `None`: nobody signed it.
    pub(super) caller: Option<&'a Identity>,
    /// The bucket; `None`: it is about none that exists.
    pub(super) rules: Option<&'a BucketRules>,
    /// The action.
    pub(super) action: &'a str,
    /// The bucket's name.
    pub(super) bucket: Option<&'a str>,
    /// The key.
    pub(super) key: Option<&'a str>,
    /// Facts for conditions.
    pub(super) context: &'a Context,
}

/// What is said about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Yes.
    Allowed,
    /// No: a policy says so.
    Denied,
    /// No: nothing says yes.
    Unsaid,
    /// The object's list decides.
    AskObject(Permission),
}

/// What an object's list decides.
fn of_object(action: &str) -> Option<Permission> {
    Some(match action {
        "s3:GetObject" | "s3:GetObjectVersion" | "s3:GetObjectAttributes" | "s3:GetObjectVersionAttributes" => {
            Permission::Read
        }
        "s3:GetObjectAcl" | "s3:GetObjectVersionAcl" => Permission::ReadAcp,
        "s3:PutObjectAcl" | "s3:PutObjectVersionAcl" => Permission::WriteAcp,
        _ => return None,
    })
}

/// What a bucket's list decides.
fn of_bucket(action: &str) -> Option<Permission> {
    Some(match action {
        "s3:ListBucket" | "s3:ListBucketVersions" | "s3:ListBucketMultipartUploads" => Permission::Read,
        "s3:PutObject" | "s3:DeleteObject" => Permission::Write,
        "s3:GetBucketAcl" => Permission::ReadAcp,
        "s3:PutBucketAcl" => Permission::WriteAcp,
        _ => return None,
    })
}

/// The account of a bucket's owner can always mend the bucket's policy (AWS: `PutBucketPolicy`).
const MENDING: &[&str] = &["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"];

impl Case<'_> {
    /// Judges.
    #[must_use]
    pub(super) fn judge(&self) -> Verdict {
        let owns = self.owns_bucket();
        let is_root = self.caller.is_some_and(|caller| caller.is_root);
        let unattached = self.caller.is_some_and(|caller| caller.policies.is_empty());
        if MENDING.contains(&self.action) && (is_root || owns && unattached) {
            return Verdict::Allowed;
        }
        let question = Question {
            principal: self.caller.map(|caller| &caller.names),
            action: self.action,
            bucket: self.bucket,
            key: self.key,
            context: self.context,
        };
        let own = self.caller.map_or(Decision::Neutral, |caller| {
            caller.policies.iter().fold(Decision::Neutral, |sum, policy| sum.and(policy.decide(&question)))
        });
        let of_bucket = self.decision_of_bucket(&question, owns);
        match own.and(of_bucket) {
            Decision::Deny => return Verdict::Denied,
            Decision::Allow => return Verdict::Allowed,
            Decision::Neutral if is_root => return Verdict::Allowed,
            Decision::Neutral => {}
        }
        let Some(rules) = self.rules else {
            // Without policies of their own, users may create buckets, as they would have them, and list theirs.
            let free = matches!(
                self.action,
                "s3:CreateBucket"
                    | "s3:ListAllMyBuckets"
                    | "s3:PutBucketAcl"
                    | "s3:PutBucketOwnershipControls"
                    | "s3:PutBucketObjectLockConfiguration"
                    | "s3:PutBucketVersioning"
                    | "s3:PutBucketTagging"
            );
            return if free && unattached { Verdict::Allowed } else { Verdict::Unsaid };
        };
        if rules.has_acls()
            && let Some(permission) = of_object(self.action)
        {
            return Verdict::AskObject(permission);
        }
        if owns && unattached {
            return Verdict::Allowed;
        }
        let granted = rules.has_acls()
            && self::of_bucket(self.action)
                .is_some_and(|permission| rules.acl().grants(self.caller, permission, !rules.block.ignore_public_acls));
        if granted { Verdict::Allowed } else { Verdict::Unsaid }
    }

    /// Judges once the object is known.
    #[must_use]
    pub(super) fn judge_object(&self, permission: Permission, owner: &str, acl: Option<&Acl>) -> bool {
        let Some(rules) = self.rules else { return false };
        let owned = self.caller.is_some_and(|caller| caller.owner.id == owner);
        let unattached = self.caller.is_none_or(|caller| caller.policies.is_empty());
        let private = owned && unattached && (acl.is_none() || permission != Permission::Read);
        private || acl.is_some_and(|acl| acl.grants(self.caller, permission, !rules.block.ignore_public_acls))
    }

    fn owns_bucket(&self) -> bool {
        self.caller.zip(self.rules).is_some_and(|(caller, rules)| caller.owner.id == rules.owner.id)
    }

    fn decision_of_bucket(&self, question: &Question<'_>, owns: bool) -> Decision {
        let Some(rules) = self.rules else { return Decision::Neutral };
        if rules.broken {
            return Decision::Deny;
        }
        let decision = rules.policy.as_ref().map_or(Decision::Neutral, |policy| policy.decide(question));
        let restricted = rules.block.restrict_public_buckets && rules.has_public_policy() && !owns;
        if restricted && decision == Decision::Allow { Decision::Neutral } else { decision }
    }
}
