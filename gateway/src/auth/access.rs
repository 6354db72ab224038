//! The one gate: every request passes here after its signature was verified and before its operation runs.
//!
//! Session tokens are refused: nobody here has any, and a token that is not checked must not look as if it were. That
//! unsigned `x-amz-*` headers cannot change what a signed request does is s3s's promise since 0.16.
//! Two operations name their keys elsewhere than in their path (DeleteObjects in its document, PostObject in its form):
//! they ask the [`Permit`] themselves, key by key.

use std::sync::{Arc, OnceLock};

use http::{HeaderMap, Uri};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{Credentials, S3Auth, SecretKey};
use s3s::dto::GetObjectInput;
use s3s::path::S3Path;
use s3s::{S3Error, S3Request, S3Result, s3_error};

use crate::storage::ErrorKind;
use crate::storage::types::BucketName;

use super::directory::Directory;
use super::facts::{self, Connected};
use super::permit::{Permit, Resource};

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

/// Whose signature was verified, of a request that goes on without it.
#[derive(Clone)]
pub struct Verified(pub Option<Credentials>);

/// Operations that ask for every key themselves.
const KEY_BY_KEY: [&str; 2] = ["DeleteObjects", "PostObject"];

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
        let in_query = |query: &str| {
            query.split('&').any(|pair| {
                let name = pair.split('=').next().unwrap_or_default();
                name.eq_ignore_ascii_case("x-amz-security-token")
            })
        };
        if headers.contains_key("x-amz-security-token") || uri.query().is_some_and(in_query) {
            return Err(s3_error!(InvalidToken, "The provided token is malformed or otherwise invalid."));
        }
        Ok(())
    }

    async fn permit(&self, cx: &mut S3AccessContext<'_>, operation: &str) -> S3Result<Permit> {
        let verified = cx.extensions_mut().get::<Verified>().cloned();
        let credentials = verified.map_or_else(|| cx.credentials().cloned(), |verified| verified.0);
        let caller = match credentials {
            None => None,
            Some(credentials) => {
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
        Ok(Permit::new(Arc::clone(&self.directory), caller, rules, (connected, cx.uri(), cx.headers())))
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
        if KEY_BY_KEY.contains(&operation.as_str()) && permit.is_hopeless() {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
        if !KEY_BY_KEY.contains(&operation.as_str()) {
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
    }
}
