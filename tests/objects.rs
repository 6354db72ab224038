//! PutObject, GetObject, HeadObject, DeleteObject and DeleteObjects: bytes come back as they went in.

use aws_sdk_s3::types::{Delete, ObjectIdentifier};

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
    let first = stage.database.count("SELECT loid::bigint FROM lobgate.content WHERE loid IS NOT NULL").await;
    put("image/png").await.expect("the second put");
    let second = stage.database.count("SELECT loid::bigint FROM lobgate.content WHERE loid IS NOT NULL").await;
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
