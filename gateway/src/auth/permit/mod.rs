//! A request that was let in: who sent it, and what else it may do.
//!
//! The gate puts it into the request; operations that do more than their path names (a source to copy from, keys in a
//! document or a form) ask it for the rest.

mod beyond_path;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, Uri};
use s3s::{S3Error, S3Result, s3_error};

use crate::auth::acl::{Acl, Permission};
use crate::auth::bucket::{BucketRules, ObjectOwnership};
use crate::auth::directory::Directory;
use crate::auth::facts::{self, Asked, Connected, Proof};
use crate::auth::identity::{Identity, Owner};
use crate::auth::operation;
use crate::auth::policy::Context;
use crate::auth::verdict::{Case, Verdict};
use crate::storage::types::{BucketName, ObjectInfo, ObjectKey, RangeRequest};
use crate::storage::version_types::{Tags, VersionId};
use crate::storage::{ErrorKind, ObjectVersion};

/// Of one request.
#[derive(Clone)]
pub struct Permit {
    directory: Arc<Directory>,
    caller: Option<Arc<Identity>>,
    rules: Option<Arc<BucketRules>>,
    connected: Option<Connected>,
    context: Arc<Context>,
    /// Whether a key that is not there is no secret to the caller.
    may_list: bool,
    /// Whether the caller says that they pay.
    promises: bool,
    /// What has to be judged again by the object that is found; empty where nothing has.
    deferred: Vec<&'static str>,
    /// Whether nothing lets the caller at an upload but having begun it.
    only_its_own: bool,
    /// Time spent judging, microseconds.
    judging: Arc<AtomicU64>,
}

/// What is known of a request before its operation runs.
pub(super) struct Request<'a> {
    pub(super) connected: Option<Connected>,
    /// How it was signed, where that is not seen any more.
    pub(super) proof: Option<Proof>,
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
    pub(super) operation: &'a str,
}

/// Longest time that is spent judging one request.
const MOST_JUDGING: Duration = Duration::from_secs(2);
/// Time after which others are let before.
const TURN: Duration = Duration::from_millis(2);

/// Operations on an upload that who began it may do; each of them calls [`Permit::confirm_upload`].
const OF_UPLOADS: [&str; 2] = ["ListParts", "AbortMultipartUpload"];

