//! CORS: the rules of a bucket, and what they allow a page of another origin (AWS: "Using cross-origin resource sharing").
//!
//! The first rule that fits decides: its origin (exact, or with one `*`), the method, and for a preflight every header that
//! the page wants to send. The edge asks here for every request that has an `Origin`; operations know nothing of it.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};
use serde::{Deserialize, Serialize};

use crate::storage::bucket_settings::Setting;
use crate::storage::types::BucketName as Bucket;
use crate::storage::{ErrorKind, Storage};

use super::error::{custom, from_storage, internal, malformed_xml};
use super::{Answer, Gateway, names};

/// Rules of one bucket (AWS: `PutBucketCors`).
const MAX_RULES: usize = 100;
const METHODS: [&str; 5] = ["GET", "PUT", "HEAD", "POST", "DELETE"];

/// A rule as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Rule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    origins: Vec<String>,
    methods: Vec<String>,
    #[serde(default)]
    headers: Vec<String>,
    #[serde(default)]
    expose: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_age_seconds: Option<i32>,
}

/// GetBucketCors.
pub(super) async fn get(gateway: &Gateway, req: S3Request<GetBucketCorsInput>) -> Answer<GetBucketCorsOutput> {
    gateway.admit(&req)?;
    let rules = rules(&gateway.storage, &names::bucket(&req.input.bucket)).await?.ok_or_else(no_configuration)?;
    let shown = |rule: Rule| CORSRule {
        allowed_headers: (!rule.headers.is_empty()).then_some(rule.headers),
        allowed_methods: rule.methods,
        allowed_origins: rule.origins,
        expose_headers: (!rule.expose.is_empty()).then_some(rule.expose),
        id: rule.id,
        max_age_seconds: rule.max_age_seconds,
    };
    Ok(S3Response::new(GetBucketCorsOutput { cors_rules: Some(rules.into_iter().map(shown).collect()) }))
}

/// PutBucketCors.
pub(super) async fn put(gateway: &Gateway, req: S3Request<PutBucketCorsInput>) -> Answer<PutBucketCorsOutput> {
    gateway.admit(&req)?;
    let given = req.input.cors_configuration.cors_rules;
    if given.is_empty() || given.len() > MAX_RULES {
        return Err(malformed_xml());
    }
    let rules: Vec<Rule> = given.into_iter().map(checked).collect::<S3Result<_>>()?;
    let document = serde_json::to_string(&rules).map_err(|_| internal())?;
    let bucket = names::bucket(&req.input.bucket);
    gateway.storage.put_bucket_setting(&bucket, Setting::Cors, &document).await.map_err(from_storage)?;
    Ok(S3Response::new(PutBucketCorsOutput::default()))
}

/// DeleteBucketCors.
pub(super) async fn delete(gateway: &Gateway, req: S3Request<DeleteBucketCorsInput>) -> Answer<DeleteBucketCorsOutput> {
    gateway.admit(&req)?;
    let bucket = names::bucket(&req.input.bucket);
    gateway.storage.delete_bucket_setting(&bucket, Setting::Cors).await.map_err(from_storage)?;
    Ok(S3Response::new(DeleteBucketCorsOutput::default()))
}

fn no_configuration() -> S3Error {
    s3_error!(NoSuchCORSConfiguration, "The CORS configuration does not exist")
}

async fn rules(storage: &Storage, bucket: &Bucket) -> S3Result<Option<Vec<Rule>>> {
    // The edge asks for whatever stands where a bucket's name should.
    if bucket.as_str().contains('\0') {
        return Err(from_storage(ErrorKind::NoSuchBucket.into()));
    }
    let document = storage.bucket_setting(bucket, Setting::Cors).await.map_err(from_storage)?;
    document.map(|text| serde_json::from_str(&text).map_err(|_| internal())).transpose()
}

