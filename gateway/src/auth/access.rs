//! The one gate: every request passes here after its signature was verified and before its operation runs.
//!
//! Session tokens are refused: nobody here has any, and a token that is not checked must not look as if it were. That
//! unsigned `x-amz-*` headers cannot change what a signed request does is s3s's promise since 0.16.
//! Two operations name their keys elsewhere than in their path (DeleteObjects in its document, PostObject in its form):
//! they ask the [`Permit`] themselves, key by key.

use std::sync::{Arc, OnceLock};

use http::{Extensions, HeaderMap, Uri};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{Credentials, S3Auth, SecretKey};
use s3s::dto::{
    CreateBucketInput, GetObjectInput, PutBucketTaggingInput, PutObjectLegalHoldInput, PutObjectRetentionInput,
    PutObjectTaggingInput, TagSet,
};
use s3s::path::S3Path;
use s3s::{S3Error, S3Request, S3Result, s3_error};

use crate::storage::ErrorKind;
use crate::storage::types::BucketName;

use super::directory::Directory;
use super::facts::{self, Connected, Proof};
use super::operation;
use super::permit::{Permit, Request, Resource};
use super::policy::Context;

/// Where the gate notes which operation a request is, for logs and metrics.
#[derive(Clone, Debug, Default)]
pub struct OperationSlot(Arc<OnceLock<String>>);

impl OperationSlot {
    /// The operation, once the gate has seen the request.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    /// Notes the operation; the first one stays.
    pub fn set(&self, name: &str) {
        let _ = self.0.set(name.to_owned());
    }
}

/// Whose signature was verified, and which it was, of a request that goes on without it.
#[derive(Clone)]
pub struct Verified {
    /// Who signed.
    pub credentials: Option<Credentials>,
    /// How.
    pub proof: Proof,
}

/// Operations that ask for every key themselves.
const KEY_BY_KEY: [&str; 2] = ["DeleteObjects", "PostObject"];
/// Operations whose document holds facts for conditions: they are judged when it has been read.
const BY_DOCUMENT: [&str; 5] =
    ["CreateBucket", "PutBucketTagging", "PutObjectTagging", "PutObjectRetention", "PutObjectLegalHold"];

/// Decides on every request.
#[derive(Clone)]
pub struct Gate {
    directory: Arc<Directory>,
}

impl Gate {
    /// A gate that asks a directory.
    #[must_use]
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }

    /// Refuses session tokens.
    ///
    /// # Errors
    /// `InvalidToken`.
    pub fn refuse_token(headers: &HeaderMap, uri: &Uri) -> S3Result<()> {
        if headers.contains_key("x-amz-security-token") || facts::names_parameter(uri, "x-amz-security-token") {
            return Err(s3_error!(InvalidToken, "The provided token is malformed or otherwise invalid."));
        }
        Ok(())
    }

    async fn permit(&self, cx: &mut S3AccessContext<'_>, operation: &str) -> S3Result<Permit> {
        let verified = cx.extensions_mut().get::<Verified>().cloned();
        let (credentials, proof) = match verified {
            Some(verified) => (verified.credentials, Some(verified.proof)),
            None => (cx.credentials().cloned(), None),
        };
        let caller = match credentials {
            None => None,
            Some(credentials) => {
                self.directory.used(&credentials.access_key);
                let known = self.directory.identity(&credentials.access_key).await;
                Some(known.map_err(|error| self.directory.trouble(error))?.ok_or_else(unknown_key)?)
            }
        };
        let connected = cx.extensions_mut().get::<Connected>().copied();
        let bucket = cx.s3_path().get_bucket_name();
        let rules = match bucket {
            Some(name) if operation != "CreateBucket" => {
                let found = self.directory.bucket(&BucketName::new(name)).await;
                let found = found.map_err(|error| self.directory.trouble(error))?;
                // Root may do anything: its operation says what is missing, after what is wrong with the request.
                if found.is_none() && caller.as_ref().is_none_or(|caller| !caller.is_root) {
                    return Err(self.directory.trouble(ErrorKind::NoSuchBucket.into()));
                }
                found
            }
            _ => None,
        };
        let request = Request { connected, proof, uri: cx.uri(), headers: cx.headers(), operation };
        Ok(Permit::new(Arc::clone(&self.directory), caller, rules, request))
    }
}

