//! Requests hidden in other requests, and heads that are too much: nothing is done that was not asked for plainly.

use std::time::Instant;

use crate::harness::raw::Connection;
use crate::harness::{Stage, eventually, path};

/// Idle connections end soon, so that everything a connection brings can be read to its end.
const SHORT: [(&str, &str); 1] = [("LOBGATE_SERVER_HEADER_READ_TIMEOUT", "1s")];

/// The statuses of all answers that come before the connection ends.
async fn answers(stage: &Stage, bytes: &[u8]) -> Vec<u16> {
    let mut connection = Connection::open(&stage.gateway.endpoint).await;
    connection.write(bytes).await;
    let all = connection.read_some(usize::MAX).await;
    let text = String::from_utf8_lossy(&all);
    let lines = text.split("HTTP/1.1 ").skip(1);
    lines.filter_map(|line| line.get(..3)?.parse().ok()).collect()
}

#[tokio::test]
async fn nobody_finds_a_second_request_where_there_is_one() {
    let stage = Stage::with(&SHORT).await;
    let host = stage.gateway.endpoint.trim_start_matches("http://").to_owned();
    let hidden = |name: &str| {
        let target = stage.request("DELETE", &path(name)).presigned(600).target();
        format!("DELETE {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")
    };
    let put = stage.request("PUT", &path("carrier")).presigned(600).target();
    // Each is a body whose two readings differ, with a signed deletion after the shorter one.
    for (n, framing) in [
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        "content-length: 5\r\ncontent-length: 0\r\n",
        "content-length: 0\r\ncontent-length: 5\r\n",
        "content-length: 5, 0\r\n",
        "content-length: +5\r\n",
        "content-length: 0x5\r\n",
        "content-length: 5 \r\ncontent-length : 0\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "transfer-encoding: identity, chunked\r\ncontent-length: 5\r\n",
        "transfer-encoding: xchunked\r\ncontent-length: 5\r\n",
        "transfer-encoding:\u{b}chunked\r\ncontent-length: 5\r\n",
        "content-length: 5\r\n transfer-encoding: chunked\r\n",
        "content-length: 5\r\nx: y\rtransfer-encoding: chunked\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("victim-{n}");
        stage.put(&name, b"alive").await;
        let request = format!("PUT {put} HTTP/1.1\r\nhost: {host}\r\n{framing}\r\n0\r\n\r\n{}", hidden(&name));
        let statuses = answers(&stage, request.as_bytes()).await;
        assert!(stage.exists(&name).await, "{framing:?}: {statuses:?}");
    }
}

#[tokio::test]
async fn chunks_have_sizes_and_nothing_else() {
    let stage = Stage::with(&SHORT).await;
    let host = stage.gateway.endpoint.trim_start_matches("http://").to_owned();
    let put = stage.request("PUT", &path("k")).presigned(600).target();
    for body in [
        "-1\r\nx\r\n0\r\n\r\n",
        "+1\r\nx\r\n0\r\n\r\n",
        "0x1\r\nx\r\n0\r\n\r\n",
        "1 1\r\nx\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\nx\r\n0\r\n\r\n",
        "1\r\nxy\r\n0\r\n\r\n",
        "\r\nx\r\n0\r\n\r\n",
        "g\r\nx\r\n0\r\n\r\n",
    ] {
        let request = format!("PUT {put} HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\n{body}");
        let statuses = answers(&stage, request.as_bytes()).await;
        assert!(statuses.iter().all(|status| *status >= 400), "{body:?}: {statuses:?}");
        assert!(!stage.exists("k").await, "{body:?}");
    }
}

#[tokio::test]
async fn heads_have_limits() {
    let stage = Stage::with(&SHORT).await;
    let host = stage.gateway.endpoint.trim_start_matches("http://").to_owned();
    let many: String = (0..200).map(|n| format!("x-header-{n}: y\r\n")).collect();
    let long = format!("x-long: {}\r\n", "y".repeat(300 << 10));
    for headers in [many, long] {
        let request = format!("GET /bucket HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n");
        let statuses = answers(&stage, request.as_bytes()).await;
        assert!(matches!(statuses[..], [431] | [400]), "{statuses:?}");
    }
    let target = "a".repeat(300 << 10);
    let statuses = answers(&stage, format!("GET /{target} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await;
    assert!(matches!(statuses[..], [414] | [431] | [400]), "{statuses:?}");
    for head in [
        "GET / HTTP/1.1\r\nhost: a\r\nbad name: x\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\u{1}\r\n\r\n",
        "G\0T / HTTP/1.1\r\n\r\n",
    ] {
        let statuses = answers(&stage, head.as_bytes()).await;
        assert!(statuses.iter().all(|status| (400..600).contains(status)), "{head:?}: {statuses:?}");
    }
    assert_eq!(stage.request("HEAD", "/bucket").send().await.status, 200);
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let stage = Stage::with(&SHORT).await;
    let begun = Instant::now();
    let mut slow = Connection::open(&stage.gateway.endpoint).await;
    assert!(slow.write(b"GET /bucket HTTP/1.1\r\nhost: a\r\n").await);
    let dripping = async {
        // A byte every now and then does not help.
        while slow.write(b"x").await {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(crate::harness::DEADLINE, dripping).await.expect("the connection is closed");
    assert!(begun.elapsed().as_secs() >= 1, "not before its time");
    eventually("others are served", || async { stage.request("HEAD", "/bucket").send().await.status == 200 }).await;
}
