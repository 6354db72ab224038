//! RenameObject: one transaction, with conditions on both keys, and nothing of the object lost.

use aws_sdk_s3::types::BucketVersioningStatus as Versioning;

use crate::harness::inspect::{assert_consistent, until_reclaimed};
use crate::harness::request::RawRequest;
use crate::harness::{Stage, bytes};
use crate::versions::set_versioning;

fn rename(stage: &Stage, source: &str, key: &str) -> RawRequest {
    stage.request("PUT", &format!("/bucket/{key}?renameObject")).header("x-amz-rename-source", source)
}

async fn keys(stage: &Stage) -> Vec<String> {
    stage.request("GET", "/bucket?list-type=2").send().await.xml_all("Key")
}

#[tokio::test]
async fn everything_goes_along_and_the_target_is_replaced() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    let data = bytes(7, 300_000);
    let put = stage.request("PUT", "/bucket/old%20name").header("x-amz-meta-a", "b").header("content-type", "text/x");
    let put = put.header("x-amz-tagging", "t=1").header("x-amz-checksum-sha1", &sha1(&data)).body(&data).send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    stage.put("dir/new", b"to be replaced").await;
    let renamed = rename(&stage, "old%20name", "dir/new").send().await;
    assert_eq!((renamed.status, renamed.text().as_str()), (200, ""));
    assert_eq!(keys(&stage).await, ["dir/new"]);
    let got = stage.request("GET", "/bucket/dir/new").header("x-amz-checksum-mode", "ENABLED").send().await;
    assert_eq!(got.body, data);
    for (name, value) in [
        ("x-amz-meta-a", "b"),
        ("content-type", "text/x"),
        ("x-amz-tagging-count", "1"),
        ("x-amz-checksum-sha1", &sha1(&data)),
        ("etag", put.header("etag").expect("an ETag")),
    ] {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
    until_reclaimed(&stage.database).await;
    assert_consistent(&stage.database).await;
    assert_eq!(stage.get("dir/new").await, data, "nothing was reclaimed that is referred to");
}

fn sha1(data: &[u8]) -> String {
    use sha1::Digest as _;
    crate::harness::base64(sha1::Sha1::digest(data))
}

#[tokio::test]
async fn conditions_hold_for_both_keys() {
    let stage = Stage::start().await;
    stage.put("a", b"1").await;
    stage.put("b", b"2").await;
    let etag = |key: &'static str| {
        let head = stage.request("HEAD", &format!("/bucket/{key}"));
        async move { head.send().await.header("etag").expect("an ETag").to_owned() }
    };
    let (a, b) = (etag("a").await, etag("b").await);
    let (past, future) = ("Wed, 01 Jan 2020 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT");
    for (name, value) in [
        ("if-none-match", "*"),
        ("if-none-match", b.as_str()),
        ("if-match", a.as_str()),
        ("if-modified-since", future),
        ("if-unmodified-since", past),
        ("x-amz-rename-source-if-match", b.as_str()),
        ("x-amz-rename-source-if-none-match", a.as_str()),
        ("x-amz-rename-source-if-modified-since", future),
        ("x-amz-rename-source-if-unmodified-since", past),
    ] {
        let refused = rename(&stage, "a", "b").header(name, value).send().await;
        assert_eq!(refused.refusal(), (412, "PreconditionFailed".to_owned()), "{name}: {value}");
    }
    for (name, value) in [("if-match", a.as_str()), ("if-modified-since", past)] {
        let refused = rename(&stage, "a", "absent").header(name, value).send().await;
        assert_eq!(refused.status, 412, "{name} where nothing is");
    }
    assert_eq!(keys(&stage).await, ["a", "b"]);
    let renamed = rename(&stage, "/a", "b").header("if-match", &b).header("if-unmodified-since", past);
    let renamed = renamed.header("x-amz-rename-source-if-match", &a).send().await;
    assert_eq!(renamed.status, 200, "{}", renamed.text());
    assert_eq!((keys(&stage).await, stage.get("b").await), (vec!["b".to_owned()], b"1".to_vec()));
}

