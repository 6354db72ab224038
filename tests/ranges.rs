//! Ranged reads: the exact bytes at, across and beyond every edge that the store has, and S3's answers to odd ranges.

use crate::harness::client::body;
use crate::harness::{BUCKET, RawRequest, Stage, bytes, path};

const MIB: usize = 1024 * 1024;

fn ranged(stage: &Stage, key: &str, range: &str) -> RawRequest {
    stage.request("GET", &path(key)).header("range", range)
}

#[tokio::test]
async fn ranges_at_and_across_every_edge_are_byte_exact() {
    let stage = Stage::start().await;
    let size = 2 * MIB + 3000;
    let data = bytes(1, size);
    stage.put("k", &data).await;
    let edges = [0, 2048, 4096, 65_536, 262_144, MIB, 2 * MIB, size];
    for edge in edges {
        for before in [0, 1, 2048, 5000] {
            for after in [0, 1, 2047, 5000] {
                let (start, end) = (edge.saturating_sub(before), (edge + after).min(size - 1));
                if start > end {
                    continue;
                }
                let reply = ranged(&stage, "k", &format!("bytes={start}-{end}")).send().await;
                assert_eq!(reply.status, 206, "{start}-{end}");
                assert!(reply.body == data[start..=end], "the bytes of {start}-{end}");
                assert_eq!(reply.header("content-range"), Some(format!("bytes {start}-{end}/{size}").as_str()));
                assert_eq!(reply.header("content-length"), Some((end - start + 1).to_string().as_str()));
            }
        }
    }
}

#[tokio::test]
async fn open_and_suffix_ranges_reach_the_end() {
    let stage = Stage::start().await;
    for size in [100_usize, 300_000] {
        let data = bytes(size as u64, size);
        stage.put("k", &data).await;
        let last = size - 1;
        let cases = [
            ("bytes=0-".to_owned(), 0, last),
            (format!("bytes={last}-"), last, last),
            ("bytes=40-".to_owned(), 40, last),
            ("bytes=-1".to_owned(), last, last),
            ("bytes=-40".to_owned(), size - 40, last),
            (format!("bytes=-{size}"), 0, last),
            (format!("bytes=-{}", size + 5), 0, last),
            ("bytes=7-99999999999".to_owned(), 7, last),
            ("bytes=7-18446744073709551615".to_owned(), 7, last),
            ("bytes=0-0".to_owned(), 0, 0),
        ];
        for (range, start, end) in cases {
            let reply = ranged(&stage, "k", &range).send().await;
            assert_eq!(reply.status, 206, "{range} of {size}");
            assert!(reply.body == data[start..=end], "the bytes of {range} of {size}");
            assert_eq!(reply.header("content-range"), Some(format!("bytes {start}-{end}/{size}").as_str()), "{range}");
        }
    }
}

#[tokio::test]
async fn a_range_beyond_the_end_is_not_satisfiable() {
    let stage = Stage::start().await;
    for (size, range) in [
        (10, "bytes=10-"),
        (10, "bytes=10-20"),
        (10, "bytes=99999999999-"),
        (10, "bytes=-0"),
        (200_000, "bytes=200000-"),
        (0, "bytes=0-"),
        (0, "bytes=40-50"),
    ] {
        stage.put("k", &bytes(0, size)).await;
        let reply = ranged(&stage, "k", range).send().await;
        assert_eq!(reply.refusal(), (416, "InvalidRange".to_owned()), "{range} of {size}");
        assert_eq!(reply.header("content-range"), Some(format!("bytes */{size}").as_str()), "{range} of {size}");
        let head = stage.request("HEAD", &path("k")).header("range", range).send().await;
        assert_eq!(head.status, 416, "HEAD {range} of {size}");
    }
}

#[tokio::test]
async fn ranges_that_are_none_or_several_are_ignored() {
    let stage = Stage::start().await;
    let data = bytes(3, 1000);
    stage.put("k", &data).await;
    for range in [
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=5-3",
        "items=0-5",
        "0-5",
        "bytes=0-1,5-6",
        "bytes=0-1, -3",
        "bytes",
        "x",
    ] {
        let reply = ranged(&stage, "k", range).send().await;
        assert_eq!(reply.status, 200, "{range}: {}", reply.text());
        assert!(reply.body == data, "{range}");
        assert_eq!(reply.header("content-range"), None, "{range}");
    }
}

