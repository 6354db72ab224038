//! Checksums of single puts: verified before anything is stored, kept, and returned to whoever asks.

use sha1::Digest as _;

use crate::harness::chunked::{Chunked, Defect};
use crate::harness::inspect::{assert_consistent, assert_empty};
use crate::harness::{BUCKET, RawRequest, Stage, base64, bytes, path};

/// The algorithms as header suffixes.
pub(crate) const ALGORITHMS: [&str; 10] =
    ["crc32", "crc32c", "crc64nvme", "sha1", "sha256", "sha512", "md5", "xxhash64", "xxhash3", "xxhash128"];

/// The checksum's bytes, big-endian as S3 has them.
pub(crate) fn digest(algorithm: &str, data: &[u8]) -> Vec<u8> {
    let crc = |kind| crc_fast::checksum(kind, data).to_be_bytes();
    match algorithm {
        "crc32" => crc(crc_fast::CrcAlgorithm::Crc32IsoHdlc)[4..].to_vec(),
        "crc32c" => crc(crc_fast::CrcAlgorithm::Crc32Iscsi)[4..].to_vec(),
        "crc64nvme" => crc(crc_fast::CrcAlgorithm::Crc64Nvme).to_vec(),
        "sha1" => sha1::Sha1::digest(data).to_vec(),
        "sha256" => sha2::Sha256::digest(data).to_vec(),
        "sha512" => sha2::Sha512::digest(data).to_vec(),
        "md5" => md5::Md5::digest(data).to_vec(),
        "xxhash64" => twox_hash::XxHash64::oneshot(0, data).to_be_bytes().to_vec(),
        "xxhash3" => twox_hash::XxHash3_64::oneshot(data).to_be_bytes().to_vec(),
        "xxhash128" => twox_hash::XxHash3_128::oneshot(data).to_be_bytes().to_vec(),
        other => panic!("no such checksum: {other}"),
    }
}

/// As it stands in headers and XML.
pub(crate) fn checksum(algorithm: &str, data: &[u8]) -> String {
    base64(digest(algorithm, data))
}

fn header(algorithm: &str) -> String {
    format!("x-amz-checksum-{algorithm}")
}

fn put(stage: &Stage, body: &[u8]) -> RawRequest {
    stage.request("PUT", &path("k")).body(body)
}

#[test]
fn the_test_s_own_checksums_are_the_published_ones() {
    let hex = |algorithm| hex::encode(digest(algorithm, b"123456789"));
    assert_eq!(hex("crc32"), "cbf43926");
    assert_eq!(hex("crc32c"), "e3069283");
    assert_eq!(hex("crc64nvme"), "ae8b14860a799888");
    assert_eq!(hex("sha1"), "f7c3bc1d808e04732adf679965ccc34ca7ae3441");
    // As the tools of the xxHash project print them.
    assert_eq!(hex("xxhash64"), "8cb841db40e6ae83");
    assert_eq!(hex("xxhash3"), "72dcb18b67a17dff");
    assert_eq!(hex("xxhash128"), "33119477ede5dcd5e9716427681d5860");
}