fn unknown_key() -> S3Error {
    s3_error!(InvalidAccessKeyId, "The AWS Access Key Id you provided does not exist in our records.")
}

#[async_trait::async_trait]
impl S3Access for Gate {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let operation = cx.s3_op().name().to_owned();
        if let Some(slot) = cx.extensions_mut().get::<OperationSlot>() {
            slot.set(&operation);
        }
        Self::refuse_token(cx.headers(), cx.uri())?;
        let mut permit = self.permit(cx, &operation).await?;
        let later = KEY_BY_KEY.contains(&operation.as_str())
            || BY_DOCUMENT.contains(&operation.as_str())
            || operation == "CopyObject" && operation::copies_tags(cx.headers());
        if later && permit.is_hopeless() {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
        if !later {
            let version = facts::version(cx.uri());
            let (bucket, key) = match cx.s3_path() {
                S3Path::Root => (None, None),
                S3Path::Bucket { bucket } => (Some(&**bucket), None),
                S3Path::Object { bucket, key } => (Some(&**bucket), Some(&**key)),
            };
            let resource = Resource { bucket, key, version: version.as_deref() };
            permit.admit(&operation, resource, cx.headers()).await?;
        }
        cx.extensions_mut().insert(permit);
        Ok(())
    }

    async fn create_bucket(&self, req: &mut S3Request<CreateBucketInput>) -> S3Result<()> {
        let configuration = req.input.create_bucket_configuration.as_ref();
        let location = configuration.and_then(|c| c.location_constraint.as_ref()).map(|l| l.as_str().to_owned());
        let tagged = configuration.and_then(|c| c.tags.as_ref()).is_some_and(|tags| !tags.is_empty());
        let resource = Resource { bucket: Some(&req.input.bucket), key: None, version: None };
        let also = tagged.then_some("s3:PutBucketTagging");
        admit_by_document(&mut req.extensions, &req.headers, ("CreateBucket", also), resource, |context| {
            if let Some(location) = &location {
                context.set("s3:LocationConstraint", location.as_str());
            }
            facts::note_bucket_tags(context, tags(configuration.and_then(|c| c.tags.as_ref())));
        })
        .await
    }

    async fn put_bucket_tagging(&self, req: &mut S3Request<PutBucketTaggingInput>) -> S3Result<()> {
        let resource = Resource { bucket: Some(&req.input.bucket), key: None, version: None };
        admit_by_document(&mut req.extensions, &req.headers, ("PutBucketTagging", None), resource, |context| {
            facts::note_bucket_tags(context, tags(Some(&req.input.tagging.tag_set)));
        })
        .await
    }

    async fn put_object_tagging(&self, req: &mut S3Request<PutObjectTaggingInput>) -> S3Result<()> {
        let input = &req.input;
        let resource = object(&input.bucket, &input.key, input.version_id.as_deref());
        admit_by_document(&mut req.extensions, &req.headers, ("PutObjectTagging", None), resource, |context| {
            facts::note_tags(context, tags(Some(&input.tagging.tag_set)));
        })
        .await
    }

    async fn put_object_retention(&self, req: &mut S3Request<PutObjectRetentionInput>) -> S3Result<()> {
        let input = &req.input;
        let resource = object(&input.bucket, &input.key, input.version_id.as_deref());
        admit_by_document(&mut req.extensions, &req.headers, ("PutObjectRetention", None), resource, |context| {
            let Some(retention) = &input.retention else { return };
            if let Some(mode) = &retention.mode {
                context.set("s3:object-lock-mode", mode.as_str());
            }
            if let Some(until) = &retention.retain_until_date {
                facts::note_retention(context, until.clone().into());
            }
        })
        .await
    }

