//! Versioning: what writes and deletions leave, and how a version is named wherever one can be.

use aws_sdk_s3::types::{BucketVersioningStatus as Status, Delete, ObjectIdentifier, VersioningConfiguration};

use crate::harness::client::body;
use crate::harness::inspect::{assert_consistent, assert_empty, until_reclaimed};
use crate::harness::{BUCKET, Failure, Stage, bytes, failure, path};

pub(crate) async fn set_versioning(stage: &Stage, status: Status) {
    let configuration = VersioningConfiguration::builder().status(status).build();
    let put = stage.s3.put_bucket_versioning().bucket(BUCKET).versioning_configuration(configuration).send().await;
    put.expect("versioning");
}

/// Stores an object; returns its version id.
pub(crate) async fn put(stage: &Stage, key: &str, data: &[u8]) -> Option<String> {
    let put = stage.s3.put_object().bucket(BUCKET).key(key).body(body(data)).send().await.expect("put");
    put.version_id().map(ToOwned::to_owned)
}

/// The bytes of a version.
async fn get(stage: &Stage, key: &str, version: &str) -> Result<Vec<u8>, Failure> {
    let got = stage.s3.get_object().bucket(BUCKET).key(key).version_id(version).send().await;
    match got {
        Ok(got) => {
            assert_eq!(got.version_id(), Some(version));
            Ok(got.body.collect().await.expect("the body").to_vec())
        }
        error => Err(failure(error.map(|_| ()))),
    }
}

async fn delete(stage: &Stage, key: &str, version: Option<&str>) -> (Option<bool>, Option<String>) {
    let deletion = stage.s3.delete_object().bucket(BUCKET).key(key).set_version_id(version.map(ToOwned::to_owned));
    let deleted = deletion.send().await.expect("delete");
    (deleted.delete_marker(), deleted.version_id().map(ToOwned::to_owned))
}

/// `version id` of every version and marker of a key, newest first; `*` before the latest, `-` before a marker.
async fn history(stage: &Stage, key: &str) -> Vec<String> {
    let listed = stage.s3.list_object_versions().bucket(BUCKET).prefix(key).send().await.expect("versions");
    let versions = listed.versions().iter().map(|v| (v.last_modified(), v.is_latest(), "", v.version_id()));
    let markers = listed.delete_markers().iter().map(|m| (m.last_modified(), m.is_latest(), "-", m.version_id()));
    let mut all: Vec<_> = versions.chain(markers).collect();
    all.sort_by_key(|(time, latest, ..)| (*latest, time.map(|t| t.as_nanos())));
    all.reverse();
    let line = |(_, latest, kind, id): &(_, Option<bool>, &str, Option<&str>)| {
        format!("{}{kind}{}", if *latest == Some(true) { "*" } else { "" }, id.unwrap_or_default())
    };
    all.iter().map(line).collect()
}

#[tokio::test]
async fn a_bucket_that_never_was_versioned_shows_no_versions() {
    let stage = Stage::start().await;
    assert_eq!(put(&stage, "k", b"1").await, None);
    let versioning = stage.s3.get_bucket_versioning().bucket(BUCKET).send().await.expect("versioning");
    assert_eq!(versioning.status(), None);
    let got = stage.s3.get_object().bucket(BUCKET).key("k").send().await.expect("get");
    assert_eq!(got.version_id(), None);
    // What is there is the null version all the same.
    let got = stage.request("GET", &format!("{}?versionId=null", path("k"))).send().await;
    assert_eq!((got.status, got.text().as_str()), (200, "1"));
    assert_eq!(history(&stage, "k").await, ["*null"]);
    let unknown = "0190a0b0c0d07e0f8a1b2c3d4e5f6071";
    assert_eq!(get(&stage, "k", unknown).await, Err(Failure::new(404, "NoSuchVersion")));
    assert_eq!(get(&stage, "k", "nonsense").await, Err(Failure::new(400, "InvalidArgument")));
    let empty = stage.request("GET", &format!("{}?versionId=", path("k"))).send().await;
    assert_eq!(empty.refusal(), (400, "InvalidArgument".to_owned()));
    assert_eq!(delete(&stage, "k", Some("null")).await, (None, Some("null".to_owned())));
    assert!(!stage.exists("k").await);
}

