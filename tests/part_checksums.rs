//! Checksums of multipart uploads: of each part, of the parts' checksums, or of the whole object.

use crate::checksums::{checksum, digest};
use crate::harness::{RawRequest, Stage, base64, bytes, md5_hex, path};
use crate::multipart::MIB;

/// An upload with two parts; the second is small.
struct Upload {
    id: String,
    parts: [Vec<u8>; 2],
}

impl Upload {
    async fn create(stage: &Stage, algorithm: &str, kind: &str) -> Self {
        let mut create = stage.request("POST", &format!("{}?uploads", path("k")));
        create = create.header("x-amz-checksum-algorithm", &algorithm.to_uppercase());
        if !kind.is_empty() {
            create = create.header("x-amz-checksum-type", kind);
        }
        let created = create.send().await;
        assert_eq!(created.status, 200, "{}", created.text());
        assert_eq!(created.header("x-amz-checksum-algorithm"), Some(algorithm.to_uppercase().as_str()));
        let id = created.xml("UploadId").expect("an upload id");
        Self { id, parts: [bytes(1, 5 * MIB), bytes(2, 1000)] }
    }

    fn part(&self, stage: &Stage, index: usize) -> RawRequest {
        let target = format!("{}?partNumber={}&uploadId={}", path("k"), index + 1, self.id);
        stage.request("PUT", &target).body(&self.parts[index])
    }

    /// Completion; `named` adds each part's checksum to its entry.
    fn complete(&self, stage: &Stage, algorithm: &str, named: bool) -> RawRequest {
        let element = format!("Checksum{}", algorithm.to_uppercase());
        let entries: String = (1..)
            .zip(&self.parts)
            .map(|(number, data)| {
                let value = checksum(algorithm, data);
                let extra = if named { format!("<{element}>{value}</{element}>") } else { String::new() };
                format!("<Part><PartNumber>{number}</PartNumber><ETag>{}</ETag>{extra}</Part>", md5_hex(data))
            })
            .collect();
        let body = format!("<CompleteMultipartUpload>{entries}</CompleteMultipartUpload>");
        stage.request("POST", &format!("{}?uploadId={}", path("k"), self.id)).body(body)
    }

    fn composite(&self, algorithm: &str) -> String {
        let digests: Vec<u8> = self.parts.iter().flat_map(|data| digest(algorithm, data)).collect();
        format!("{}-2", base64(digest(algorithm, &digests)))
    }

    fn whole(&self, algorithm: &str) -> String {
        checksum(algorithm, &self.parts.concat())
    }
}

#[tokio::test]
async fn composite_and_full_object_checksums_come_from_the_parts() {
    let stage = Stage::start().await;
    for (algorithm, kind) in [
        ("crc32", "COMPOSITE"),
        ("crc32c", "COMPOSITE"),
        ("sha1", "COMPOSITE"),
        ("sha256", "COMPOSITE"),
        ("sha256", ""),
        ("crc32", "FULL_OBJECT"),
        ("crc32c", "FULL_OBJECT"),
        ("crc64nvme", "FULL_OBJECT"),
        ("crc64nvme", ""),
    ] {
        let upload = Upload::create(&stage, algorithm, kind).await;
        let header = format!("x-amz-checksum-{algorithm}");
        for index in [0, 1] {
            let value = checksum(algorithm, &upload.parts[index]);
            let sent = upload.part(&stage, index).header(&header, &value).send().await;
            assert_eq!(sent.status, 200, "{}", sent.text());
            assert_eq!(sent.header(&header), Some(value.as_str()));
        }
        let listed = stage.request("GET", &format!("{}?uploadId={}", path("k"), upload.id)).send().await;
        let element = format!("Checksum{}", algorithm.to_uppercase());
        assert_eq!(listed.xml_all(&element)[0], checksum(algorithm, &upload.parts[0]), "{}", listed.text());
        let done = upload.complete(&stage, algorithm, true).send().await;
        assert_eq!(done.status, 200, "{algorithm} {kind}: {}", done.text());
        let full = kind == "FULL_OBJECT" || algorithm == "crc64nvme";
        let expected = if full { upload.whole(algorithm) } else { upload.composite(algorithm) };
        assert_eq!(done.xml(&element), Some(expected.clone()), "{algorithm} {kind}");
        let head = stage.request("HEAD", &path("k")).header("x-amz-checksum-mode", "ENABLED").send().await;
        assert_eq!(head.header(&header), Some(expected.as_str()), "{algorithm} {kind}");
        assert_eq!(head.header("x-amz-checksum-type"), Some(if full { "FULL_OBJECT" } else { "COMPOSITE" }));
    }
}

