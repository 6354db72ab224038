//! Signature version 2, where it is switched on: verified here, since the clients that still need it write their dates in
//! more ways than s3s reads, and sign `/bucket/` where they send `/bucket`.
//!
//! A request whose signature holds goes to the service that believes [`Verified`], as in [`super::second_pass`]. Forms stay
//! with s3s. Version 2 covers the sub-resources that it knows and nothing else of a query; whatever selects another
//! operation is refused, or a signed URL could be made to do something else than what it was signed for.
//! Source: AWS, "Signing and Authenticating REST Requests (Signature Version 2)".

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Uri, header};
use ring::hmac;
use s3s::auth::{Credentials, S3Auth as _};
use s3s::service::S3Service;
use s3s::{HttpRequest, S3Error, S3Result, s3_error};
use s3s_sigv2::{AuthorizationV2, Mode, PresignedUrlV2, create_string_to_sign};
use time::format_description::well_known::Rfc2822;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::auth::{Directory, Proof, Secrets, Verified};
use crate::protocol::error;

use super::second_pass;
use super::signature::MAX_SKEW;
use super::sub_resources;

/// Sub-resources that a version 2 signature covers.
const COVERED: &[&str] = &[
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "delete",
    "inventory",
    "lifecycle",
    "location",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "partNumber",
    "policy",
    "replication",
    "requestPayment",
    "tagging",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// Verifies, and passes on.
pub(super) struct SignatureV2 {
    secrets: Secrets,
    trusted: S3Service,
}

impl SignatureV2 {
    /// With the secrets of a directory, before a service that believes it.
    pub(super) fn new(directory: Arc<Directory>, trusted: S3Service) -> Self {
        Self { secrets: Secrets::new(directory), trusted }
    }

    /// Whether a request is signed so.
    pub(super) fn signs(uri: &Uri, headers: &HeaderMap) -> bool {
        let in_header = headers.get(header::AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"AWS "));
        in_header || sub_resources::keys(uri.query().unwrap_or_default()).any(|key| key == "Signature")
    }

    /// Passes a request on whose signature holds.
    pub(super) async fn call(&self, request: HttpRequest, bucket_in_host: Option<&str>) -> S3Result<s3s::HttpResponse> {
        let (mut parts, body) = request.into_parts();
        let credentials = self.verify(&parts, bucket_in_host).await?;
        let proof = Proof::of_v2(parts.headers.contains_key(header::AUTHORIZATION));
        parts.extensions.insert(Verified { credentials: Some(credentials), proof });
        let request = second_pass::without_signature(parts, body).ok_or_else(error::internal)?;
        self.trusted.call(request).await.map_err(|failure| {
            tracing::error!(error = %failure, "s3s fails on a request of signature version 2");
            error::internal()
        })
    }

    async fn verify(&self, parts: &Parts, bucket_in_host: Option<&str>) -> S3Result<Credentials> {
        let query = pairs(&parts.uri);
        // What is there twice is covered by no signature: it counts as absent there, and as present where it is acted upon.
        let twice = query.windows(2).any(|pair| pair[0].0 == pair[1].0);
        let headers_twice = [header::AUTHORIZATION, header::CONTENT_TYPE, header::DATE, CONTENT_MD5]
            .iter()
            .any(|name| parts.headers.get_all(name).iter().count() > 1);
        if twice || headers_twice {
            return Err(s3_error!(
                InvalidArgument,
                "A parameter or header of a signed request may be given once only."
            ));
        }
        let uncovered =
            |(key, _): &&(String, String)| sub_resources::is_sub_resource(key) && !COVERED.contains(&key.as_str());
        if query.iter().any(|pair| uncovered(&pair)) {
            return Err(s3_error!(
                InvalidRequest,
                "The authorization mechanism you have provided does not cover this request. Please use AWS4-HMAC-SHA256."
            ));
        }
        let authorization = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let (mode, access_key, signature) = match authorization {
            Some(text) => {
                let proof = AuthorizationV2::parse(text).map_err(|_| malformed())?;
                check_date(&parts.headers)?;
                (Mode::HeaderAuth, proof.access_key, proof.signature)
            }
            None => {
                let proof = PresignedUrlV2::parse(&query).map_err(|_| missing_parameters())?;
                if proof.expires_time.as_second() < OffsetDateTime::now_utc().unix_timestamp() {
                    return Err(s3_error!(AccessDenied, "Request has expired"));
                }
                (Mode::PresignedUrl, proof.access_key, proof.signature)
            }
        };
        let secret_key = self.secrets.get_secret_key(access_key).await?;
        let mismatch = || s3_error!(SignatureDoesNotMatch);
        let signature = BASE64_STANDARD.decode(signature).map_err(|_| mismatch())?;
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret_key.expose().as_bytes());
        let headers = headers(&parts.headers)?;
        let holds = |path: &str, mode: Mode| {
            let method = parts.method.as_str();
            let text = create_string_to_sign(mode, method, path, Some(&query), &headers, bucket_in_host);
            hmac::verify(&key, text.as_bytes(), &signature).is_ok()
        };
        let path = parts.uri.path();
        // Many clients sign the bucket's resource as S3 documents it, with a slash, and send it without.
        let is_bucket = bucket_in_host.is_none() && path.len() > 1 && !path[1..].contains('/');
        if holds(path, mode) || is_bucket && holds(&format!("{path}/"), mode) {
            return Ok(Credentials { access_key: access_key.to_owned(), secret_key });
        }
        Err(mismatch())
    }
}

