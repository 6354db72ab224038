//! Object tags: set with the object or afterwards, of one version, copied or replaced.

use aws_sdk_s3::types::{BucketVersioningStatus, Tag, Tagging, TaggingDirective};

use crate::harness::client::body;
use crate::harness::{BUCKET, Failure, Stage, base64, failure, path};
use crate::versions::set_versioning;

async fn tags(stage: &Stage, key: &str, version: Option<&str>) -> Vec<(String, String)> {
    let got = stage.s3.get_object_tagging().bucket(BUCKET).key(key).set_version_id(version.map(ToOwned::to_owned));
    let got = got.send().await.expect("tags");
    let mut tags: Vec<_> = got.tag_set().iter().map(|t| (t.key().to_owned(), t.value().to_owned())).collect();
    tags.sort();
    tags
}

fn set(pairs: &[(&str, &str)]) -> Tagging {
    let tags = pairs.iter().map(|(key, value)| Tag::builder().key(*key).value(*value).build().unwrap());
    Tagging::builder().set_tag_set(Some(tags.collect())).build().unwrap()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn tags_come_with_an_object_or_later_and_change_nothing_else() {
    let stage = Stage::start().await;
    let put = stage.s3.put_object().bucket(BUCKET).key("k").body(body(b"x")).tagging("a=1&b%20c=%C3%A9").send().await;
    put.expect("put");
    assert_eq!(tags(&stage, "k", None).await, pairs(&[("a", "1"), ("b c", "é")]));
    let head = stage.s3.get_object().bucket(BUCKET).key("k").send().await.expect("get");
    assert_eq!(head.tag_count(), Some(2));
    let modified = head.last_modified().copied();

    let new = set(&[("team", "blue")]);
    stage.s3.put_object_tagging().bucket(BUCKET).key("k").tagging(new).send().await.expect("put tags");
    assert_eq!(tags(&stage, "k", None).await, pairs(&[("team", "blue")]));
    stage.s3.delete_object_tagging().bucket(BUCKET).key("k").send().await.expect("delete tags");
    assert_eq!(tags(&stage, "k", None).await, pairs(&[]));
    let got = stage.s3.get_object().bucket(BUCKET).key("k").send().await.expect("get");
    assert_eq!((got.tag_count(), got.last_modified().copied()), (None, modified));
    // A put without tags leaves none.
    stage.s3.put_object().bucket(BUCKET).key("k").body(body(b"x")).tagging("a=1").send().await.expect("put");
    stage.put("k", b"x").await;
    assert_eq!(tags(&stage, "k", None).await, pairs(&[]));
}

#[tokio::test]
async fn copies_take_the_sources_tags_unless_told_otherwise() {
    let stage = Stage::start().await;
    stage.s3.put_object().bucket(BUCKET).key("k").body(body(b"x")).tagging("a=1").send().await.expect("put");
    let copy = |key: &str| stage.s3.copy_object().bucket(BUCKET).key(key).copy_source(format!("{BUCKET}/k"));
    copy("copied").send().await.expect("copy");
    assert_eq!(tags(&stage, "copied", None).await, pairs(&[("a", "1")]));
    let replaced = copy("replaced").tagging_directive(TaggingDirective::Replace).tagging("b=2").send().await;
    replaced.expect("copy");
    assert_eq!(tags(&stage, "replaced", None).await, pairs(&[("b", "2")]));
    copy("none").tagging_directive(TaggingDirective::Replace).send().await.expect("copy");
    assert_eq!(tags(&stage, "none", None).await, pairs(&[]));
    // The tags of a multipart object are named when it begins.
    let upload =
        stage.s3.create_multipart_upload().bucket(BUCKET).key("m").tagging("m=1").send().await.expect("create");
    let id = upload.upload_id().expect("an id");
    let part = stage.s3.upload_part().bucket(BUCKET).key("m").upload_id(id).part_number(1).body(body(b"part"));
    let etag = part.send().await.expect("a part").e_tag().expect("an ETag").to_owned();
    let part = aws_sdk_s3::types::CompletedPart::builder().part_number(1).e_tag(etag).build();
    let parts = aws_sdk_s3::types::CompletedMultipartUpload::builder().parts(part).build();
    let complete = stage.s3.complete_multipart_upload().bucket(BUCKET).key("m").upload_id(id).multipart_upload(parts);
    complete.send().await.expect("complete");
    assert_eq!(tags(&stage, "m", None).await, pairs(&[("m", "1")]));
}

#[tokio::test]
async fn tags_belong_to_a_version() {
    let stage = Stage::start().await;
    set_versioning(&stage, BucketVersioningStatus::Enabled).await;
    let put = |tagging: &str| stage.s3.put_object().bucket(BUCKET).key("k").body(body(b"x")).tagging(tagging).send();
    let first = put("a=1").await.expect("put").version_id().expect("a version").to_owned();
    put("a=2").await.expect("put");
    let new = set(&[("a", "3")]);
    let changed = stage.s3.put_object_tagging().bucket(BUCKET).key("k").version_id(&first).tagging(new).send().await;
    assert_eq!(changed.expect("put tags").version_id(), Some(first.as_str()));
    assert_eq!(tags(&stage, "k", Some(&first)).await, pairs(&[("a", "3")]));
    assert_eq!(tags(&stage, "k", None).await, pairs(&[("a", "2")]));
    let marker = stage.s3.delete_object().bucket(BUCKET).key("k").send().await.expect("delete");
    let marker = marker.version_id().expect("a marker");
    let latest = stage.s3.get_object_tagging().bucket(BUCKET).key("k").send().await;
    assert_eq!(failure(latest), Failure::new(404, "NoSuchKey"));
    let set_on = |version: &str| {
        stage.s3.put_object_tagging().bucket(BUCKET).key("k").version_id(version).tagging(set(&[("a", "1")])).send()
    };
    assert_eq!(failure(set_on(marker).await), Failure::new(405, "MethodNotAllowed"));
    let unknown = "0190a0b0c0d07e0f8a1b2c3d4e5f6071";
    assert_eq!(failure(set_on(unknown).await), Failure::new(404, "NoSuchVersion"));
}

#[tokio::test]
async fn tags_that_s3_does_not_allow_are_refused() {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    let document = |tags: &[(String, String)]| {
        let tags: String = tags.iter().map(|(k, v)| format!("<Tag><Key>{k}</Key><Value>{v}</Value></Tag>")).collect();
        format!("<Tagging><TagSet>{tags}</TagSet></Tagging>")
    };
    let one = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let eleven: Vec<_> = (0..11).map(|n| (format!("k{n}"), "v".to_owned())).collect();
    for (tags, code) in [
        (eleven, "BadRequest"),
        (one(&"k".repeat(129), "v"), "InvalidTag"),
        (one("k", &"v".repeat(257)), "InvalidTag"),
        (one("", "v"), "InvalidTag"),
        (one("aws:k", "v"), "InvalidTag"),
        (vec![("k".to_owned(), "1".to_owned()), ("k".to_owned(), "2".to_owned())], "InvalidTag"),
    ] {
        let refused = stage.request("PUT", &format!("{}?tagging", path("k"))).body(document(&tags)).send().await;
        assert_eq!(refused.refusal(), (400, code.to_owned()), "{tags:?}");
    }
    let wrong = stage.request("PUT", &format!("{}?tagging", path("k"))).header("content-md5", &base64([0; 16]));
    let wrong = wrong.body(document(&one("a", "1"))).send().await;
    assert_eq!(wrong.refusal(), (400, "BadDigest".to_owned()), "documents of objects are verified like any other");
    assert_eq!(tags(&stage, "k", None).await, pairs(&[]));
    let absent = stage.request("PUT", &format!("{}?tagging", path("absent"))).body(document(&one("a", "1")));
    assert_eq!(absent.send().await.refusal(), (404, "NoSuchKey".to_owned()));
    let header = stage.request("PUT", &path("new")).header("x-amz-tagging", "a=1&a=2").body("x").send().await;
    assert_eq!(header.refusal(), (400, "InvalidArgument".to_owned()));
    assert!(!stage.exists("new").await);
}