#[tokio::test]
async fn every_write_of_a_versioned_bucket_is_kept_under_its_own_id() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    put(&stage, "k", b"before").await;
    set_versioning(&stage, Status::Enabled).await;
    // Inline, a large object by one statement, and one written in chunks.
    let sizes = [10, 200_000, 1_500_000];
    let mut ids = Vec::new();
    for (n, size) in sizes.iter().enumerate() {
        ids.push(put(&stage, "k", &bytes(n as u64, *size)).await.expect("a version id"));
    }
    // The same bytes again are a version of their own.
    ids.push(put(&stage, "k", &bytes(2, 1_500_000)).await.expect("a version id"));
    for (n, id) in ids.iter().enumerate() {
        let seed = n.min(2);
        assert!(get(&stage, "k", id).await.expect("a version") == bytes(seed as u64, sizes[seed]), "version {n}");
    }
    assert_eq!(get(&stage, "k", "null").await.as_deref(), Ok(&b"before"[..]));
    let mut newest_first: Vec<_> = ids.iter().rev().cloned().collect();
    newest_first[0].insert(0, '*');
    newest_first.push("null".to_owned());
    assert_eq!(history(&stage, "k").await, newest_first);
    let head = stage.s3.head_object().bucket(BUCKET).key("k").version_id(&ids[0]).send().await.expect("head");
    assert_eq!((head.version_id(), head.content_length()), (Some(ids[0].as_str()), Some(10)));
    assert_consistent(&stage.database).await;

    // The bucket is not empty until the last version has gone.
    delete(&stage, "k", None).await;
    let refused = stage.s3.delete_bucket().bucket(BUCKET).send().await;
    assert_eq!(failure(refused), Failure::new(409, "BucketNotEmpty"));
    for id in history(&stage, "k").await {
        delete(&stage, "k", Some(id.trim_start_matches(['*', '-']))).await;
    }
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
    stage.s3.delete_bucket().bucket(BUCKET).send().await.expect("an empty bucket");
}

#[tokio::test]
async fn a_deletion_leaves_a_delete_marker_and_deleting_that_brings_the_object_back() {
    let stage = Stage::start().await;
    set_versioning(&stage, Status::Enabled).await;
    let first = put(&stage, "k", b"1").await.expect("a version");
    let (is_marker, marker) = delete(&stage, "k", None).await;
    let marker = marker.expect("the marker's version");
    assert_eq!(is_marker, Some(true));
    assert_eq!(history(&stage, "k").await, [format!("*-{marker}"), first.clone()]);

    let gone = stage.request("GET", &path("k")).send().await;
    assert_eq!(gone.refusal(), (404, "NoSuchKey".to_owned()));
    assert_eq!(gone.header("x-amz-delete-marker"), Some("true"));
    assert_eq!(gone.header("x-amz-version-id"), Some(marker.as_str()));
    let named = stage.request("GET", &format!("{}?versionId={marker}", path("k"))).send().await;
    assert_eq!(named.refusal(), (405, "MethodNotAllowed".to_owned()));
    assert_eq!((named.header("x-amz-delete-marker"), named.header("allow")), (Some("true"), Some("DELETE")));
    let head = stage.request("HEAD", &format!("{}?versionId={marker}", path("k"))).send().await;
    assert_eq!((head.status, head.header("x-amz-delete-marker")), (405, Some("true")));
    assert_eq!(get(&stage, "k", &first).await.as_deref(), Ok(&b"1"[..]));
    assert!(stage.request("GET", "/bucket?list-type=2").send().await.xml("Key").is_none(), "not listed");

    assert_eq!(delete(&stage, "k", Some(&marker)).await, (Some(true), Some(marker)));
    assert_eq!(stage.get("k").await, b"1");
    assert_eq!(history(&stage, "k").await, [format!("*{first}")]);
    // What never was there gets a marker too; a version that is not there is deleted already.
    assert_eq!(delete(&stage, "other", None).await.0, Some(true));
    let unknown = "0190a0b0c0d07e0f8a1b2c3d4e5f6071";
    assert_eq!(delete(&stage, "k", Some(unknown)).await, (None, Some(unknown.to_owned())));
}