#[tokio::test]
async fn head_answers_a_range_as_get_does() {
    let stage = Stage::start().await;
    stage.put("k", &bytes(3, 1000)).await;
    let head = stage.request("HEAD", &path("k")).header("range", "bytes=10-19").send().await;
    assert_eq!(head.status, 206);
    assert_eq!(head.header("content-range"), Some("bytes 10-19/1000"));
    assert_eq!(head.header("content-length"), Some("10"));
}

#[tokio::test]
async fn ranges_run_across_the_parts_of_a_multipart_object() {
    let stage = Stage::start().await;
    let parts = [bytes(1, 5 * MIB), bytes(2, 5 * MIB + 1), bytes(3, 70_000), Vec::new()];
    crate::multipart::upload(&stage, "k", &parts[..3]).await;
    let data = parts.concat();
    let edge = 5 * MIB;
    for (start, end) in [
        (0, 0),
        (edge - 1, edge - 1),
        (edge - 1, edge),
        (edge, edge),
        (edge - 3, 2 * edge + 5),
        (2 * edge, 2 * edge + 1),
        (2 * edge + 1, data.len() - 1),
        (data.len() - 1, data.len() - 1),
        (0, data.len() - 1),
    ] {
        let reply = ranged(&stage, "k", &format!("bytes={start}-{end}")).send().await;
        assert_eq!(reply.status, 206, "{start}-{end}");
        assert!(reply.body == data[start..=end], "the bytes of {start}-{end}");
    }
}

#[tokio::test]
async fn a_part_number_reads_that_part() {
    let stage = Stage::start().await;
    let parts = [bytes(1, 5 * MIB), bytes(2, 70_000)];
    crate::multipart::upload(&stage, "k", &parts).await;
    let size = 5 * MIB + 70_000;
    for (number, start, end) in [(1, 0, 5 * MIB - 1), (2, 5 * MIB, size - 1)] {
        let target = format!("{}?partNumber={number}", path("k"));
        let reply = stage.request("GET", &target).send().await;
        assert_eq!(reply.status, 206);
        assert!(reply.body == parts[number - 1], "the bytes of part {number}");
        assert_eq!(reply.header("content-range"), Some(format!("bytes {start}-{end}/{size}").as_str()));
        assert_eq!(reply.header("x-amz-mp-parts-count"), Some("2"));
        let head = stage.request("HEAD", &target).send().await;
        assert_eq!(head.status, 206);
        assert_eq!(head.header("content-length"), Some(parts[number - 1].len().to_string().as_str()));
        assert_eq!(head.header("x-amz-mp-parts-count"), Some("2"));
    }
    let beyond = stage.request("GET", &format!("{}?partNumber=3", path("k"))).send().await;
    assert_eq!(beyond.refusal(), (416, "InvalidPartNumber".to_owned()));
    for impossible in ["0", "10001", "-1", "x"] {
        let reply = stage.request("GET", &format!("{}?partNumber={impossible}", path("k"))).send().await;
        assert_eq!(reply.refusal(), (400, "InvalidArgument".to_owned()), "{impossible}");
    }
    let both = stage.request("GET", &format!("{}?partNumber=1", path("k"))).header("range", "bytes=0-1").send().await;
    assert_eq!(both.refusal(), (400, "InvalidRequest".to_owned()));
}

#[tokio::test]
async fn an_object_put_at_once_has_one_part() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    let whole = stage.request("GET", &format!("{}?partNumber=1", path("k"))).send().await;
    assert_eq!((whole.status, whole.text().as_str()), (206, "hello"));
    let beyond = stage.request("GET", &format!("{}?partNumber=2", path("k"))).send().await;
    assert_eq!(beyond.refusal(), (416, "InvalidPartNumber".to_owned()));
}

#[tokio::test]
async fn many_ranges_read_at_once_are_each_exact() {
    let stage = Stage::start().await;
    let data = bytes(9, 4 * MIB);
    stage.s3.put_object().bucket(BUCKET).key("k").body(body(&data)).send().await.expect("put");
    let reads = (0..32_usize).map(|number| {
        let (start, end) = (number * 131_071, (number * 131_071 + 300_000).min(4 * MIB - 1));
        let request = ranged(&stage, "k", &format!("bytes={start}-{end}"));
        let expected = data[start..=end].to_vec();
        async move { assert!(request.send().await.body == expected, "{start}-{end}") }
    });
    futures::future::join_all(reads).await;
}
