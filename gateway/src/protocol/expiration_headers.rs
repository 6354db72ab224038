//! What answers tell of lifecycle rules: `x-amz-expiration` of a current version, `x-amz-abort-date` and
//! `x-amz-abort-rule-id` of an upload. They tell what the rules that the gate found say now; nothing is stored with the
//! object.

use http::Extensions;
use s3s::dto::Timestamp;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::storage::lifecycle::Candidate;
use crate::storage::version_types::Tags;

use super::{names, parties};

/// The date of HTTP (RFC 9110, section 5.6.7).
const HTTP_DATE: &[BorrowedFormatItem<'_>] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// `x-amz-expiration` of a current version, where a rule says when it expires.
pub(super) fn expiration(
    extensions: &Extensions,
    key: &str,
    tags: &Tags,
    size: u64,
    last_modified: OffsetDateTime,
) -> Option<String> {
    let candidate = Candidate { key, object: Some((tags, size)), last_modified };
    let (at, rule) = parties::rules(extensions)?.lifecycle.expires(&candidate)?;
    Some(format!("expiry-date=\"{}\", rule-id=\"{}\"", at.format(HTTP_DATE).ok()?, names::url(rule)))
}

/// `x-amz-abort-date` and `x-amz-abort-rule-id` of an upload, where a rule says when it is aborted.
pub(super) fn abort(extensions: &Extensions, key: &str, initiated_at: OffsetDateTime) -> Option<(Timestamp, String)> {
    let (at, rule) = parties::rules(extensions)?.lifecycle.aborts_upload(key, initiated_at)?;
    Some((at.into(), names::url(rule)))
}
