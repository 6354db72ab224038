//! Headers and user metadata: they come back as they went in, and only those that belong to the object.

use std::collections::HashMap;

use aws_sdk_s3::types::ObjectAttributes;

use crate::harness::chunked::Chunked;
use crate::harness::client::body;
use crate::harness::{BUCKET, Stage, path};

#[tokio::test]
async fn standard_headers_and_user_metadata_come_back_on_get_and_head() {
    let stage = Stage::start().await;
    let headers = [
        ("content-type", "text/x-test; charset=utf-8"),
        ("content-encoding", "gzip"),
        ("content-language", "de, en"),
        ("content-disposition", "attachment; filename=\"a b.txt\""),
        ("cache-control", "max-age=60, private"),
        ("expires", "Thu, 01 Dec 2033 16:00:00 GMT"),
        ("x-amz-meta-plain", "value with  two spaces"),
        ("x-amz-meta-mixed-case", "KeepsCase"),
        ("x-amz-meta-empty", ""),
    ];
    let mut put = stage.request("PUT", &path("k")).body("hello");
    for (name, value) in headers {
        put = put.header(name, value);
    }
    assert_eq!(put.send().await.status, 200);
    for method in ["GET", "HEAD"] {
        let reply = stage.request(method, &path("k")).send().await;
        assert_eq!(reply.status, 200);
        for (name, value) in headers {
            assert_eq!(reply.header(name), Some(value), "{name} on {method}");
        }
        assert_eq!(reply.header("content-length"), Some("5"));
        assert_eq!(reply.header("accept-ranges"), Some("bytes"));
        assert_eq!(reply.header("etag"), Some("\"5d41402abc4b2a76b9719d911017c592\""));
        assert!(reply.header("last-modified").expect("last-modified").ends_with(" GMT"));
    }
}

#[tokio::test]
async fn an_object_put_without_a_content_type_is_an_octet_stream() {
    let stage = Stage::start().await;
    assert_eq!(stage.request("PUT", &path("k")).body("x").send().await.status, 200);
    let head = stage.request("HEAD", &path("k")).send().await;
    assert_eq!(head.header("content-type"), Some("binary/octet-stream"));
    assert_eq!(head.header("content-encoding"), None);
    assert_eq!(head.header("cache-control"), None);
}

#[tokio::test]
async fn the_transfer_coding_aws_chunked_is_not_stored_as_the_content_encoding() {
    let stage = Stage::start().await;
    for (sent, stored) in
        [("aws-chunked", None), ("aws-chunked,gzip", Some("gzip")), ("gzip, aws-chunked", Some("gzip"))]
    {
        let chunked = Chunked::signed();
        let put = stage.request("PUT", &path("k")).header("content-encoding", sent).chunked(chunked).body("hello");
        assert_eq!(put.send().await.status, 200);
        let head = stage.request("HEAD", &path("k")).send().await;
        assert_eq!(head.header("content-encoding"), stored, "{sent}");
    }
}

#[tokio::test]
async fn metadata_beyond_ascii_travels_in_rfc_2047_form() {
    let stage = Stage::start().await;
    let encoded = "=?UTF-8?B?w6TDtsO8IOKCrA==?=";
    let put = stage.request("PUT", &path("k")).header("x-amz-meta-name", encoded).body("x");
    assert_eq!(put.send().await.status, 200);
    let head = stage.request("HEAD", &path("k")).send().await;
    let shown = head.header("x-amz-meta-name").expect("the metadata").to_owned();
    assert!(shown.starts_with("=?UTF-8?") && shown.ends_with("?="), "an encoded word: {shown}");
    let stored = stage.request("PUT", &path("k2")).header("x-amz-meta-name", &shown).body("x");
    assert_eq!(stored.send().await.status, 200);
    let again = stage.request("HEAD", &path("k2")).send().await;
    assert_eq!(again.header("x-amz-meta-name"), Some(shown.as_str()), "what is shown can be sent back");
}

#[tokio::test]
async fn metadata_beyond_two_kilobytes_is_refused() {
    let stage = Stage::start().await;
    let put = |length: usize| stage.request("PUT", &path("k")).header("x-amz-meta-a", &"x".repeat(length)).body("x");
    assert_eq!(put(2048).send().await.refusal(), (400, "MetadataTooLarge".to_owned()));
    assert!(!stage.exists("k").await);
    assert_eq!(put(2047).send().await.status, 200, "2048 bytes of name and value are allowed");
}

#[tokio::test]
async fn response_headers_can_be_overridden_by_a_signed_get() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    let overrides = [
        ("content-type", "text/html"),
        ("content-language", "fr"),
        ("content-disposition", "inline"),
        ("cache-control", "no-cache"),
        ("content-encoding", "identity"),
    ];
    let query: Vec<String> = overrides.iter().map(|(n, v)| format!("response-{n}={}", v.replace('/', "%2F"))).collect();
    let target = format!("{}?{}", path("k"), query.join("&"));
    let reply = stage.request("GET", &target).send().await;
    assert_eq!(reply.status, 200);
    for (name, value) in overrides {
        assert_eq!(reply.header(name), Some(value));
    }
    let plain = stage.request("GET", &path("k")).send().await;
    assert_eq!(plain.header("content-language"), None, "an override lasts for one request");
}

#[tokio::test]
async fn get_object_attributes_returns_what_was_asked_for() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    let attributes = stage
        .s3
        .get_object_attributes()
        .bucket(BUCKET)
        .key("k")
        .object_attributes(ObjectAttributes::Etag)
        .object_attributes(ObjectAttributes::ObjectSize)
        .object_attributes(ObjectAttributes::StorageClass)
        .send()
        .await
        .expect("attributes");
    assert_eq!(attributes.e_tag(), Some("5d41402abc4b2a76b9719d911017c592"), "without quotes here");
    assert_eq!(attributes.object_size(), Some(5));
    assert_eq!(attributes.storage_class().map(|class| class.as_str()), Some("STANDARD"));
    assert!(attributes.last_modified().is_some());
    assert!(attributes.object_parts().is_none());
    let none = stage.request("GET", &format!("{}?attributes", path("k"))).send().await;
    assert_eq!(none.status, 400, "x-amz-object-attributes is required");
}

#[tokio::test]
async fn the_sdk_sees_its_metadata_map_again() {
    let stage = Stage::start().await;
    let sent = HashMap::from([("one".to_owned(), "1".to_owned()), ("two-words".to_owned(), "a b".to_owned())]);
    let put = stage.s3.put_object().bucket(BUCKET).key("k").set_metadata(Some(sent.clone())).body(body(b"x"));
    put.send().await.expect("put");
    let head = stage.s3.head_object().bucket(BUCKET).key("k").send().await.expect("head");
    assert_eq!(head.metadata(), Some(&sent));
}