#[tokio::test]
async fn a_right_checksum_is_stored_and_returned_when_asked() {
    let stage = Stage::start().await;
    for size in [0, 10, 200_000] {
        let data = bytes(1, size);
        for algorithm in ALGORITHMS {
            let value = checksum(algorithm, &data);
            let reply = put(&stage, &data).header(&header(algorithm), &value).send().await;
            assert_eq!(reply.status, 200, "{algorithm}: {}", reply.text());
            assert_eq!(reply.header(&header(algorithm)), Some(value.as_str()), "in the answer of the put");
            for method in ["GET", "HEAD"] {
                let asked = stage.request(method, &path("k")).header("x-amz-checksum-mode", "ENABLED").send().await;
                assert_eq!(asked.header(&header(algorithm)), Some(value.as_str()), "{method} {algorithm}");
                assert_eq!(asked.header("x-amz-checksum-type"), Some("FULL_OBJECT"), "{method} {algorithm}");
                let silent = stage.request(method, &path("k")).send().await;
                assert_eq!(silent.header(&header(algorithm)), None, "{method} {algorithm}, not asked");
            }
        }
    }
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_wrong_checksum_is_a_bad_digest_and_stores_nothing() {
    let stage = Stage::with(&[("LOBGATE_STORAGE_BUFFER_MAX", "128KiB")]).await;
    for size in [10, 100_000, 300_000] {
        let data = bytes(1, size);
        for algorithm in ALGORITHMS {
            let wrong = checksum(algorithm, b"other bytes");
            let reply = put(&stage, &data).header(&header(algorithm), &wrong).send().await;
            assert_eq!(reply.refusal(), (400, "BadDigest".to_owned()), "{algorithm}, {size} bytes");
        }
        let md5 = base64(md5::Md5::digest(b"other bytes"));
        let reply = put(&stage, &data).header("content-md5", &md5).send().await;
        assert_eq!(reply.refusal(), (400, "BadDigest".to_owned()), "Content-MD5, {size} bytes");
        let hash = crate::harness::sigv4::sha256_hex(b"other bytes");
        let reply = put(&stage, &data).payload_hash(&hash).send().await;
        assert_eq!(reply.refusal(), (400, "XAmzContentSHA256Mismatch".to_owned()), "{size} bytes");
    }
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn a_refused_overwrite_leaves_the_old_object() {
    let stage = Stage::start().await;
    stage.put("k", b"old").await;
    let reply = put(&stage, b"new").header("x-amz-checksum-crc32", &checksum("crc32", b"x")).send().await;
    assert_eq!(reply.status, 400);
    assert_eq!(stage.get("k").await, b"old");
}

#[tokio::test]
async fn a_malformed_checksum_is_refused_as_such() {
    let stage = Stage::start().await;
    for algorithm in ALGORITHMS {
        for malformed in ["", "!", "AAAA", "0000000000000000000000000000000000000000000000000000000000000000000000"] {
            let reply = put(&stage, b"x").header(&header(algorithm), malformed).send().await;
            assert_eq!(reply.refusal(), (400, "InvalidRequest".to_owned()), "{algorithm}: {malformed:?}");
        }
    }
    for malformed in ["", "!", "AAAA", "rL0Y20zC+Fzt72VPzMSk2A"] {
        let reply = put(&stage, b"x").header("content-md5", malformed).send().await;
        assert_eq!(reply.refusal(), (400, "InvalidDigest".to_owned()), "Content-MD5: {malformed:?}");
    }
    let two = put(&stage, b"x").header("x-amz-checksum-crc32", &checksum("crc32", b"x"));
    let two = two.header("x-amz-checksum-sha1", &checksum("sha1", b"x")).send().await;
    assert_eq!(two.refusal(), (400, "InvalidRequest".to_owned()), "one checksum, not two");
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn a_right_content_md5_is_accepted() {
    let stage = Stage::start().await;
    let reply = put(&stage, b"hello").header("content-md5", &base64(md5::Md5::digest(b"hello"))).send().await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn checksums_in_trailers_are_verified_like_those_in_headers() {
    let stage = Stage::with(&[("LOBGATE_STORAGE_BUFFER_MAX", "128KiB")]).await;
    for framing in [Chunked::unsigned(), Chunked::signed()] {
        for size in [0, 10, 100_000, 300_000] {
            let data = bytes(2, size);
            for algorithm in ALGORITHMS {
                let value = checksum(algorithm, &data);
                let right = framing.clone().trailer(&header(algorithm), &value);
                let reply = put(&stage, &data).chunked(right).send().await;
                let what = format!("{algorithm}, {size} bytes, signed: {}", framing.signed);
                assert_eq!(reply.status, 200, "{what}: {}", reply.text());
                let asked = stage.request("HEAD", &path("k")).header("x-amz-checksum-mode", "ENABLED").send().await;
                assert_eq!(asked.header(&header(algorithm)), Some(value.as_str()), "{what}");
                assert!(stage.get("k").await == data, "{what}");
                let wrong = framing.clone().trailer(&header(algorithm), &checksum(algorithm, b"other"));
                let reply = put(&stage, &bytes(3, size.max(1))).chunked(wrong).send().await;
                assert_eq!(reply.refusal(), (400, "BadDigest".to_owned()), "{what}");
            }
        }
    }
    assert_eq!(stage.database.count("SELECT count(*) FROM lobgate.object").await, 1);
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_trailer_that_comes_twice_stores_nothing() {
    let stage = Stage::start().await;
    let framing = Chunked::unsigned().trailer("x-amz-checksum-crc32", &checksum("crc32", b"hello"));
    let reply = put(&stage, b"hello").chunked(framing.defect(Defect::TrailerTwice)).send().await;
    assert_eq!(reply.status, 400, "{}", reply.text());
    assert!(!stage.exists("k").await);
}

#[tokio::test]
async fn an_announced_trailer_that_never_comes_stores_nothing() {
    let stage = Stage::start().await;
    for framing in [Chunked::unsigned(), Chunked::signed()] {
        let framing =
            framing.trailer("x-amz-checksum-crc32", &checksum("crc32", b"hello")).defect(Defect::TrailerMissing);
        let reply = put(&stage, b"hello").chunked(framing.clone()).send().await;
        assert!(matches!(reply.status, 400 | 403), "{} {}", reply.status, reply.text());
    }
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn a_copy_keeps_the_checksum_of_its_source() {
    let stage = Stage::start().await;
    let data = bytes(1, 100_000);
    for algorithm in ALGORITHMS {
        let value = checksum(algorithm, &data);
        assert_eq!(put(&stage, &data).header(&header(algorithm), &value).send().await.status, 200);
        let copy = stage.request("PUT", &path("copy")).header("x-amz-copy-source", &path("k")).send().await;
        assert_eq!(copy.status, 200, "{}", copy.text());
        let head = stage.request("HEAD", &path("copy")).header("x-amz-checksum-mode", "ENABLED").send().await;
        assert_eq!(head.header(&header(algorithm)), Some(value.as_str()));
    }
}

#[tokio::test]
async fn object_attributes_and_listings_tell_the_checksum() {
    let stage = Stage::start().await;
    let value = checksum("sha256", b"hello");
    assert_eq!(put(&stage, b"hello").header("x-amz-checksum-sha256", &value).send().await.status, 200);
    let attributes = stage.request("GET", &format!("{}?attributes", path("k")));
    let attributes = attributes.header("x-amz-object-attributes", "Checksum").send().await;
    assert_eq!(attributes.xml("ChecksumSHA256"), Some(value), "{}", attributes.text());
    assert_eq!(attributes.xml("ChecksumType").as_deref(), Some("FULL_OBJECT"));
    assert_eq!(attributes.xml("ObjectSize"), None, "only what was asked for");
    let listed = stage.request("GET", "/bucket?list-type=2").send().await;
    assert_eq!(listed.xml("ChecksumAlgorithm").as_deref(), Some("SHA256"));
}

#[tokio::test]
async fn a_document_that_is_not_what_was_declared_deletes_nothing() {
    let stage = Stage::start().await;
    let document = b"<Delete><Object><Key>k</Key></Object></Delete>";
    let delete = || stage.request("POST", &format!("/{BUCKET}?delete")).body(document);
    let md5 = |bytes: &[u8]| base64(md5::Md5::digest(bytes));
    stage.put("k", b"old").await;
    let refused = delete().header("content-md5", &md5(b"other")).send().await;
    assert_eq!(refused.refusal(), (400, "BadDigest".to_owned()), "Content-MD5");
    let refused = delete().header("content-md5", "AAAA").send().await;
    assert_eq!(refused.refusal(), (400, "InvalidDigest".to_owned()), "a malformed Content-MD5");
    for algorithm in ALGORITHMS {
        let refused = delete().header(&header(algorithm), &checksum(algorithm, b"other")).send().await;
        assert_eq!(refused.refusal(), (400, "BadDigest".to_owned()), "{algorithm}");
        let refused = delete().header(&header(algorithm), "!").send().await;
        assert_eq!(refused.refusal(), (400, "InvalidRequest".to_owned()), "{algorithm}, malformed");
    }
    assert_eq!(stage.get("k").await, b"old", "it is still there");
    for algorithm in ALGORITHMS {
        stage.put("k", b"old").await;
        let deleted = delete().header(&header(algorithm), &checksum(algorithm, document)).send().await;
        assert_eq!(deleted.status, 200, "{algorithm}: {}", deleted.text());
        assert_eq!(stage.request("GET", &path("k")).send().await.status, 404, "{algorithm}");
    }
    stage.put("k", b"old").await;
    let deleted = delete().header("content-md5", &md5(document)).send().await;
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(stage.request("GET", &path("k")).send().await.status, 404);
}
