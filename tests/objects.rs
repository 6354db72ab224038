//! PutObject, GetObject, HeadObject, DeleteObject and DeleteObjects: bytes, headers and metadata come back as they went in.

use std::collections::HashMap;

use aws_sdk_s3::types::{Delete, ObjectAttributes, ObjectIdentifier};

use crate::harness::client::body;
use crate::harness::inspect::{assert_consistent, assert_empty, large_objects, until_reclaimed};
use crate::harness::{BUCKET, Failure, Stage, bytes, failure, md5_hex, path};

const KIB: usize = 1024;

#[tokio::test]
async fn objects_of_every_size_come_back_byte_exact_and_leave_nothing_behind() {
    let stage = Stage::with(&[("LOBGATE_STORAGE_BUFFER_MAX", "2MiB"), ("LOBGATE_GC_INTERVAL", "100ms")]).await;
    let edges = [2 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 2048 * KIB];
    let mut sizes: Vec<usize> = edges.iter().flat_map(|edge| [edge - 1, *edge, edge + 1]).collect();
    sizes.extend([0, 1, 3 * 1024 * KIB + 17]);
    for &size in &sizes {
        let data = bytes(size as u64, size);
        let put = stage.s3.put_object().bucket(BUCKET).key(size.to_string()).body(body(&data)).send().await;
        let put = put.unwrap_or_else(|error| panic!("put {size} bytes: {error:?}"));
        assert_eq!(put.e_tag(), Some(format!("\"{}\"", md5_hex(&data)).as_str()), "the ETag of {size} bytes");
    }
    for &size in &sizes {
        assert!(stage.get(&size.to_string()).await == bytes(size as u64, size), "{size} bytes come back");
        let head = stage.s3.head_object().bucket(BUCKET).key(size.to_string()).send().await.expect("head");
        assert_eq!(head.content_length(), Some(i64::try_from(size).unwrap()));
    }
    assert_consistent(&stage.database).await;
    for size in sizes {
        stage.delete(&size.to_string()).await;
    }
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn put_replaces_an_object_whole_and_its_old_content_is_reclaimed() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    for (round, size) in [300_000, 0, 10, 200_000, 70_000].into_iter().enumerate() {
        let data = bytes(round as u64, size);
        stage.put("key", &data).await;
        assert!(stage.get("key").await == data, "round {round}");
        assert_consistent(&stage.database).await;
    }
    until_reclaimed(&stage.database).await;
    assert_eq!(large_objects(&stage.database).await, 1);
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_put_of_the_same_bytes_writes_no_large_object_but_takes_the_new_metadata() {
    let stage = Stage::start().await;
    let data = bytes(7, 200_000);
    let put = |kind: &'static str| {
        stage.s3.put_object().bucket(BUCKET).key("same").content_type(kind).body(body(&data)).send()
    };
    put("text/plain").await.expect("the first put");
    let first = stage.database.count("SELECT loid::bigint FROM lobgate.content").await;
    put("image/png").await.expect("the second put");
    let second = stage.database.count("SELECT loid::bigint FROM lobgate.content").await;
    assert_eq!(first, second, "the large object is the same");
    let head = stage.s3.head_object().bucket(BUCKET).key("same").send().await.expect("head");
    assert_eq!(head.content_type(), Some("image/png"));
    assert!(stage.get("same").await == data);
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn what_is_not_there_is_said_to_be_missing() {
    let stage = Stage::start().await;
    let get = stage.s3.get_object().bucket(BUCKET).key("none").send().await;
    assert_eq!(failure(get), Failure::new(404, "NoSuchKey"));
    let get = stage.s3.get_object().bucket("no-such-bucket").key("none").send().await;
    assert_eq!(failure(get), Failure::new(404, "NoSuchBucket"));
    let put = stage.s3.put_object().bucket("no-such-bucket").key("k").body(body(b"x")).send().await;
    assert_eq!(failure(put), Failure::new(404, "NoSuchBucket"));
    let delete = stage.s3.delete_object().bucket("no-such-bucket").key("k").send().await;
    assert_eq!(failure(delete), Failure::new(404, "NoSuchBucket"));
    assert!(!stage.exists("none").await);
    let reply = stage.request("DELETE", &path("none")).send().await;
    assert_eq!(reply.status, 204, "deleting what is not there succeeds");
    assert_empty(&stage.database).await;
}

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
    for (sent, stored) in [("aws-chunked", None), ("aws-chunked,gzip", Some("gzip")), ("gzip, aws-chunked", Some("gzip"))] {
        let chunked = crate::harness::chunked::Chunked::signed();
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
async fn head_says_what_get_says_without_the_body() {
    let stage = Stage::start().await;
    stage.put("k", &bytes(1, 100_000)).await;
    let get = stage.request("GET", &path("k")).send().await;
    let head = stage.request("HEAD", &path("k")).send().await;
    assert!(head.body.is_empty());
    for name in ["etag", "content-length", "content-type", "last-modified", "accept-ranges"] {
        assert_eq!(get.header(name), head.header(name), "{name}");
    }
}

#[tokio::test]
async fn delete_objects_deletes_each_and_names_each_unless_quiet() {
    let stage = Stage::start().await;
    let keys = ["a", "b/c", "with space & <angle> \"quote\"", "ümlaut", "+plus%25"];
    for quiet in [false, true] {
        for key in keys {
            stage.put(key, key.as_bytes()).await;
        }
        let named = keys.into_iter().chain(["never-was"]);
        let objects = named.map(|key| ObjectIdentifier::builder().key(key).build().unwrap()).collect();
        let delete = Delete::builder().set_objects(Some(objects)).quiet(quiet).build().unwrap();
        let done = stage.s3.delete_objects().bucket(BUCKET).delete(delete).send().await.expect("delete objects");
        assert!(done.errors().is_empty());
        let mut deleted: Vec<&str> = done.deleted().iter().filter_map(|entry| entry.key()).collect();
        let mut expected: Vec<&str> = if quiet { vec![] } else { keys.into_iter().chain(["never-was"]).collect() };
        deleted.sort_unstable();
        expected.sort_unstable();
        assert_eq!(deleted, expected);
        for key in keys {
            assert!(!stage.exists(key).await, "{key}");
        }
    }
}

#[tokio::test]
async fn delete_objects_takes_a_thousand_keys_and_no_more() {
    let stage = Stage::start().await;
    let list = |count: usize| -> String {
        let objects: String = (0..count).map(|number| format!("<Object><Key>k{number}</Key></Object>")).collect();
        format!("<Delete><Quiet>true</Quiet>{objects}</Delete>")
    };
    let send = |body: String| {
        let digest = crate::harness::base64(<md5::Md5 as md5::Digest>::digest(body.as_bytes()));
        stage.request("POST", "/bucket?delete").header("content-md5", &digest).body(body)
    };
    assert_eq!(send(list(1000)).send().await.status, 200);
    assert_eq!(send(list(1001)).send().await.refusal(), (400, "MalformedXML".to_owned()));
    assert_eq!(send(list(0)).send().await.refusal(), (400, "MalformedXML".to_owned()));
    assert_eq!(send("<Delete><Object>".to_owned()).send().await.refusal(), (400, "MalformedXML".to_owned()));
}

#[tokio::test]
async fn a_body_without_a_length_or_with_an_impossible_one_is_refused() {
    let stage = Stage::start().await;
    let put = stage.request("PUT", &path("k")).payload_hash("UNSIGNED-PAYLOAD");
    let chunked = put.clone().unsigned_header("transfer-encoding", "chunked").body("5\r\nhello\r\n0\r\n\r\n");
    let reply = chunked.send().await;
    assert!(matches!(reply.status, 411 | 501), "{} {}", reply.status, reply.text());
    for impossible in ["-1", "x", "99999999999999999999999"] {
        assert_eq!(put.clone().content_length(impossible).send().await.status, 400, "{impossible}");
    }
    let too_long = (5_u64 * 1024 * 1024 * 1024 + 1).to_string();
    assert_eq!(put.content_length(&too_long).send().await.refusal(), (400, "EntityTooLarge".to_owned()));
    assert_empty(&stage.database).await;
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
    assert_eq!(none.refusal(), (400, "InvalidArgument".to_owned()), "x-amz-object-attributes is required");
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
