//! What every operation refuses before it does anything: headers that S3 knows and this release does not do.
//!
//! A header that asks for encryption or grants is never ignored silently: the client would believe in a
//! protection that is not there. It gets 501 instead. `x-amz-request-payer` is ignored, as the requester always pays
//! nothing here.

use http::{HeaderMap, StatusCode};
use s3s::{S3Request, S3Result, s3_error};

use crate::auth::BucketRules;

use super::error::{custom, not_implemented};
use super::parties;

/// Headers whose presence implies what this release does not do.
const UNSUPPORTED: &[&str] = &[
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
    "x-amz-server-side-encryption-context",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
    "x-amz-copy-source-server-side-encryption-customer-algorithm",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-copy-source-server-side-encryption-customer-key-md5",
    "x-amz-write-offset-bytes",
    "x-amz-mfa",
    "x-amz-if-match-initiated-time",
    "x-amz-bucket-namespace",
];

/// Headers that are accepted with some values only.
const SUPPORTED_VALUES: &[(&str, &[&str])] = &[
    ("x-amz-annotation-directive", &["COPY"]),
    ("x-amz-bypass-governance-retention", &["true", "false"]),
    ("x-amz-bucket-object-lock-enabled", &["true", "false"]),
];

/// Refuses what this release cannot honour.
pub(super) fn check<T>(req: &S3Request<T>) -> S3Result<()> {
    check_headers(&req.headers)?;
    let owner = parties::rules(&req.extensions);
    check_owner(&req.headers, "x-amz-expected-bucket-owner", owner)
}

/// Grants to others than the owner. `private` is what holds anyway, and what many clients send without being told to.
const GRANTS: &[&str] = &[
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
];

/// Whether a request asks for an access control list, which no bucket allows (BucketOwnerEnforced).
pub(super) fn asks_for_acl(headers: &HeaderMap) -> bool {
    let harmless = |v: &http::HeaderValue| [&b"private"[..], b"bucket-owner-full-control"].contains(&v.as_bytes());
    GRANTS.iter().any(|name| headers.contains_key(*name)) || headers.get("x-amz-acl").is_some_and(|v| !harmless(v))
}

fn check_headers(headers: &HeaderMap) -> S3Result<()> {
    if let Some(name) = UNSUPPORTED.iter().find(|name| headers.contains_key(**name)) {
        return Err(not_implemented(name));
    }
    for (name, values) in SUPPORTED_VALUES {
        let Some(value) = headers.get(*name) else { continue };
        let supported = values.iter().any(|v| value.as_bytes().eq_ignore_ascii_case(v.as_bytes()));
        if !supported {
            return Err(not_implemented(name));
        }
    }
    Ok(())
}

/// Holds the owner that a request expects against a bucket's: its account number or its canonical id.
pub(super) fn check_owner(headers: &HeaderMap, name: &str, rules: Option<&BucketRules>) -> S3Result<()> {
    let (Some(expected), Some(rules)) = (headers.get(name), rules) else { return Ok(()) };
    if expected.to_str().is_ok_and(|expected| rules.is_owned_by(expected)) {
        return Ok(());
    }
    let id = expected.as_bytes();
    if ![12, 64].contains(&id.len()) || !id.iter().all(u8::is_ascii_hexdigit) {
        return Err(custom(
            "InvalidBucketOwnerAWSAccountID",
            StatusCode::BAD_REQUEST,
            "The value of the expected bucket owner parameter must be an AWS account ID",
        ));
    }
    Err(s3_error!(AccessDenied, "Access Denied"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn code(name: &'static str, value: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        let outcome = check_headers(&headers);
        outcome.err().map(|e| e.code().as_str().to_owned())
    }

    #[test]
    fn protections_that_are_not_there_are_refused() {
        assert_eq!(code("x-amz-server-side-encryption", "AES256").as_deref(), Some("NotImplemented"));
        assert_eq!(code("x-amz-acl", "private"), None);
        assert_eq!(code("x-amz-request-payer", "requester"), None);
    }

    #[test]
    fn only_lists_that_grant_nothing_to_others_are_let_through() {
        let asks = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            asks_for_acl(&headers)
        };
        assert!(!asks("x-amz-acl", "private") && !asks("x-amz-acl", "bucket-owner-full-control"));
        assert!(asks("x-amz-acl", "public-read") && asks("x-amz-acl", "nonsense") && asks("x-amz-grant-read", "id=1"));
    }
}
