//! CopyObject and UploadPartCopy: contents are shared, not moved, and outlive each other's objects.

use crate::harness::inspect::{assert_consistent, assert_empty, large_objects, until_reclaimed};
use crate::harness::{RawRequest, Stage, bytes, md5_hex, path};
use crate::multipart::{self, MIB};

fn copy(stage: &Stage, source: &str, key: &str) -> RawRequest {
    stage.request("PUT", &path(key)).header("x-amz-copy-source", source)
}

#[tokio::test]
async fn a_copy_shares_its_content_and_both_outlive_each_other() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    for size in [10, 200_000] {
        let data = bytes(1, size);
        stage.put("a", &data).await;
        let before = large_objects(&stage.database).await;
        let reply = copy(&stage, &path("a"), "b").send().await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.xml("ETag"), Some(format!("\"{}\"", md5_hex(&data))));
        assert!(reply.xml("LastModified").is_some());
        assert_eq!(large_objects(&stage.database).await, before, "no byte was moved");
        stage.delete("a").await;
        until_reclaimed(&stage.database).await;
        assert!(stage.get("b").await == data, "the copy stands without its source");
        copy(&stage, &path("b"), "c").send().await;
        stage.put("b", b"replaced").await;
        until_reclaimed(&stage.database).await;
        assert!(stage.get("c").await == data);
        assert_consistent(&stage.database).await;
        stage.delete("b").await;
        stage.delete("c").await;
        until_reclaimed(&stage.database).await;
        assert_empty(&stage.database).await;
    }
}

#[tokio::test]
async fn a_multipart_object_is_copied_without_moving_a_byte() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    let parts = [bytes(1, 5 * MIB), bytes(2, 100_000)];
    multipart::upload(&stage, "a", &parts).await;
    let before = large_objects(&stage.database).await;
    assert_eq!(copy(&stage, &path("a"), "b").send().await.status, 200);
    assert_eq!(large_objects(&stage.database).await, before);
    stage.delete("a").await;
    until_reclaimed(&stage.database).await;
    assert!(stage.get("b").await == parts.concat());
    stage.delete("b").await;
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn sources_are_named_in_every_way_that_clients_use() {
    let stage = Stage::start().await;
    let key = "dir/a b+c%é";
    stage.put(key, b"hello").await;
    let encoded = path(key);
    let everything_encoded = encoded.trim_start_matches('/').replace('/', "%2F");
    let plus_for_space = encoded.replace("%20", "+");
    let of_this_version = format!("{encoded}?versionId=null");
    let without_slash = encoded.trim_start_matches('/');
    for source in [encoded.as_str(), without_slash, &everything_encoded, &plus_for_space, &of_this_version] {
        let reply = copy(&stage, source, "copy").send().await;
        assert_eq!(reply.status, 200, "{source}: {}", reply.text());
        assert_eq!(stage.get("copy").await, b"hello");
        stage.delete("copy").await;
    }
    for malformed in ["/", "bucket", "bucket/", "/bucket"] {
        let reply = copy(&stage, malformed, "copy").send().await;
        assert_eq!(reply.refusal(), (400, "InvalidArgument".to_owned()), "{malformed:?}");
    }
    assert_eq!(copy(&stage, "", "copy").send().await.status, 400);
    assert!(!stage.exists("copy").await, "never mistaken for a put");
}

#[tokio::test]
async fn what_is_not_there_cannot_be_copied() {
    let stage = Stage::start().await;
    assert_eq!(copy(&stage, &path("none"), "b").send().await.refusal(), (404, "NoSuchKey".to_owned()));
    assert_eq!(copy(&stage, "/no-such-bucket/k", "b").send().await.refusal(), (404, "NoSuchBucket".to_owned()));
    stage.put("a", b"x").await;
    let reply = stage.request("PUT", "/no-such-bucket/b").header("x-amz-copy-source", &path("a")).send().await;
    assert_eq!(reply.refusal(), (404, "NoSuchBucket".to_owned()));
}

#[tokio::test]
async fn a_copy_crosses_buckets() {
    let stage = Stage::start().await;
    stage.s3.create_bucket().bucket("second").send().await.expect("a second bucket");
    stage.put("a", &bytes(1, 100_000)).await;
    let reply = stage.request("PUT", "/second/b").header("x-amz-copy-source", &path("a")).send().await;
    assert_eq!(reply.status, 200);
    let got = stage.request("GET", "/second/b").send().await;
    assert!(got.body == bytes(1, 100_000));
}

#[tokio::test]
async fn metadata_is_copied_or_replaced_as_directed() {
    let stage = Stage::start().await;
    let put = stage.request("PUT", &path("a")).header("content-type", "text/plain").header("x-amz-meta-a", "1");
    assert_eq!(put.header("cache-control", "no-store").body("x").send().await.status, 200);
    let with = |directive: &str| {
        let mut request = copy(&stage, &path("a"), "b").header("x-amz-meta-b", "2").header("content-type", "image/png");
        if !directive.is_empty() {
            request = request.header("x-amz-metadata-directive", directive);
        }
        request
    };
    for directive in ["", "COPY"] {
        assert_eq!(with(directive).send().await.status, 200);
        let head = stage.request("HEAD", &path("b")).send().await;
        assert_eq!(head.header("content-type"), Some("text/plain"), "{directive}");
        assert_eq!((head.header("x-amz-meta-a"), head.header("x-amz-meta-b")), (Some("1"), None), "{directive}");
        assert_eq!(head.header("cache-control"), Some("no-store"), "{directive}");
    }
    assert_eq!(with("REPLACE").send().await.status, 200);
    let head = stage.request("HEAD", &path("b")).send().await;
    assert_eq!(head.header("content-type"), Some("image/png"));
    assert_eq!((head.header("x-amz-meta-a"), head.header("x-amz-meta-b")), (None, Some("2")));
    assert_eq!(head.header("cache-control"), None);
    assert_eq!(with("NONSENSE").send().await.refusal(), (400, "InvalidArgument".to_owned()));
}

