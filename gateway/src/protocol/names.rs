//! Names on their way in and out: keys parsed once, texts that XML cannot hold made safe on the way back.
//!
//! S3 keys may contain control characters, which XML 1.0 cannot express. With `encoding-type=url` names are percent
//! encoded. Without it S3 writes them as character references (`&#x1;`), which s3s refuses to serialise; so such a
//! character travels through s3s as a [`Marks`] sequence that the edge turns into the reference. The sequence holds 64
//! random bits per process: no stored name can imitate it.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::EncodingType;
use s3s::{S3Error, S3Result, s3_error};
use uuid::Uuid;

use crate::storage::types::{BucketName, InvalidKey, ObjectKey};

/// Everything but RFC 3986's unreserved characters and `/` is encoded.
pub(super) const URL_NAME: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// A bucket name that s3s has validated while parsing the path.
pub(super) fn bucket(name: &str) -> BucketName {
    BucketName::new(name)
}

/// What AWS keeps for itself (AWS: "General purpose bucket naming rules").
const RESERVED_PREFIXES: &[&str] = &["xn--", "sthree-", "amzn-s3-demo-"];
const RESERVED_SUFFIXES: &[&str] = &["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

/// The name of a bucket to be created. Names that exist may break these rules, which are younger than some of them.
pub(super) fn new_bucket(name: &str) -> S3Result<BucketName> {
    let reserved = RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || RESERVED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
    // Labels of host names begin and end with a letter or a digit.
    if reserved || name.contains(".-") || name.contains("-.") {
        return Err(s3_error!(InvalidBucketName, "The specified bucket is not valid."));
    }
    Ok(bucket(name))
}

/// Parses a key from a path, a header or a body.
pub(super) fn key(text: &str) -> S3Result<ObjectKey> {
    ObjectKey::parse(text).map_err(invalid_key)
}

fn invalid_key(reason: InvalidKey) -> S3Error {
    match reason {
        InvalidKey::TooLong => s3_error!(KeyTooLongError, "Your key is too long"),
        InvalidKey::Empty => s3_error!(InvalidArgument, "Object key must not be empty"),
        InvalidKey::Nul => s3_error!(InvalidArgument, "Object key must not contain a NUL character"),
    }
}

/// A prefix, delimiter or marker: any text that a key could be compared with.
pub(super) fn comparable(text: Option<String>) -> S3Result<Option<String>> {
    match text {
        Some(text) if text.contains('\0') => {
            Err(s3_error!(InvalidArgument, "Argument must not contain a NUL character"))
        }
        other => Ok(other.filter(|t| !t.is_empty())),
    }
}

/// How names are written into a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameEncoding {
    /// As they are, what XML cannot hold as character references.
    Text,
    /// Percent encoded.
    Url,
}

impl NameEncoding {
    /// Parses `encoding-type`.
    pub(super) fn parse(value: Option<&EncodingType>) -> S3Result<Self> {
        match value.map(EncodingType::as_str) {
            None | Some("") => Ok(Self::Text),
            Some("url") => Ok(Self::Url),
            Some(_) => Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request")),
        }
    }

    /// The name as it goes into the document.
    pub(super) fn apply(self, name: &str) -> String {
        match self {
            Self::Text => xml_text(name).into_owned(),
            Self::Url => url(name),
        }
    }
}

/// Percent encodes a name, leaving `/`.
pub(super) fn url(name: &str) -> String {
    utf8_percent_encode(name, URL_NAME).to_string()
}

/// A name for a document without `encoding-type`.
pub(super) fn xml_text(name: &str) -> Cow<'_, str> {
    if !name.chars().any(is_illegal_in_xml) {
        return Cow::Borrowed(name);
    }
    let mark = MARK.as_str();
    let mut text = String::with_capacity(name.len() + 2 * mark.len());
    for c in name.chars() {
        if is_illegal_in_xml(c) {
            text.push_str(&format!("{mark}{:04x}", u32::from(c)));
        } else {
            text.push(c);
        }
    }
    Cow::Owned(text)
}

/// `Char` of XML 1.0, 2.2, negated; a carriage return too, which parsers would turn into a line feed.
pub(super) fn is_illegal_in_xml(c: char) -> bool {
    matches!(c, '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Digits that follow a mark.
const MARK_DIGITS: usize = 4;

static MARK: LazyLock<String> = LazyLock::new(|| format!("[{}]", Uuid::new_v4().simple()));

/// Turns marks in a serialised document into character references; `None` where there are none.
pub(crate) fn resolve_marks(document: &[u8]) -> Option<Vec<u8>> {
    let mark = MARK.as_bytes();
    let mut rest = document;
    let mut resolved = Vec::new();
    while let Some(at) = memmem::find(rest, mark) {
        let (before, marked) = rest.split_at(at);
        let digits = marked.get(mark.len()..mark.len() + MARK_DIGITS)?;
        resolved.extend_from_slice(before);
        resolved.extend_from_slice(b"&#x");
        resolved.extend_from_slice(digits);
        resolved.push(b';');
        rest = marked.get(mark.len() + MARK_DIGITS..)?;
    }
    if resolved.is_empty() {
        return None;
    }
    resolved.extend_from_slice(rest);
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn url_encoding_keeps_slashes_and_unreserved_characters() {
        assert_eq!(url("a b/é+~_-.%\u{1}"), "a%20b/%C3%A9%2B~_-.%25%01");
    }

    #[test]
    fn control_characters_become_references() {
        let marked = format!("<Key>{}</Key>", xml_text("a\u{1}b\rc"));
        let resolved = resolve_marks(marked.as_bytes()).expect("marks");
        assert_eq!(String::from_utf8_lossy(&resolved), "<Key>a&#x0001;b&#x000d;c</Key>");
        assert_eq!(resolve_marks(b"<Key>plain</Key>"), None);
        assert!(matches!(xml_text("tab\tand\nline"), Cow::Borrowed(_)));
    }

    #[test]
    fn keys_are_refused_with_their_own_codes() {
        assert_eq!(key(&"x".repeat(1025)).map_err(|e| e.code().as_str().to_owned()), Err("KeyTooLongError".to_owned()));
        assert!(key("a\0").is_err() && key("").is_err() && key("/").is_ok());
    }

    proptest! {
        #[test]
        fn nothing_here_panics(name in ".{0,60}", raw in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (url(&name), xml_text(&name), resolve_marks(&raw));
        }
    }
}
