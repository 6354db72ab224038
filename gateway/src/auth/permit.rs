//! A request that was let in: who sent it, and what else it may do.
//!
//! The gate puts it into the request; operations that do more than their path names (a source to copy from, keys in a
//! document or a form) ask it for the rest.

use std::sync::Arc;

use http::{HeaderMap, Uri};
use s3s::{S3Error, S3Result, s3_error};

use crate::storage::types::{BucketName, ObjectKey};
use crate::storage::version_types::VersionId;
use crate::storage::{ErrorKind, ObjectVersion};

use super::acl::Acl;
use super::bucket::{BucketRules, ObjectOwnership};
use super::directory::Directory;
use super::facts::{self, Connected};
use super::identity::{Identity, Owner};
use super::operation;
use super::policy::Context;
use super::verdict::{Case, Verdict};

/// Of one request.
#[derive(Clone)]
pub struct Permit {
    directory: Arc<Directory>,
    caller: Option<Arc<Identity>>,
    rules: Option<Arc<BucketRules>>,
    context: Arc<Context>,
    /// Whether a key that is not there is no secret to the caller.
    may_list: bool,
    /// Whether the caller says that they pay.
    promises: bool,
}

/// An object, or a bucket, that something is done to.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// The bucket's name.
    pub bucket: Option<&'a str>,
    /// The key.
    pub key: Option<&'a str>,
    /// The version, as the request names it.
    pub version: Option<&'a str>,
}

fn denied() -> S3Error {
    s3_error!(AccessDenied, "Access Denied")
}

impl Permit {
    pub(super) fn new(
        directory: Arc<Directory>,
        caller: Option<Arc<Identity>>,
        rules: Option<Arc<BucketRules>>,
        (connected, uri, headers): (Option<Connected>, &Uri, &HeaderMap),
    ) -> Self {
        let asked = caller.as_ref().is_some_and(|caller| !caller.policies.is_empty())
            || rules.as_ref().is_some_and(|rules| rules.policy.is_some());
        let promises = promises_to_pay(uri, headers);
        let context =
            if asked { facts::gather(caller.as_deref(), connected, uri, headers) } else { Context::default() };
        Self { directory, caller, rules, context: Arc::new(context), may_list: true, promises }
    }

    /// Who sent the request; `None`: nobody signed it.
    #[must_use]
    pub fn caller(&self) -> Option<&Identity> {
        self.caller.as_deref()
    }

    /// What decides about the bucket that the request names.
    #[must_use]
    pub fn rules(&self) -> Option<&BucketRules> {
        self.rules.as_deref()
    }

    /// Everybody.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Who owns what this request creates in its bucket. `full_control`: it grants the bucket's owner full control.
    #[must_use]
    pub fn owner_of_objects(&self, full_control: bool) -> Owner {
        match (&self.rules, &self.caller) {
            (Some(rules), Some(caller)) => {
                let writer = rules.ownership == ObjectOwnership::ObjectWriter
                    || rules.ownership == ObjectOwnership::BucketOwnerPreferred && !full_control;
                if writer { caller.owner.clone() } else { rules.owner.clone() }
            }
            (Some(rules), None) => rules.owner.clone(),
            (None, Some(caller)) => caller.owner.clone(),
            (None, None) => Owner::root(),
        }
    }

    /// Whether nobody signed the request and nothing in the bucket could allow it: no body needs to be read for it.
    pub(super) fn is_hopeless(&self) -> bool {
        let silent = |rules: &BucketRules| rules.policy.is_none() && !rules.has_acls();
        self.caller.is_none() && self.rules.as_deref().is_none_or(silent)
    }

    /// Lets the operation of the request pass, or refuses it.
    pub(super) async fn admit(&mut self, op: &str, resource: Resource<'_>, headers: &HeaderMap) -> S3Result<()> {
        let actions = operation::actions(op, resource.version.is_some(), headers);
        if actions.is_empty() && self.caller().is_none_or(|caller| !caller.is_root) {
            return Err(denied());
        }
        for action in actions {
            self.require(action, resource).await?;
        }
        self.require_payer(self.rules.as_deref())?;
        if matches!(op, "PutObject" | "CopyObject" | "CreateMultipartUpload") {
            self.require_list(resource, headers)?;
        }
        if resource.key.is_some() && (op.starts_with("Get") || op.starts_with("Head")) {
            let bucket = Resource { key: None, version: None, ..resource };
            self.may_list =
                self.judge("s3:ListBucket", bucket, self.rules.as_deref(), &self.context) == Verdict::Allowed;
        }
        Ok(())
    }

    /// Lets a write under a key pass that is not in the path of the request.
    ///
    /// # Errors
    /// `AccessDenied`, or the database cannot be asked.
    pub async fn require_write(&self, resource: Resource<'_>, headers: &HeaderMap) -> S3Result<()> {
        for action in operation::actions("PutObject", false, headers) {
            self.require(action, resource).await?;
        }
        self.require_list(resource, headers)
    }

    /// Lets a write set a list: who will own the object may, unless a policy denies it; where policies are attached to the
    /// caller, they have to allow it.
    fn require_list(&self, resource: Resource<'_>, headers: &HeaderMap) -> S3Result<()> {
        let rules = self.rules.as_deref().filter(|rules| rules.has_acls());
        if rules.is_none() || !operation::sets_list(headers) {
            return Ok(());
        }
        match self.judge("s3:PutObjectAcl", resource, rules, &self.context) {
            Verdict::Allowed => Ok(()),
            Verdict::AskObject(_) if self.caller().is_none_or(|caller| caller.policies.is_empty()) => Ok(()),
            Verdict::AskObject(_) | Verdict::Denied => Err(denied()),
        }
    }