#[tokio::test]
async fn deleting_the_latest_version_makes_the_one_before_it_the_latest() {
    let stage = Stage::start().await;
    set_versioning(&stage, Status::Enabled).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(put(&stage, "k", &[b'0' + n]).await.expect("a version"));
    }
    delete(&stage, "k", Some(&ids[1])).await;
    assert_eq!(stage.get("k").await, b"2");
    delete(&stage, "k", Some(&ids[2])).await;
    assert_eq!(stage.get("k").await, b"0");
    delete(&stage, "k", Some(&ids[0])).await;
    assert!(!stage.exists("k").await);
    assert_eq!(history(&stage, "k").await, Vec::<String>::new());
}

#[tokio::test]
async fn suspended_versioning_replaces_the_null_version_alone() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    set_versioning(&stage, Status::Enabled).await;
    let kept = put(&stage, "k", b"kept").await.expect("a version");
    set_versioning(&stage, Status::Suspended).await;
    assert_eq!(put(&stage, "k", b"a").await.as_deref(), Some("null"));
    assert_eq!(put(&stage, "k", &bytes(1, 100_000)).await.as_deref(), Some("null"));
    assert_eq!(history(&stage, "k").await, ["*null".to_owned(), kept.clone()]);
    assert_eq!(delete(&stage, "k", None).await, (Some(true), Some("null".to_owned())));
    assert_eq!(history(&stage, "k").await, ["*-null".to_owned(), kept.clone()]);
    // A second deletion replaces the marker, a write the marker.
    assert_eq!(delete(&stage, "k", None).await, (Some(true), Some("null".to_owned())));
    assert_eq!(put(&stage, "k", b"b").await.as_deref(), Some("null"));
    set_versioning(&stage, Status::Enabled).await;
    let new = put(&stage, "k", b"new").await.expect("a version");
    assert_eq!(history(&stage, "k").await, [format!("*{new}"), "null".to_owned(), kept.clone()]);
    assert_eq!(get(&stage, "k", "null").await.as_deref(), Ok(&b"b"[..]));
    // A null version in the past is replaced, wherever it stands.
    set_versioning(&stage, Status::Suspended).await;
    assert_eq!(put(&stage, "k", b"c").await.as_deref(), Some("null"));
    assert_eq!(history(&stage, "k").await, ["*null".to_owned(), new, kept]);
    until_reclaimed(&stage.database).await;
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn conditions_look_at_the_latest_version_and_a_delete_marker_counts_as_absent() {
    let stage = Stage::start().await;
    set_versioning(&stage, Status::Enabled).await;
    put(&stage, "k", b"1").await;
    let create = || stage.s3.put_object().bucket(BUCKET).key("k").if_none_match("*").body(body(b"2")).send();
    assert_eq!(failure(create().await), Failure::new(412, "PreconditionFailed"));
    delete(&stage, "k", None).await;
    let replace = stage.s3.put_object().bucket(BUCKET).key("k").if_match("*").body(body(b"2")).send().await;
    assert_eq!(failure(replace), Failure::new(404, "NoSuchKey"));
    create().await.expect("a key whose latest version is a delete marker can be created");
    assert_eq!(failure(create().await), Failure::new(412, "PreconditionFailed"));
    let wrong = stage.s3.delete_object().bucket(BUCKET).key("k").if_match("\"nonsense\"").send().await;
    assert_eq!(failure(wrong), Failure::new(412, "PreconditionFailed"));
    assert_eq!(stage.get("k").await, b"2");
}