/// Names and values in the order that s3s-sigv2 asks for.
fn pairs(uri: &Uri) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> =
        serde_urlencoded::from_str(uri.query().unwrap_or_default()).unwrap_or_default();
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    pairs
}

fn headers(headers: &HeaderMap) -> S3Result<Vec<(&str, &str)>> {
    let unreadable = headers.iter().any(|(name, value)| name.as_str().starts_with("x-amz-") && value.to_str().is_err());
    if unreadable {
        return Err(s3_error!(SignatureDoesNotMatch));
    }
    // A value that is no text can only be of a header that does not count.
    Ok(headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect())
}

/// The date of a request, in any of the forms that HTTP and mail know.
fn check_date(headers: &HeaderMap) -> S3Result<()> {
    let date = headers.get("x-amz-date").or_else(|| headers.get(header::DATE)).and_then(|value| value.to_str().ok());
    let date = date.and_then(parse_date);
    let date =
        date.ok_or_else(|| s3_error!(AccessDenied, "AWS authentication requires a valid Date or x-amz-date header"))?;
    if (OffsetDateTime::now_utc() - date).abs() > MAX_SKEW {
        return Err(s3_error!(
            RequestTimeTooSkewed,
            "The difference between the request time and the current time is too large."
        ));
    }
    Ok(())
}

fn parse_date(text: &str) -> Option<OffsetDateTime> {
    let text = text.trim();
    let universal = text.strip_suffix("UTC").map(|rest| format!("{rest}GMT"));
    if let Ok(date) = OffsetDateTime::parse(universal.as_deref().unwrap_or(text), &Rfc2822) {
        return Some(date);
    }
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    PrimitiveDateTime::parse(text, form).ok().map(PrimitiveDateTime::assume_utc)
}

fn malformed() -> S3Error {
    s3_error!(InvalidArgument, "AWS authorization header is invalid.  Expected AwsAccessKeyId:signature")
}

fn missing_parameters() -> S3Error {
    s3_error!(AccessDenied, "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_every_form_that_clients_write() {
        for text in [
            "Mon, 07 Dec 2026 11:41:35 +0000",
            "Mon, 07 Dec 2026 11:41:35 GMT",
            "Mon, 07 Dec 2026 11:41:35 UTC",
            "Mon, 07 Dec 2026 12:41:35 +0100",
            "20261207T114135Z",
        ] {
            assert_eq!(parse_date(text).map(OffsetDateTime::unix_timestamp), Some(1_796_643_695), "{text}");
        }
        assert_eq!((parse_date("today"), parse_date("")), (None, None));
    }
}
