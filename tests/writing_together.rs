//! Many writers at once: small objects that share a statement are each stored as if alone.

use futures::future::join_all;

use crate::harness::inspect::{assert_consistent, until_reclaimed};
use crate::harness::proxy::Proxy;
use crate::harness::{BUCKET, Database, Gateway, RawRequest, Stage, bytes, client, eventually, path};

/// As many as there can be in a batch, and more than the statements that are sent alone.
const WRITERS: u64 = 48;

/// A gateway whose database answers only when told to, so that what is sent meanwhile waits and travels together.
struct Held {
    database: Database,
    proxy: Proxy,
    gateway: Gateway,
}

impl Held {
    async fn start() -> Self {
        Self::with(&[]).await
    }

    async fn with(settings: &[(&str, &str)]) -> Self {
        let database = Database::create().await;
        let proxy = Proxy::start(&database.cluster).await;
        let settings = [settings, &[("LOBGATE_GC_INTERVAL", "10m"), ("LOBGATE_GC_LEASE", "30m")]].concat();
        let gateway = Gateway::start(&proxy.url(&database.name), &settings).await;
        client::sdk(&gateway.endpoint).create_bucket().bucket(BUCKET).send().await.expect("a bucket");
        Self { database, proxy, gateway }
    }

    fn request(&self, method: &str, key: &str) -> RawRequest {
        RawRequest::new(&self.gateway.endpoint, method, &path(key))
    }

    async fn get(&self, key: &str) -> Vec<u8> {
        self.request("GET", key).send().await.body
    }

    /// Sends requests while the database is silent, then lets it answer. Returns the statuses and codes.
    async fn together(&self, requests: Vec<RawRequest>) -> Vec<(u16, String)> {
        self.proxy.stall(false, true);
        let sent: Vec<_> =
            requests.into_iter().map(|r| tokio::spawn(async move { r.send().await.refusal() })).collect();
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        self.proxy.restore();
        join_all(sent).await.into_iter().map(|reply| reply.expect("no panic")).collect()
    }

    async fn batches(&self) -> i64 {
        self.database
            .count(
                "SELECT count(*) FROM (SELECT xmin FROM lobgate.object GROUP BY xmin::text::bigint, xmin
                 HAVING count(*) > 1) shared",
            )
            .await
    }
}

fn stored() -> (u16, String) {
    (200, String::new())
}

#[tokio::test]
async fn writers_at_the_same_time_store_what_each_sent() {
    let held = Held::start().await;
    for round in 0..3 {
        // New keys, then other bytes under each, then the same bytes again.
        let seed = |n: u64| n + 1000 * round.min(1);
        let requests = (0..WRITERS).map(|n| {
            let request = held.request("PUT", &format!("k{n}")).body(bytes(seed(n), usize::try_from(n * 90).unwrap()));
            request.header("x-amz-meta-number", &n.to_string()).header("content-type", &format!("text/n{n}"))
        });
        let replies = held.together(requests.collect()).await;
        assert!(replies.iter().all(|reply| *reply == stored()), "{replies:?}");
        assert!(held.batches().await > 0, "some travelled together");
        for n in 0..WRITERS {
            let got = held.request("GET", &format!("k{n}")).send().await;
            assert!(got.body == bytes(seed(n), usize::try_from(n * 90).unwrap()), "k{n} of round {round}");
            assert_eq!(got.header("x-amz-meta-number"), Some(n.to_string().as_str()));
            assert_eq!(got.header("content-type"), Some(format!("text/n{n}").as_str()));
        }
        assert_consistent(&held.database).await;
    }
    // The third round found its bytes there: it stored receipts instead.
    let contents = held.database.count("SELECT count(*) FROM lobgate.content WHERE size > 0").await;
    assert_eq!(contents, 2 * i64::try_from(WRITERS).unwrap() - 2, "those of two rounds, less two empty ones");
}

#[tokio::test]
async fn one_key_written_at_the_same_time_has_one_of_the_bodies_and_the_others_are_freed() {
    let stage = Stage::start().await;
    let writers: Vec<_> =
        (0..WRITERS).map(|n| stage.request("PUT", &path(&format!("k{}", n % 3))).body(bytes(n, 500))).collect();
    assert!(join_all(writers.iter().map(RawRequest::send)).await.iter().all(|reply| reply.status == 200));
    for key in 0..3 {
        let got = stage.get(&format!("k{key}")).await;
        assert!((0..WRITERS).any(|n| n % 3 == key && got == bytes(n, 500)), "k{key} is none of its bodies");
    }
    assert_consistent(&stage.database).await;
    until_reclaimed(&stage.database).await;
}

#[tokio::test]
async fn what_cannot_be_stored_fails_alone() {
    let held = Held::start().await;
    client::sdk(&held.gateway.endpoint).create_bucket().bucket("other").send().await.expect("a bucket");
    // A row that the table does not take, known to no check before it.
    held.database.execute("ALTER TABLE lobgate.object ADD CONSTRAINT no_thirteen CHECK (key <> 'k13')").await;
    let requests = (0..WRITERS).map(|n| match n % 8 {
        6 => RawRequest::new(&held.gateway.endpoint, "PUT", &format!("/nobucket/k{n}")).body("x"),
        7 => RawRequest::new(&held.gateway.endpoint, "PUT", &format!("/other/k{n}")).body(bytes(n, 100)),
        _ => held.request("PUT", &format!("k{n}")).body(bytes(n, 100)),
    });
    let replies = held.together(requests.collect()).await;
    for (n, reply) in (0..).zip(replies) {
        match n {
            13 => assert_eq!(reply.0, 500, "{reply:?}"),
            n if n % 8 == 6 => assert_eq!(reply, (404, "NoSuchBucket".to_owned())),
            n => assert_eq!(reply, stored(), "k{n}"),
        }
    }
    for n in (0..WRITERS).filter(|n| n % 8 < 6 && *n != 13) {
        assert!(held.get(&format!("k{n}")).await == bytes(n, 100), "k{n}");
    }
    assert_eq!(held.request("GET", "k13").send().await.status, 404);
    assert_consistent(&held.database).await;
}

