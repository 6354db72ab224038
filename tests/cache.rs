//! The block cache: what it serves is what is stored, each block is fetched once, and its limit holds.

use crate::harness::cluster::ROLE;
use crate::harness::proxy::Proxy;
use crate::harness::{BUCKET, Database, Gateway, RawRequest, Stage, bytes, client, eventually, path};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const WINDOW: (&str, &str) = ("LOBGATE_STORAGE_READ_WINDOW", "64KiB");
/// The least that is allowed with such windows.
const SMALL: (&str, &str) = ("LOBGATE_CACHE_MEMORY", "1MiB");
const OFF: (&str, &str) = ("LOBGATE_CACHE_MEMORY", "0");

/// A metric of a gateway.
async fn metric(gateway: &Gateway, name: &str) -> u64 {
    let text = RawRequest::new(&gateway.admin, "GET", "/metrics").anonymous().send().await.text();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is told from the beginning")).parse().expect("a whole number")
}

/// How many pages of large objects have been read since the database was created. Sessions report that when they end.
async fn pages_read(stage: &mut Stage) -> i64 {
    assert!(stage.gateway.terminate().await.success());
    let sessions = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND usename = '{ROLE}'",
        stage.database.name
    );
    eventually("the sessions have ended", || async { stage.database.count(&sessions).await == 0 }).await;
    stage.database.count("SELECT idx_tup_fetch FROM pg_stat_all_tables WHERE relname = 'pg_largeobject'").await
}

async fn get_range(stage: &Stage, key: &str, start: usize, end: usize) -> Vec<u8> {
    let range = format!("bytes={start}-{}", end - 1);
    let reply = stage.request("GET", &path(key)).header("range", &range).send().await;
    assert_eq!(reply.status, 206, "{range}: {}", reply.text());
    reply.body
}

#[tokio::test]
async fn the_metrics_of_the_cache_are_there_before_anything_is_read() {
    let gateway = Stage::with(&[("LOBGATE_CACHE_MEMORY", "32MiB")]).await.gateway;
    for name in ["lobgate_cache_hits_total", "lobgate_cache_misses_total", "lobgate_cache_evictions_total"] {
        assert_eq!(metric(&gateway, name).await, 0, "{name}");
    }
    assert_eq!(metric(&gateway, "lobgate_cache_limit_bytes").await, 32 << 20);
}

#[tokio::test]
async fn any_range_is_byte_exact_whatever_of_it_is_held() {
    // Parts end in the middle of blocks, and only some of the object has room.
    let parts = [bytes(1, 5 * MIB), bytes(2, 5 * MIB + 1), bytes(3, 70_000)];
    let data = parts.concat();
    for memory in ["0", "1MiB", "64MiB"] {
        let stage = Stage::with(&[WINDOW, ("LOBGATE_CACHE_MEMORY", memory)]).await;
        crate::multipart::upload(&stage, "k", &parts).await;
        let edges: Vec<usize> = (0..data.len()).step_by(5 * MIB / 8).chain([10 * MIB + 1, data.len()]).collect();
        for round in 0..150_u64 {
            let random = bytes(round, 24);
            let number = |at: usize| usize::from_le_bytes(random[at..at + 8].try_into().unwrap());
            let near = edges[number(0) % edges.len()] + number(8) % (2 * KIB);
            let start = near.saturating_sub(KIB).min(data.len() - 1);
            let length = 1 + number(16) % [1, 100, 9 * KIB, 64 * KIB, 3 * MIB][number(8) % 5];
            let end = (start + length).min(data.len());
            assert!(get_range(&stage, "k", start, end).await == data[start..end], "{start}..{end} with {memory}");
        }
        assert!(stage.get("k").await == data);
        let hits = metric(&stage.gateway, "lobgate_cache_hits_total").await;
        assert_eq!(hits > 0, memory != "0", "{hits} hits with {memory}");
    }
}

#[tokio::test]
async fn a_block_is_fetched_once_however_many_readers_want_it() {
    let mut stage = Stage::with(&[]).await;
    let data = bytes(1, 8 * MIB);
    stage.put("k", &data).await;
    let readers = (0..24).map(|_| async { assert!(stage.get("k").await == data) });
    futures::future::join_all(readers).await;
    let pages = i64::try_from(data.len() / 2048).unwrap();
    let read = pages_read(&mut stage).await;
    // Each window also looks for the end of its large object.
    assert!((pages..pages + 100).contains(&read), "{read} pages were read, the object has {pages}");
}

#[tokio::test]
async fn a_small_part_of_an_absent_block_is_all_that_is_read() {
    let mut stage = Stage::with(&[]).await;
    let data = bytes(1, 4 * MIB);
    stage.put("k", &data).await;
    for start in (0..data.len()).step_by(MIB / 2) {
        let end = start + 100 * KIB;
        assert!(get_range(&stage, "k", start, end).await == data[start..end]);
    }
    assert_eq!(metric(&stage.gateway, "lobgate_cache_bytes").await, 0, "nothing was taken in");
    let read = pages_read(&mut stage).await;
    assert!((400..450).contains(&read), "{read} pages were read for 800 KiB");
}

