//! ListObjects and ListObjectsV2: one page of the engine's listing in the shape of either version.
//!
//! Both versions continue after the last entry of a page, a key or a common prefix: V1 by its name, V2 by an opaque
//! token that holds it. `max-keys` beyond 1000 is 1000; 0 asks nothing and is answered from the bucket's existence.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::storage::types::Page;
use crate::storage::{ListEntry, ListObjects};

use super::error::from_storage;
use super::get_object::signed32;
use super::list_entries::RenderedEntries;
use super::names::NameEncoding;
use super::{Answer, Gateway, listing_token, names, parties};

/// Entries in one answer (AWS: `max-keys`).
const MAX_ENTRIES: u32 = 1000;

/// ListObjects.
pub(super) async fn v1(gateway: &Gateway, req: S3Request<ListObjectsInput>) -> Answer<ListObjectsOutput> {
    gateway.admit(&req)?;
    let input = req.input;
    let encoding = NameEncoding::parse(input.encoding_type.as_ref())?;
    let max = max_entries(input.max_keys, "maxKeys")?;
    let delimiter = names::comparable(input.delimiter.clone())?;
    let query = ListObjects {
        prefix: names::comparable(input.prefix.clone())?.unwrap_or_default(),
        delimiter: delimiter.clone(),
        after: names::comparable(input.marker.clone())?,
        max_entries: max,
    };
    let page = gateway.storage.list_objects(&names::bucket(&input.bucket), query).await.map_err(from_storage)?;

    let next = last_name(&page).filter(|_| delimiter.is_some()).map(|name| encoding.apply(name));
    let output = ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(encoding.apply(&input.prefix.unwrap_or_default())),
        marker: Some(encoding.apply(&input.marker.unwrap_or_default())),
        max_keys: Some(signed32(max)),
        is_truncated: Some(page.truncated),
        contents: None,
        common_prefixes: None,
        delimiter: delimiter.map(|d| encoding.apply(&d)),
        next_marker: next,
        encoding_type: input.encoding_type,
        request_charged: None,
    };
    Ok(with_entries(output, &page, encoding, Some(&parties::shown(parties::bucket_owner(&req.extensions)))))
}

/// ListObjectsV2.
pub(super) async fn v2(gateway: &Gateway, req: S3Request<ListObjectsV2Input>) -> Answer<ListObjectsV2Output> {
    gateway.admit(&req)?;
    let input = req.input;
    let encoding = NameEncoding::parse(input.encoding_type.as_ref())?;
    let max = max_entries(input.max_keys, "maxKeys")?;
    let delimiter = names::comparable(input.delimiter.clone())?;
    let start_after = names::comparable(input.start_after.clone())?;
    let continued = input.continuation_token.as_deref().map(listing_token::decode).transpose()?;
    let query = ListObjects {
        prefix: names::comparable(input.prefix.clone())?.unwrap_or_default(),
        delimiter: delimiter.clone(),
        after: continued.or(start_after),
        max_entries: max,
    };
    let page = gateway.storage.list_objects(&names::bucket(&input.bucket), query).await.map_err(from_storage)?;

    let next = last_name(&page).map(listing_token::encode);
    let owner = input.fetch_owner.unwrap_or(false).then(|| parties::shown(parties::bucket_owner(&req.extensions)));
    let output = ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(encoding.apply(&input.prefix.unwrap_or_default())),
        max_keys: Some(signed32(max)),
        key_count: Some(i32::try_from(page.entries.len()).unwrap_or(i32::MAX)),
        continuation_token: input.continuation_token,
        is_truncated: Some(page.truncated),
        next_continuation_token: next,
        contents: None,
        common_prefixes: None,
        delimiter: delimiter.map(|d| encoding.apply(&d)),
        encoding_type: input.encoding_type,
        start_after: input.start_after.map(|name| encoding.apply(&name)),
        request_charged: None,
    };
    Ok(with_entries(output, &page, encoding, owner.as_ref()))
}

/// A page size from 0 to 1000; larger ones are 1000.
pub(super) fn max_entries(asked: Option<i32>, argument: &str) -> S3Result<u32> {
    match asked.map(u32::try_from) {
        None => Ok(MAX_ENTRIES),
        Some(Ok(max)) => Ok(max.min(MAX_ENTRIES)),
        Some(Err(_)) => {
            Err(s3_error!(InvalidArgument, "Argument {argument} must be an integer between 0 and 2147483647"))
        }
    }
}

/// The name that the next page comes after.
fn last_name(page: &Page<ListEntry>) -> Option<&str> {
    if !page.truncated {
        return None;
    }
    page.entries.last().map(ListEntry::name)
}

/// The answer, with the page's entries beside it.
fn with_entries<T>(output: T, page: &Page<ListEntry>, encoding: NameEncoding, owner: Option<&Owner>) -> S3Response<T> {
    let mut answer = S3Response::new(output);
    answer.extensions.insert(RenderedEntries::of(&page.entries, encoding, owner));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_are_capped_and_not_negative() {
        assert_eq!(max_entries(None, "maxKeys").ok(), Some(1000));
        assert_eq!(max_entries(Some(0), "maxKeys").ok(), Some(0));
        assert_eq!(max_entries(Some(i32::MAX), "maxKeys").ok(), Some(1000));
        assert!(max_entries(Some(-1), "maxKeys").is_err());
    }

    #[test]
    fn a_page_continues_after_its_last_entry() {
        let page = |truncated| Page { entries: vec![ListEntry::CommonPrefix("a/".to_owned())], truncated };
        assert_eq!(last_name(&page(true)), Some("a/"));
        assert_eq!(last_name(&page(false)), None);
    }
}
