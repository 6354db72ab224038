//! Object tags: GetObjectTagging, PutObjectTagging, DeleteObjectTagging, and the header `x-amz-tagging`.
//!
//! An object has at most 10 tags with keys of 1 to 128 and values of up to 256 characters (AWS: "Categorizing your objects
//! using tags"). Tags belong to a version, and changing them makes no new one.

use http::{HeaderMap, StatusCode};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use crate::storage::types::RangeRequest;
use crate::storage::version_types::Tags;

use super::error::{custom, from_storage};
use super::{Answer, Gateway, versions};

/// Tags of one object.
const MAX_OBJECT_TAGS: usize = 10;
/// Tags of one bucket.
const MAX_BUCKET_TAGS: usize = 50;
/// Longest key, in UTF-16 code units.
const MAX_KEY_LENGTH: usize = 128;
/// Longest value, in UTF-16 code units.
const MAX_VALUE_LENGTH: usize = 256;

/// GetObjectTagging.
pub(super) async fn get(gateway: &Gateway, req: S3Request<GetObjectTaggingInput>) -> Answer<GetObjectTaggingOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    let located = gateway.storage.head(&object, RangeRequest::Whole).await.map_err(from_storage)?;
    let output = GetObjectTaggingOutput {
        tag_set: tag_set(&located.info.tags),
        version_id: versions::text(located.info.version),
    };
    Ok(S3Response::new(output))
}

/// PutObjectTagging.
pub(super) async fn put(gateway: &Gateway, req: S3Request<PutObjectTaggingInput>) -> Answer<PutObjectTaggingOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    let tags = from_set(&req.input.tagging.tag_set)?;
    let version = gateway.storage.set_tags(&object, &tags).await.map_err(from_storage)?;
    Ok(S3Response::new(PutObjectTaggingOutput { version_id: versions::text(version) }))
}

/// DeleteObjectTagging.
pub(super) async fn delete(
    gateway: &Gateway,
    req: S3Request<DeleteObjectTaggingInput>,
) -> Answer<DeleteObjectTaggingOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    let version = gateway.storage.set_tags(&object, &Tags::new()).await.map_err(from_storage)?;
    Ok(S3Response::new(DeleteObjectTaggingOutput { version_id: versions::text(version) }))
}

/// The tags of the header `x-amz-tagging`.
pub(super) fn of_header(headers: &HeaderMap) -> S3Result<Tags> {
    let Some(value) = headers.get("x-amz-tagging") else { return Ok(Tags::new()) };
    let malformed = || {
        s3_error!(
            InvalidArgument,
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name \
             duplicates."
        )
    };
    let pairs: Vec<(String, String)> = serde_urlencoded::from_bytes(value.as_bytes()).map_err(|_| malformed())?;
    let count = pairs.len();
    let tags = checked(pairs, MAX_OBJECT_TAGS, "Object tags cannot be greater than 10")?;
    if tags.len() == count { Ok(tags) } else { Err(malformed()) }
}

/// The tags of an object in a document.
pub(super) fn from_set(set: &TagSet) -> S3Result<Tags> {
    unique(set, MAX_OBJECT_TAGS, "Object tags cannot be greater than 10")
}

/// The tags of a bucket in a document.
pub(super) fn of_bucket(set: &TagSet) -> S3Result<Tags> {
    unique(set, MAX_BUCKET_TAGS, "Bucket tag count cannot be greater than 50")
}

fn unique(set: &TagSet, max: usize, too_many: &'static str) -> S3Result<Tags> {
    let pairs = set.iter().map(|tag| {
        let (key, value) = (tag.key.clone().unwrap_or_default(), tag.value.clone().unwrap_or_default());
        (key, value)
    });
    let tags = checked(pairs, max, too_many)?;
    if tags.len() == set.len() { Ok(tags) } else { Err(invalid_tag("Cannot provide multiple Tags with the same key")) }
}

/// Tags as a document has them.
pub(super) fn tag_set(tags: &Tags) -> TagSet {
    tags.iter().map(|(key, value)| Tag { key: Some(key.clone()), value: Some(value.clone()) }).collect()
}

fn checked(pairs: impl IntoIterator<Item = (String, String)>, max: usize, too_many: &'static str) -> S3Result<Tags> {
    let mut tags = Tags::new();
    for (n, (key, value)) in pairs.into_iter().enumerate() {
        if n >= max {
            return Err(custom("BadRequest", StatusCode::BAD_REQUEST, too_many));
        }
        if key.is_empty() || key.encode_utf16().count() > MAX_KEY_LENGTH || !key.chars().all(is_allowed) {
            return Err(invalid_tag("The TagKey you have provided is invalid"));
        }
        if key.starts_with("aws:") {
            return Err(invalid_tag("System tags cannot be added/updated by requester"));
        }
        if value.encode_utf16().count() > MAX_VALUE_LENGTH || !value.chars().all(is_allowed) {
            return Err(invalid_tag("The TagValue you have provided is invalid"));
        }
        tags.insert(key, value);
    }
    Ok(tags)
}

/// Letters, digits and spaces of any script, and some signs (AWS: "Tag naming and usage conventions").
fn is_allowed(c: char) -> bool {
    c.is_alphanumeric() || c.is_whitespace() && !c.is_control() || "+-=._:/@".contains(c)
}

fn invalid_tag(message: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidTag, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn header(text: &str) -> Result<Vec<(String, String)>, String> {
        let mut headers = HeaderMap::new();
        headers
            .insert("x-amz-tagging", HeaderValue::from_bytes(text.as_bytes()).unwrap_or(HeaderValue::from_static("")));
        of_header(&headers).map(|tags| tags.into_iter().collect()).map_err(|e| e.code().as_str().to_owned())
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn the_header_is_a_query_string() {
        assert_eq!(header("a=1&b+c=%C3%A9"), Ok(vec![pair("a", "1"), pair("b c", "é")]));
        assert_eq!(header("only"), Ok(vec![pair("only", "")]));
        assert_eq!(header(""), Ok(vec![]));
        assert_eq!(header("a=1&a=2"), Err("InvalidArgument".to_owned()));
        assert_eq!(header("=1"), Err("InvalidTag".to_owned()));
        assert_eq!(header("a=%3C"), Err("InvalidTag".to_owned()));
        let eleven = (0..11).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join("&");
        assert_eq!(header(&eleven), Err("BadRequest".to_owned()));
    }

    #[test]
    fn keys_and_values_have_limits() {
        assert!(header(&format!("{}={}", "k".repeat(128), "v".repeat(256))).is_ok());
        assert_eq!(header(&format!("{}=v", "k".repeat(129))), Err("InvalidTag".to_owned()));
        assert_eq!(header(&format!("k={}", "v".repeat(257))), Err("InvalidTag".to_owned()));
        assert_eq!(header("aws:k=v"), Err("InvalidTag".to_owned()));
    }
}
