//! More clients than there is room for: everybody is served or told at once to come back, and nobody starves.

use std::time::Duration;

use crate::harness::inspect::{assert_empty, until_reclaimed};
use crate::harness::raw::Connection;
use crate::harness::{RawRequest, Reply, Stage, bytes, eventually, path};

const MIB: usize = 1 << 20;

fn assert_slow_down(reply: &Reply) {
    assert_eq!(reply.refusal(), (503, "SlowDown".to_owned()), "{}", reply.text());
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
}

#[tokio::test]
async fn five_hundred_readers_share_four_connections_while_others_write() {
    let settings = [
        ("LOBGATE_DATABASE_POOL_SIZE", "4"),
        ("LOBGATE_DATABASE_WRITER_POOL_SIZE", "2"),
        ("LOBGATE_DATABASE_POOL_WAIT_TIMEOUT", "60s"),
        ("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"),
        ("LOBGATE_CACHE_MEMORY", "0"),
    ];
    let stage = Stage::with(&settings).await;
    let (small, large) = (bytes(1, 1000), bytes(2, MIB + 1));
    stage.put("small", &small).await;
    stage.put("large", &large).await;
    let reading = futures::future::join_all((0..500).map(|number| {
        let (key, data) = if number % 5 == 0 { ("large", &large) } else { ("small", &small) };
        let request = stage.request("GET", &path(key));
        async move {
            let got = request.send().await;
            assert!(got.status == 200 && got.complete && got.body == *data, "reader {number}: {}", got.status);
        }
    }));
    let writing = futures::future::join_all((0..40_u64).map(|number| {
        let put = stage.request("PUT", &path(&format!("new-{number}"))).body(bytes(number, 400_000));
        async move {
            let stored = put.send().await;
            assert_eq!(stored.status, 200, "writer {number}: {}", stored.text());
        }
    }));
    tokio::join!(reading, writing);
}

