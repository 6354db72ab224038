//! Many readers at once: what is looked for together is not mixed up, and nobody's leaving hurts another.

use futures::future::join_all;

use crate::harness::proxy::Proxy;
use crate::harness::{BUCKET, Database, Gateway, RawRequest, Stage, bytes, client, path};

#[tokio::test]
async fn readers_at_the_same_time_get_what_each_asked_for() {
    let stage = Stage::start().await;
    stage.s3.create_bucket().bucket("other").send().await.expect("a bucket");
    for number in 0..20 {
        stage.put(&format!("k{number}"), &bytes(number, 10 + usize::try_from(number).unwrap() * 5000)).await;
    }
    let other = stage.request("PUT", "/other/k0").body("other").send().await;
    assert_eq!(other.status, 200);
    for _ in 0..4 {
        join_all((0..120_u64).map(|n| {
            let stage = &stage;
            async move {
                let key = format!("k{}", n % 24);
                match n % 6 {
                    0 => {
                        let got = stage.request("GET", &format!("/nobucket-{n}/{key}")).send().await;
                        assert_eq!(got.refusal(), (404, "NoSuchBucket".to_owned()));
                    }
                    1 => {
                        let got = stage.request("GET", "/other/k0").send().await;
                        assert_eq!((got.status, got.text().as_str()), (200, "other"));
                    }
                    2 => {
                        let got = stage.request("HEAD", &path(&key)).send().await;
                        assert_eq!(got.status, if n % 24 < 20 { 200 } else { 404 }, "{key}");
                        assert!(got.body.is_empty());
                    }
                    _ if n % 24 >= 20 => {
                        let got = stage.request("GET", &path(&key)).send().await;
                        assert_eq!(got.refusal(), (404, "NoSuchKey".to_owned()));
                    }
                    _ => {
                        let number = n % 24;
                        let got = stage.request("GET", &path(&key)).send().await;
                        assert!(got.body == bytes(number, 10 + usize::try_from(number).unwrap() * 5000), "{key}");
                    }
                }
            }
        }))
        .await;
    }
}

#[tokio::test]
async fn a_reader_that_leaves_while_it_waits_takes_no_other_with_it() {
    let database = Database::create().await;
    let proxy = Proxy::start(&database.cluster).await;
    let gateway =
        Gateway::start(&proxy.url(&database.name), &[("LOBGATE_GC_INTERVAL", "10m"), ("LOBGATE_GC_LEASE", "30m")])
            .await;
    let s3 = client::sdk(&gateway.endpoint);
    s3.create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    let request = |method: &str, key: u64| RawRequest::new(&gateway.endpoint, method, &path(&format!("k{key}")));
    for key in 0..10 {
        assert_eq!(request("PUT", key).body(bytes(key, 1000)).send().await.status, 200);
    }
    // All have sent their request before an answer of the database can pass: most of them wait for a few statements.
    proxy.stall(false, true);
    let mut leaving = Vec::new();
    let mut staying = Vec::new();
    for n in 0..80 {
        let connection = request("GET", n % 10).open().await;
        if n % 3 == 0 { leaving.push(connection) } else { staying.push((n % 10, connection)) }
    }
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    drop(leaving);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    proxy.restore();
    for (key, mut connection) in staying {
        assert_eq!(connection.read_head().await.status, 200, "k{key}");
        assert!(connection.read_some(1000).await == bytes(key, 1000), "k{key}");
    }
    // And the queue still works.
    assert!(request("GET", 3).send().await.body == bytes(3, 1000));
}
