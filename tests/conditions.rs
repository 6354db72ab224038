//! Conditional requests: what reads may skip, and what writes may not overwrite.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use crate::harness::inspect::assert_consistent;
use crate::harness::raw::{Connection, Reply};
use crate::harness::{Gateway, RawRequest, Stage, bytes, md5_hex, path};

const OTHER: &str = "\"00000000000000000000000000000000\"";

fn date(days_from_now: i64) -> String {
    let time = OffsetDateTime::now_utc() + time::Duration::days(days_from_now);
    time.format(&Rfc2822).expect("a date").replace("+0000", "GMT")
}

fn precondition_failed() -> (u16, String) {
    (412, "PreconditionFailed".to_owned())
}

#[tokio::test]
async fn reads_heed_every_condition_and_their_order_of_precedence() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    let etag = format!("\"{}\"", md5_hex(b"hello"));
    let list = format!("{OTHER}, {etag}");
    let (past, future) = (date(-1), date(1));
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[("if-match", &etag)], 200),
        (&[("if-match", etag.trim_matches('"'))], 200),
        (&[("if-match", &list)], 200),
        (&[("if-match", "*")], 200),
        (&[("if-match", OTHER)], 412),
        (&[("if-none-match", &etag)], 304),
        (&[("if-none-match", etag.trim_matches('"'))], 304),
        (&[("if-none-match", &list)], 304),
        (&[("if-none-match", "*")], 304),
        (&[("if-none-match", OTHER)], 200),
        (&[("if-modified-since", &past)], 200),
        (&[("if-unmodified-since", &past)], 412),
        (&[("if-unmodified-since", &future)], 200),
        (&[("if-match", &etag), ("if-unmodified-since", &past)], 200),
        (&[("if-none-match", &etag), ("if-modified-since", &past)], 304),
        (&[("if-none-match", OTHER), ("if-modified-since", &past)], 200),
        (&[("if-match", &etag), ("if-none-match", &etag)], 304),
        (&[("if-match", OTHER), ("if-none-match", OTHER)], 412),
        (&[("if-modified-since", "no date at all")], 200),
    ];
    for (headers, status) in cases {
        for method in ["GET", "HEAD"] {
            let mut request = stage.request(method, &path("k"));
            for (name, value) in *headers {
                request = request.header(name, value);
            }
            let reply = request.send().await;
            assert_eq!(reply.status, *status, "{method} {headers:?}");
            if *status == 304 {
                assert!(reply.body.is_empty(), "304 has no body");
                assert_eq!(reply.header("etag"), Some(etag.as_str()));
                assert!(reply.header("last-modified").is_some());
            }
            if *status == 412 && method == "GET" {
                assert_eq!(reply.refusal(), precondition_failed());
            }
        }
    }
}

#[tokio::test]
async fn an_unchanged_object_is_not_sent_again_by_its_own_date() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    let head = stage.request("HEAD", &path("k")).send().await;
    let date = head.header("last-modified").expect("a date").to_owned();
    let same = stage.request("GET", &path("k")).header("if-modified-since", &date).send().await;
    assert_eq!(same.status, 304, "fractions of a second do not count");
    let same = stage.request("GET", &path("k")).header("if-unmodified-since", &date).send().await;
    assert_eq!(same.status, 200);
}

