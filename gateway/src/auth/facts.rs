//! What is known of a request, for the conditions of policies (AWS: "Condition keys for Amazon S3", "AWS global condition
//! context keys").

use std::net::IpAddr;

use http::{HeaderMap, Uri, header};
use s3s::dto::CopySource;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::identity::Identity;
use super::policy::Context;

/// The other end of the connection that a request came on; the listener notes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Its address.
    pub address: IpAddr,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// Longest text of a header that is held against patterns, bytes: S3 allows 8 KiB for all headers together.
const LONGEST_FACT: usize = 8 << 10;

/// How a request was signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// `REST-HEADER`, `REST-QUERY-STRING` or `POST`; `None`: not at all.
    auth_type: Option<&'static str>,
    version: Option<&'static str>,
    /// Of a presigned URL, when that was.
    date: Option<OffsetDateTime>,
}

/// As s3s knows them: what is in the header, or in the query.
const V4: &str = "AWS4-HMAC-SHA256";
const V2: &str = "AWS";

impl Proof {
    /// Of a request as it came.
    #[must_use]
    pub fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        if let Some(signature) = headers.get(header::AUTHORIZATION) {
            let version = if signature.as_bytes().starts_with(b"AWS ") { V2 } else { V4 };
            return Self { auth_type: Some("REST-HEADER"), version: Some(version), date: None };
        }
        let query = pairs(uri);
        let value = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let form = format_description!("[year][month][day]T[hour][minute][second]Z");
        let in_query = |version, date| Self { auth_type: Some("REST-QUERY-STRING"), version: Some(version), date };
        match (value("X-Amz-Signature"), value("Signature")) {
            (Some(_), _) => {
                let date = value("X-Amz-Date").and_then(|date| PrimitiveDateTime::parse(date, form).ok());
                in_query(V4, date.map(PrimitiveDateTime::assume_utc))
            }
            (None, Some(_)) => in_query(V2, None),
            (None, None) => Self::default(),
        }
    }

    /// Of a signature of version 2.
    #[must_use]
    pub fn of_v2(in_header: bool) -> Self {
        let auth_type = if in_header { "REST-HEADER" } else { "REST-QUERY-STRING" };
        Self { auth_type: Some(auth_type), version: Some(V2), date: None }
    }

    /// Of a form.
    #[must_use]
    pub fn of_form(signature_v2: bool) -> Self {
        Self { auth_type: Some("POST"), version: Some(if signature_v2 { V2 } else { V4 }), date: None }
    }
}

/// A request, as far as there are facts in it.
pub(super) struct Asked<'a> {
    pub(super) caller: Option<&'a Identity>,
    pub(super) connected: Option<Connected>,
    pub(super) proof: &'a Proof,
    /// `None` for a form, whose query says nothing.
    pub(super) uri: Option<&'a Uri>,
    /// Of a form: its fields, and the headers that are facts of their own.
    pub(super) headers: &'a HeaderMap,
    /// The operation.
    pub(super) operation: &'a str,
}

/// The facts of a request.
pub(super) fn gather(asked: &Asked<'_>) -> Context {
    let mut context = Context::default();
    note_time(&mut context);
    note_caller(&mut context, asked.caller);
    if let Some(connected) = asked.connected {
        context.set("aws:SourceIp", connected.address.to_canonical().to_string());
        context.set("aws:SecureTransport", connected.tls.to_string());
    }
    note_headers(&mut context, asked.headers);
    if let Some(uri) = asked.uri {
        note_query(&mut context, uri);
    }
    note_proof(&mut context, asked.proof);
    match asked.operation {
        "PutObject" | "CopyObject" | "CompleteMultipartUpload" | "PostObject" | "RenameObject" => {
            context.set("s3:ObjectCreationOperation", "true");
        }
        "CreateMultipartUpload" | "UploadPart" | "UploadPartCopy" => {
            context.set("s3:ObjectCreationOperation", "false");
        }
        _ => {}
    }
    context
}