fn checked(rule: CORSRule) -> S3Result<Rule> {
    let rule = Rule {
        id: rule.id,
        origins: rule.allowed_origins,
        methods: rule.allowed_methods,
        headers: rule.allowed_headers.unwrap_or_default(),
        expose: rule.expose_headers.unwrap_or_default(),
        max_age_seconds: rule.max_age_seconds,
    };
    if rule.origins.is_empty() || rule.methods.is_empty() || rule.id.as_ref().is_some_and(|id| id.len() > 255) {
        return Err(malformed_xml());
    }
    if let Some(method) = rule.methods.iter().find(|m| !METHODS.contains(&m.as_str())) {
        let method = names::xml_text(method);
        return Err(s3_error!(
            InvalidRequest,
            "Found unsupported HTTP method in CORS config. Unsupported method is {method}"
        ));
    }
    for (name, values) in [("AllowedOrigin", &rule.origins), ("AllowedHeader", &rule.headers)] {
        if let Some(value) = values.iter().find(|value| value.matches('*').count() > 1) {
            let value = names::xml_text(value);
            return Err(s3_error!(InvalidRequest, "{name} \"{value}\" can not have more than one wildcard."));
        }
    }
    if let Some(value) = rule.expose.iter().find(|value| value.contains('*')) {
        let value = names::xml_text(value);
        return Err(s3_error!(
            InvalidRequest,
            "ExposeHeader \"{value}\" contains wildcard. We currently do not support wildcard for ExposeHeader."
        ));
    }
    Ok(rule)
}

/// Whether a text is what a pattern with at most one `*` says.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => {
            text.len() >= before.len() + after.len() && text.starts_with(before) && text.ends_with(after)
        }
    }
}

impl Rule {
    /// The origin as the rule has it, if the rule allows it.
    fn origin(&self, origin: &str) -> Option<&str> {
        self.origins.iter().find(|pattern| fits(pattern, origin)).map(String::as_str)
    }

    fn allows(&self, origin: &str, method: &str, headers: &[String]) -> bool {
        let header_fits = |name: &String| self.headers.iter().any(|p| fits(&p.to_ascii_lowercase(), name));
        self.origin(origin).is_some() && self.methods.iter().any(|m| m == method) && headers.iter().all(header_fits)
    }