#[tokio::test]
async fn put_if_none_match_creates_and_never_overwrites() {
    let stage = Stage::start().await;
    for size in [5, 100_000] {
        let key = size.to_string();
        let put = |seed| stage.request("PUT", &path(&key)).header("if-none-match", "*").body(bytes(seed, size));
        assert_eq!(put(1).send().await.status, 200);
        assert_eq!(put(2).send().await.refusal(), precondition_failed());
        assert!(stage.get(&key).await == bytes(1, size), "the first stays");
        stage.delete(&key).await;
        assert_eq!(put(3).send().await.status, 200, "what is deleted can be created again");
    }
    let etag = stage.request("PUT", &path("k")).header("if-none-match", OTHER).body("x").send().await;
    assert_eq!(etag.refusal(), (501, "NotImplemented".to_owned()), "S3 knows only * here");
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn put_if_match_replaces_only_what_it_names() {
    let stage = Stage::start().await;
    let put = |condition: &str, body: &str| stage.request("PUT", &path("k")).header("if-match", condition).body(body);
    let etag = |body: &str| format!("\"{}\"", md5_hex(body.as_bytes()));
    assert_eq!(put(OTHER, "x").send().await.refusal(), (404, "NoSuchKey".to_owned()));
    stage.put("k", b"one").await;
    assert_eq!(put(OTHER, "two").send().await.refusal(), precondition_failed());
    assert_eq!(put(&etag("one"), "two").send().await.status, 200);
    assert_eq!(put(&etag("one"), "three").send().await.refusal(), precondition_failed());
    assert_eq!(put(etag("two").trim_matches('"'), "three").send().await.status, 200);
    assert_eq!(put("*", "four").send().await.status, 200);
    assert_eq!(stage.get("k").await, b"four");
}

#[tokio::test]
async fn a_batch_deletes_only_what_its_conditions_name() {
    use aws_sdk_s3::types::{Delete, ObjectIdentifier};
    let stage = Stage::start().await;
    for key in ["etag", "size", "time", "wrong-etag", "wrong-size", "wrong-time"] {
        stage.put(key, b"12345").await;
    }
    let head = stage.s3.head_object().bucket("bucket").key("etag").send().await.expect("head");
    let time = |key: &'static str| {
        let head = stage.s3.head_object().bucket("bucket").key(key);
        async move { *head.send().await.expect("head").last_modified().expect("a time") }
    };
    let early = aws_sdk_s3::primitives::DateTime::from_secs(1_000_000_000);
    let object = |key: &str| ObjectIdentifier::builder().key(key);
    let objects = [
        object("etag").e_tag(head.e_tag().expect("an ETag")),
        object("size").size(5),
        object("time").last_modified_time(time("time").await),
        object("wrong-etag").e_tag("\"0123\""),
        object("wrong-size").size(6),
        object("wrong-time").last_modified_time(early),
        object("absent").size(5),
    ];
    let objects: Vec<_> = objects.into_iter().map(|object| object.build().expect("an object")).collect();
    let delete = Delete::builder().set_objects(Some(objects)).build().expect("a document");
    let deleted = stage.s3.delete_objects().bucket("bucket").delete(delete).send().await.expect("an answer");
    let gone: Vec<_> = deleted.deleted().iter().filter_map(|d| d.key()).collect();
    assert_eq!(gone, ["etag", "size", "time"]);
    let refused: Vec<_> = deleted.errors().iter().filter_map(|e| e.key().zip(e.code())).collect();
    assert_eq!(
        refused,
        [
            ("wrong-etag", "PreconditionFailed"),
            ("wrong-size", "PreconditionFailed"),
            ("wrong-time", "PreconditionFailed"),
            ("absent", "NoSuchKey")
        ]
    );
    assert!(stage.exists("wrong-etag").await && !stage.exists("etag").await);
}

#[tokio::test]
async fn delete_if_match_deletes_only_what_it_names() {
    let stage = Stage::start().await;
    stage.put("k", b"one").await;
    let delete = |condition: &str| stage.request("DELETE", &path("k")).header("if-match", condition);
    assert_eq!(delete(OTHER).send().await.refusal(), precondition_failed());
    assert!(stage.exists("k").await);
    assert_eq!(delete(&format!("\"{}\"", md5_hex(b"one"))).send().await.status, 204);
    assert!(!stage.exists("k").await);
}

#[tokio::test]
async fn a_copy_heeds_the_conditions_on_its_source_and_its_destination() {
    let stage = Stage::start().await;
    stage.put("source", b"source").await;
    let etag = format!("\"{}\"", md5_hex(b"source"));
    let (past, future) = (date(-1), date(1));
    let copy = |name: &str, value: &str| {
        stage.request("PUT", &path("copy")).header("x-amz-copy-source", &path("source")).header(name, value)
    };
    let on_source = [
        ("x-amz-copy-source-if-match", etag.as_str(), 200),
        ("x-amz-copy-source-if-match", OTHER, 412),
        ("x-amz-copy-source-if-none-match", OTHER, 200),
        ("x-amz-copy-source-if-none-match", &etag, 412),
        ("x-amz-copy-source-if-modified-since", &past, 200),
        ("x-amz-copy-source-if-unmodified-since", &past, 412),
        ("x-amz-copy-source-if-unmodified-since", &future, 200),
    ];
    for (name, value, status) in on_source {
        assert_eq!(copy(name, value).send().await.status, status, "{name}: {value}");
    }
    assert_eq!(copy("if-none-match", "*").send().await.refusal(), precondition_failed());
    assert_eq!(copy("if-match", OTHER).send().await.refusal(), precondition_failed());
    assert_eq!(copy("if-match", &etag).send().await.status, 200);
    stage.delete("copy").await;
    assert_eq!(copy("if-none-match", "*").send().await.status, 200);
}

