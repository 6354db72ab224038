//! Requests that must not reach s3s, because its router would take them for something else.
//!
//! s3s routes by the query keys that it knows and ignores the rest, so that `DELETE /bucket?acl` would delete the bucket.
//! Here a key that names a sub-resource of S3 which this release does not have answers 501, a sub-resource with a method
//! that S3 does not have for it answers 405, and a key that S3 does not know is ignored, as S3 ignores it.

use std::borrow::Cow;

use http::{HeaderMap, Method, header};
use percent_encoding::percent_decode_str;
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

/// Sub-resources that S3 has and this release does not.
const UNSUPPORTED: &[&str] = &[
    "abac",
    "annotation",
    "annotationName",
    "append",
    "default-storage-class",
    "defaultStorageClass",
    "metadataAnnotationTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "restore",
    "select",
    "select-type",
    "session",
    "torrent",
];

/// Configurations of buckets that this release does not have, and with which methods there is an answer nevertheless: what
/// is not there can be read and removed, and some can be set to what holds anyway.
fn answered(key: &str) -> Option<&'static [Method]> {
    Some(match key {
        "analytics" | "encryption" | "intelligent-tiering" | "inventory" | "metrics" | "replication" | "website" => {
            &[Method::GET, Method::DELETE]
        }
        "accelerate" | "logging" | "notification" => &[Method::GET, Method::PUT],
        _ => return None,
    })
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Root,
    Bucket,
    Object,
}

impl Level {
    /// What a path names, below a bucket in the host or not.
    pub(super) fn of(path: &str, bucket_in_host: bool) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        let (bucket, key) = if bucket_in_host { ("", path) } else { path.split_once('/').unwrap_or((path, "")) };
        match (bucket_in_host || !bucket.is_empty(), key.is_empty()) {
            (_, false) => Self::Object,
            (true, true) => Self::Bucket,
            (false, true) => Self::Root,
        }
    }
}

/// Sub-resources that this release has: where, and with which methods.
fn supported(key: &str) -> Option<(Level, &'static [Method])> {
    match key {
        "delete" => Some((Level::Bucket, &[Method::POST])),
        "location" => Some((Level::Bucket, &[Method::GET])),
        "versioning" | "object-lock" | "requestPayment" => Some((Level::Bucket, &[Method::GET, Method::PUT])),
        "versions" | "policyStatus" => Some((Level::Bucket, &[Method::GET])),
        "legal-hold" | "retention" => Some((Level::Object, &[Method::GET, Method::PUT])),
        "cors" | "lifecycle" | "ownershipControls" | "policy" | "publicAccessBlock" => {
            Some((Level::Bucket, &[Method::GET, Method::PUT, Method::DELETE]))
        }
        "attributes" => Some((Level::Object, &[Method::GET])),
        "renameObject" => Some((Level::Object, &[Method::PUT])),
        "uploadId" => Some((Level::Object, &[Method::GET, Method::PUT, Method::POST, Method::DELETE])),
        _ => None,
    }
}

/// Sub-resources that are written to a version.
const OF_VERSIONS: &[&str] = &["acl", "legal-hold", "retention", "tagging"];

/// Whether a key of a query selects an operation, or what it is about.
pub(super) fn is_sub_resource(key: &str) -> bool {
    let listed = ["acl", "partNumber", "tagging", "uploads", "versionId"].contains(&key);
    listed || UNSUPPORTED.contains(&key) || answered(key).is_some() || supported(key).is_some()
}