    /// Lets an action pass on something in the bucket of the request.
    ///
    /// # Errors
    /// `AccessDenied`, or the database cannot be asked.
    pub async fn require(&self, action: &str, resource: Resource<'_>) -> S3Result<()> {
        self.require_under(self.rules.as_deref(), action, resource).await
    }

    /// Lets the source of a copy be read. Also gives its bucket's rules.
    ///
    /// # Errors
    /// `AccessDenied`, `NoSuchBucket`, or the database cannot be asked.
    pub async fn require_source(&self, source: Resource<'_>) -> S3Result<Arc<BucketRules>> {
        let name = BucketName::new(source.bucket.unwrap_or_default());
        let rules = self.directory.bucket(&name).await.map_err(|error| self.directory.trouble(error))?;
        let rules = rules.ok_or_else(|| self.directory.trouble(ErrorKind::NoSuchBucket.into()))?;
        let action = if source.version.is_some() { "s3:GetObjectVersion" } else { "s3:GetObject" };
        self.require_under(Some(&rules), action, source).await?;
        self.require_payer(Some(&rules))?;
        Ok(rules)
    }

    /// What is said of a key that is not there: those who may not list the bucket are not told.
    #[must_use]
    pub fn of_missing(&self, error: S3Error) -> S3Error {
        let missing = matches!(error.code().as_str(), "NoSuchKey" | "NoSuchVersion");
        if missing && !self.may_list { denied() } else { error }
    }

    /// Where the requester pays, all but the bucket's owner have to say that they do, and who they are (AWS: "Using Requester
    /// Pays buckets").
    fn require_payer(&self, rules: Option<&BucketRules>) -> S3Result<()> {
        let Some(rules) = rules.filter(|rules| rules.requester_pays) else { return Ok(()) };
        match self.caller() {
            Some(caller) if caller.is_root || caller.owner.id == rules.owner.id || self.promises => Ok(()),
            Some(_) | None => Err(denied()),
        }
    }

    async fn require_under(&self, rules: Option<&BucketRules>, action: &str, resource: Resource<'_>) -> S3Result<()> {
        let tagged;
        let mut context = &*self.context;
        if resource.key.is_some() && self.looks_at_tags(rules) {
            tagged = self.with_tags(resource).await?;
            context = &tagged;
        }
        match self.judge(action, resource, rules, context) {
            Verdict::Allowed => Ok(()),
            Verdict::Denied => Err(denied()),
            Verdict::AskObject(permission) => {
                let Some(object) = object(resource) else { return Err(denied()) };
                let storage = self.directory.storage();
                let found = storage.object_acl(&object).await.map_err(|error| self.directory.trouble(error))?;
                let Some((owner, acl)) = found else { return self.of_absent(resource, rules, context) };
                let acl: Option<Acl> = acl.and_then(|acl| serde_json::from_value(acl).ok());
                let case = self.case(action, resource, rules, context);
                if case.judge_object(permission, &owner, acl.as_ref()) { Ok(()) } else { Err(denied()) }
            }
        }
    }

    /// Who may list the bucket may know that an object is not there: the operation says so.
    fn of_absent(&self, resource: Resource<'_>, rules: Option<&BucketRules>, context: &Context) -> S3Result<()> {
        let bucket = Resource { key: None, version: None, ..resource };
        match self.judge("s3:ListBucket", bucket, rules, context) {
            Verdict::Allowed => Ok(()),
            _ => Err(denied()),
        }
    }

    fn looks_at_tags(&self, rules: Option<&BucketRules>) -> bool {
        let tags = "s3:existingobjecttag/";
        rules.and_then(|rules| rules.policy.as_ref()).is_some_and(|policy| policy.looks_at(tags))
            || self.caller().is_some_and(|caller| caller.policies.iter().any(|policy| policy.looks_at(tags)))
    }

    async fn with_tags(&self, resource: Resource<'_>) -> S3Result<Context> {
        let mut context = (*self.context).clone();
        let Some(object) = object(resource) else { return Ok(context) };
        match self.directory.storage().head(&object, crate::storage::types::RangeRequest::Whole).await {
            Ok(located) => {
                for (name, value) in &located.info.tags {
                    context.set(&format!("s3:ExistingObjectTag/{name}"), value.as_str());
                }
            }
            Err(error) => match error.kind() {
                ErrorKind::NoSuchKey | ErrorKind::NoSuchVersion | ErrorKind::DeleteMarker => {}
                _ => return Err(self.directory.trouble(error)),
            },
        }
        Ok(context)
    }

    fn case<'a>(
        &'a self,
        action: &'a str,
        resource: Resource<'a>,
        rules: Option<&'a BucketRules>,
        context: &'a Context,
    ) -> Case<'a> {
        Case { caller: self.caller(), rules, action, bucket: resource.bucket, key: resource.key, context }
    }

    fn judge(&self, action: &str, resource: Resource<'_>, rules: Option<&BucketRules>, context: &Context) -> Verdict {
        self.case(action, resource, rules, context).judge()
    }
}

/// Whether a request says, in a header or in its query, that who sends it pays.
fn promises_to_pay(uri: &Uri, headers: &HeaderMap) -> bool {
    let name = "x-amz-request-payer";
    let in_query =
        || uri.query().is_some_and(|query| query.split('&').any(|pair| pair == "x-amz-request-payer=requester"));
    headers.get(name).is_some_and(|value| value == "requester") || in_query()
}

/// The object, where the names are ones that something can have.
fn object(resource: Resource<'_>) -> Option<ObjectVersion> {
    let key = ObjectKey::parse(resource.key?).ok()?;
    let version = match resource.version {
        None => None,
        Some(text) => Some(VersionId::parse(text)?),
    };
    Some(ObjectVersion { bucket: BucketName::new(resource.bucket?), key, version })
}
