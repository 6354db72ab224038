//! `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`, and their `x-amz-copy-source-` forms.
//!
//! Reads are decided here, from what the index says of the object, in the order of RFC 9110, 13.2.2: an entity-tag
//! condition that is present makes the date condition of its pair void. AWS documents the same two pairs for copies.
//! Writes are only parsed here: the publishing statement decides them, so that racing writers cannot both win.
//! Headers are read raw, because a list of tags is one header value; a date that is not an HTTP date is no condition.

use http::{HeaderMap, HeaderName, StatusCode, header};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Error, S3ErrorCode, S3Result};
use time::OffsetDateTime;

use crate::storage::VersionConditions;
use crate::storage::types::{EtagSet, ObjectInfo, WriteConditions};

use super::error::{empty_headers_for_error, not_implemented, precondition_failed};
use super::moment;

/// Which headers carry the four conditions.
struct Names {
    if_match: HeaderName,
    if_none_match: HeaderName,
    if_modified_since: HeaderName,
    if_unmodified_since: HeaderName,
}

/// The conditions of a read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ReadConditions {
    if_match: Option<EtagSet>,
    if_none_match: Option<EtagSet>,
    if_modified_since: Option<OffsetDateTime>,
    if_unmodified_since: Option<OffsetDateTime>,
}

/// What the conditions of a read say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Proceed,
    NotModified,
    Failed,
}

impl ReadConditions {
    /// The conditions of a GetObject or HeadObject.
    pub(super) fn of_read(headers: &HeaderMap) -> Self {
        Self::from_headers(
            headers,
            &Names {
                if_match: header::IF_MATCH,
                if_none_match: header::IF_NONE_MATCH,
                if_modified_since: header::IF_MODIFIED_SINCE,
                if_unmodified_since: header::IF_UNMODIFIED_SINCE,
            },
        )
    }

    /// The conditions on the source of a copy.
    pub(super) fn of_copy_source(headers: &HeaderMap) -> Self {
        Self::from_headers(
            headers,
            &Names {
                if_match: HeaderName::from_static("x-amz-copy-source-if-match"),
                if_none_match: HeaderName::from_static("x-amz-copy-source-if-none-match"),
                if_modified_since: HeaderName::from_static("x-amz-copy-source-if-modified-since"),
                if_unmodified_since: HeaderName::from_static("x-amz-copy-source-if-unmodified-since"),
            },
        )
    }

    /// The conditions on the source of a rename.
    pub(super) fn of_rename_source(headers: &HeaderMap) -> Self {
        Self::from_headers(
            headers,
            &Names {
                if_match: HeaderName::from_static("x-amz-rename-source-if-match"),
                if_none_match: HeaderName::from_static("x-amz-rename-source-if-none-match"),
                if_modified_since: HeaderName::from_static("x-amz-rename-source-if-modified-since"),
                if_unmodified_since: HeaderName::from_static("x-amz-rename-source-if-unmodified-since"),
            },
        )
    }

    /// The same, for the statement of a rename to decide.
    pub(super) fn left_to_the_statement(self) -> VersionConditions {
        VersionConditions {
            if_match: self.if_match,
            if_none_match: self.if_none_match,
            if_modified_since: self.if_modified_since,
            if_unmodified_since: self.if_unmodified_since,
        }
    }

    fn from_headers(headers: &HeaderMap, names: &Names) -> Self {
        Self {
            if_match: etag_set(headers, &names.if_match, Comparison::Strong),
            if_none_match: etag_set(headers, &names.if_none_match, Comparison::Weak),
            if_modified_since: http_date(headers, &names.if_modified_since),
            if_unmodified_since: http_date(headers, &names.if_unmodified_since),
        }
    }

