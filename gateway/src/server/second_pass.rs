//! A second way through s3s for reads whose `Range` or `If-*` headers s3s cannot parse.
//!
//! S3 ignores a range it does not understand; s3s refuses the request. Such a header cannot be taken away before s3s sees
//! it, because most clients sign it. So those requests take s3s's custom route: s3s verifies the signature with every
//! header in place and hands the request over; here the headers are set aside and whose signature it was is noted, both
//! in the request's extensions, and the request goes through a second s3s service that has the same operations and the
//! same gate, and believes that note. That service is reachable from here only.

use http::{HeaderMap, HeaderName, Method, Uri, header, uri::PathAndQuery};
use hyper::http::Extensions;
use s3s::dto::{ETagCondition, Range, Timestamp, TimestampFormat};
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, HttpRequest, S3Request, S3Response, S3Result};

use crate::auth::{Gate, Verified};
use crate::protocol::{SetAside, error};

/// The headers that a read may carry and s3s may refuse.
const CONDITIONS: [HeaderName; 5] =
    [header::RANGE, header::IF_MATCH, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE, header::IF_UNMODIFIED_SINCE];

/// The custom route.
pub(super) struct SecondPass {
    /// The same operations behind the same gate.
    trusted: S3Service,
}

impl SecondPass {
    pub(super) fn new(trusted: S3Service) -> Self {
        Self { trusted }
    }
}

#[async_trait::async_trait]
impl S3Route for SecondPass {
    fn is_match(&self, method: &Method, _: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        matches!(*method, Method::GET | Method::HEAD) && CONDITIONS.iter().any(|name| is_odd(headers, name))
    }

    async fn check_access(&self, req: &mut S3Request<Body>) -> S3Result<()> {
        Gate::refuse_token(&req.headers, &req.uri)?;
        req.extensions.insert(Verified(req.credentials.clone()));
        Ok(())
    }

    async fn call(&self, req: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let request = without_signature(req).ok_or_else(error::internal)?;
        let response = self.trusted.call(request).await.map_err(|error| {
            tracing::error!(%error, "s3s fails on a second pass");
            error::internal()
        })?;
        let (parts, body) = response.into_parts();
        let mut answer = S3Response::with_status(body, parts.status);
        answer.headers = parts.headers;
        answer.extensions = parts.extensions;
        Ok(answer)
    }
}

/// Whether s3s would refuse the header: repeated, or not of the form it parses.
fn is_odd(headers: &HeaderMap, name: &HeaderName) -> bool {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return false };
    if values.next().is_some() {
        return true;
    }
    let bytes = value.as_bytes();
    if bytes.is_empty() {
        return false;
    }
    let text = value.to_str().ok();
    match *name {
        header::RANGE => text.is_none_or(|t| Range::parse(t).is_err()),
        header::IF_MATCH | header::IF_NONE_MATCH => ETagCondition::parse_http_header(bytes).is_err(),
        _ => text.is_none_or(|t| Timestamp::parse(TimestampFormat::HttpDate, t).is_err()),
    }
}

/// The request as one that was never signed, with the conditions in its extensions.
fn without_signature(req: S3Request<Body>) -> Option<HttpRequest> {
    let mut headers = req.headers;
    headers.remove(header::AUTHORIZATION);
    let mut set_aside = HeaderMap::new();
    for name in CONDITIONS {
        for value in headers.get_all(&name) {
            set_aside.append(name.clone(), value.clone());
        }
        headers.remove(name);
    }
    let mut request = HttpRequest::new(Body::empty());
    *request.method_mut() = req.method;
    *request.uri_mut() = unsigned_uri(&req.uri)?;
    *request.headers_mut() = headers;
    *request.extensions_mut() = req.extensions;
    request.extensions_mut().insert(SetAside(set_aside));
    Some(request)
}

fn unsigned_uri(uri: &Uri) -> Option<Uri> {
    let kept: Vec<&str> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-")))
        .filter(|pair| {
            !["AWSAccessKeyId", "Signature", "Expires"].contains(&pair.split('=').next().unwrap_or_default())
        })
        .collect();
    let path = PathAndQuery::try_from(format!("{}?{}", uri.path(), kept.join("&"))).ok()?;
    let mut parts = http::uri::Parts::default();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn odd(name: HeaderName, values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_str(value).expect("header"));
        }
        is_odd(&headers, &name)
    }

    #[test]
    fn only_what_s3s_refuses_is_odd() {
        assert!(!odd(header::RANGE, &["bytes=0-1"]) && !odd(header::RANGE, &[]));
        assert!(
            odd(header::RANGE, &["bytes=0-1,2-3"]) && odd(header::RANGE, &["bytes=5-2"]) && odd(header::RANGE, &["x"])
        );
        assert!(!odd(header::IF_MATCH, &["\"a\", \"b\""]) && odd(header::IF_MATCH, &["a, b"]));
        assert!(odd(header::IF_NONE_MATCH, &["\"a\"", "\"b\""]));
        assert!(odd(header::IF_MODIFIED_SINCE, &["yesterday"]));
        assert!(!odd(header::IF_MODIFIED_SINCE, &["Fri, 01 May 2026 12:00:00 GMT"]));
    }

    #[test]
    fn a_presigned_uri_loses_its_signature() {
        let uri = Uri::from_static("http://h/b/k%20x?partNumber=1&X-Amz-Signature=abc&X-Amz-Date=d&x=1");
        assert_eq!(unsigned_uri(&uri).map(|u| u.to_string()).as_deref(), Some("/b/k%20x?partNumber=1&x=1"));
        let uri = Uri::from_static("/b/k?AWSAccessKeyId=A&Expires=1&Signature=s&partNumber=1");
        assert_eq!(unsigned_uri(&uri).map(|u| u.to_string()).as_deref(), Some("/b/k?partNumber=1"));
    }
}
