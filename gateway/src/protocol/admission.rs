//! What every operation refuses before it does anything: headers that S3 knows and this release does not do.
//!
//! A header that asks for encryption, tags, grants or a lock is never ignored silently: the client would believe in a
//! protection that is not there. It gets 501 instead. `x-amz-request-payer` is ignored, as the requester always pays
//! nothing here. Buckets have no versions, so `versionId` may be `null` only; any other names nothing.

use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use s3s::{S3Request, S3Result, s3_error};

use crate::auth::Owner;

use super::error::{no_such_version, not_implemented};

/// Headers whose presence implies what this release does not do.
const UNSUPPORTED: &[&str] = &[
    "x-amz-tagging",
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
    "x-amz-grant-full-control",
    "x-amz-grant-read",
    "x-amz-grant-read-acp",
    "x-amz-grant-write",
    "x-amz-grant-write-acp",
    "x-amz-object-lock-legal-hold",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-write-offset-bytes",
    "x-amz-mfa",
    "x-amz-if-match-initiated-time",
    "x-amz-bucket-namespace",
];

/// Headers that are accepted with some values only.
const SUPPORTED_VALUES: &[(&str, &[&str])] = &[
    ("x-amz-acl", &["private", "bucket-owner-full-control"]),
    ("x-amz-tagging-directive", &["COPY", "REPLACE"]),
    ("x-amz-annotation-directive", &["COPY"]),
    ("x-amz-bypass-governance-retention", &["false"]),
    ("x-amz-bucket-object-lock-enabled", &["false"]),
    ("x-amz-object-ownership", &["BucketOwnerEnforced"]),
];

/// Refuses what this release cannot honour.
pub(super) fn check<T>(req: &S3Request<T>, owner: &Owner) -> S3Result<()> {
    check_headers(&req.headers)?;
    check_owner(&req.headers, owner)?;
    check_version(&req.uri)
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

/// `x-amz-expected-bucket-owner` and its form for the source of a copy.
fn check_owner(headers: &HeaderMap, owner: &Owner) -> S3Result<()> {
    for name in ["x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"] {
        let other = headers.get(name).is_some_and(|v| v.as_bytes() != owner.id.as_bytes());
        if other {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
    }
    Ok(())
}

fn check_version(uri: &Uri) -> S3Result<()> {
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    for (name, value) in pairs {
        if percent_decode_str(name).eq(b"versionId".iter().copied()) {
            version(&percent_decode_str(value).decode_utf8_lossy())?;
        }
    }
    Ok(())
}

/// Accepts the version that an object in a bucket without versioning has.
pub(super) fn version(id: &str) -> S3Result<()> {
    if matches!(id, "" | "null") { Ok(()) } else { Err(no_such_version()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn code(name: &'static str, value: &'static str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        let outcome = check_headers(&headers).and_then(|()| check_owner(&headers, &Owner::root()));
        outcome.err().map(|e| e.code().as_str().to_owned())
    }

    #[test]
    fn protections_that_are_not_there_are_refused() {
        assert_eq!(code("x-amz-server-side-encryption", "AES256").as_deref(), Some("NotImplemented"));
        assert_eq!(code("x-amz-acl", "public-read").as_deref(), Some("NotImplemented"));
        assert_eq!(code("x-amz-acl", "private"), None);
        assert_eq!(code("x-amz-request-payer", "requester"), None);
        assert_eq!(code("x-amz-expected-bucket-owner", "111122223333").as_deref(), Some("AccessDenied"));
    }

    #[test]
    fn only_the_null_version_exists() {
        assert!(check_version(&Uri::from_static("/b/k?versionId=null&x=1")).is_ok());
        assert!(check_version(&Uri::from_static("/b/k?x=versionId")).is_ok());
        assert!(check_version(&Uri::from_static("/b/k?version%49d=abc")).is_err());
    }
}