    fn answer(&self, origin: &str, asked: &[String], headers: &mut HeaderMap) {
        let mut set = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        };
        if self.origin(origin) == Some("*") {
            set(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
        } else {
            set(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            set(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
        }
        set(header::ACCESS_CONTROL_ALLOW_METHODS, &self.methods.join(", "));
        if !asked.is_empty() {
            set(header::ACCESS_CONTROL_ALLOW_HEADERS, &asked.join(", "));
        }
        if !self.expose.is_empty() {
            set(header::ACCESS_CONTROL_EXPOSE_HEADERS, &self.expose.join(", "));
        }
        if let Some(seconds) = self.max_age_seconds {
            set(header::ACCESS_CONTROL_MAX_AGE, &seconds.to_string());
        }
        set(header::VARY, "Origin, Access-Control-Request-Headers, Access-Control-Request-Method");
    }
}

fn origin(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ORIGIN).and_then(|v| v.to_str().ok())
}

/// What a page of another origin is told beside the answer to its request; nothing where no rule allows it.
pub(crate) async fn headers_for(storage: &Storage, bucket: &str, method: &Method, origin: &HeaderValue) -> HeaderMap {
    let mut answered = HeaderMap::new();
    let Ok(origin) = origin.to_str() else { return answered };
    // A request that fails for want of the database has been answered so already.
    if let Ok(Some(rules)) = rules(storage, &names::bucket(bucket)).await
        && let Some(rule) = rules.iter().find(|rule| rule.allows(origin, method.as_str(), &[]))
    {
        rule.answer(origin, &[], &mut answered);
    }
    answered
}

/// The answer to a preflight (`OPTIONS`).
///
/// # Errors
/// `BadRequest` for one that lacks what makes a preflight, `AccessForbidden` where no rule allows the request.
pub(crate) async fn preflight(storage: &Storage, bucket: Option<&str>, headers: &HeaderMap) -> S3Result<HeaderMap> {
    let bad = |message| custom("BadRequest", StatusCode::BAD_REQUEST, message);
    let forbidden = |message| custom("AccessForbidden", StatusCode::FORBIDDEN, message);
    let origin = origin(headers).ok_or_else(|| bad("Insufficient information. Origin request header needed."))?;
    let method = headers.get(header::ACCESS_CONTROL_REQUEST_METHOD).and_then(|v| v.to_str().ok());
    let method = method.filter(|m| METHODS.contains(m)).ok_or_else(|| bad("Invalid Access-Control-Request-Method"))?;
    let bucket = bucket.ok_or_else(|| forbidden("CORSResponse: Bucket not found"))?;
    let rules = match rules(storage, &names::bucket(bucket)).await {
        Err(error) if error.code().as_str() == "NoSuchBucket" => {
            return Err(forbidden("CORSResponse: Bucket not found"));
        }
        rules => rules?.ok_or_else(|| forbidden("CORSResponse: CORS is not enabled for this bucket."))?,
    };
    let asked: Vec<String> = headers
        .get_all(header::ACCESS_CONTROL_REQUEST_HEADERS)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| !name.is_empty())
        .collect();
    let rule = rules.iter().find(|rule| rule.allows(origin, method, &asked)).ok_or_else(|| {
        forbidden(
            "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request \
             method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the \
             resource's CORS spec.",
        )
    })?;
    let mut answered = HeaderMap::new();
    rule.answer(origin, &asked, &mut answered);
    Ok(answered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(origins: &[&str], methods: &[&str], headers: &[&str]) -> CORSRule {
        let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        CORSRule {
            allowed_origins: texts(origins),
            allowed_methods: texts(methods),
            allowed_headers: Some(texts(headers)),
            expose_headers: None,
            id: None,
            max_age_seconds: None,
        }
    }

    #[test]
    fn rules_are_checked() {
        let code = |rule| checked(rule).err().map(|e| e.code().as_str().to_owned());
        assert_eq!(code(rule(&["http://*.a"], &["GET"], &["x-*"])), None);
        assert_eq!(code(rule(&["*"], &["OPTIONS"], &[])).as_deref(), Some("InvalidRequest"));
        assert_eq!(code(rule(&["*"], &["get"], &[])).as_deref(), Some("InvalidRequest"));
        assert_eq!(code(rule(&["*.a.*"], &["GET"], &[])).as_deref(), Some("InvalidRequest"));
        assert_eq!(code(rule(&["*"], &["GET"], &["*-*"])).as_deref(), Some("InvalidRequest"));
        assert_eq!(code(rule(&[], &["GET"], &[])).as_deref(), Some("MalformedXML"));
    }

    #[test]
    fn a_rule_allows_an_origin_a_method_and_headers() {
        let rule = checked(rule(&["http://*.example.org"], &["PUT"], &["X-Amz-*"])).unwrap();
        let allows = |origin, method, headers: &[&str]| {
            rule.allows(origin, method, &headers.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>())
        };
        assert!(allows("http://www.example.org", "PUT", &["x-amz-date"]));
        assert!(!allows("http://example.org", "PUT", &[]), "the dot is part of the pattern");
        assert!(!allows("https://www.example.org", "PUT", &[]));
        assert!(!allows("http://www.example.org", "GET", &[]));
        assert!(!allows("http://www.example.org", "PUT", &["content-type"]));
    }

    proptest! {
        #[test]
        fn a_star_stands_for_anything(before in "[a-z.]{0,5}", middle in "[a-z.]{0,5}", after in "[a-z.]{0,5}") {
            let text = format!("{before}{middle}{after}");
            let pattern = format!("{before}*{after}");
            prop_assert!(fits(&pattern, &text));
            prop_assert_eq!(fits(&text, &pattern), text == pattern);
        }
    }
}