/// Operations that find one object and answer with it; each of them calls [`Permit::confirm`].
const READS: [&str; 3] = ["GetObject", "HeadObject", "GetObjectAttributes"];

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
        request: Request<'_>,
    ) -> Self {
        let Request { connected, proof, uri, headers, operation } = request;
        let asked = caller.as_ref().is_some_and(|caller| !caller.policies.is_empty())
            || rules.as_ref().is_some_and(|rules| rules.policy.is_some())
            // The bucket of a source may have a policy as well.
            || headers.contains_key("x-amz-copy-source");
        let context = if asked {
            let caller = caller.as_deref();
            let proof = proof.unwrap_or_else(|| Proof::of(uri, headers));
            facts::gather(&Asked { caller, connected, proof: &proof, uri: Some(uri), headers, operation })
        } else {
            Context::default()
        };
        let promises = promises_to_pay(uri, headers);
        let context = Arc::new(context);
        Self {
            directory,
            caller,
            rules,
            connected,
            context,
            may_list: true,
            promises,
            deferred: Vec::new(),
            only_its_own: false,
            judging: Arc::default(),
        }
    }

    /// Notes facts that came later than the headers.
    pub(super) fn note(&mut self, note: impl FnOnce(&mut Context)) {
        note(Arc::make_mut(&mut self.context));
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
        if OF_UPLOADS.contains(&op) && self.is_unsaid(&actions, resource) {
            // Who began an upload may, unless a policy denies it (AWS: "Multipart upload API and permissions").
            self.only_its_own = true;
        } else if READS.contains(&op) && self.depends_on_object(&actions, resource) {
            // The object that is judged has to be the one that is read.
            self.deferred = actions;
        } else {
            for action in actions {
                self.require(action, resource).await?;
            }
        }
        self.require_payer(self.rules.as_deref())?;
        if matches!(op, "PutObject" | "CopyObject" | "CreateMultipartUpload") {
            self.require_list(resource, headers)?;
        }
        if resource.key.is_some() && (op.starts_with("Get") || op.starts_with("Head") || op == "RenameObject") {
            self.may_list = self.may_list_in(self.rules.as_deref(), resource);
        }
        Ok(())
    }

    /// Whether somebody known asks for what no policy speaks of.
    fn is_unsaid(&self, actions: &[&'static str], resource: Resource<'_>) -> bool {
        let rules = self.rules.as_deref();
        let context = self.context_of(rules, resource, None);
        self.caller.is_some()
            && actions.iter().all(|action| self.judge(action, resource, rules, &context) == Verdict::Unsaid)
    }

    /// Whether what may be done to an object depends on the object.
    fn depends_on_object(&self, actions: &[&'static str], resource: Resource<'_>) -> bool {
        let rules = self.rules.as_deref();
        let listed = |action: &&str| {
            let context = self.context_of(rules, resource, None);
            matches!(self.judge(action, resource, rules, &context), Verdict::AskObject(_))
        };
        self.looks_at_tags(rules) || actions.iter().any(listed)
    }

    fn may_list_in(&self, rules: Option<&BucketRules>, resource: Resource<'_>) -> bool {
        let bucket = Resource { key: None, version: None, ..resource };
        let context = self.context_of(rules, bucket, None);
        self.judge("s3:ListBucket", bucket, rules, &context) == Verdict::Allowed
    }

    /// Lets a write set a list: who will own the object may, unless a policy denies it; where policies are attached to the
    /// caller, they have to allow it.
    fn require_list(&self, resource: Resource<'_>, headers: &HeaderMap) -> S3Result<()> {
        let rules = self.rules.as_deref().filter(|rules| rules.has_acls());
        if rules.is_none() || !operation::sets_list(headers) {
            return Ok(());
        }
        match self.judge("s3:PutObjectAcl", resource, rules, &self.context_of(rules, resource, None)) {
            Verdict::Allowed => Ok(()),
            Verdict::AskObject(_) if rules.is_some_and(|rules| self.writes_by_itself(rules)) => Ok(()),
            Verdict::AskObject(_) | Verdict::Denied | Verdict::Unsaid => Err(denied()),
        }
    }

    /// Whether the caller may write into a bucket without any policy: it is its own, or its list says so. Who writes by a
    /// policy may do what the policy says and no more.
    fn writes_by_itself(&self, rules: &BucketRules) -> bool {
        let unattached = self.caller().is_none_or(|caller| caller.policies.is_empty());
        let owns = self.caller().is_some_and(|caller| caller.owner.id == rules.owner.id);
        let listed = || rules.acl().grants(self.caller(), Permission::Write, !rules.block.ignore_public_acls);
        unattached && (owns || listed())
    }

    /// Lets an action pass on something in the bucket of the request.
    ///
    /// # Errors
    /// `AccessDenied`, or the database cannot be asked.
    pub async fn require(&self, action: &str, resource: Resource<'_>) -> S3Result<()> {
        self.require_found(self.rules.as_deref(), action, resource, None).await
    }

    /// What is said of a key that is not there: those who may not list the bucket are not told.
    #[must_use]
    pub fn of_missing(&self, error: S3Error) -> S3Error {
        let missing = matches!(error.code().as_str(), "NoSuchKey" | "NoSuchVersion");
        if missing && !self.may_list { denied() } else { error }
    }

    /// Lets one of several keys be acted upon that the document of a request names.
    ///
    /// # Errors
    /// `AccessDenied`, or the database cannot be asked.
    pub async fn require_key(&self, action: &str, resource: Resource<'_>) -> S3Result<()> {
        self.require_payer(self.rules.as_deref())?;
        self.require(action, resource).await
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

    /// `found`: the object, where it is known already.
    async fn require_found(
        &self,
        rules: Option<&BucketRules>,
        action: &str,
        resource: Resource<'_>,
        found: Option<&ObjectInfo>,
    ) -> S3Result<()> {
        let tags = match found {
            Some(found) => Some(found.tags.clone()),
            None if resource.key.is_some() && self.looks_at_tags(rules) => self.tags_of(resource).await?,
            None => None,
        };
        let context = self.context_of(rules, resource, tags.as_ref());
        let begun = Instant::now();
        let verdict = self.judge(action, resource, rules, &context);
        self.account_for(begun).await?;
        match verdict {
            Verdict::Allowed => Ok(()),
            Verdict::Denied | Verdict::Unsaid => Err(denied()),
            Verdict::AskObject(permission) => {
                let Some(mut object) = object(resource) else { return Err(denied()) };
                object.version = object.version.or(found.and_then(|found| found.version));
                let storage = self.directory.storage();
                let stored = storage.object_acl(&object).await.map_err(|error| self.directory.trouble(error))?;
                let Some((owner, acl)) = stored else { return self.of_absent(resource, rules, &context) };
                let acl: Option<Acl> = acl.and_then(|acl| serde_json::from_value(acl).ok());
                let case = self.case(action, resource, rules, &context);
                if case.judge_object(permission, &owner, acl.as_ref()) { Ok(()) } else { Err(denied()) }
            }
        }
    }

    /// Counts the time that judging takes: a policy may be such that it is long, a request may ask often, and others want to
    /// be judged too.
    async fn account_for(&self, begun: Instant) -> S3Result<()> {
        let spent = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let total = self.judging.fetch_add(spent, Ordering::Relaxed).saturating_add(spent);
        if total > MOST_JUDGING.as_micros().try_into().unwrap_or(u64::MAX) {
            tracing::warn!(
                bucket = self.rules.as_deref().map(|rules| rules.name.as_str()),
                "policies take too long to judge by"
            );
            return Err(s3_error!(SlowDown, "The policies of this request take too long to judge by."));
        }
        if spent > TURN.as_micros().try_into().unwrap_or(u64::MAX) {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Whether policies have a say.
    fn is_asked(&self, rules: Option<&BucketRules>) -> bool {
        rules.is_some_and(|rules| rules.policy.is_some())
            || self.caller().is_some_and(|caller| !caller.policies.is_empty())
    }

    /// The facts, with those of what something is done to.
    fn context_of(&self, rules: Option<&BucketRules>, resource: Resource<'_>, tags: Option<&Tags>) -> Cow<'_, Context> {
        if !self.is_asked(rules) {
            return Cow::Borrowed(&self.context);
        }
        let mut context = (*self.context).clone();
        if let Some(rules) = rules {
            context.set("s3:ResourceAccount", rules.owner_account.as_str());
            context.set("aws:ResourceAccount", rules.owner_account.as_str());
        }
        if let Some(version) = resource.version {
            context.set("s3:VersionId", version);
        }
        for (name, value) in tags.into_iter().flatten() {
            context.add(&format!("s3:ExistingObjectTag/{name}"), value.as_str());
        }
        Cow::Owned(context)
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

    async fn tags_of(&self, resource: Resource<'_>) -> S3Result<Option<Tags>> {
        let Some(object) = object(resource) else { return Ok(None) };
        match self.directory.storage().head(&object, RangeRequest::Whole).await {
            Ok(located) => Ok(Some(located.info.tags)),
            Err(error) => match error.kind() {
                ErrorKind::NoSuchKey | ErrorKind::NoSuchVersion | ErrorKind::DeleteMarker => Ok(None),
                _ => Err(self.directory.trouble(error)),
            },
        }
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