#[tokio::test]
async fn of_fifty_racing_creators_over_two_gateways_exactly_one_wins() {
    let stage = Stage::start().await;
    let twin = Gateway::start(&stage.database.url(), &[]).await;
    for round in 0..20 {
        // Inline bodies and large objects take different ways to the same publishing statement.
        let size = [10, 100_000, 70_000, 2000][round % 4];
        let key = format!("round-{round}");
        let creators = (0..50_u64).map(|number| {
            let endpoint = if number % 2 == 0 { &stage.gateway.endpoint } else { &twin.endpoint };
            let request = RawRequest::new(endpoint, "PUT", &path(&key)).header("if-none-match", "*");
            let request = request.body(bytes(number, size));
            async move { request.send().await }
        });
        let replies: Vec<Reply> = futures::future::join_all(creators).await;
        let winners: Vec<usize> = (0..50).filter(|&number| replies[number].status == 200).collect();
        assert_eq!(winners.len(), 1, "round {round}");
        let losers = replies.iter().filter(|reply| reply.refusal() == precondition_failed()).count();
        assert_eq!(losers, 49, "round {round}: {:?}", replies.iter().map(Reply::refusal).collect::<Vec<_>>());
        assert!(stage.get(&key).await == bytes(winners[0] as u64, size), "round {round}: the winner's bytes");
    }
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn counters_kept_by_compare_and_swap_lose_no_increment() {
    let stage = Stage::start().await;
    let twin = Gateway::start(&stage.database.url(), &[]).await;
    stage.put("counter", b"0").await;
    let workers = (0..6).map(|number| {
        let endpoint = if number % 2 == 0 { &stage.gateway.endpoint } else { &twin.endpoint };
        async move {
            let mut done = 0;
            while done < 5 {
                let got = RawRequest::new(endpoint, "GET", &path("counter")).send().await;
                let next = got.text().parse::<u32>().expect("a number") + 1;
                let etag = got.header("etag").expect("an ETag");
                let put = RawRequest::new(endpoint, "PUT", &path("counter")).header("if-match", etag);
                let reply = put.body(next.to_string()).send().await;
                assert!(reply.status == 200 || reply.refusal() == precondition_failed(), "{:?}", reply.refusal());
                done += u32::from(reply.status == 200);
            }
        }
    });
    futures::future::join_all(workers).await;
    assert_eq!(stage.get("counter").await, b"30");
}

#[tokio::test]
async fn a_creator_that_is_overtaken_during_its_upload_loses_and_blocks_nobody() {
    let stage = Stage::with(&[("LOBGATE_STORAGE_BUFFER_MAX", "256KiB")]).await;
    for size in [1000, 100_000, 600_000] {
        let key = size.to_string();
        let slow = stage.request("PUT", &path(&key)).header("if-none-match", "*").body(bytes(1, size));
        let (head, body) = slow.wire();
        let mut connection = Connection::open(&stage.gateway.endpoint).await;
        assert!(connection.write(&head).await && connection.write(&body[..size / 2]).await);
        let quick = stage.request("PUT", &path(&key)).header("if-none-match", "*").body("quick").send().await;
        assert_eq!(quick.status, 200, "nobody holds a lock for a body of {size} bytes that is still coming");
        let reply = connection.exchange(&body[size / 2..], false).await;
        assert_eq!(reply.refusal(), precondition_failed(), "{size}");
        assert_eq!(stage.get(&key).await, b"quick");
    }
    assert_consistent(&stage.database).await;
}
