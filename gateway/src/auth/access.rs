//! The one gate: every request passes here after its signature was verified and before its operation runs.
//!
//! Anonymous requests are refused. So are session tokens: root has none, and a token that is not checked must not look
//! as if it were. That unsigned `x-amz-*` headers cannot change what a signed request does is s3s's promise since 0.16.

use std::sync::{Arc, OnceLock};

use http::{HeaderMap, Uri};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::Credentials;
use s3s::dto::GetObjectInput;
use s3s::{S3Request, S3Result, s3_error};

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

/// Decides on every request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gate;

impl Gate {
    /// Whether a request with these credentials may pass at all.
    ///
    /// # Errors
    /// `AccessDenied` without credentials, `InvalidToken` with a session token.
    pub fn admit(credentials: Option<&Credentials>, headers: &HeaderMap, uri: &Uri) -> S3Result<()> {
        if credentials.is_none() {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
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
}

#[async_trait::async_trait]
impl S3Access for Gate {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let operation = cx.s3_op().name().to_owned();
        if let Some(slot) = cx.extensions_mut().get::<OperationSlot>() {
            slot.set(&operation);
        }
        Self::admit(cx.credentials(), cx.headers(), cx.uri())
    }

    async fn get_object(&self, req: &mut S3Request<GetObjectInput>) -> S3Result<()> {
        let input = &req.input;
        let overrides = input.response_cache_control.is_some()
            || input.response_content_disposition.is_some()
            || input.response_content_encoding.is_some()
            || input.response_content_language.is_some()
            || input.response_content_type.is_some()
            || input.response_expires.is_some();
        if overrides && req.credentials.is_none() {
            return Err(s3_error!(
                InvalidRequest,
                "Request specific response headers cannot be used for anonymous GET requests."
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use s3s::auth::SecretKey;

    fn code(signed: bool, header: Option<&'static str>, uri: &'static str) -> Option<String> {
        let credentials = Credentials { access_key: "a".to_owned(), secret_key: SecretKey::from("s") };
        let mut headers = HeaderMap::new();
        if let Some(name) = header {
            headers.insert(name, HeaderValue::from_static("token"));
        }
        let outcome = Gate::admit(signed.then_some(&credentials), &headers, &Uri::from_static(uri));
        outcome.err().map(|e| e.code().as_str().to_owned())
    }

    #[test]
    fn anonymous_requests_and_session_tokens_are_refused() {
        assert_eq!(code(true, None, "/b/k?x=X-Amz-Security-Token"), None);
        assert_eq!(code(false, None, "/b/k").as_deref(), Some("AccessDenied"));
        assert_eq!(code(true, Some("x-amz-security-token"), "/b/k").as_deref(), Some("InvalidToken"));
        assert_eq!(code(true, None, "/b/k?X-Amz-Security-Token=t").as_deref(), Some("InvalidToken"));
    }
}