#[tokio::test]
async fn the_limit_holds_while_more_is_read_than_it_allows() {
    let stage = Stage::with(&[WINDOW, SMALL]).await;
    let data: Vec<_> = (0..6).map(|number| bytes(number, MIB + 1000)).collect();
    for (number, data) in data.iter().enumerate() {
        stage.put(&number.to_string(), data).await;
    }
    let readers = (0..60).map(|round| {
        let (stage, data) = (&stage, &data);
        async move {
            assert!(stage.get(&(round % 6).to_string()).await == data[round % 6]);
            let held = metric(&stage.gateway, "lobgate_cache_bytes").await;
            assert!((1..=MIB as u64).contains(&held), "{held} bytes are held");
        }
    });
    futures::future::join_all(readers).await;
    assert!(metric(&stage.gateway, "lobgate_cache_evictions_total").await > 0);
}

#[tokio::test]
async fn readers_do_not_wait_for_each_other_s_memory() {
    let stage = Stage::with(&[WINDOW, SMALL, ("LOBGATE_STORAGE_DOWNLOAD_MEMORY", "192KiB")]).await;
    let data = bytes(1, 2 * MIB);
    stage.put("k", &data).await;
    // Every other block is held, so that readers look ahead past what they need next.
    for start in (0..MIB).step_by(128 * KIB) {
        get_range(&stage, "k", start, start + 64 * KIB).await;
    }
    let readers = (0..12).map(|_| async { assert!(stage.get("k").await == data) });
    let all = futures::future::join_all(readers);
    // A wait for memory is given up after ten seconds, and the answer cut off.
    tokio::time::timeout(crate::harness::DEADLINE, all).await.expect("all have finished");
}

#[tokio::test]
async fn a_fetch_that_failed_is_not_remembered() {
    let database = Database::create().await;
    let proxy = Proxy::start(&database.cluster).await;
    // With one connection, the one that locates is the one that is lost.
    let settings = [("LOBGATE_GC_INTERVAL", "10m"), ("LOBGATE_GC_LEASE", "30m"), ("LOBGATE_DATABASE_POOL_SIZE", "1")];
    let gateway = Gateway::start(&proxy.url(&database.name), &settings).await;
    client::sdk(&gateway.endpoint).create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    let request = |method: &str| RawRequest::new(&gateway.endpoint, method, &path("k"));
    let data = bytes(1, MIB);
    assert_eq!(request("PUT").body(&data).send().await.status, 200);
    // The object is located, and then the database is gone.
    proxy.swallow("read_window");
    let get = request("GET");
    let (first, second) = tokio::join!(get.send(), get.send());
    assert!(proxy.has_lost());
    assert_eq!((first.status, second.status), (503, 503), "{} {}", first.text(), second.text());
    proxy.restore();
    for _ in 0..2 {
        let got = request("GET").send().await;
        assert!(got.status == 200 && got.body == data);
    }
    assert_eq!(metric(&gateway, "lobgate_cache_hits_total").await, 1);
}

#[tokio::test]
async fn what_was_replaced_or_deleted_is_never_served_by_any_gateway() {
    let stage = Stage::with(&[]).await;
    let twin = Gateway::start(&stage.database.url(), &[]).await;
    let gateways = [&stage.gateway, &twin];
    for version in 0..4 {
        let data = bytes(version, MIB);
        stage.put("k", &data).await;
        for _ in 0..2 {
            for gateway in gateways {
                let got = RawRequest::new(&gateway.endpoint, "GET", &path("k")).send().await;
                assert!(got.status == 200 && got.body == data, "version {version}");
            }
        }
    }
    stage.delete("k").await;
    for gateway in gateways {
        assert_eq!(RawRequest::new(&gateway.endpoint, "GET", &path("k")).send().await.status, 404);
        assert_eq!(metric(gateway, "lobgate_cache_hits_total").await, 4, "each version was a hit once");
    }
}

#[tokio::test]
async fn copies_share_what_is_held_and_do_not_fill_the_cache_themselves() {
    let stage = Stage::with(&[]).await;
    let data = bytes(1, 6 * MIB);
    stage.put("k", &data).await;
    let id = crate::multipart::create(&stage, "joined").await;
    let target = format!("{}?partNumber=1&uploadId={id}", path("joined"));
    let copy = stage.request("PUT", &target).header("x-amz-copy-source", &path("k"));
    let part = copy.header("x-amz-copy-source-range", &format!("bytes=1-{}", data.len() - 1)).send().await;
    assert_eq!(part.status, 200, "{}", part.text());
    assert_eq!(metric(&stage.gateway, "lobgate_cache_bytes").await, 0, "what a copy reads is not kept");
    assert!(stage.get("k").await == data);
    let whole = stage.request("PUT", &path("copy")).header("x-amz-copy-source", &path("k")).send().await;
    assert_eq!(whole.status, 200, "{}", whole.text());
    assert!(stage.get("copy").await == data);
    assert_eq!(metric(&stage.gateway, "lobgate_cache_hits_total").await, 6, "the copy has the same content");
}

#[tokio::test]
async fn without_a_cache_nothing_is_held() {
    let stage = Stage::with(&[OFF]).await;
    let data = bytes(1, 3 * MIB);
    stage.put("k", &data).await;
    for _ in 0..2 {
        assert!(stage.get("k").await == data);
    }
    assert_eq!(metric(&stage.gateway, "lobgate_cache_bytes").await, 0);
    assert_eq!(metric(&stage.gateway, "lobgate_cache_hits_total").await, 0);
}