    /// Fails with 412 or 304 unless the object may be sent.
    pub(super) fn check_read(&self, object: &ObjectInfo) -> S3Result<()> {
        match self.verdict(&object.etag, object.last_modified) {
            Verdict::Proceed => Ok(()),
            Verdict::Failed => Err(precondition_failed()),
            Verdict::NotModified => Err(not_modified(object)),
        }
    }

    /// Fails with 412 unless the source may be copied.
    pub(super) fn check_copy_source(&self, source: &ObjectInfo) -> S3Result<()> {
        match self.verdict(&source.etag, source.last_modified) {
            Verdict::Proceed => Ok(()),
            Verdict::Failed | Verdict::NotModified => Err(precondition_failed()),
        }
    }

    fn verdict(&self, etag: &str, last_modified: OffsetDateTime) -> Verdict {
        // HTTP dates have whole seconds; the object's time is compared as the client saw it.
        let modified = last_modified.unix_timestamp();
        let holds = match (&self.if_match, self.if_unmodified_since) {
            (Some(tags), _) => tags.contains(etag),
            (None, Some(since)) => modified <= since.unix_timestamp(),
            (None, None) => true,
        };
        if !holds {
            return Verdict::Failed;
        }
        let unchanged = match (&self.if_none_match, self.if_modified_since) {
            (Some(tags), _) => tags.contains(etag),
            (None, Some(since)) => modified <= since.unix_timestamp(),
            (None, None) => false,
        };
        if unchanged { Verdict::NotModified } else { Verdict::Proceed }
    }
}

/// The conditions on the key that a write publishes.
///
/// S3 knows `If-None-Match: *` alone here, and refuses tags.
pub(super) fn of_write(headers: &HeaderMap) -> S3Result<WriteConditions> {
    let if_none_match = etag_set(headers, &header::IF_NONE_MATCH, Comparison::Weak);
    if if_none_match.as_ref().is_some_and(|set| *set != EtagSet::Any) {
        return Err(not_implemented("If-None-Match with an entity tag"));
    }
    Ok(WriteConditions { if_match: etag_set(headers, &header::IF_MATCH, Comparison::Strong), if_none_match })
}

/// The `If-Match` of a delete.
pub(super) fn if_match(headers: &HeaderMap) -> Option<EtagSet> {
    etag_set(headers, &header::IF_MATCH, Comparison::Strong)
}

/// Whether weak tags (`W/"..."`) take part in a comparison.
#[derive(Clone, Copy)]
enum Comparison {
    Strong,
    Weak,
}

fn etag_set(headers: &HeaderMap, name: &HeaderName, comparison: Comparison) -> Option<EtagSet> {
    let mut tags = Vec::new();
    let mut present = false;
    for value in headers.get_all(name) {
        let text = String::from_utf8_lossy(value.as_bytes());
        present |= !text.trim().is_empty();
        for (tag, weak, quoted) in entity_tags(&text) {
            match (tag.as_str(), weak, quoted) {
                ("*", false, false) => return Some(EtagSet::Any),
                // In quotes a star is an ordinary tag, which no object has; to the index it would mean any.
                ("*", ..) => continue,
                _ => {}
            }
            if matches!(comparison, Comparison::Weak) || !weak {
                tags.push(tag);
            }
        }
    }
    present.then_some(EtagSet::OneOf(tags))
}

/// Splits a list of entity tags into their texts, whether each is weak, and whether it was in quotes.
///
/// A comma inside quotes belongs to the tag; a quote that is never closed ends with the header.
fn entity_tags(list: &str) -> Vec<(String, bool, bool)> {
    let mut tags = Vec::new();
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return tags;
        }
        let (weak, opaque) = match rest.strip_prefix("W/") {
            Some(opaque) => (true, opaque),
            None => (false, rest),
        };
        let (tag, tail) = match opaque.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => opaque.split_once(',').unwrap_or((opaque, "")),
        };
        tags.push((tag.trim().to_owned(), weak, opaque.starts_with('"')));
        rest = tail;
    }
}