#[tokio::test]
async fn a_key_locked_by_somebody_else_delays_its_writer_alone() {
    let stage = Stage::start().await;
    stage.put("locked", b"before").await;
    let mut owner = stage.database.superuser().await;
    let lock = owner.transaction().await.expect("begun");
    lock.execute("SELECT 1 FROM lobgate.object WHERE key = 'locked' FOR UPDATE", &[]).await.expect("locked");
    let waiting = stage.request("PUT", &path("locked")).body("after");
    let waiting = tokio::spawn(async move { waiting.send().await.status });
    let blocked = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
        stage.database.name
    );
    eventually("the writer waits for the lock", || async { stage.database.count(&blocked).await == 1 }).await;
    // One that nobody follows, then several at once.
    stage.put("lone", b"x").await;
    for round in 0..5_u64 {
        let others: Vec<_> =
            (0..8_u64).map(|n| stage.request("PUT", &path(&format!("k{n}"))).body(bytes(round, 50))).collect();
        assert!(join_all(others.iter().map(RawRequest::send)).await.iter().all(|reply| reply.status == 200));
    }
    assert!(!waiting.is_finished());
    lock.commit().await.expect("released");
    assert_eq!(waiting.await.expect("no panic"), 200);
    assert_eq!(stage.get("locked").await, b"after");
}

#[tokio::test]
async fn a_locked_key_does_not_keep_the_answers_of_those_it_travels_with() {
    let held = Held::start().await;
    assert_eq!(held.request("PUT", "locked").body("before").send().await.status, 200);
    let mut owner = held.database.superuser().await;
    let lock = owner.transaction().await.expect("begun");
    lock.execute("SELECT 1 FROM lobgate.object WHERE key = 'locked' FOR UPDATE", &[]).await.expect("locked");
    held.proxy.stall(false, true);
    let request = |key: String| {
        let request = held.request("PUT", &key).body("after");
        tokio::spawn(async move { request.send().await.status })
    };
    // One that occupies the queue, then the batch.
    let first = request("first".to_owned());
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let locked = request("locked".to_owned());
    let others: Vec<_> = (0..WRITERS).map(|n| request(format!("k{n}"))).collect();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    held.proxy.restore();
    for other in others {
        assert_eq!(other.await.expect("no panic"), 200);
    }
    assert_eq!(first.await.expect("no panic"), 200);
    assert!(!locked.is_finished());
    lock.commit().await.expect("released");
    assert_eq!(locked.await.expect("no panic"), 200);
    assert_eq!(held.get("locked").await, b"after");
}

#[tokio::test]
async fn batches_that_share_keys_do_not_deadlock_whatever_each_finds() {
    let database = Database::create().await;
    let gateway = Gateway::start(&database.url(), &[]).await;
    client::sdk(&gateway.endpoint).create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    // What the gateway sends: two calls that bring the same bytes for one key, and others for the other, crosswise.
    let call = |same: &str| {
        format!(
            "SELECT count(*) FROM lobgate.put_objects('{BUCKET}', '{{a,b}}', '{{o,o}}', \
             ARRAY[gen_random_uuid(), gen_random_uuid()], \
             ARRAY[CASE '{same}' WHEN 'a' THEN '\\x00' ELSE sha256(random()::text::bytea) END, \
                   CASE '{same}' WHEN 'b' THEN '\\x00' ELSE sha256(random()::text::bytea) END]::bytea[], \
             ARRAY[md5('a')::bytea, md5('a')::bytea]::bytea[], '{{NULL,NULL}}', \
             ARRAY[CASE '{same}' WHEN 'a' THEN 'same' ELSE 'new' END, CASE '{same}' WHEN 'b' THEN 'same' ELSE 'new' END], \
             '{{NULL,NULL}}', '{{NULL,NULL}}', '{{NULL,NULL}}', '{{NULL,NULL}}')"
        )
        .replace("md5('a')::bytea", "decode(md5('a'), 'hex')")
    };
    let mut sessions = Vec::new();
    for same in ["a", "b", "a", "b"] {
        let (client, call) = (database.superuser().await, call(same));
        sessions.push(async move {
            for _ in 0..100 {
                client.query(&call, &[]).await.expect("neither a deadlock nor a lock timeout");
            }
        });
    }
    join_all(sessions).await;
}

#[tokio::test]
async fn writers_whose_common_answer_is_lost_each_learn_what_happened() {
    // Statements prepared once: what is lost is the answer to that. Or sent whole each time: lost is the answer to COMMIT.
    for pooler in ["none", "transaction"] {
        let held = Held::with(&[("LOBGATE_DATABASE_POOLER", pooler)]).await;
        held.proxy.lose_answer_to("put_objects");
        let requests = (0..WRITERS).map(|n| held.request("PUT", &format!("k{n}")).body(bytes(n, 300)));
        let replies = held.together(requests.collect()).await;
        assert!(held.proxy.has_lost(), "no batch was sent");
        assert!(replies.iter().all(|reply| *reply == stored()), "{replies:?}");
        for n in 0..WRITERS {
            assert!(held.get(&format!("k{n}")).await == bytes(n, 300), "k{n}");
        }
        assert_consistent(&held.database).await;
    }
}
