//! Headers to stored attributes and back.
//!
//! Standard headers are read raw, because S3 stores them as sent; user metadata comes decoded from s3s (RFC 2047 both
//! ways). What could not be sent back as a header is refused when it is written, so that no stored object is unreadable.
//! `aws-chunked` describes the transfer, not the object, and is taken out of `Content-Encoding`.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use s3s::dto::Metadata;
use s3s::{S3Result, s3_error};

use crate::storage::types::Attributes;

use super::error::{custom, not_implemented};

/// Names and values of user metadata together (AWS: "Working with object metadata").
const MAX_USER_METADATA_BYTES: usize = 2048;
/// What S3 sends for an object that was stored without a type.
pub(super) const DEFAULT_CONTENT_TYPE: &str = "binary/octet-stream";
/// The class that is never stored or sent.
pub(super) const STANDARD: &str = "STANDARD";

/// Classes that are accepted, stored and returned; all bytes are stored alike.
const STORAGE_CLASSES: &[&str] =
    &[STANDARD, "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR"];
/// Classes whose objects have to be restored before they can be read; clients do not even try. There is no RestoreObject.
const ARCHIVES: &[&str] = &["GLACIER", "DEEP_ARCHIVE"];

const STORAGE_CLASS: HeaderName = HeaderName::from_static("x-amz-storage-class");
const WEBSITE_REDIRECT: HeaderName = HeaderName::from_static("x-amz-website-redirect-location");

/// The attributes that a write declares.
pub(super) fn attributes(headers: &HeaderMap, user: Option<Metadata>) -> S3Result<Attributes> {
    Ok(Attributes {
        content_type: text(headers, &header::CONTENT_TYPE)?,
        content_encoding: text(headers, &header::CONTENT_ENCODING)?.and_then(|v| without_aws_chunked(&v)),
        content_disposition: text(headers, &header::CONTENT_DISPOSITION)?,
        content_language: text(headers, &header::CONTENT_LANGUAGE)?,
        cache_control: text(headers, &header::CACHE_CONTROL)?,
        expires: text(headers, &header::EXPIRES)?,
        website_redirect_location: website_redirect(headers)?,
        storage_class: storage_class(headers)?,
        user_metadata: user_metadata(user)?,
    })
}

/// A header's text; absent when empty.
fn text(headers: &HeaderMap, name: &HeaderName) -> S3Result<Option<String>> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let invalid = || s3_error!(InvalidArgument, "Value for {name} header is not valid UTF-8.");
    let text = String::from_utf8(value.as_bytes().to_vec()).map_err(|_| invalid())?;
    Ok((!text.is_empty()).then_some(text))
}

fn without_aws_chunked(value: &str) -> Option<String> {
    let kept: Vec<&str> =
        value.split(',').map(str::trim).filter(|c| !c.is_empty() && !c.eq_ignore_ascii_case("aws-chunked")).collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

/// `x-amz-storage-class`, absent for STANDARD.
pub(super) fn storage_class(headers: &HeaderMap) -> S3Result<Option<String>> {
    match text(headers, &STORAGE_CLASS)? {
        None => Ok(None),
        Some(class) if class == STANDARD => Ok(None),
        Some(class) if STORAGE_CLASSES.contains(&class.as_str()) => Ok(Some(class)),
        Some(class) if ARCHIVES.contains(&class.as_str()) => Err(not_implemented("archive storage classes")),
        Some(_) => Err(s3_error!(InvalidStorageClass, "The storage class you specified is not valid")),
    }
}

/// `x-amz-website-redirect-location`: stored and returned; nothing redirects.
pub(super) fn website_redirect(headers: &HeaderMap) -> S3Result<Option<String>> {
    let location = text(headers, &WEBSITE_REDIRECT)?;
    let valid = |l: &String| ["/", "http://", "https://"].iter().any(|p| l.starts_with(p));
    match location {
        Some(location) if !valid(&location) => Err(custom(
            "InvalidRedirectLocation",
            StatusCode::BAD_REQUEST,
            "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.",
        )),
        location => Ok(location),
    }
}

fn user_metadata(user: Option<Metadata>) -> S3Result<BTreeMap<String, String>> {
    let user: BTreeMap<String, String> = user.unwrap_or_default().into_iter().collect();
    let total: usize = user.iter().map(|(name, value)| name.len() + value.len()).sum();
    if total > MAX_USER_METADATA_BYTES {
        return Err(s3_error!(MetadataTooLarge, "Your metadata headers exceed the maximum allowed metadata size"));
    }
    for (name, value) in &user {
        let returnable = HeaderName::try_from(format!("x-amz-meta-{name}")).is_ok() && !value.contains('\0');
        if !returnable {
            return Err(s3_error!(InvalidArgument, "Metadata that cannot be returned as a header: {name}"));
        }
    }
    Ok(user)
}

/// Whether a text can be sent as a header. Stored texts can, unless something else than this gateway wrote them.
pub(super) fn sendable(value: Option<String>) -> Option<String> {
    value.filter(|v| HeaderValue::from_str(v).is_ok())
}

/// User metadata as s3s encodes it.
pub(super) fn returned_metadata(user: BTreeMap<String, String>) -> Option<Metadata> {
    (!user.is_empty()).then(|| user.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn aws_chunked_is_not_stored() {
        for (sent, stored) in [
            ("aws-chunked", None),
            ("aws-chunked,gzip", Some("gzip")),
            ("gzip, AWS-Chunked", Some("gzip")),
            ("gzip, br", Some("gzip,br")),
        ] {
            assert_eq!(without_aws_chunked(sent).as_deref(), stored, "{sent}");
        }
    }

    #[test]
    fn metadata_beyond_2_kilobytes_is_refused() {
        let metadata = |bytes: usize| Some(Metadata::from([("n".to_owned(), "v".repeat(bytes))]));
        assert!(user_metadata(metadata(2047)).is_ok());
        assert_eq!(
            user_metadata(metadata(2048)).map_err(|e| e.code().as_str().to_owned()),
            Err("MetadataTooLarge".to_owned())
        );
    }

    #[test]
    fn standard_is_no_class_and_unknown_classes_are_refused() {
        assert_eq!(storage_class(&headers(&[("x-amz-storage-class", "STANDARD")])).ok(), Some(None));
        let class = |name: &'static str| {
            let class = storage_class(&headers(&[("x-amz-storage-class", name)]));
            class.map_err(|error| error.code().as_str().to_owned())
        };
        assert_eq!(class("GLACIER_IR"), Ok(Some("GLACIER_IR".to_owned())));
        assert_eq!(class("GLACIER"), Err("NotImplemented".to_owned()));
        assert_eq!((class("FLOPPY"), class("SNOW")), (class("SNOW"), Err("InvalidStorageClass".to_owned())));
    }

    #[test]
    fn redirects_need_a_known_prefix() {
        assert!(website_redirect(&headers(&[("x-amz-website-redirect-location", "/other")])).is_ok());
        assert!(website_redirect(&headers(&[("x-amz-website-redirect-location", "ftp://x")])).is_err());
    }

    proptest! {
        #[test]
        fn content_encodings_never_panic(value in ".{0,60}") {
            let kept = without_aws_chunked(&value).unwrap_or_default();
            prop_assert!(!kept.to_ascii_lowercase().split(',').any(|c| c == "aws-chunked"));
        }
    }
}