#[tokio::test]
async fn racing_writers_and_deleters_leave_one_latest_version() {
    let stage = Stage::start().await;
    set_versioning(&stage, Status::Enabled).await;
    let writes = (0..40_u8).map(|n| {
        let s3 = stage.s3.clone();
        async move {
            if n % 4 == 3 {
                s3.delete_object().bucket(BUCKET).key("k").send().await.expect("delete").version_id
            } else {
                s3.put_object().bucket(BUCKET).key("k").body(body(&[n])).send().await.expect("put").version_id
            }
        }
    });
    let mut made: Vec<_> = futures::future::join_all(writes).await.into_iter().map(Option::unwrap).collect();
    let history = history(&stage, "k").await;
    assert_eq!(history.iter().filter(|line| line.starts_with('*')).count(), 1);
    let mut found: Vec<_> = history.iter().map(|line| line.trim_start_matches(['*', '-']).to_owned()).collect();
    made.sort();
    found.sort();
    assert_eq!(found, made, "every answered write is there, once");
    // Deletions of versions, at the same time: the last one leaves nothing.
    let deletions = made.iter().map(|id| stage.s3.delete_object().bucket(BUCKET).key("k").version_id(id).send());
    for deleted in futures::future::join_all(deletions).await {
        deleted.expect("delete");
    }
    assert_eq!(self::history(&stage, "k").await, Vec::<String>::new());
    assert_eq!(stage.database.count("SELECT count(*) FROM lobgate.object").await, 0);
}

#[tokio::test]
async fn exactly_one_of_many_creators_wins_over_a_delete_marker() {
    let stage = Stage::start().await;
    set_versioning(&stage, Status::Enabled).await;
    for round in 0..5 {
        delete(&stage, "k", None).await;
        let creators =
            (0..8_u8).map(|n| stage.s3.put_object().bucket(BUCKET).key("k").if_none_match("*").body(body(&[n])).send());
        let won = futures::future::join_all(creators).await.iter().filter(|put| put.is_ok()).count();
        assert_eq!(won, 1, "round {round}");
    }
}

#[tokio::test]
async fn a_batch_deletes_keys_and_versions_each_by_itself() {
    let stage = Stage::start().await;
    set_versioning(&stage, Status::Enabled).await;
    let first = put(&stage, "a", b"1").await.expect("a version");
    put(&stage, "b", b"1").await;
    let (_, marker) = delete(&stage, "c", None).await;
    let marker = marker.expect("a marker");
    let id = |key: &str, version: Option<&str>| {
        ObjectIdentifier::builder().key(key).set_version_id(version.map(ToOwned::to_owned)).build().unwrap()
    };
    let objects = vec![id("a", Some(&first)), id("b", None), id("c", Some(&marker)), id("d", Some("nonsense"))];
    let delete = Delete::builder().set_objects(Some(objects)).build().unwrap();
    let answer = stage.s3.delete_objects().bucket(BUCKET).delete(delete).send().await.expect("a batch");
    let of = |key: &str| answer.deleted().iter().find(|d| d.key() == Some(key)).expect("deleted");
    assert_eq!((of("a").version_id(), of("a").delete_marker()), (Some(first.as_str()), None));
    assert_eq!((of("b").version_id(), of("b").delete_marker()), (None, Some(true)));
    assert!(of("b").delete_marker_version_id().is_some());
    assert_eq!(of("c").delete_marker_version_id(), Some(marker.as_str()));
    let errors: Vec<_> = answer.errors().iter().map(|e| (e.key(), e.code(), e.version_id())).collect();
    assert_eq!(errors, [(Some("d"), Some("NoSuchVersion"), Some("nonsense"))]);
    assert_eq!(history(&stage, "a").await, Vec::<String>::new());
    assert_eq!(history(&stage, "b").await.len(), 2);
}

