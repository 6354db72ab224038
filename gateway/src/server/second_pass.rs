//! A second way through s3s: for reads whose `Range` or `If-*` headers s3s cannot parse, and for presigned URLs that have
//! headers as parameters.
//!
//! SDKs put `x-amz-*` headers into the query of a URL that they sign; S3 takes them for headers, s3s does not know them there.
//! S3 ignores a range it does not understand; s3s refuses the request. Such a header cannot be taken away before s3s sees
//! it, because most clients sign it. So those requests take s3s's custom route: s3s verifies the signature with every
//! header in place and hands the request over; here the headers are set aside and whose signature it was is noted, both
//! in the request's extensions, and the request goes through a second s3s service that has the same operations and the
//! same gate, and believes that note. That service is reachable from here only.

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header, uri::PathAndQuery};
use hyper::http::Extensions;
use s3s::dto::{ETagCondition, Range, Timestamp, TimestampFormat};
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, HttpRequest, S3Request, S3Response, S3Result, s3_error};

use crate::auth::{Gate, Proof, Verified};
use crate::protocol::{SetAside, error};

use super::sub_resources::{self, decoded};

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
    fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        is_read(method) && CONDITIONS.iter().any(|name| is_odd(headers, name)) || !hoisted(uri).is_empty()
    }

    async fn check_access(&self, req: &mut S3Request<Body>) -> S3Result<()> {
        Gate::refuse_token(&req.headers, &req.uri)?;
        let proof = Proof::of(&req.uri, &req.headers);
        req.extensions.insert(Verified { credentials: req.credentials.clone(), proof });
        Ok(())
    }

    async fn call(&self, req: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let mut parts = HttpRequest::new(Body::empty()).into_parts().0;
        for (name, value) in hoisted(&req.uri) {
            let invalid = || s3_error!(InvalidArgument, "Value for the query parameter {name} cannot be a header.");
            let header = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
            let value = HeaderValue::try_from(value).map_err(|_| invalid())?;
            parts.headers.insert(header, value);
        }
        // What was sent as a header is what was meant.
        parts.headers.extend(req.headers);
        (parts.method, parts.uri, parts.extensions) = (req.method, req.uri, req.extensions);
        let request = without_signature(parts, req.input).ok_or_else(error::internal)?;
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

/// The request as one that was never signed; a read's conditions go into its extensions.
pub(super) fn without_signature(request: Parts, body: Body) -> Option<HttpRequest> {
    let Parts { method, uri, mut headers, extensions, .. } = request;
    headers.remove(header::AUTHORIZATION);
    let mut set_aside = HeaderMap::new();
    if is_read(&method) {
        for name in CONDITIONS {
            for value in headers.get_all(&name) {
                set_aside.append(name.clone(), value.clone());
            }
            headers.remove(name);
        }
    }
    let mut request = HttpRequest::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = unsigned_uri(&uri)?;
    *request.headers_mut() = headers;
    *request.extensions_mut() = extensions;
    request.extensions_mut().insert(SetAside(set_aside));
    Some(request)
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Parameters of a presigned URL that are its signature, and those that S3 ignores there: SDKs put checksums of the empty
/// body into URLs that they sign before there is one.
fn stays_in_query(name: &str) -> bool {
    matches!(
        name,
        "x-amz-algorithm"
            | "x-amz-content-sha256"
            | "x-amz-credential"
            | "x-amz-date"
            | "x-amz-decoded-content-length"
            | "x-amz-expires"
            | "x-amz-request-payer"
            | "x-amz-sdk-checksum-algorithm"
            | "x-amz-security-token"
            | "x-amz-signature"
            | "x-amz-signedheaders"
            | "x-amz-trailer"
            | "x-amz-user-agent"
    ) || name.starts_with("x-amz-checksum-")
}

/// Headers that a presigned URL has as parameters: signed with it, they count as if they had been sent.
fn hoisted(uri: &Uri) -> Vec<(String, String)> {
    let query = uri.query().unwrap_or_default();
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let found = pairs.filter_map(|(name, value)| {
        let name = decoded(name);
        let may_be = name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("x-amz-"));
        let name = may_be.then(|| name.to_ascii_lowercase()).filter(|name| !stays_in_query(name))?;
        Some((name, decoded(value).into_owned()))
    });
    let found: Vec<_> = found.collect();
    let is_presigned = || sub_resources::keys(query).any(|key| key == "X-Amz-Signature");
    if !found.is_empty() && is_presigned() { found } else { Vec::new() }
}

fn unsigned_uri(uri: &Uri) -> Option<Uri> {
    let is_proof = |pair: &&str| {
        sub_resources::keys(pair).any(|key| {
            let name = key.to_ascii_lowercase();
            name.starts_with("x-amz-") && name != "x-amz-request-payer"
                || ["AWSAccessKeyId", "Signature", "Expires"].contains(&&*key)
        })
    };
    let kept: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(|pair| !is_proof(pair)).collect();
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
