//! Multipart uploads: parts in any order, assembled without moving a byte, and nothing left of what is not used.

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use md5::Digest as _;

use crate::harness::client::body;
use crate::harness::inspect::{assert_consistent, assert_empty, large_objects, until_reclaimed};
use crate::harness::{BUCKET, Failure, RawRequest, Stage, bytes, failure, md5_hex, path};

pub(crate) const MIB: usize = 1024 * 1024;
const GC: &[(&str, &str)] = &[("LOBGATE_GC_INTERVAL", "100ms")];

/// Starts an upload and returns its id.
pub(crate) async fn create(stage: &Stage, key: &str) -> String {
    let created = stage.s3.create_multipart_upload().bucket(BUCKET).key(key).send().await.expect("create an upload");
    created.upload_id().expect("an upload id").to_owned()
}

/// Uploads one part and returns what completion needs to know of it.
pub(crate) async fn part(stage: &Stage, key: &str, id: &str, number: i32, data: &[u8]) -> CompletedPart {
    let upload = stage.s3.upload_part().bucket(BUCKET).key(key).upload_id(id).part_number(number).body(body(data));
    let sent = upload.send().await.unwrap_or_else(|error| panic!("part {number}: {error:?}"));
    CompletedPart::builder()
        .part_number(number)
        .set_e_tag(sent.e_tag().map(str::to_owned))
        .set_checksum_crc32(sent.checksum_crc32().map(str::to_owned))
        .build()
}