fn note_time(context: &mut Context) {
    let now = OffsetDateTime::now_utc();
    context.set("aws:EpochTime", now.unix_timestamp().to_string());
    if let Ok(text) = now.format(&Rfc3339) {
        context.set("aws:CurrentTime", text);
    }
}

fn note_caller(context: &mut Context, caller: Option<&Identity>) {
    let Some(caller) = caller else {
        context.set("aws:PrincipalType", "Anonymous");
        context.set("aws:userid", "anonymous");
        return;
    };
    context.set("aws:PrincipalArn", caller.arn());
    context.set("aws:PrincipalAccount", caller.account.clone());
    context.set("aws:PrincipalType", if caller.is_root { "Account" } else { "User" });
    context.set("aws:userid", caller.owner.id.clone());
    context.set("aws:username", caller.owner.display_name.clone());
}

fn note_headers(context: &mut Context, headers: &HeaderMap) {
    for name in headers.keys() {
        let Some(value) = headers.get(name).and_then(|v| v.to_str().ok()) else { continue };
        // Longer ones say nothing that a policy could want to know, and every pattern is held against them.
        let short = value.get(..LONGEST_FACT).unwrap_or(value);
        let value = if name == "x-amz-tagging" { value } else { short };
        match name.as_str() {
            "referer" => context.set("aws:Referer", value),
            "user-agent" => context.set("aws:UserAgent", value),
            "if-match" | "if-none-match" => context.set(&format!("s3:{name}"), value),
            "x-amz-tagging" => {
                let pairs: Vec<(String, String)> = serde_urlencoded::from_str(value).unwrap_or_default();
                note_tags(context, pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())));
            }
            "x-amz-copy-source" => {
                // As it is read, however it is written.
                let source = CopySource::parse(&value.replace('+', "%20"));
                if let Ok(CopySource::Bucket { bucket, key, .. }) = source {
                    context.set("s3:x-amz-copy-source", format!("{bucket}/{key}"));
                }
            }
            "x-amz-object-lock-retain-until-date" => match OffsetDateTime::parse(value, &Rfc3339) {
                Ok(until) => note_retention(context, until),
                Err(_) => context.set("s3:object-lock-retain-until-date", value),
            },
            other => {
                if let Some(rest) = other.strip_prefix("x-amz-object-lock-") {
                    context.set(&format!("s3:object-lock-{rest}"), value);
                }
                if other.starts_with("x-amz-") {
                    context.set(&format!("s3:{other}"), value);
                }
            }
        }
    }
}

/// Notes the tags that a request brings.
pub(super) fn note_tags<'a>(context: &mut Context, tags: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let mut keys = Vec::new();
    for (key, value) in tags {
        context.add(&format!("s3:RequestObjectTag/{key}"), value);
        keys.push(key.to_owned());
    }
    context.set_all("s3:RequestObjectTagKeys", keys);
}

/// Notes the tags that a request brings for a bucket.
pub(super) fn note_bucket_tags<'a>(context: &mut Context, tags: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let mut keys = Vec::new();
    for (key, value) in tags {
        context.add(&format!("aws:RequestTag/{key}"), value);
        keys.push(key.to_owned());
    }
    context.set_all("aws:TagKeys", keys);
}

/// Notes until when an object is to be kept: the moment, and the days until then, begun ones included.
pub(super) fn note_retention(context: &mut Context, until: OffsetDateTime) {
    if let Ok(text) = until.format(&Rfc3339) {
        context.set("s3:object-lock-retain-until-date", text);
    }
    // Seconds, since a difference of moments may be none at the ends of time.
    let seconds = until.unix_timestamp() - OffsetDateTime::now_utc().unix_timestamp();
    let seconds = seconds.max(0).unsigned_abs();
    context.set("s3:object-lock-remaining-retention-days", seconds.div_ceil(86_400).to_string());
}