/// Refuses what would be mistaken.
pub(super) fn check(method: &Method, level: Level, query: Option<&str>, headers: &HeaderMap) -> S3Result<()> {
    check_method(method)?;
    // A preflight asks about the request that would be sent, whatever that is.
    if *method == Method::OPTIONS {
        return Ok(());
    }
    let keys: Vec<Cow<'_, str>> = keys(query.unwrap_or_default()).collect();
    let has = |name: &str| keys.iter().any(|key| key == name);
    let is_unsupported = |key: &&Cow<'_, str>| {
        let unanswered = answered(key).is_some_and(|methods| level != Level::Bucket || !methods.contains(method));
        unanswered || UNSUPPORTED.contains(&&***key)
    };
    if let Some(key) = keys.iter().find(is_unsupported) {
        return Err(not_implemented(format!("?{key}")));
    }
    for key in &keys {
        let misplaced = match &**key {
            "tagging" => level == Level::Root || !matches!(*method, Method::GET | Method::PUT | Method::DELETE),
            "acl" => level == Level::Root || !matches!(*method, Method::GET | Method::PUT),
            // The one key with two places.
            "uploads" => !matches!((level, method), (Level::Bucket, &Method::GET) | (Level::Object, &Method::POST)),
            key => supported(key).is_some_and(|(at, methods)| at != level || !methods.contains(method)),
        };
        if misplaced {
            return Err(method_not_allowed());
        }
    }
    match (method, level) {
        (&Method::PUT | &Method::POST | &Method::DELETE | &Method::HEAD, Level::Root) => Err(method_not_allowed()),
        // Without it the file would have to be held in memory to know its length.
        (&Method::POST, Level::Bucket) if is_form(headers) && !headers.contains_key(header::CONTENT_LENGTH) => {
            Err(s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header."))
        }
        (&Method::POST, Level::Bucket) if is_form(headers) => Ok(()),
        (&Method::POST, Level::Bucket) if !has("delete") => Err(method_not_allowed()),
        (&Method::POST, Level::Object) if !has("uploads") && !has("uploadId") => Err(method_not_allowed()),
        // Whatever a key without a value is, in S3 it would select another operation than a deletion: one that came later
        // than this release. (A name with a value is as likely a client's own.)
        (&Method::DELETE, _) if has_unknown_flag(query.unwrap_or_default()) => {
            Err(not_implemented("a sub-resource".to_owned()))
        }
        // It was meant for something in the bucket.
        (&Method::DELETE, Level::Bucket) if ["versionId", "partNumber", "list-type"].iter().any(|name| has(name)) => {
            Err(method_not_allowed())
        }
        (&Method::PUT, Level::Object) if has("versionId") && !keys.iter().any(|key| OF_VERSIONS.contains(&&**key)) => {
            Err(s3_error!(InvalidArgument, "This operation does not accept a version-id."))
        }
        (&Method::PUT, Level::Object) if has("uploadId") != has("partNumber") => {
            Err(s3_error!(InvalidArgument, "uploadId and partNumber must be given together"))
        }
        _ => Ok(()),
    }
}

/// Whether a query has a key without a value that is none of S3's.
fn has_unknown_flag(query: &str) -> bool {
    let flags = query.split('&').filter(|pair| pair.split_once('=').is_none_or(|(_, value)| value.is_empty()));
    flags.flat_map(keys).any(|key| !is_sub_resource(&key) && !key.to_ascii_lowercase().starts_with("x-"))
}

fn check_method(method: &Method) -> S3Result<()> {
    match *method {
        Method::GET | Method::HEAD | Method::PUT | Method::POST | Method::DELETE | Method::OPTIONS => Ok(()),
        _ => Err(method_not_allowed()),
    }
}

/// The decoded keys of a query.
pub(super) fn keys(query: &str) -> impl Iterator<Item = Cow<'_, str>> + '_ {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| decoded(pair.split('=').next().unwrap_or_default()))
}

/// A key or a value of a query, decoded as s3s decodes it. Most need nothing.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned())
}

/// Whether a request is an upload by an HTML form.
pub(super) fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    content_type.trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
}

fn not_implemented(what: String) -> S3Error {
    S3Error::with_message(
        S3ErrorCode::NotImplemented,
        format!("The request implies functionality that is not implemented: {what}"),
    )
}

