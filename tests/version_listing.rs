//! ListObjectVersions against a plain model: every page size, prefix, delimiter and marker.

use std::collections::BTreeSet;

use aws_sdk_s3::types::BucketVersioningStatus;

use crate::harness::{BUCKET, Failure, Stage, failure};
use crate::versions::{put, set_versioning};

/// An entry as a client sees it: `key version` or a common prefix.
fn entry(key: &str, version: &str) -> String {
    format!("{key} {version}")
}

/// All entries of a listing, page by page. Within a page S3 keeps versions, markers and prefixes apart, so each page is
/// brought into the order of names; versions of one key stay as they came.
async fn all(stage: &Stage, prefix: &str, delimiter: Option<&str>, page: i32) -> Vec<String> {
    let (mut found, mut key_marker, mut version_marker) = (Vec::new(), None, None);
    loop {
        let request = stage.s3.list_object_versions().bucket(BUCKET).prefix(prefix).max_keys(page);
        let request = request.set_delimiter(delimiter.map(ToOwned::to_owned));
        let request = request.set_key_marker(key_marker).set_version_id_marker(version_marker);
        let listed = request.send().await.expect("a page");
        let versions = listed.versions().iter().map(|v| (v.key(), v.version_id()));
        let markers = listed.delete_markers().iter().map(|m| (m.key(), m.version_id()));
        let named = versions.chain(markers).map(|(key, id)| entry(key.unwrap_or_default(), id.unwrap_or_default()));
        let prefixes = listed.common_prefixes().iter().map(|p| p.prefix().unwrap_or_default().to_owned());
        let entries: Vec<_> = named.chain(prefixes).collect();
        assert!(entries.len() <= usize::try_from(page).unwrap());
        found.extend(entries);
        if listed.is_truncated() != Some(true) {
            return found;
        }
        assert!(listed.next_key_marker().is_some());
        key_marker = listed.next_key_marker().map(ToOwned::to_owned);
        version_marker = listed.next_version_id_marker().map(ToOwned::to_owned);
    }
}

#[tokio::test]
async fn pages_of_every_size_hold_every_version_once() {
    let stage = Stage::start().await;
    let keys = ["a", "b/1", "b/2", "b/sub/x", "c", "d/", "é/ü", "z"];
    let mut model = Vec::new();
    put(&stage, "a", b"null").await;
    model.push(("a".to_owned(), "null".to_owned()));
    set_versioning(&stage, BucketVersioningStatus::Enabled).await;
    for round in 0..4_u8 {
        for (n, key) in keys.iter().enumerate() {
            let id = if (usize::from(round) + n) % 3 == 2 {
                let deleted = stage.s3.delete_object().bucket(BUCKET).key(*key).send().await.expect("delete");
                deleted.version_id().map(ToOwned::to_owned)
            } else {
                put(&stage, key, &[round]).await
            };
            model.push(((*key).to_owned(), id.expect("a version")));
        }
    }
    for prefix in ["", "b", "b/", "b/sub/", "é", "none"] {
        for delimiter in [None, Some("/"), Some("u")] {
            let mut expected = BTreeSet::new();
            for (key, version) in &model {
                let Some(rest) = key.strip_prefix(prefix) else { continue };
                let folded = delimiter.and_then(|d| rest.find(d).map(|at| at + d.len()));
                expected.insert(folded.map_or_else(|| entry(key, version), |at| format!("{prefix}{}", &rest[..at])));
            }
            for page in [1, 2, 3, 7, 1000] {
                let found = all(&stage, prefix, delimiter, page).await;
                assert_eq!(found.len(), expected.len(), "{prefix:?} {delimiter:?} {page}: {found:?}");
                assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), expected, "{prefix:?} {delimiter:?} {page}");
            }
        }
    }
    // In pages of one entry the order is that of keys, and of each key from the newest version to the oldest.
    let mut ordered: Vec<_> = model.iter().enumerate().map(|(n, (key, id))| (key, std::cmp::Reverse(n), id)).collect();
    ordered.sort();
    let ordered: Vec<_> = ordered.into_iter().map(|(key, _, id)| entry(key, id)).collect();
    assert_eq!(all(&stage, "", None, 1).await, ordered);
}

#[tokio::test]
async fn a_key_with_many_versions_is_listed_in_pages() {
    let stage = Stage::start().await;
    set_versioning(&stage, BucketVersioningStatus::Enabled).await;
    let mut ids = Vec::new();
    for n in 0..120_u8 {
        ids.push(entry("k", &put(&stage, "k", &[n]).await.expect("a version")));
    }
    put(&stage, "l", b"x").await;
    ids.reverse();
    let found = all(&stage, "", None, 50).await;
    assert_eq!(found[..120], ids[..]);
    assert_eq!(found.len(), 121);
    let folded = all(&stage, "", Some("k"), 50).await;
    assert!(folded.len() == 2 && folded[1] == "k" || folded[0] == "k", "{folded:?}");
}

#[tokio::test]
async fn a_marker_that_was_deleted_passes_over_nothing() {
    let stage = Stage::start().await;
    set_versioning(&stage, BucketVersioningStatus::Enabled).await;
    let mut ids = Vec::new();
    for n in 0..5_u8 {
        ids.push(put(&stage, "k", &[n]).await.expect("a version"));
    }
    let page = |marker: &str| {
        let request = stage.s3.list_object_versions().bucket(BUCKET).key_marker("k").version_id_marker(marker);
        request.send()
    };
    assert_eq!(page(&ids[2]).await.expect("a page").versions().len(), 2);
    stage.s3.delete_object().bucket(BUCKET).key("k").version_id(&ids[2]).send().await.expect("delete");
    assert_eq!(page(&ids[2]).await.expect("a page").versions().len(), 4, "all that are left");
    let alone = stage.s3.list_object_versions().bucket(BUCKET).version_id_marker(&ids[0]).send().await;
    assert_eq!(failure(alone), Failure::new(400, "InvalidArgument"));
    let absent = stage.s3.list_object_versions().bucket("absent").send().await;
    assert_eq!(failure(absent), Failure::new(404, "NoSuchBucket"));
    let none = stage.s3.list_object_versions().bucket(BUCKET).max_keys(0).send().await.expect("a page");
    assert_eq!((none.versions().len(), none.is_truncated()), (0, Some(false)));
}