#[tokio::test]
async fn a_copy_onto_itself_must_change_something() {
    let stage = Stage::start().await;
    stage.put("a", &bytes(1, 100_000)).await;
    assert_eq!(copy(&stage, &path("a"), "a").send().await.refusal(), (400, "InvalidRequest".to_owned()));
    let replace =
        copy(&stage, &path("a"), "a").header("x-amz-metadata-directive", "REPLACE").header("x-amz-meta-n", "1");
    assert_eq!(replace.send().await.status, 200);
    let head = stage.request("HEAD", &path("a")).send().await;
    assert_eq!(head.header("x-amz-meta-n"), Some("1"));
    assert!(stage.get("a").await == bytes(1, 100_000));
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_copy_can_compute_another_checksum() {
    let stage = Stage::start().await;
    stage.put("a", &bytes(1, 100_000)).await;
    let reply = copy(&stage, &path("a"), "b").header("x-amz-checksum-algorithm", "SHA256").send().await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let expected = crate::checksums::checksum("sha256", &bytes(1, 100_000));
    assert_eq!(reply.xml("ChecksumSHA256"), Some(expected.clone()));
    let head = stage.request("HEAD", &path("b")).header("x-amz-checksum-mode", "ENABLED").send().await;
    assert_eq!(head.header("x-amz-checksum-sha256"), Some(expected.as_str()));
}

#[tokio::test]
async fn parts_are_copied_whole_or_by_range() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    let source = bytes(1, 6 * MIB);
    stage.put("source", &source).await;
    let id = multipart::create(&stage, "k").await;
    let part = |number: i32, range: &str| {
        let target = format!("{}?partNumber={number}&uploadId={id}", path("k"));
        let request = stage.request("PUT", &target).header("x-amz-copy-source", &path("source"));
        if range.is_empty() { request } else { request.header("x-amz-copy-source-range", range) }
    };
    let whole = part(1, "").send().await;
    assert_eq!(whole.status, 200, "{}", whole.text());
    assert_eq!(whole.xml("ETag"), Some(format!("\"{}\"", md5_hex(&source))));
    assert!(whole.xml("LastModified").is_some());
    let ranged = part(2, "bytes=1000000-6291455").send().await;
    assert_eq!(ranged.xml("ETag"), Some(format!("\"{}\"", md5_hex(&source[1_000_000..]))), "{}", ranged.text());
    let last = part(3, "bytes=5-5").send().await;
    assert_eq!(last.xml("ETag"), Some(format!("\"{}\"", md5_hex(&source[5..6]))), "{}", last.text());
    for malformed in
        ["0-2", "bytes=0", "bytes=hello-world", "bytes=0-bar", "bytes=hello-", "bytes=0-2,3-5", "bytes=5-", "bytes=-5"]
    {
        assert_eq!(part(4, malformed).send().await.refusal(), (400, "InvalidArgument".to_owned()), "{malformed}");
    }
    let beyond = part(4, "bytes=0-6291456").send().await;
    assert!(matches!(beyond.status, 400 | 416), "{}", beyond.text());
    stage.delete("source").await;
    let etags = [md5_hex(&source), md5_hex(&source[1_000_000..]), md5_hex(&source[5..6])];
    let done = multipart::complete(&stage, "k", &id, &[(1, &etags[0]), (2, &etags[1]), (3, &etags[2])]).send().await;
    assert_eq!(done.status, 200, "{}", done.text());
    until_reclaimed(&stage.database).await;
    assert!(stage.get("k").await == [&source[..], &source[1_000_000..], &source[5..6]].concat());
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_part_is_copied_from_a_multipart_object() {
    let stage = Stage::start().await;
    let parts = [bytes(1, 5 * MIB), bytes(2, 100_000)];
    multipart::upload(&stage, "source", &parts).await;
    let id = multipart::create(&stage, "k").await;
    let target = format!("{}?partNumber=1&uploadId={id}", path("k"));
    let copied = stage.request("PUT", &target).header("x-amz-copy-source", &path("source")).send().await;
    assert_eq!(copied.status, 200, "{}", copied.text());
    let etag = copied.xml("ETag").expect("an ETag");
    let done = multipart::complete(&stage, "k", &id, &[(1, &etag)]).send().await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(stage.get("k").await == parts.concat());
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn part_copies_heed_the_conditions_on_their_source() {
    let stage = Stage::start().await;
    stage.put("source", b"hello").await;
    let id = multipart::create(&stage, "k").await;
    let target = format!("{}?partNumber=1&uploadId={id}", path("k"));
    let request = stage.request("PUT", &target).header("x-amz-copy-source", &path("source"));
    let refused = request.clone().header("x-amz-copy-source-if-match", "\"0123\"").send().await;
    assert_eq!(refused.refusal(), (412, "PreconditionFailed".to_owned()));
    let etag = format!("\"{}\"", md5_hex(b"hello"));
    assert_eq!(request.header("x-amz-copy-source-if-match", &etag).send().await.status, 200);
}