fn method_not_allowed() -> S3Error {
    s3_error!(MethodNotAllowed, "The specified method is not allowed against this resource.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn code(method: Method, path: &str, query: &str) -> String {
        let outcome = check(&method, Level::of(path, false), Some(query), &HeaderMap::new());
        outcome.map_or_else(|e| e.code().as_str().to_owned(), |()| "ok".to_owned())
    }

    #[test]
    fn levels_follow_the_addressing_style() {
        assert_eq!(Level::of("/", false), Level::Root);
        assert_eq!(Level::of("/bucket", false), Level::Bucket);
        assert_eq!(Level::of("/bucket/", false), Level::Bucket);
        assert_eq!(Level::of("/bucket//", false), Level::Object);
        assert_eq!(Level::of("/", true), Level::Bucket);
        assert_eq!(Level::of("/key", true), Level::Object);
    }

    #[test]
    fn sub_resources_are_never_mistaken_for_what_they_belong_to() {
        for key in UNSUPPORTED {
            for (method, path) in [(Method::DELETE, "/b"), (Method::PUT, "/b/k"), (Method::GET, "/b")] {
                assert_eq!(code(method, path, key), "NotImplemented", "{key}");
            }
        }
        assert_eq!(code(Method::PUT, "/b", "%77ebsite="), "NotImplemented");
        assert_eq!(code(Method::DELETE, "/b", "accelerate"), "NotImplemented");
        assert_eq!(code(Method::DELETE, "/b/k", "website"), "NotImplemented");
        assert_eq!(code(Method::DELETE, "/b/k", "uploads"), "MethodNotAllowed");
        assert_eq!(code(Method::DELETE, "/b/k", "somethingNew"), "NotImplemented");
        assert_eq!(code(Method::DELETE, "/b", "somethingNew="), "NotImplemented");
        assert_eq!(code(Method::PUT, "/b/k", "versionId=null"), "InvalidArgument");
        assert_eq!(code(Method::PUT, "/b/k", "versionId=null&tagging"), "ok");
        assert_eq!(code(Method::PUT, "/b", "versioning"), "ok");
        assert_eq!(code(Method::PUT, "/b", "tagging"), "ok");
        assert_eq!(code(Method::GET, "/b", "policy"), "ok");
        assert_eq!(code(Method::PUT, "/b", "policy"), "ok");
        assert_eq!(code(Method::GET, "/b/k", "policy"), "MethodNotAllowed");
        assert_eq!(code(Method::DELETE, "/b", "acl"), "MethodNotAllowed");
        assert_eq!(code(Method::DELETE, "/b", "versioning"), "MethodNotAllowed");
        assert_eq!(code(Method::PUT, "/b/k", "delete"), "MethodNotAllowed");
        assert_eq!(code(Method::PUT, "/b/k", "uploadId=x"), "InvalidArgument");
        assert_eq!(code(Method::PUT, "/b/k", "partNumber=1"), "InvalidArgument");
        assert_eq!(code(Method::POST, "/b/k", ""), "MethodNotAllowed");
        assert_eq!(code(Method::PATCH, "/b/k", ""), "MethodNotAllowed");
    }

    #[test]
    fn what_s3_does_not_know_is_ignored() {
        assert_eq!(code(Method::PUT, "/b/k", "x-id=PutObject&colour=red"), "ok");
        assert_eq!(code(Method::PUT, "/b/k", "foo"), "ok");
        assert_eq!(code(Method::DELETE, "/b/k", "foo=bar&x-id=DeleteObject&versionId="), "ok");
        assert_eq!(code(Method::GET, "/b", "list-type=2&prefix=acl&delimiter=%2F"), "ok");
        assert_eq!(code(Method::GET, "/b/k", "partNumber=1&response-expires=x"), "ok");
        assert_eq!(code(Method::PUT, "/b/k", "partNumber=1&uploadId=x"), "ok");
        assert_eq!(code(Method::GET, "/b", "uploads"), "ok");
        assert_eq!(code(Method::POST, "/b", "delete"), "ok");
    }

    proptest! {
        #[test]
        fn checking_never_panics(path in "/.{0,40}", query in ".{0,60}", in_host: bool) {
            let _ = check(&Method::PUT, Level::of(&path, in_host), Some(&query), &HeaderMap::new());
        }
    }
}