#[tokio::test]
async fn what_cannot_be_renamed_is_refused() {
    let stage = Stage::start().await;
    stage.put("a", b"1").await;
    for (request, status, code) in [
        (rename(&stage, "absent", "b"), 404, "NoSuchKey"),
        (rename(&stage, "a", "a"), 400, "InvalidRequest"),
        (rename(&stage, "%ff", "b"), 400, "InvalidArgument"),
        (rename(&stage, "a", "b").header("x-amz-client-token", &"t".repeat(65)), 400, "InvalidArgument"),
    ] {
        let refused = request.send().await;
        assert_eq!(refused.refusal(), (status, code.to_owned()));
    }
    let absent = stage.request("PUT", "/absent/b?renameObject").header("x-amz-rename-source", "a").send().await;
    assert_eq!(absent.refusal(), (404, "NoSuchBucket".to_owned()));
    assert_eq!(keys(&stage).await, ["a"]);
    // Who may write may not delete by renaming.
    let anna = stage.user("anna").await;
    let policy = format!(
        r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{{"AWS":"{}"}},"Action":["s3:PutObject","s3:GetObject"],"Resource":"arn:aws:s3:::bucket/*"}}]}}"#,
        anna.arn()
    );
    assert_eq!(stage.request("PUT", "/bucket?policy").body(policy).send().await.status, 204);
    let refused = anna.request("PUT", "/bucket/b?renameObject").header("x-amz-rename-source", "a").send().await;
    assert_eq!(refused.refusal(), (403, "AccessDenied".to_owned()));
}

#[tokio::test]
async fn a_token_makes_a_repetition_harmless() {
    let stage = Stage::start().await;
    stage.put("a", b"1").await;
    let with_token = |source: &str, key: &str| rename(&stage, source, key).header("x-amz-client-token", "token");
    assert_eq!(with_token("a", "b").send().await.status, 200);
    assert_eq!(with_token("a", "b").send().await.status, 200);
    assert_eq!(rename(&stage, "a", "b").send().await.status, 404, "without a token it is another rename");
    let mismatch = with_token("b", "c").send().await;
    assert_eq!(mismatch.refusal(), (400, "IdempotencyParameterMismatch".to_owned()));
    assert_eq!(keys(&stage).await, ["b"]);
    let with_a_condition = with_token("a", "b").header("if-none-match", "*").send().await;
    assert_eq!(with_a_condition.refusal(), mismatch.refusal(), "another condition is another rename");
    // After a day a token is forgotten, however many others are.
    stage.put("a", b"again").await;
    let query = "UPDATE lobgate.rename_token SET renamed_at = renamed_at - interval '2 days'; \
                 INSERT INTO lobgate.rename_token SELECT bucket_id, token || n, source, key, renamed_at - interval '1 day' \
                 FROM lobgate.rename_token, generate_series(1, 300) n";
    stage.database.execute(query).await;
    assert_eq!(with_token("a", "b").send().await.status, 200);
    assert_eq!(stage.get("b").await, b"again");
    // One that failed leaves its token free.
    let failing = rename(&stage, "absent", "d").header("x-amz-client-token", "other");
    assert_eq!(failing.send().await.status, 404);
    stage.put("absent", b"2").await;
    assert_eq!(failing.send().await.status, 200);
}

#[tokio::test]
async fn a_versioned_bucket_keeps_what_was_there() {
    let stage = Stage::start().await;
    set_versioning(&stage, Versioning::Enabled).await;
    stage.put("a", b"1").await;
    stage.put("b", b"2").await;
    assert_eq!(rename(&stage, "a", "b").send().await.status, 200);
    assert_eq!((keys(&stage).await, stage.get("b").await), (vec!["b".to_owned()], b"1".to_vec()));
    let listed = stage.request("GET", "/bucket?versions").send().await;
    assert_eq!(listed.xml_all("VersionId").len(), 4, "{}", listed.text());
    assert_eq!(listed.text().matches("<DeleteMarker>").count(), 1);
    assert_eq!(rename(&stage, "a", "c").send().await.status, 404, "a delete marker is no object");
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn renames_back_and_forth_lose_nothing() {
    let stage = Stage::start().await;
    for key in ["a", "b", "c"] {
        stage.put(key, key.as_bytes()).await;
    }
    // Only where the target is free: so three objects stay three, whatever meets whatever.
    let all = ["a", "b", "c", "d"];
    let renames = (0..60).map(|n| {
        let request = rename(&stage, all[n % 4], all[(n + 1 + n / 4 % 3) % 4]).header("if-none-match", "*");
        async move { request.send().await.status }
    });
    let statuses = futures::future::join_all(renames).await;
    assert!(statuses.iter().all(|status| [200, 404, 412, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200));
    let mut left = Vec::new();
    for key in keys(&stage).await {
        left.push(String::from_utf8(stage.get(&key).await).expect("text"));
    }
    left.sort();
    assert_eq!(left, ["a", "b", "c"]);
    assert_consistent(&stage.database).await;
}
