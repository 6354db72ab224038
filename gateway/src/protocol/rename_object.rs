//! RenameObject. S3 has it in directory buckets alone, which have no versions; here every bucket has it.

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::storage::types::RangeRequest;
use crate::storage::{ObjectVersion, RenameObject};

use super::conditions::ReadConditions;
use super::{Answer, Gateway, names, parties};

/// Longest client token, in printable ASCII characters.
const MAX_TOKEN_LENGTH: usize = 64;

/// RenameObject.
pub(super) async fn rename(gateway: &Gateway, req: S3Request<RenameObjectInput>) -> Answer<RenameObjectOutput> {
    gateway.admit(&req)?;
    let input = &req.input;
    let (bucket, key) = (names::bucket(&input.bucket), names::key(&input.key)?);
    let source = names::key(&source_in(&input.rename_source)?)?;
    if source == key {
        return Err(s3_error!(InvalidRequest, "An object cannot be renamed to the key that it has."));
    }
    let moved = ObjectVersion { bucket: bucket.clone(), key: source.clone(), version: None };
    let tags = match parties::judged_by_policies(&req.extensions) {
        // One that is not there has none; the statement says so.
        true => gateway.storage.head(&moved, RangeRequest::Whole).await.ok().map(|found| found.info.tags),
        false => None,
    };
    let keys = (source.as_str(), key.as_str());
    parties::admit_rename(&req.extensions, bucket.as_str(), keys, tags.as_ref()).await?;
    let rename = RenameObject {
        bucket,
        source,
        key,
        owner: parties::writer(&req.extensions, false).id,
        token: token_in(&req.headers)?,
        source_conditions: ReadConditions::of_rename_source(&req.headers).left_to_the_statement(),
        conditions: ReadConditions::of_read(&req.headers).left_to_the_statement(),
    };
    let renamed = gateway.storage.rename_object(rename).await;
    renamed.map_err(|error| parties::of_missing(&req.extensions, error))?;
    Ok(S3Response::new(RenameObjectOutput::default()))
}

/// The key that `x-amz-rename-source` names: URL-encoded, after a slash or not. A key that begins with one has to be written
/// with another, so that no two keys are written alike.
fn source_in(text: &str) -> S3Result<String> {
    let invalid = || s3_error!(InvalidArgument, "x-amz-rename-source must be the URL-encoded key of an object");
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| invalid())?;
    let key = decoded.strip_prefix('/').unwrap_or(&decoded);
    if key.is_empty() { Err(invalid()) } else { Ok(key.to_owned()) }
}

fn token_in(headers: &HeaderMap) -> S3Result<Option<String>> {
    let Some(value) = headers.get("x-amz-client-token") else { return Ok(None) };
    let token = value.to_str().ok().filter(|text| {
        (1..=MAX_TOKEN_LENGTH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    });
    token.map(|text| Some(text.to_owned())).ok_or_else(|| {
        s3_error!(InvalidArgument, "x-amz-client-token must be 1 to 64 printable ASCII characters without spaces")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_keys_after_a_slash_or_not() {
        let source = |text: &str| source_in(text).ok();
        assert_eq!(source("a%20b/c+d").as_deref(), Some("a b/c+d"));
        assert_eq!(source("/a").as_deref(), Some("a"));
        assert_eq!(source("//a").as_deref(), Some("/a"));
        assert_eq!(source("/bucket/a").as_deref(), Some("bucket/a"));
        assert_eq!((source(""), source("/"), source("%FF")), (None, None, None));
    }
}