    async fn put_object_legal_hold(&self, req: &mut S3Request<PutObjectLegalHoldInput>) -> S3Result<()> {
        let input = &req.input;
        let resource = object(&input.bucket, &input.key, input.version_id.as_deref());
        admit_by_document(&mut req.extensions, &req.headers, ("PutObjectLegalHold", None), resource, |context| {
            if let Some(status) = input.legal_hold.as_ref().and_then(|hold| hold.status.as_ref()) {
                context.set("s3:object-lock-legal-hold", status.as_str());
            }
        })
        .await
    }

    async fn get_object(&self, req: &mut S3Request<GetObjectInput>) -> S3Result<()> {
        let input = &req.input;
        let overrides = input.response_cache_control.is_some()
            || input.response_content_disposition.is_some()
            || input.response_content_encoding.is_some()
            || input.response_content_language.is_some()
            || input.response_content_type.is_some()
            || input.response_expires.is_some();
        let anonymous = req.extensions.get::<Permit>().is_none_or(|permit| permit.caller().is_none());
        if overrides && anonymous {
            return Err(s3_error!(
                InvalidRequest,
                "Request specific response headers cannot be used for anonymous GET requests."
            ));
        }
        Ok(())
    }
}

fn object<'a>(bucket: &'a str, key: &'a str, version: Option<&'a str>) -> Resource<'a> {
    Resource { bucket: Some(bucket), key: Some(key), version: version.filter(|version| !version.is_empty()) }
}

fn tags(set: Option<&TagSet>) -> impl Iterator<Item = (&str, &str)> {
    let tags = set.into_iter().flatten();
    tags.filter_map(|tag| Some((tag.key.as_deref()?, tag.value.as_deref().unwrap_or_default())))
}

/// Lets an operation pass, or refuses it, once its document has been read. `also`: an action that the document makes it.
async fn admit_by_document(
    extensions: &mut Extensions,
    headers: &HeaderMap,
    (operation, also): (&str, Option<&str>),
    resource: Resource<'_>,
    note: impl FnOnce(&mut Context) + Send,
) -> S3Result<()> {
    // The gate has left one in every request that it saw.
    let Some(permit) = extensions.get_mut::<Permit>() else {
        return Err(s3_error!(AccessDenied, "Access Denied"));
    };
    permit.note(note);
    permit.admit(operation, resource, headers).await?;
    match also {
        Some(action) => permit.require(action, resource).await,
        None => Ok(()),
    }
}

/// Looks up secrets for s3s.
pub struct Secrets(Arc<Directory>);

impl Secrets {
    /// Those of a directory.
    #[must_use]
    pub fn new(directory: Arc<Directory>) -> Self {
        Self(directory)
    }
}

#[async_trait::async_trait]
impl S3Auth for Secrets {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let identity = self.0.identity(access_key).await.map_err(|error| self.0.trouble(error))?;
        identity.map(|identity| identity.secret.clone()).ok_or_else(unknown_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn code(header: Option<&'static str>, uri: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        if let Some(name) = header {
            headers.insert(name, HeaderValue::from_static("token"));
        }
        Gate::refuse_token(&headers, &Uri::from_static(uri)).err().map(|e| e.code().as_str().to_owned())
    }

    #[test]
    fn session_tokens_are_refused() {
        assert_eq!(code(None, "/b/k?x=X-Amz-Security-Token"), None);
        assert_eq!(code(Some("x-amz-security-token"), "/b/k").as_deref(), Some("InvalidToken"));
        assert_eq!(code(None, "/b/k?X-Amz-Security-Token=t").as_deref(), Some("InvalidToken"));
        assert_eq!(code(None, "/b/k?X-Amz-Security%2DToken=t").as_deref(), Some("InvalidToken"));
    }
}