#[tokio::test]
async fn copies_and_multipart_uploads_read_and_make_versions() {
    let stage = Stage::start().await;
    set_versioning(&stage, Status::Enabled).await;
    let old = put(&stage, "k", b"old").await.expect("a version");
    put(&stage, "k", b"new").await;
    // An old version brought back: a copy of it onto the same key.
    let source = format!("{BUCKET}/k?versionId={old}");
    let copy = stage.s3.copy_object().bucket(BUCKET).key("k").copy_source(&source).send().await.expect("copy");
    assert_eq!(copy.copy_source_version_id(), Some(old.as_str()));
    assert!(copy.version_id().is_some_and(|id| id != old));
    assert_eq!(stage.get("k").await, b"old");

    let upload = stage.s3.create_multipart_upload().bucket(BUCKET).key("m").send().await.expect("create");
    let id = upload.upload_id().expect("an id");
    let part = stage.s3.upload_part_copy().bucket(BUCKET).key("m").upload_id(id).part_number(1).copy_source(&source);
    let part = part.send().await.expect("a part");
    assert_eq!(part.copy_source_version_id(), Some(old.as_str()));
    let etag = part.copy_part_result().and_then(|r| r.e_tag()).expect("an ETag").to_owned();
    let part = aws_sdk_s3::types::CompletedPart::builder().part_number(1).e_tag(etag).build();
    let parts = aws_sdk_s3::types::CompletedMultipartUpload::builder().parts(part).build();
    let complete = || {
        let request = stage.s3.complete_multipart_upload().bucket(BUCKET).key("m").upload_id(id);
        request.multipart_upload(parts.clone()).send()
    };
    let version = complete().await.expect("complete").version_id().expect("a version").to_owned();
    assert_eq!(complete().await.expect("again").version_id(), Some(version.as_str()), "the same answer");
    assert_eq!(get(&stage, "m", &version).await.as_deref(), Ok(&b"old"[..]));
    let attributes = stage.s3.get_object_attributes().bucket(BUCKET).key("m").version_id(&version);
    let attributes = attributes.object_attributes(aws_sdk_s3::types::ObjectAttributes::ObjectSize).send().await;
    assert_eq!(attributes.expect("attributes").version_id(), Some(version.as_str()));

    // A delete marker is no source.
    let (_, marker) = delete(&stage, "k", None).await;
    let latest = stage.s3.copy_object().bucket(BUCKET).key("x").copy_source(format!("{BUCKET}/k")).send().await;
    assert_eq!(failure(latest), Failure::new(404, "NoSuchKey"));
    let named = format!("{BUCKET}/k?versionId={}", marker.expect("a marker"));
    let named = stage.s3.copy_object().bucket(BUCKET).key("x").copy_source(named).send().await;
    assert_eq!(failure(named), Failure::new(400, "InvalidRequest"));
}

#[tokio::test]
async fn versioning_configurations_are_checked() {
    let stage = Stage::start().await;
    for (document, code) in [
        ("<VersioningConfiguration/>", "IllegalVersioningConfigurationException"),
        ("<VersioningConfiguration><Status>enabled</Status></VersioningConfiguration>", "MalformedXML"),
        ("<VersioningConfiguration><Status>Disabled</Status></VersioningConfiguration>", "MalformedXML"),
    ] {
        let refused = stage.request("PUT", "/bucket?versioning").body(document).send().await;
        assert_eq!(refused.refusal(), (400, code.to_owned()), "{document}");
    }
    let mfa =
        "<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>";
    let refused = stage.request("PUT", "/bucket?versioning").body(mfa).send().await;
    assert_eq!(refused.refusal(), (501, "NotImplemented".to_owned()));
    let absent = stage.request("PUT", "/absent?versioning");
    let document = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(absent.body(document).send().await.refusal(), (404, "NoSuchBucket".to_owned()));
    set_versioning(&stage, Status::Enabled).await;
    let versioning = stage.s3.get_bucket_versioning().bucket(BUCKET).send().await.expect("versioning");
    assert_eq!(versioning.status(), Some(&Status::Enabled));
}