/// Completes an upload by hand, with the given part numbers and ETags.
pub(crate) fn complete(stage: &Stage, key: &str, id: &str, parts: &[(i32, &str)]) -> RawRequest {
    let parts: String = parts
        .iter()
        .map(|(number, etag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"))
        .collect();
    let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    stage.request("POST", &format!("{}?uploadId={id}", path(key))).body(body)
}

/// A whole multipart upload.
pub(crate) async fn upload(stage: &Stage, key: &str, data: &[Vec<u8>]) {
    let id = create(stage, key).await;
    let mut parts = Vec::new();
    for (number, data) in (1..).zip(data) {
        parts.push(part(stage, key, &id, number, data).await);
    }
    let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
    let complete = stage.s3.complete_multipart_upload().bucket(BUCKET).key(key).upload_id(id).multipart_upload(parts);
    complete.send().await.expect("complete the upload");
}

pub(crate) fn multipart_etag(parts: &[&[u8]]) -> String {
    let digests: Vec<u8> = parts.iter().flat_map(|data| md5::Md5::digest(data).to_vec()).collect();
    format!("\"{}-{}\"", md5_hex(&digests), parts.len())
}

#[tokio::test]
async fn parts_sent_in_any_order_become_one_object_without_moving_a_byte() {
    let stage = Stage::with(GC).await;
    let data = [bytes(1, 5 * MIB), bytes(2, 5 * MIB + 1), bytes(3, 10)];
    let id = create(&stage, "k").await;
    for number in [30, 1, 7] {
        let index = [1, 7, 30].iter().position(|known| *known == number).unwrap();
        part(&stage, "k", &id, number, &data[index]).await;
    }
    assert!(!stage.exists("k").await, "nothing is visible before completion");
    let contents = "SELECT count(*) FROM pg_largeobject_metadata m JOIN lobgate.content c ON c.loid = m.oid";
    let before = stage.database.count(contents).await;
    let newest = stage.database.count("SELECT max(oid::bigint) FROM pg_largeobject_metadata").await;
    let etags: Vec<String> = data.iter().map(|data| md5_hex(data)).collect();
    let done = complete(&stage, "k", &id, &[(1, &etags[0]), (7, &format!("\"{}\"", etags[1])), (30, &etags[2])]);
    let done = done.send().await;
    assert_eq!(done.status, 200, "{}", done.text());
    let etag = multipart_etag(&[&data[0], &data[1], &data[2]]);
    assert_eq!(done.xml("ETag"), Some(etag.clone()));
    assert_eq!((done.xml("Bucket").as_deref(), done.xml("Key").as_deref()), (Some(BUCKET), Some("k")));
    assert!(done.xml("Location").is_some());
    assert_eq!(stage.database.count(contents).await, before, "no large object came or went");
    assert_eq!(stage.database.count("SELECT max(oid::bigint) FROM pg_largeobject_metadata").await, newest);
    let head = stage.request("HEAD", &path("k")).send().await;
    assert_eq!(head.header("etag"), Some(etag.as_str()));
    assert!(stage.get("k").await == data.concat());
    assert_consistent(&stage.database).await;
    stage.delete("k").await;
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn a_part_sent_again_replaces_the_earlier_and_unused_parts_are_reclaimed() {
    let stage = Stage::with(GC).await;
    let id = create(&stage, "k").await;
    part(&stage, "k", &id, 1, &bytes(1, 200_000)).await;
    part(&stage, "k", &id, 1, &bytes(2, 300_000)).await;
    part(&stage, "k", &id, 2, &bytes(3, 100_000)).await;
    let old = complete(&stage, "k", &id, &[(1, &md5_hex(&bytes(1, 200_000)))]).send().await;
    assert_eq!(old.refusal(), (400, "InvalidPart".to_owned()), "the earlier part is gone");
    let done = complete(&stage, "k", &id, &[(1, &md5_hex(&bytes(2, 300_000)))]).send().await;
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(done.xml("ETag"), Some(multipart_etag(&[&bytes(2, 300_000)])), "one part is still multipart");
    assert!(stage.get("k").await == bytes(2, 300_000));
    until_reclaimed(&stage.database).await;
    assert_eq!(large_objects(&stage.database).await, 1);
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn completion_names_existing_parts_in_ascending_order_that_are_large_enough() {
    let stage = Stage::start().await;
    let id = create(&stage, "k").await;
    for number in 1..=3 {
        part(&stage, "k", &id, number, b"small").await;
    }
    let etag = md5_hex(b"small");
    let refused = |parts: Vec<(i32, String)>| {
        let parts: Vec<(i32, &str)> = parts.iter().map(|(number, etag)| (*number, etag.as_str())).collect();
        complete(&stage, "k", &id, &parts)
    };
    let part = |number: i32| (number, etag.clone());
    let cases = [
        (vec![part(1), part(2)], "EntityTooSmall"),
        (vec![part(2), part(1)], "InvalidPartOrder"),
        (vec![part(1), part(1)], "InvalidPartOrder"),
        (vec![part(9)], "InvalidPart"),
        (vec![(1, md5_hex(b"other"))], "InvalidPart"),
        (vec![], "MalformedXML"),
    ];
    for (parts, code) in cases {
        let shown = format!("{parts:?}");
        assert_eq!(refused(parts).send().await.refusal(), (400, code.to_owned()), "{shown}");
    }
    let too_many = (1..=10_001).map(part).collect();
    assert_eq!(refused(too_many).send().await.status, 400);
    let garbage = stage.request("POST", &format!("{}?uploadId={id}", path("k"))).body("<not xml").send().await;
    assert_eq!(garbage.refusal(), (400, "MalformedXML".to_owned()));
    assert!(!stage.exists("k").await);
    assert_eq!(refused(vec![part(3)]).send().await.status, 200, "the upload survives refused completions");
}

#[tokio::test]
async fn completing_twice_gives_the_same_answer() {
    let stage = Stage::start().await;
    let id = create(&stage, "k").await;
    part(&stage, "k", &id, 1, b"x").await;
    let request = complete(&stage, "k", &id, &[(1, &md5_hex(b"x"))]);
    let first = request.send().await;
    let second = request.send().await;
    assert_eq!((first.status, second.status), (200, 200), "{}", second.text());
    assert_eq!(first.xml("ETag"), second.xml("ETag"));
}

#[tokio::test]
async fn a_completion_that_names_other_parts_is_not_the_one_that_was_answered() {
    let stage = Stage::start().await;
    let id = create(&stage, "k").await;
    for (number, data) in [(1, bytes(1, 5 * MIB)), (2, b"x".to_vec())] {
        part(&stage, "k", &id, number, &data).await;
    }
    let (first, second) = (md5_hex(&bytes(1, 5 * MIB)), md5_hex(b"x"));
    assert_eq!(complete(&stage, "k", &id, &[(1, &first)]).send().await.status, 200);
    for others in [&[(1, first.as_str()), (2, &second)][..], &[(2, &second)], &[(7, "0")]] {
        let refused = complete(&stage, "k", &id, others).send().await;
        assert_eq!(refused.refusal(), (404, "NoSuchUpload".to_owned()), "{others:?}");
    }
    let again = complete(&stage, "k", &id, &[(1, &format!("\"{}\"", first.to_uppercase()))]).send().await;
    assert_eq!(again.status, 200, "{}", again.text());
}

#[tokio::test]
async fn an_aborted_upload_leaves_nothing_behind() {
    let stage = Stage::with(GC).await;
    let id = create(&stage, "k").await;
    for number in 1..=3 {
        part(&stage, "k", &id, number, &bytes(1, 100_000)).await;
    }
    let abort = stage.request("DELETE", &format!("{}?uploadId={id}", path("k")));
    assert_eq!(abort.send().await.status, 204);
    assert_eq!(abort.send().await.refusal(), (404, "NoSuchUpload".to_owned()));
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn an_upload_that_does_not_exist_is_no_such_upload_for_everything() {
    let stage = Stage::start().await;
    let id = create(&stage, "k").await;
    let no_such_upload = (404, "NoSuchUpload".to_owned());
    let impostor = "00000000-0000-7000-8000-000000000000";
    for (key, id) in [("k", impostor), ("k", "nonsense"), ("k", "%27%22%3C"), ("other", id.as_str())] {
        let target = format!("{}?uploadId={id}", path(key));
        let sent = stage.request("PUT", &format!("{target}&partNumber=1")).body("x").send().await;
        assert_eq!(sent.refusal(), no_such_upload, "UploadPart {key} {id}");
        let listed = stage.request("GET", &target).send().await;
        assert_eq!(listed.refusal(), no_such_upload, "ListParts {key} {id}");
        let aborted = stage.request("DELETE", &target).send().await;
        assert_eq!(aborted.refusal(), no_such_upload, "AbortMultipartUpload {key} {id}");
        let completed = complete(&stage, key, id, &[(1, &md5_hex(b"x"))]).send().await;
        assert_eq!(completed.refusal(), no_such_upload, "CompleteMultipartUpload {key} {id}");
    }
    let missing = stage.s3.create_multipart_upload().bucket("no-such-bucket").key("k").send().await;
    assert_eq!(failure(missing), Failure::new(404, "NoSuchBucket"));
}

#[tokio::test]
async fn part_numbers_run_from_1_to_10000() {
    let stage = Stage::start().await;
    let id = create(&stage, "k").await;
    for number in ["0", "10001", "-1", "x", "99999999999"] {
        let target = format!("{}?partNumber={number}&uploadId={id}", path("k"));
        let reply = stage.request("PUT", &target).body("x").send().await;
        assert_eq!(reply.refusal(), (400, "InvalidArgument".to_owned()), "{number}");
    }
    part(&stage, "k", &id, 10_000, b"last").await;
    let done = complete(&stage, "k", &id, &[(10_000, &md5_hex(b"last"))]).send().await;
    assert_eq!(done.status, 200);
}

#[tokio::test]
async fn what_the_creation_said_is_what_the_object_has() {
    let stage = Stage::start().await;
    let created = stage
        .request("POST", &format!("{}?uploads", path("k")))
        .header("content-type", "text/plain")
        .header("cache-control", "no-store")
        .header("x-amz-meta-a", "b")
        .send()
        .await;
    assert_eq!(created.status, 200);
    let id = created.xml("UploadId").expect("an upload id");
    part(&stage, "k", &id, 1, b"x").await;
    assert_eq!(complete(&stage, "k", &id, &[(1, &md5_hex(b"x"))]).send().await.status, 200);
    let head = stage.request("HEAD", &path("k")).send().await;
    assert_eq!(head.header("content-type"), Some("text/plain"));
    assert_eq!(head.header("cache-control"), Some("no-store"));
    assert_eq!(head.header("x-amz-meta-a"), Some("b"));
}

#[tokio::test]
async fn completion_heeds_conditions_on_its_destination() {
    let stage = Stage::start().await;
    let id = create(&stage, "k").await;
    part(&stage, "k", &id, 1, b"x").await;
    let complete = |name: &str, value: &str| complete(&stage, "k", &id, &[(1, &md5_hex(b"x"))]).header(name, value);
    let missing = complete("if-match", "\"0123\"").send().await;
    assert_eq!(missing.refusal(), (404, "NoSuchKey".to_owned()));
    stage.put("k", b"there").await;
    let exists = complete("if-none-match", "*").send().await;
    assert_eq!(exists.refusal(), (412, "PreconditionFailed".to_owned()));
    let other = complete("if-match", "\"0123\"").send().await;
    assert_eq!(other.refusal(), (412, "PreconditionFailed".to_owned()));
    assert_eq!(stage.get("k").await, b"there");
    let matching = complete("if-match", &format!("\"{}\"", md5_hex(b"there"))).send().await;
    assert_eq!(matching.status, 200, "{}", matching.text());
    assert_eq!(stage.get("k").await, b"x");
}
