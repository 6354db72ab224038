//! The network to PostgreSQL fails: answers stay true, requests stay bounded, and service comes back by itself.

use crate::harness::inspect::assert_consistent;
use crate::harness::proxy::Proxy;
use crate::harness::{BUCKET, Database, Gateway, RawRequest, bytes, client, eventually, path};

/// Without background work of which the proxy could lose something instead.
const SETTINGS: &[(&str, &str)] = &[
    ("LOBGATE_STORAGE_INLINE_MAX", "64KiB"),
    ("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"),
    ("LOBGATE_GC_INTERVAL", "10m"),
    ("LOBGATE_GC_LEASE", "30m"),
];

struct Scene {
    gateway: Gateway,
    proxy: Proxy,
    database: Database,
}

impl Scene {
    async fn start() -> Self {
        Self::with(&[]).await
    }

    async fn with(settings: &[(&str, &str)]) -> Self {
        let database = Database::create().await;
        let proxy = Proxy::start(&database.cluster).await;
        let gateway = Gateway::start(&proxy.url(&database.name), &[SETTINGS, settings].concat()).await;
        let s3 = client::sdk(&gateway.endpoint);
        s3.create_bucket().bucket(BUCKET).send().await.expect("a bucket");
        Self { gateway, proxy, database }
    }

    fn request(&self, method: &str, target: &str) -> RawRequest {
        RawRequest::new(&self.gateway.endpoint, method, target)
    }
}

#[tokio::test]
async fn a_put_whose_answer_from_the_database_was_lost_says_the_truth() {
    // On a gateway's fresh connections the text of each statement goes over the wire.
    for (size, statement) in [(600_000, "COMMIT\0"), (100_000, "COMMIT\0"), (100, "put_object")] {
        let scene = Scene::start().await;
        scene.proxy.lose_answer_to(statement);
        let data = bytes(1, size);
        let put = scene.request("PUT", &path("k")).body(&data).send().await;
        assert!(scene.proxy.has_lost(), "the statement passed the proxy");
        assert_eq!(put.status, 200, "{size} bytes: what became of it is found out: {}", put.text());
        let got = scene.request("GET", &path("k")).send().await;
        assert!(got.body == data, "{size} bytes");
        assert_consistent(&scene.database).await;
    }
}

#[tokio::test]
async fn a_deletion_whose_answer_was_lost_is_not_repeated_and_not_said_to_have_failed() {
    // As behind a pooler, where a statement and its text go together.
    let scene = Scene::with(&[("LOBGATE_DATABASE_POOLER", "transaction")]).await;
    assert_eq!(scene.request("PUT", &path("k")).body("x").send().await.status, 200);
    scene.proxy.lose_answer_to("delete_objects");
    let deleted = scene.request("DELETE", &path("k")).send().await;
    assert!(scene.proxy.has_lost(), "the statement passed the proxy");
    assert_eq!(deleted.refusal(), (500, "InternalError".to_owned()));
    eventually("it happens", || async { scene.request("GET", &path("k")).send().await.status == 404 }).await;
    assert_eq!(scene.database.count("SELECT count(*) FROM lobgate.removed").await, 1, "once");
    assert_consistent(&scene.database).await;
}

#[tokio::test]
async fn connections_cut_between_requests_are_not_the_client_s_problem() {
    let scene = Scene::start().await;
    for round in 0..5 {
        let key = format!("k{round}");
        assert_eq!(scene.request("PUT", &path(&key)).body("x").send().await.status, 200);
        scene.proxy.cut();
        let got = scene.request("GET", &path(&key)).send().await;
        assert_eq!((got.status, got.text().as_str()), (200, "x"), "round {round}");
        for size in [10, 100_000, 600_000] {
            scene.proxy.cut();
            let put = scene.request("PUT", &path("again")).body(bytes(round, size)).send().await;
            assert_eq!(put.status, 200, "round {round}, {size} bytes: {}", put.text());
        }
    }
}

#[tokio::test]
async fn a_read_cut_in_the_middle_is_finished_or_visibly_broken() {
    let scene = Scene::start().await;
    let data = bytes(1, 24 << 20);
    let put = scene.request("PUT", &path("k")).payload_hash("UNSIGNED-PAYLOAD").body(&data).send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    let mut connection = scene.request("GET", &path("k")).open().await;
    assert_eq!(connection.read_head().await.status, 200);
    let mut got = connection.read_some(100_000).await;
    scene.proxy.cut();
    got.extend(connection.read_some(data.len() - got.len()).await);
    assert!(got == data[..got.len()], "no byte is wrong; {} of {} came", got.len(), data.len());
}

#[tokio::test]
async fn without_a_database_requests_are_refused_as_unavailable_and_come_back() {
    let scene = Scene::start().await;
    assert_eq!(scene.request("PUT", &path("k")).body("x").send().await.status, 200);
    let ready = async || RawRequest::new(&scene.gateway.admin, "GET", "/health/ready").anonymous().send().await.status;
    assert_eq!(ready().await, 200);
    scene.proxy.refuse();
    for (method, body) in [("GET", ""), ("PUT", "y"), ("DELETE", "")] {
        let reply = scene.request(method, &path("k")).body(body).send().await;
        assert_eq!(reply.status, 503, "{method}: {}", reply.text());
        assert!(matches!(reply.xml("Code").as_deref(), Some("ServiceUnavailable" | "SlowDown")), "{}", reply.text());
    }
    eventually("the gateway is not ready", || async { ready().await == 503 }).await;
    let live = RawRequest::new(&scene.gateway.admin, "GET", "/health/live").anonymous().send().await;
    assert_eq!(live.status, 200, "it is alive all the same");
    scene.proxy.restore();
    eventually("the gateway is ready again", || async { ready().await == 200 }).await;
    assert_eq!(scene.request("GET", &path("k")).send().await.text(), "x");
    assert_consistent(&scene.database).await;
}

#[tokio::test]
async fn a_stalled_database_delays_requests_but_wedges_nothing() {
    let scene = Scene::start().await;
    assert_eq!(scene.request("PUT", &path("k")).body("x").send().await.status, 200);
    scene.proxy.stall(false, true);
    let request = scene.request("GET", &path("k"));
    let waiting = tokio::spawn(async move { request.send().await });
    let connected = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{}'", scene.database.name);
    eventually("the database is connected to", || async { scene.database.count(&connected).await > 1 }).await;
    scene.proxy.restore();
    let reply = waiting.await.expect("the waiting request");
    assert!(matches!(reply.status, 200 | 503), "{}", reply.text());
    eventually("requests succeed again", || async { scene.request("GET", &path("k")).send().await.text() == "x" })
        .await;
}
