//! What is known of a request, for the conditions of policies (AWS: "Condition keys for Amazon S3", "AWS global condition
//! context keys").

use std::net::IpAddr;

use http::{HeaderMap, Uri, header};
use percent_encoding::percent_decode_str;
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

/// The facts of a request.
pub(super) fn gather(
    caller: Option<&Identity>,
    connected: Option<Connected>,
    uri: &Uri,
    headers: &HeaderMap,
) -> Context {
    let mut context = Context::default();
    note_time(&mut context);
    note_caller(&mut context, caller);
    if let Some(connected) = connected {
        context.set("aws:SourceIp", connected.address.to_canonical().to_string());
        context.set("aws:SecureTransport", connected.tls.to_string());
    }
    note_headers(&mut context, headers);
    note_query(&mut context, uri.query().unwrap_or_default());
    note_signature(&mut context, headers);
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
        match name.as_str() {
            "referer" => context.set("aws:Referer", value),
            "user-agent" => context.set("aws:UserAgent", value),
            "if-match" | "if-none-match" => context.set(&format!("s3:{name}"), value),
            "x-amz-tagging" => note_tags(context, value),
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

fn note_tags(context: &mut Context, value: &str) {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(value).unwrap_or_default();
    for (key, value) in &pairs {
        context.set(&format!("s3:RequestObjectTag/{key}"), value.as_str());
    }
    context.set_all("s3:RequestObjectTagKeys", pairs.into_iter().map(|(key, _)| key).collect());
}

fn note_query(context: &mut Context, query: &str) {
    let mut date = None;
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8_lossy().into_owned();
        match name {
            "prefix" | "delimiter" | "max-keys" => context.set(&format!("s3:{name}"), value),
            "versionId" => context.set("s3:VersionId", value),
            "X-Amz-Date" => date = Some(value),
            _ => {}
        }
    }
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    if let Some(signed) = date.and_then(|d| PrimitiveDateTime::parse(&d, form).ok()) {
        let age = OffsetDateTime::now_utc() - signed.assume_utc();
        context.set("s3:signatureAge", age.whole_milliseconds().max(0).to_string());
        context.set("s3:authType", "REST-QUERY-STRING");
        context.set("s3:signatureversion", "AWS4-HMAC-SHA256");
    }
}

fn note_signature(context: &mut Context, headers: &HeaderMap) {
    let Some(signature) = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok()) else { return };
    context.set("s3:authType", "REST-HEADER");
    context.set("s3:signatureversion", signature.split(' ').next().unwrap_or_default());
}

/// The version that a request names.
pub(super) fn version(uri: &Uri) -> Option<String> {
    let mut pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, value)| *name == "versionId" && !value.is_empty())?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}
