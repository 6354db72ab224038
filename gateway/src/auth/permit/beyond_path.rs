//! What a request may do beyond what its path names: the source of a copy, the fields of a form, and what depends on the
//! object or the upload that is found.

use std::sync::Arc;

use http::{HeaderMap, header};
use s3s::S3Result;

use crate::auth::bucket::BucketRules;
use crate::auth::facts::{self, Asked, Proof};
use crate::auth::operation;
use crate::storage::ErrorKind;
use crate::storage::types::{BucketName, ObjectInfo};
use crate::storage::version_types::Tags;

use super::{Permit, Resource, denied};

impl Permit {
    /// Lets something be done to an upload, where that depends on who began it. Whoever does it has to ask.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn confirm_upload(&self, initiator: &str) -> S3Result<()> {
        let begun = self.caller().is_some_and(|caller| caller.owner.id == initiator);
        if self.only_its_own && !begun { Err(denied()) } else { Ok(()) }
    }

    /// Lets what was found be read, where that depends on it. Whoever reads an object has to ask.
    ///
    /// # Errors
    /// `AccessDenied`, or the database cannot be asked.
    pub async fn confirm(&self, resource: Resource<'_>, found: &ObjectInfo) -> S3Result<()> {
        for action in &self.deferred {
            self.require_found(self.rules.as_deref(), action, resource, Some(found)).await?;
        }
        Ok(())
    }

    /// Lets a form write under its key. `fields`: its fields as headers; `outer`: the headers that it came with.
    ///
    /// # Errors
    /// `AccessDenied`, or the database cannot be asked.
    pub async fn require_form(
        &self,
        resource: Resource<'_>,
        (fields, outer): (&HeaderMap, &HeaderMap),
        signature_v2: bool,
    ) -> S3Result<()> {
        let mut headers = fields.clone();
        for name in [header::REFERER, header::USER_AGENT] {
            if let Some(value) = outer.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let proof = self.caller.as_ref().map_or_else(Proof::default, |_| Proof::of_form(signature_v2));
        let (caller, connected) = (self.caller(), self.connected);
        let asked = Asked { caller, connected, proof: &proof, uri: None, headers: &headers, operation: "PostObject" };
        let form = Self { context: Arc::new(facts::gather(&asked)), ..self.clone() };
        for action in operation::actions("PostObject", false, fields) {
            form.require(action, resource).await?;
        }
        form.require_payer(form.rules.as_deref())?;
        form.require_list(resource, fields)
    }

    /// Lets the source of a copy be read, where one was found; where none was, says so only to those who may know.
    /// `tags`: whether it is copied with its tags. Also gives its bucket's rules.
    ///
    /// # Errors
    /// `AccessDenied`, `NoSuchBucket`, or the database cannot be asked.
    pub async fn require_source(
        &self,
        source: Resource<'_>,
        found: Option<&ObjectInfo>,
        tags: bool,
    ) -> S3Result<Arc<BucketRules>> {
        let name = BucketName::new(source.bucket.unwrap_or_default());
        let rules = self.directory.bucket(&name).await.map_err(|error| self.directory.trouble(error))?;
        let rules = rules.ok_or_else(|| self.directory.trouble(ErrorKind::NoSuchBucket.into()))?;
        let versioned = |plain, of_version| if source.version.is_some() { of_version } else { plain };
        let action = versioned("s3:GetObject", "s3:GetObjectVersion");
        self.require_found(Some(&rules), action, source, found).await?;
        self.require_payer(Some(&rules))?;
        match found {
            None if !self.may_list_in(Some(&rules), source) => return Err(denied()),
            Some(found) if tags && !found.tags.is_empty() => {
                let action = versioned("s3:GetObjectTagging", "s3:GetObjectVersionTagging");
                self.require_found(Some(&rules), action, source, Some(found)).await?;
            }
            None | Some(_) => {}
        }
        Ok(rules)
    }

    /// Lets something be written with tags that are not in the request, but come from what it is made of. `operation`: what
    /// is asked for altogether; `None`: it has been let in but for the tags.
    ///
    /// # Errors
    /// `AccessDenied`, or the database cannot be asked.
    pub async fn require_with_tags(
        &self,
        operation: Option<&str>,
        (resource, tags): (Resource<'_>, &Tags),
        headers: &HeaderMap,
    ) -> S3Result<()> {
        let mut permit = self.clone();
        // A header says nothing where tags are taken along.
        let mut headers = headers.clone();
        headers.remove("x-amz-tagging");
        permit.note(|context| {
            context.forget("s3:requestobjecttag");
            facts::note_tags(context, tags.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        });
        if let Some(operation) = operation {
            permit.admit(operation, resource, &headers).await?;
        }
        match tags.is_empty() {
            true => Ok(()),
            false => permit.require("s3:PutObjectTagging", resource).await,
        }
    }

    /// Whether policies have a say in what the caller does in the bucket of the request.
    #[must_use]
    pub fn is_judged_by_policies(&self) -> bool {
        self.is_asked(self.rules.as_deref())
    }
}