#[tokio::test]
async fn writers_that_trickle_are_given_up_and_leave_their_places_to_others() {
    let settings = [
        ("LOBGATE_DATABASE_WRITER_POOL_SIZE", "2"),
        ("LOBGATE_DATABASE_POOL_WAIT_TIMEOUT", "200ms"),
        ("LOBGATE_STORAGE_BUFFER_MAX", "64KiB"),
        ("LOBGATE_SERVER_BODY_IDLE_TIMEOUT", "2s"),
        ("LOBGATE_SERVER_MIN_TRANSFER_RATE", "64KiB"),
        ("LOBGATE_GC_INTERVAL", "100ms"),
    ];
    let stage = Stage::with(&settings).await;
    let mut tricklers = Vec::new();
    for number in 0..2 {
        let request = stage.request("PUT", &path(&format!("trickle-{number}"))).body(bytes(number, 10 * MIB));
        let (head, body) = request.wire();
        let mut connection = Connection::open(&stage.gateway.endpoint).await;
        assert!(connection.write(&head).await && connection.write(&body[..200_000]).await);
        tricklers.push(tokio::spawn(async move {
            // A byte now and then: never silent, and never done.
            for byte in 200_000..body.len() {
                if !connection.write(&body[byte..=byte]).await {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                if byte > 200_100 {
                    return connection.exchange(&[], false).await;
                }
            }
            connection.exchange(&[], false).await
        }));
    }
    let put = stage.request("PUT", &path("k")).body(bytes(9, 300_000));
    let first = put.send().await;
    if first.status != 200 {
        assert_slow_down(&first);
    }
    eventually("there is a place again", || async { put.send().await.status == 200 }).await;
    for trickler in tricklers {
        let refused = trickler.await.expect("the trickler");
        assert_eq!(refused.refusal(), (400, "RequestTimeout".to_owned()));
    }
    stage.delete("k").await;
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn a_reader_that_sips_is_cut_and_holds_nothing_back() {
    let settings = [
        ("LOBGATE_SERVER_WRITE_IDLE_TIMEOUT", "2s"),
        ("LOBGATE_SERVER_MIN_TRANSFER_RATE", "1MiB"),
        ("LOBGATE_GC_INTERVAL", "100ms"),
        ("LOBGATE_GC_LEASE", "2s"),
    ];
    let stage = Stage::with(&settings).await;
    stage.put("k", &bytes(1, 24 * MIB)).await;
    let mut reader = stage.request("GET", &path("k")).open().await;
    assert_eq!(reader.read_head().await.status, 200);
    stage.delete("k").await;
    let sipping = async {
        let mut taken = 0;
        loop {
            let got = reader.read_some(4096).await.len();
            if got == 0 {
                return taken;
            }
            taken += got;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(sipping.await < 24 * MIB, "the connection is cut before the end");
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn a_stream_that_stands_still_is_taken_back_and_its_connection_goes_on() {
    let settings = [
        ("LOBGATE_SERVER_WRITE_IDLE_TIMEOUT", "2s"),
        ("LOBGATE_SERVER_MAX_REQUESTS", "2"),
        ("LOBGATE_GC_INTERVAL", "100ms"),
    ];
    let stage = Stage::with(&settings).await;
    stage.put("k", &bytes(1, 24 * MIB)).await;
    let address = stage.gateway.endpoint.strip_prefix("http://").expect("an address").to_owned();
    let socket = tokio::net::TcpStream::connect(&address).await.expect("a connection");
    let (client, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
    let driver = tokio::spawn(connection);
    let mut client = client.ready().await.expect("a client");
    let mut get = || {
        let target = stage.request("GET", &path("k")).presigned(600).target();
        let request = http::Request::get(format!("http://{address}{target}")).body(()).expect("a request");
        client.send_request(request, true).expect("a stream").0
    };
    // Both places are taken by answers that nobody reads.
    let mut standing = Vec::new();
    for _ in 0..2 {
        let answer = get().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        standing.push(answer.into_body());
    }
    let busy = stage.request("HEAD", "/bucket").send().await;
    assert_eq!(busy.status, 503, "all places are taken");
    eventually("the places are given back", || async { stage.request("HEAD", "/bucket").send().await.status == 200 })
        .await;
    stage.delete("k").await;
    until_reclaimed(&stage.database).await;
    // Who goes on reading is told that the rest is gone, and can ask for something else.
    for mut body in standing {
        let mut taken = 0;
        let cut = loop {
            match body.data().await {
                Some(Ok(data)) => {
                    taken += data.len();
                    let _ = body.flow_control().release_capacity(data.len());
                }
                Some(Err(_)) => break true,
                None => break false,
            }
        };
        assert!(cut && taken < 24 * MIB, "{taken} bytes");
    }
    assert_eq!(get().await.expect("an answer").status(), 404);
    driver.abort();
}

#[tokio::test]
async fn readers_that_stand_still_give_back_what_was_fetched_ahead_of_them() {
    let settings = [
        ("LOBGATE_CACHE_MEMORY", "0"),
        ("LOBGATE_STORAGE_READ_WINDOW", "64KiB"),
        ("LOBGATE_STORAGE_READ_AHEAD", "16"),
        ("LOBGATE_STORAGE_DOWNLOAD_MEMORY", "2MiB"),
    ];
    let stage = Stage::with(&settings).await;
    let data = bytes(1, 8 * MIB);
    stage.put("k", &data).await;
    let mut standing = Vec::new();
    for _ in 0..3 {
        let mut reader = stage.request("GET", &path("k")).open().await;
        assert_eq!(reader.read_head().await.status, 200);
        standing.push(reader);
    }
    for _ in 0..3 {
        let got = stage.request("GET", &path("k")).send().await;
        assert!(got.status == 200 && got.complete && got.body == data, "{}", got.status);
    }
    // Whoever goes on reading gets every byte.
    for mut reader in standing {
        assert!(reader.read_some(data.len()).await == data);
    }
}

#[tokio::test]
async fn requests_beyond_the_limit_are_told_at_once_to_come_back() {
    let stage = Stage::with(&[("LOBGATE_SERVER_MAX_REQUESTS", "4"), ("LOBGATE_CACHE_MEMORY", "0")]).await;
    stage.put("k", &bytes(1, 24 * MIB)).await;
    let mut readers = Vec::new();
    for _ in 0..4 {
        let mut reader = stage.request("GET", &path("k")).open().await;
        assert_eq!(reader.read_head().await.status, 200);
        readers.push(reader);
    }
    for method in ["GET", "PUT"] {
        assert_slow_down(&stage.request(method, &path("k")).send().await);
    }
    let health = RawRequest::new(&stage.gateway.admin, "GET", "/health/ready").anonymous().send().await;
    assert_eq!(health.status, 200, "load is no reason to be taken out of service");
    readers.pop();
    eventually("there is a place again", || async {
        stage.request("PUT", &path("small")).body("x").send().await.status == 200
    })
    .await;
}

#[tokio::test]
async fn idle_connections_by_the_thousand_keep_nobody_from_being_served() {
    // This process has one end of each.
    let files = nix::sys::resource::Resource::RLIMIT_NOFILE;
    let (_, most) = nix::sys::resource::getrlimit(files).expect("the limit");
    nix::sys::resource::setrlimit(files, most.min(20_000), most).expect("more open files");
    let stage = Stage::start().await;
    let wanted = usize::try_from(crate::faults::setting("CHAOS_CONNECTIONS", 3000)).expect("a number");
    let count = wanted.min(usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(3000));
    let mut idle = Vec::new();
    for number in 0..count {
        let mut connection = Connection::open(&stage.gateway.endpoint).await;
        if number % 2 == 0 {
            // Half of them have been used.
            let (head, _) = stage.request("GET", "/bucket?max-keys=0").wire();
            assert!(connection.write(&head).await);
            assert_eq!(connection.read_head().await.status, 200);
        }
        idle.push(connection);
    }
    let served = futures::future::join_all((0..100_u64).map(|number| {
        let stage = &stage;
        async move {
            let (key, data) = (format!("k{number}"), bytes(number, 10_000));
            stage.put(&key, &data).await;
            assert!(stage.get(&key).await == data);
        }
    }));
    served.await;
    let active = futures::future::join_all((0..1000_u64).map(|number| {
        let request = stage.request("GET", &path(&format!("k{}", number % 100)));
        async move {
            let got = request.send().await;
            assert!(got.status == 200 && got.body == bytes(number % 100, 10_000), "{}: {}", got.status, got.text());
        }
    }));
    active.await;
    let peak = stage.gateway.peak_memory();
    eprintln!("{count} idle connections, 1,000 active: {} MiB at most", peak >> 20);
    // Requests, sessions and code; and what a connection has while it waits for its next request.
    assert!(peak < (120 << 20) + count as u64 * (24 << 10), "{peak}");
    drop(idle);
}

#[tokio::test]
async fn bodies_of_tiny_chunks_take_no_more_memory_than_their_bytes() {
    let stage = Stage::with(&[("LOBGATE_STORAGE_BUFFER_MAX", "64KiB"), ("LOBGATE_CACHE_MEMORY", "0")]).await;
    let data = bytes(1, 3 << 19);
    let sha256 = crate::harness::base64(<sha2::Sha256 as sha2::Digest>::digest(&data));
    let before = stage.gateway.peak_memory();
    let puts = futures::future::join_all((0..4).map(|number| {
        let framing = crate::harness::chunked::Chunked::unsigned().chunk_size(1);
        let framing = framing.trailer("x-amz-checksum-sha256", &sha256);
        let put = stage.request("PUT", &path(&format!("k{number}"))).chunked(framing).body(&data);
        async move {
            let stored = put.send().await;
            assert_eq!(stored.status, 200, "{}", stored.text());
        }
    }));
    puts.await;
    assert!(stage.get("k3").await == data);
    let taken = stage.gateway.peak_memory() - before;
    eprintln!("{} MiB", taken >> 20);
    assert!(taken < 64 << 20, "{taken}");
}

#[tokio::test]
async fn documents_take_bounded_memory_and_those_of_too_many_elements_are_refused() {
    let stage = Stage::start().await;
    let document = format!("<Delete>{}</Delete>", "<Object><Key>k</Key></Object>".repeat(100_000));
    let digest = crate::harness::base64(<md5::Md5 as md5::Digest>::digest(document.as_bytes()));
    let requests = futures::future::join_all((0..40).map(|_| {
        let delete = stage.request("POST", "/bucket?delete").header("content-md5", &digest).body(&document);
        async move {
            let refused = delete.send().await;
            assert_eq!(refused.refusal(), (400, "MalformedXML".to_owned()));
        }
    }));
    requests.await;
    let peak = stage.gateway.peak_memory();
    eprintln!("{} MiB", peak >> 20);
    assert!(peak < 250 << 20, "{peak}");
}
