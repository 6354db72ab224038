//! POST Object: an upload by an HTML form.
//!
//! s3s takes the form apart, verifies the signature of its policy and holds the fields against the policy's conditions; the
//! file streams. What a form says of the object in fields is what PutObject says in headers, so it becomes headers here and
//! goes the same way, through the same checks. Fields that this release cannot honour are refused like headers.

use std::sync::{Arc, OnceLock};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use s3s::dto::*;
use s3s::xml::{Deserialize as _, Deserializer};
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use crate::auth::Connected;

use super::error::{internal, malformed_xml};
use super::put_object::{NewObject, Stored, store};
use super::{Answer, Gateway, names, parties, tagging, versions};

/// POST Object.
pub(super) async fn post(gateway: &Gateway, mut req: S3Request<PostObjectInput>) -> Answer<PostObjectOutput> {
    let mut headers = as_headers(&mut req.input)?;
    let found = req.extensions.get::<FormExtras>().and_then(FormExtras::get).cloned().unwrap_or_default();
    if found.repeated || found.acl.is_some() && headers.contains_key("x-amz-acl") {
        return Err(s3_error!(InvalidArgument, "A form has each field once."));
    }
    if found.has_policy && !found.is_signed {
        return Err(unsigned_policy());
    }
    if let Some(document) = &found.tagging {
        headers.insert("x-amz-tagging", tags_as_header(document)?);
    }
    if let Some(acl) = &found.acl {
        let invalid = |_| s3_error!(InvalidArgument, "Value for the form field acl cannot be a header.");
        headers.insert("x-amz-acl", HeaderValue::from_str(acl).map_err(invalid)?);
    }
    let outer = std::mem::replace(&mut req.headers, headers.clone());
    let target = (req.input.bucket.as_str(), req.input.key.as_str());
    parties::admit_form(&req.extensions, target, &headers, &outer, found.is_v2).await?;
    gateway.admit(&req)?;
    let object = NewObject {
        bucket: &req.input.bucket,
        key: &req.input.key,
        headers: &headers,
        extensions: &req.extensions,
        trailers: None,
        metadata: req.input.metadata.take(),
        content: req.input.body.take(),
    };
    let Stored { published, expiration, .. } = store(gateway, object).await?;

    let mut answered = HeaderMap::new();
    let mut say = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            answered.insert(name, value);
        }
    };
    say(header::ETAG, format!("\"{}\"", published.etag));
    if let Some(version) = versions::text(published.written.version) {
        say(HeaderName::from_static("x-amz-version-id"), version);
    }
    if let Some(expiration) = expiration {
        say(HeaderName::from_static("x-amz-expiration"), expiration);
    }
    // A redirect has a location of its own, which s3s writes.
    if req.input.success_action_redirect.is_none() {
        say(header::LOCATION, location(&req, &outer));
    }
    // S3 quotes it wherever it writes it; s3s writes it into a redirect and into a document as it is.
    let e_tag = Some(ETag::Strong(format!("\"{}\"", published.etag)));
    let output = PostObjectOutput { e_tag, ..Default::default() };
    Ok(S3Response::with_headers(output, answered))
}

/// A form with a policy that nobody signed: it is no form without one.
pub(crate) fn unsigned_policy() -> S3Error {
    s3_error!(
        InvalidArgument,
        "Bucket POST must contain a field named 'signature'.  If it is specified, please check the order of the fields."
    )
}

/// Where the object can be got: as the client reached the gateway.
fn location(req: &S3Request<PostObjectInput>, outer: &HeaderMap) -> String {
    let (bucket, key) = (&req.input.bucket, names::url(&req.input.key));
    let host = outer.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| req.uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default();
    let tls = req.extensions.get::<Connected>().is_some_and(|connected| connected.tls);
    let scheme = if tls { "https" } else { "http" };
    if host.starts_with(&format!("{bucket}.")) {
        format!("{scheme}://{host}/{key}")
    } else {
        format!("{scheme}://{host}/{bucket}/{key}")
    }
}

/// What s3s does not hand on of a form: left here by who saw the form pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormExtras(Arc<OnceLock<FormFound>>);

impl FormExtras {
    /// Leaves what was found.
    pub(crate) fn set(&self, found: FormFound) {
        let _ = self.0.set(found);
    }

    /// What was found.
    pub(crate) fn get(&self) -> Option<&FormFound> {
        self.0.get()
    }
}

/// Fields of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a field that is there or is not")]
pub(crate) struct FormFound {
    /// Tags, as a document.
    pub(crate) tagging: Option<String>,
    /// A canned access control list.
    pub(crate) acl: Option<String>,
    /// Whether one of these came twice: the policy would be held against one and the other be stored.
    pub(crate) repeated: bool,
    /// Whether there is a policy.
    pub(crate) has_policy: bool,
    /// Whether there is a signature of either version.
    pub(crate) is_signed: bool,
    /// Whether that is version 2 alone.
    pub(crate) is_v2: bool,
    is_v4: bool,
}

