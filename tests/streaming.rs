//! Bodies on the wire: short, long, slow, abandoned. None leaves a trace, none holds what others need.

use crate::harness::chunked::{Chunked, Defect};
use crate::harness::inspect::{assert_consistent, assert_empty, large_objects};
use crate::harness::raw::Connection;
use crate::harness::{Database, Stage, bytes, eventually, path};

/// One size for each way of writing: inline, buffered, streamed.
const SIZES: [usize; 3] = [10_000, 100_000, 600_000];
const BUFFER: (&str, &str) = ("LOBGATE_STORAGE_BUFFER_MAX", "256KiB");

/// Waits until no session of the gateways works or holds a transaction.
async fn until_idle(database: &Database) {
    let busy = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND usename = '{}' AND state <> 'idle'",
        database.name,
        crate::harness::cluster::ROLE
    );
    eventually("no session holds a transaction", || async { database.count(&busy).await == 0 }).await;
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_of_a_put_leaves_nothing() {
    let stage = Stage::with(&[BUFFER]).await;
    for size in SIZES {
        for part in [0, 1, size / 2, size - 1] {
            let (head, body) = stage.request("PUT", &path("k")).body(bytes(1, size)).wire();
            let mut connection = Connection::open(&stage.gateway.endpoint).await;
            assert!(connection.write(&head).await && connection.write(&body[..part]).await);
        }
    }
    let id = crate::multipart::create(&stage, "k").await;
    let target = format!("{}?partNumber=1&uploadId={id}", path("k"));
    let (head, body) = stage.request("PUT", &target).body(bytes(1, 600_000)).wire();
    let mut connection = Connection::open(&stage.gateway.endpoint).await;
    assert!(connection.write(&head).await && connection.write(&body[..500_000]).await);
    drop(connection);
    stage.put("other", b"x").await;
    until_idle(&stage.database).await;
    stage.delete("other").await;
    crate::harness::inspect::until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn a_body_shorter_than_announced_stores_nothing() {
    let stage = Stage::with(&[BUFFER]).await;
    for size in SIZES {
        let (head, body) = stage.request("PUT", &path("k")).body(bytes(1, size)).wire();
        let mut connection = Connection::open(&stage.gateway.endpoint).await;
        assert!(connection.write(&head).await && connection.write(&body[..size - 1]).await);
        connection.finish_writing().await;
        let answer = String::from_utf8_lossy(&connection.read_some(usize::MAX).await).into_owned();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    until_idle(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn bytes_beyond_the_announced_length_are_not_part_of_the_object() {
    let stage = Stage::with(&[BUFFER]).await;
    for size in SIZES {
        let data = bytes(1, size);
        let (head, _) = stage.request("PUT", &path("k")).body(&data).wire();
        let mut connection = Connection::open(&stage.gateway.endpoint).await;
        connection.write(&[&head[..], &data, b"SURPLUS /BYTES"].concat()).await;
        assert_eq!(connection.read_head().await.status, 200);
        assert!(stage.get("k").await == data);
    }
}

#[tokio::test]
async fn chunked_bodies_of_any_chunk_size_come_out_whole() {
    let stage = Stage::with(&[BUFFER]).await;
    for size in [0_usize, 1, 10_000, 600_000] {
        for chunk in [size.div_ceil(100).max(1), 65_536, 1 << 20] {
            for framing in [Chunked::signed(), Chunked::unsigned().trailer("x-amz-checksum-crc32", "")] {
                let data = bytes(1, size);
                let mut framing = framing.chunk_size(chunk);
                for (_, value) in &mut framing.trailers {
                    *value = crate::checksums::checksum("crc32", &data);
                }
                let put = stage.request("PUT", &path("k")).body(&data).chunked(framing).send().await;
                assert_eq!(put.status, 200, "{size} in chunks of {chunk}: {}", put.text());
                assert!(stage.get("k").await == data, "{size} in chunks of {chunk}");
            }
        }
    }
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_chunked_body_that_lies_about_its_length_or_never_ends_stores_nothing() {
    let stage = Stage::with(&[BUFFER]).await;
    for size in SIZES {
        for framing in [Chunked::signed(), Chunked::unsigned().trailer("x-amz-checksum-crc32", "AAAAAA==")] {
            for defect in [Defect::DeclaredTooLong, Defect::DeclaredTooShort, Defect::NoFinalChunk] {
                let request =
                    stage.request("PUT", &path("k")).body(bytes(1, size)).chunked(framing.clone().defect(defect));
                let reply = request.send().await;
                assert_eq!(reply.status, 400, "{size} {defect:?} signed {}: {}", framing.signed, reply.text());
                assert!(reply.xml("Code").is_some());
            }
        }
    }
    let nonsense = stage.request("PUT", &path("k")).payload_hash("STREAMING-UNSIGNED-PAYLOAD-TRAILER");
    let nonsense =
        nonsense.header("x-amz-decoded-content-length", "5").body("this is no chunk at all\r\n").send().await;
    assert_eq!(nonsense.status, 400, "{}", nonsense.text());
    until_idle(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn slow_uploads_hold_no_connection_while_others_work() {
    let stage = Stage::with(&[BUFFER, ("LOBGATE_DATABASE_POOL_SIZE", "4")]).await;
    let mut slow = Vec::new();
    for number in 0..30 {
        let request = stage.request("PUT", &path(&number.to_string())).body(bytes(number, 200_000));
        let (head, body) = request.wire();
        let mut connection = Connection::open(&stage.gateway.endpoint).await;
        assert!(connection.write(&head).await && connection.write(&body[..100_000]).await);
        slow.push((connection, body));
    }
    for number in 0..20 {
        let key = format!("quick-{number}");
        stage.put(&key, b"x").await;
        assert_eq!(stage.get(&key).await, b"x");
    }
    until_idle(&stage.database).await;
    for (connection, body) in slow {
        assert_eq!(connection.exchange(&body[100_000..], false).await.status, 200);
    }
    for number in 0..30_u64 {
        assert!(stage.get(&number.to_string()).await == bytes(number, 200_000));
    }
}

#[tokio::test]
async fn a_body_that_comes_fast_is_written_while_it_arrives_and_one_that_stops_holds_no_transaction() {
    let stage = Stage::start().await;
    let data = bytes(1, 3 << 20);
    for (key, stops_at) in [("whole", data.len()), ("stops", 2 << 20), ("leaves", 2 << 20)] {
        let request = stage.request("PUT", &path(key)).payload_hash("UNSIGNED-PAYLOAD").body(&data);
        let (head, body) = request.wire();
        let mut connection = Connection::open(&stage.gateway.endpoint).await;
        // The head goes with the first bytes: their speed is what the gateway looks at.
        assert!(connection.write(&[&head[..], &body[..stops_at]].concat()).await);
        if key == "whole" {
            assert_eq!(connection.exchange(&[], false).await.status, 200);
            continue;
        }
        until_idle(&stage.database).await;
        if key == "stops" {
            assert_eq!(connection.exchange(&body[stops_at..], false).await.status, 200);
        }
    }
    for key in ["whole", "stops"] {
        assert!(stage.get(key).await == data, "{key}");
    }
    assert!(!stage.exists("leaves").await);
    eventually("no bytes of the body that never ended", async || large_objects(&stage.database).await == 2).await;
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn readers_that_dawdle_or_leave_hold_no_connection() {
    let stage = Stage::with(&[("LOBGATE_DATABASE_POOL_SIZE", "4")]).await;
    let data = bytes(1, 12 << 20);
    stage.put("k", &data).await;
    let mut dawdling = Vec::new();
    for number in 0..20 {
        let mut connection = stage.request("GET", &path("k")).open().await;
        assert_eq!(connection.read_head().await.status, 200);
        if number % 2 == 0 {
            dawdling.push(connection);
        }
    }
    until_idle(&stage.database).await;
    stage.put("other", b"x").await;
    assert_eq!(stage.get("other").await, b"x");
    for mut connection in dawdling {
        assert!(connection.read_some(data.len()).await == data, "each still gets the whole");
    }
}

#[tokio::test]
async fn a_client_that_expects_100_gets_it_only_when_the_body_is_welcome() {
    let stage = Stage::start().await;
    let put = stage.request("PUT", &path("k")).unsigned_header("expect", "100-continue").body("hello");
    let (head, body) = put.wire();
    let mut connection = Connection::open(&stage.gateway.endpoint).await;
    assert!(connection.write(&head).await);
    let interim = connection.read_some(25).await;
    assert_eq!(String::from_utf8_lossy(&interim), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(connection.exchange(&body, false).await.status, 200);
    let (head, _) = put.clone().tampered().wire();
    let mut connection = Connection::open(&stage.gateway.endpoint).await;
    assert!(connection.write(&head).await);
    let refused = connection.read_some(12).await;
    assert_eq!(String::from_utf8_lossy(&refused), "HTTP/1.1 403", "without an interim 100");
}

#[tokio::test]
async fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    let stage = Stage::start().await;
    let body = bytes(1, 8 << 20);
    let missing = stage.request("PUT", "/no-such-bucket/k").payload_hash("UNSIGNED-PAYLOAD").body(&body).send().await;
    assert_eq!(missing.refusal(), (404, "NoSuchBucket".to_owned()));
    let tampered = stage.request("PUT", &path("k")).tampered().body(&body).send().await;
    assert_eq!(tampered.refusal(), (403, "SignatureDoesNotMatch".to_owned()));
}

#[tokio::test]
async fn a_gateway_told_to_stop_finishes_what_it_has_begun() {
    let mut stage = Stage::with(&[BUFFER]).await;
    let data = bytes(1, 600_000);
    let (head, body) = stage.request("PUT", &path("k")).body(&data).wire();
    let mut connection = Connection::open(&stage.gateway.endpoint).await;
    assert!(connection.write(&head).await && connection.write(&body[..300_000]).await);
    let writing = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND backend_xid IS NOT NULL",
        stage.database.name
    );
    eventually("the upload has begun", || async { stage.database.count(&writing).await > 0 }).await;
    stage.gateway.signal(nix::sys::signal::Signal::SIGTERM);
    let endpoint = stage.gateway.endpoint.trim_start_matches("http://").to_owned();
    eventually("no new connections are taken", || async { tokio::net::TcpStream::connect(&endpoint).await.is_err() })
        .await;
    assert_eq!(connection.exchange(&body[300_000..], false).await.status, 200);
    assert!(stage.gateway.ended().await.success());
    let twin = crate::harness::Gateway::start(&stage.database.url(), &[]).await;
    let got = crate::harness::RawRequest::new(&twin.endpoint, "GET", &path("k")).send().await;
    assert!(got.body == data, "what was acknowledged is there");
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_client_that_waits_to_go_on_and_is_not_asked_to_gets_its_connection_closed() {
    let stage = Stage::start().await;
    let expecting = |body: &'static str| stage.request("PUT", &path("k")).header("expect", "100-continue").body(body);
    let empty = expecting("").send().await;
    assert_eq!((empty.status, empty.header("connection")), (200, Some("close")), "nothing to ask for");
    let refused = expecting("x").header("if-none-match", "\"tag\"").send().await;
    assert_eq!((refused.status, refused.header("connection")), (501, Some("close")), "refused before the body");
    let plain = stage.request("PUT", &path("k")).body("").send().await;
    assert_eq!((plain.status, plain.header("connection")), (200, None), "nobody waits");
}

#[tokio::test]
async fn bodies_of_unknown_length_do_not_wait_for_each_other_s_memory() {
    // Three that are received whole fill the memory, and none of them could begin to stream.
    let stage = Stage::with(&[("LOBGATE_STORAGE_BUFFER_MAX", "2MiB"), ("LOBGATE_STORAGE_UPLOAD_MEMORY", "8MiB")]).await;
    let bodies: Vec<Vec<u8>> = (0..6).map(|seed| bytes(seed, 4_000_000)).collect();
    let puts = bodies.iter().enumerate().map(|(number, body)| {
        let mut framed = format!("{:x}\r\n", body.len()).into_bytes();
        framed.extend_from_slice(body);
        framed.extend_from_slice(b"\r\n0\r\n\r\n");
        let put = stage.request("PUT", &path(&format!("k{number}"))).presigned(60);
        let put = put.unsigned_header("transfer-encoding", "chunked").body(framed);
        async move { put.send().await }
    });
    for reply in futures::future::join_all(puts).await {
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    for (number, body) in bodies.iter().enumerate() {
        assert!(stage.get(&format!("k{number}")).await == *body, "k{number}");
    }
    assert_consistent(&stage.database).await;
}