#[tokio::test]
async fn a_part_without_the_checksum_of_its_upload_gets_it_computed() {
    let stage = Stage::start().await;
    for (algorithm, kind) in [("crc32", "FULL_OBJECT"), ("crc64nvme", ""), ("sha256", "COMPOSITE")] {
        let upload = Upload::create(&stage, algorithm, kind).await;
        let header = format!("x-amz-checksum-{algorithm}");
        for index in [0, 1] {
            let sent = upload.part(&stage, index).send().await;
            assert_eq!(sent.status, 200, "{}", sent.text());
            assert_eq!(sent.header(&header), Some(checksum(algorithm, &upload.parts[index]).as_str()), "{algorithm}");
        }
        // For composites S3 wants each part's checksum named on completion.
        let done = upload.complete(&stage, algorithm, kind == "COMPOSITE").send().await;
        assert_eq!(done.status, 200, "{algorithm}: {}", done.text());
        let expected = if kind == "COMPOSITE" { upload.composite(algorithm) } else { upload.whole(algorithm) };
        assert_eq!(done.xml(&format!("Checksum{}", algorithm.to_uppercase())), Some(expected), "{algorithm}");
    }
}

#[tokio::test]
async fn a_part_whose_checksum_is_wrong_or_another_is_refused() {
    let stage = Stage::start().await;
    let upload = Upload::create(&stage, "crc32", "").await;
    let wrong = upload.part(&stage, 1).header("x-amz-checksum-crc32", &checksum("crc32", b"x")).send().await;
    assert_eq!(wrong.refusal(), (400, "BadDigest".to_owned()));
    let other = upload.part(&stage, 1).header("x-amz-checksum-sha1", &checksum("sha1", &upload.parts[1])).send().await;
    assert_eq!(other.refusal(), (400, "InvalidRequest".to_owned()), "the upload's algorithm is CRC32");
    let listed = stage.request("GET", &format!("{}?uploadId={}", path("k"), upload.id)).send().await;
    assert!(listed.xml_all("PartNumber").is_empty(), "nothing was stored");
}

#[tokio::test]
async fn a_full_object_checksum_declared_on_completion_is_verified() {
    let stage = Stage::start().await;
    let upload = Upload::create(&stage, "crc64nvme", "FULL_OBJECT").await;
    for index in [0, 1] {
        assert_eq!(upload.part(&stage, index).send().await.status, 200);
    }
    let complete = || upload.complete(&stage, "crc64nvme", false).header("x-amz-checksum-type", "FULL_OBJECT");
    let wrong = complete().header("x-amz-checksum-crc64nvme", &checksum("crc64nvme", b"x")).send().await;
    assert_eq!(wrong.refusal(), (400, "BadDigest".to_owned()));
    let size = complete().header("x-amz-mp-object-size", "17").send().await;
    assert_eq!(size.refusal(), (400, "InvalidRequest".to_owned()));
    assert!(!stage.exists("k").await);
    let right = complete().header("x-amz-checksum-crc64nvme", &upload.whole("crc64nvme"));
    let right = right.header("x-amz-mp-object-size", &(5 * MIB + 1000).to_string()).send().await;
    assert_eq!(right.status, 200, "{}", right.text());
}

#[tokio::test]
async fn a_wrong_checksum_in_a_completion_s_part_is_an_invalid_part() {
    let stage = Stage::start().await;
    let upload = Upload::create(&stage, "sha256", "").await;
    for index in [0, 1] {
        assert_eq!(upload.part(&stage, index).send().await.status, 200);
    }
    let entry = |data: &[u8], number: i32, value: &str| {
        let etag = md5_hex(data);
        format!(
            "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag><ChecksumSHA256>{value}</ChecksumSHA256></Part>"
        )
    };
    let entries = [
        entry(&upload.parts[0], 1, &checksum("sha256", &upload.parts[0])),
        entry(&upload.parts[1], 2, &checksum("sha256", b"forged")),
    ];
    let body = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", entries.concat());
    let wrong = stage.request("POST", &format!("{}?uploadId={}", path("k"), upload.id)).body(body).send().await;
    assert_eq!(wrong.refusal(), (400, "InvalidPart".to_owned()));
    assert_eq!(upload.complete(&stage, "sha256", true).send().await.status, 200);
}

#[tokio::test]
async fn kinds_that_an_algorithm_does_not_have_are_refused() {
    let stage = Stage::start().await;
    for (algorithm, kind) in
        [("SHA1", "FULL_OBJECT"), ("SHA256", "FULL_OBJECT"), ("CRC64NVME", "COMPOSITE"), ("CRC32", "NONSENSE")]
    {
        let create =
            stage.request("POST", &format!("{}?uploads", path("k"))).header("x-amz-checksum-algorithm", algorithm);
        let reply = create.header("x-amz-checksum-type", kind).send().await;
        assert_eq!(reply.status, 400, "{algorithm} {kind}: {}", reply.text());
    }
    let unknown = stage.request("POST", &format!("{}?uploads", path("k"))).header("x-amz-checksum-algorithm", "CRC16");
    assert_eq!(unknown.send().await.refusal(), (400, "InvalidRequest".to_owned()));
}