fn note_query(context: &mut Context, uri: &Uri) {
    for (name, value) in pairs(uri) {
        if matches!(name.as_str(), "prefix" | "delimiter" | "max-keys") {
            context.set(&format!("s3:{name}"), value);
        }
    }
}

fn note_proof(context: &mut Context, proof: &Proof) {
    if let Some(auth_type) = proof.auth_type {
        context.set("s3:authType", auth_type);
    }
    if let Some(version) = proof.version {
        context.set("s3:signatureversion", version);
    }
    if let Some(date) = proof.date {
        let age = OffsetDateTime::now_utc() - date;
        context.set("s3:signatureAge", age.whole_milliseconds().max(0).to_string());
    }
}

/// The parameters of a query, decoded as s3s decodes them: what it acts on is what is judged.
fn pairs(uri: &Uri) -> Vec<(String, String)> {
    serde_urlencoded::from_str(uri.query().unwrap_or_default()).unwrap_or_default()
}

/// Whether a query has a parameter, in whatever letters.
pub(super) fn names_parameter(uri: &Uri, name: &str) -> bool {
    let is_it = |pair: &str| {
        let key = pair.split('=').next().unwrap_or_default();
        let decoded = || percent_encoding::percent_decode_str(key).decode_utf8_lossy();
        key.eq_ignore_ascii_case(name) || key.contains('%') && decoded().eq_ignore_ascii_case(name)
    };
    uri.query().is_some_and(|query| query.split('&').any(is_it))
}

/// The version that a request names.
pub(super) fn version(uri: &Uri) -> Option<String> {
    // Most requests name none, and their names need no decoding.
    let may_be = |pair: &str| {
        let name = pair.split('=').next().unwrap_or_default();
        name == "versionId" || name.contains('%')
    };
    if !uri.query().is_some_and(|query| query.split('&').any(may_be)) {
        return None;
    }
    pairs(uri).into_iter().find(|(name, value)| name == "versionId" && !value.is_empty()).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_names_are_names() {
        let uri = Uri::from_static("/b/k?version%49d=%61&pre%66ix=a+b");
        assert_eq!(version(&uri).as_deref(), Some("a"));
        let mut context = Context::default();
        note_query(&mut context, &uri);
        assert_eq!(context.values("s3:prefix"), Some(&["a b".to_owned()][..]));
    }

    #[test]
    fn proofs_are_told_apart() {
        let proof = |uri: &'static str, authorization: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(text) = authorization {
                headers.insert(header::AUTHORIZATION, http::HeaderValue::from_static(text));
            }
            let Proof { auth_type, version, date } = Proof::of(&Uri::from_static(uri), &headers);
            (auth_type, version, date.is_some())
        };
        assert_eq!(proof("/b", None), (None, None, false));
        assert_eq!(proof("/b", Some("AWS a:b")), (Some("REST-HEADER"), Some("AWS"), false));
        assert_eq!(proof("/b", Some("AWS4-HMAC-SHA256 x")), (Some("REST-HEADER"), Some(V4), false));
        let encoded = "/b?X-Amz-D%61te=20260101T000000Z&X-Amz-Signature=0";
        assert_eq!(proof(encoded, None), (Some("REST-QUERY-STRING"), Some(V4), true));
        assert_eq!(proof("/b?AWSAccessKeyId=a&Signature=b", None), (Some("REST-QUERY-STRING"), Some("AWS"), false));
    }

    #[test]
    fn days_that_have_begun_count() {
        let days = |hours: i64| {
            let mut context = Context::default();
            note_retention(&mut context, OffsetDateTime::now_utc() + time::Duration::hours(hours));
            context.values("s3:object-lock-remaining-retention-days").map(|days| days[0].clone())
        };
        assert_eq!((days(-1).as_deref(), days(24).as_deref(), days(25).as_deref()), (Some("0"), Some("1"), Some("2")));
    }
}