fn http_date(headers: &HeaderMap, name: &HeaderName) -> Option<OffsetDateTime> {
    let text = headers.get(name)?.to_str().ok()?;
    Timestamp::parse(TimestampFormat::HttpDate, text.trim()).ok().and_then(moment::moment)
}

/// 304 with the validators that RFC 9110, 15.4.5 asks for.
fn not_modified(object: &ObjectInfo) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::NotModified, "Not Modified");
    error.set_status_code(StatusCode::NOT_MODIFIED);
    let mut headers = empty_headers_for_error();
    if let Ok(etag) = format!("\"{}\"", object.etag).try_into() {
        headers.insert(header::ETAG, etag);
    }
    let mut date = Vec::new();
    let formatted = Timestamp::from(object.last_modified).format(TimestampFormat::HttpDate, &mut date);
    if let (Ok(()), Ok(value)) = (formatted, date.as_slice().try_into()) {
        headers.insert(header::LAST_MODIFIED, value);
    }
    error.set_headers(headers);
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;
    use time::macros::datetime;

    const MODIFIED: OffsetDateTime = datetime!(2026-05-01 12:00:00.750 UTC);
    const BEFORE: &str = "Fri, 01 May 2026 11:59:59 GMT";
    const SAME_SECOND: &str = "Fri, 01 May 2026 12:00:00 GMT";

    fn verdict(pairs: &[(&'static str, &str)]) -> Verdict {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).expect("header"));
        }
        ReadConditions::of_read(&headers).verdict("abc", MODIFIED)
    }

    #[test]
    fn tags_may_be_lists_quoted_unquoted_or_weak() {
        for value in ["\"abc\"", "abc", "\"x\", \"abc\"", "x,abc", "\"a,b\",\"abc\"", "*", "\"x\" , * "] {
            assert_eq!(verdict(&[("if-match", value)]), Verdict::Proceed, "{value}");
            assert_eq!(verdict(&[("if-none-match", value)]), Verdict::NotModified, "{value}");
        }
        assert_eq!(verdict(&[("if-match", "W/\"abc\"")]), Verdict::Failed);
        assert_eq!(verdict(&[("if-none-match", "W/\"abc\"")]), Verdict::NotModified);
        assert_eq!(verdict(&[("if-match", "\"x\""), ("if-match", "\"abc\"")]), Verdict::Proceed);
        assert_eq!(verdict(&[("if-match", "\"abcd\"")]), Verdict::Failed);
    }

    #[test]
    fn dates_compare_by_whole_seconds() {
        assert_eq!(verdict(&[("if-modified-since", SAME_SECOND)]), Verdict::NotModified);
        assert_eq!(verdict(&[("if-modified-since", BEFORE)]), Verdict::Proceed);
        assert_eq!(verdict(&[("if-unmodified-since", SAME_SECOND)]), Verdict::Proceed);
        assert_eq!(verdict(&[("if-unmodified-since", BEFORE)]), Verdict::Failed);
        assert_eq!(verdict(&[("if-unmodified-since", "yesterday")]), Verdict::Proceed);
    }

    #[test]
    fn a_tag_condition_makes_the_date_of_its_pair_void() {
        assert_eq!(verdict(&[("if-match", "abc"), ("if-unmodified-since", BEFORE)]), Verdict::Proceed);
        assert_eq!(verdict(&[("if-none-match", "abc"), ("if-modified-since", BEFORE)]), Verdict::NotModified);
        assert_eq!(verdict(&[("if-none-match", "x"), ("if-modified-since", SAME_SECOND)]), Verdict::Proceed);
    }

    #[test]
    fn an_empty_header_is_no_condition() {
        assert_eq!(verdict(&[("if-match", ""), ("if-none-match", " ")]), Verdict::Proceed);
    }

    proptest! {
        #[test]
        fn splitting_never_panics(list in ".{0,80}") {
            let _ = entity_tags(&list);
        }
    }
}
