//! POST Object: an upload by an HTML form.
//!
//! s3s takes the form apart, verifies the signature of its policy and holds the fields against the policy's conditions; the
//! file streams. What a form says of the object in fields is what PutObject says in headers, so it becomes headers here and
//! goes the same way, through the same checks. Fields that this release cannot honour are refused like headers.

use std::sync::{Arc, OnceLock};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use s3s::dto::*;
use s3s::xml::{Deserialize as _, Deserializer};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::error::{internal, malformed_xml};
use super::put_object::{NewObject, Stored, store};
use super::{Answer, Gateway, names, parties, tagging, versions};

/// POST Object.
pub(super) async fn post(gateway: &Gateway, mut req: S3Request<PostObjectInput>) -> Answer<PostObjectOutput> {
    let mut headers = as_headers(&mut req.input)?;
    if let Some(document) = req.extensions.get::<FormTags>().and_then(FormTags::get) {
        headers.insert("x-amz-tagging", tags_as_header(document)?);
    }
    req.headers.clone_from(&headers);
    parties::admit_write(&req.extensions, &req.input.bucket, &req.input.key, &headers).await?;
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
        say(header::LOCATION, format!("/{}/{}", req.input.bucket, names::url(&req.input.key)));
    }
    let output = PostObjectOutput { e_tag: Some(ETag::Strong(published.etag)), ..Default::default() };
    Ok(S3Response::with_headers(output, answered))
}

/// The form field `tagging`, which s3s does not hand on: left here by who saw the form pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormTags(Arc<OnceLock<String>>);

impl FormTags {
    /// Leaves the field's value; the first one stays.
    pub(crate) fn set(&self, document: &str) {
        let _ = self.0.set(document.to_owned());
    }

    /// The field's value.
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
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