impl FormFound {
    /// Notes a field; its name is in lower case.
    pub(crate) fn note(&mut self, name: &str, value: String) {
        let place = match name {
            "tagging" => &mut self.tagging,
            "acl" => &mut self.acl,
            "policy" => return self.has_policy = true,
            "x-amz-signature" => return (self.is_signed, self.is_v4, self.is_v2) = (true, true, false),
            "signature" => return (self.is_signed, self.is_v2) = (true, !self.is_v4),
            _ => return,
        };
        self.repeated |= place.replace(value).is_some();
    }
}

/// Tags in a document as the header that says the same.
fn tags_as_header(document: &str) -> S3Result<HeaderValue> {
    let tagging = Tagging::deserialize(&mut Deserializer::new(document.as_bytes())).map_err(|_| malformed_xml())?;
    let tags = tagging::from_set(&tagging.tag_set)?;
    let text = serde_urlencoded::to_string(&tags).map_err(|_| internal())?;
    HeaderValue::try_from(text).map_err(|_| internal())
}

/// The fields of a form as the headers of a PutObject.
fn as_headers(input: &mut PostObjectInput) -> S3Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let mut set = |name: &'static str, value: Option<String>| -> S3Result<()> {
        let Some(value) = value else { return Ok(()) };
        let invalid = |_| s3_error!(InvalidArgument, "Value for the form field {name} cannot be a header.");
        headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).map_err(invalid)?);
        Ok(())
    };
    macro_rules! texts {
        ($($name:literal: $field:ident),* $(,)?) => { $(set($name, input.$field.take().map(|v| v.to_string()))?;)* };
    }
    macro_rules! enumerations {
        ($($name:literal: $field:ident),* $(,)?) => { $(set($name, input.$field.take().map(|v| v.as_str().to_owned()))?;)* };
    }
    texts! {
        "cache-control": cache_control,
        "content-disposition": content_disposition,
        "content-encoding": content_encoding,
        "content-language": content_language,
        "content-length": content_length,
        "content-md5": content_md5,
        "content-type": content_type,
        "expires": expires,
        "x-amz-checksum-crc32": checksum_crc32,
        "x-amz-checksum-crc32c": checksum_crc32c,
        "x-amz-checksum-crc64nvme": checksum_crc64nvme,
        "x-amz-checksum-md5": checksum_md5,
        "x-amz-checksum-sha1": checksum_sha1,
        "x-amz-checksum-sha256": checksum_sha256,
        "x-amz-checksum-sha512": checksum_sha512,
        "x-amz-checksum-xxhash128": checksum_xxhash128,
        "x-amz-checksum-xxhash3": checksum_xxhash3,
        "x-amz-checksum-xxhash64": checksum_xxhash64,
        "x-amz-expected-bucket-owner": expected_bucket_owner,
        "x-amz-grant-full-control": grant_full_control,
        "x-amz-grant-read": grant_read,
        "x-amz-grant-read-acp": grant_read_acp,
        "x-amz-grant-write-acp": grant_write_acp,
        "x-amz-server-side-encryption-bucket-key-enabled": bucket_key_enabled,
        "x-amz-server-side-encryption-context": ssekms_encryption_context,
        "x-amz-server-side-encryption-aws-kms-key-id": ssekms_key_id,
        "x-amz-server-side-encryption-customer-algorithm": sse_customer_algorithm,
        "x-amz-server-side-encryption-customer-key": sse_customer_key,
        "x-amz-server-side-encryption-customer-key-md5": sse_customer_key_md5,
        "x-amz-tagging": tagging,
        "x-amz-website-redirect-location": website_redirect_location,
    }
    enumerations! {
        "x-amz-acl": acl,
        "x-amz-object-lock-legal-hold": object_lock_legal_hold_status,
        "x-amz-object-lock-mode": object_lock_mode,
        "x-amz-server-side-encryption": server_side_encryption,
        "x-amz-storage-class": storage_class,
    }
    let tag = |condition: ETagCondition| match condition {
        ETagCondition::Any => "*".to_owned(),
        ETagCondition::ETag(tag) => format!("\"{}\"", tag.value()),
    };
    set("if-match", input.if_match.take().map(tag))?;
    set("if-none-match", input.if_none_match.take().map(tag))?;
    let until = input.object_lock_retain_until_date.take().map(time::OffsetDateTime::from);
    let until = until.and_then(|until| until.format(&time::format_description::well_known::Rfc3339).ok());
    set("x-amz-object-lock-retain-until-date", until)?;
    Ok(headers)
}
