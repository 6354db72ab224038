//! Policies in force: of buckets, of users, of groups; public access blocks.

use serde_json::{Value, json};

use crate::harness::{RawRequest, Stage, eventually};

fn statement(effect: &str, principal: Value, actions: Value, resources: Value) -> Value {
    json!({"Effect": effect, "Principal": principal, "Action": actions, "Resource": resources})
}

fn document(statements: &[Value]) -> String {
    json!({"Version": "2012-10-17", "Statement": statements}).to_string()
}

fn put_policy(stage: &Stage, text: &str) -> RawRequest {
    stage.request("PUT", "/bucket?policy").body(text)
}

#[tokio::test]
async fn a_bucket_policy_is_kept_as_it_was_given() {
    let stage = Stage::start().await;
    let text = document(&[statement("Allow", json!("*"), json!("s3:GetObject"), json!("arn:aws:s3:::bucket/*"))]);
    assert_eq!(put_policy(&stage, &text).send().await.status, 204);
    assert_eq!(stage.request("GET", "/bucket?policy").send().await.body, text.as_bytes());
    assert_eq!(stage.request("GET", "/bucket?policyStatus").send().await.xml("IsPublic").as_deref(), Some("true"));
    for wrong in [
        "",
        "{",
        "[]",
        r#"{"Statement": []}"#,
        &text.replace("bucket/*", "other/*"),
        &text.replace("s3:GetObject", "s3:Get"),
        &text.replace(r#""*""#, r#"{"AWS":"nobody"}"#),
    ] {
        let (status, code) = put_policy(&stage, wrong).send().await.refusal();
        assert_eq!(status, 400, "{wrong}");
        assert!(
            ["MalformedPolicy", "MissingRequestBodyError", "MalformedXML"].contains(&code.as_str()),
            "{wrong}: {code}"
        );
    }
    assert_eq!(stage.request("GET", "/bucket?policy").send().await.body, text.as_bytes());
    assert_eq!(stage.request("DELETE", "/bucket?policy").send().await.status, 204);
    assert_eq!(stage.request("GET", "/bucket?policy").send().await.refusal(), (404, "NoSuchBucketPolicy".to_owned()));
}

#[tokio::test]
async fn anonymous_and_other_users_get_what_the_policy_allows_and_no_more() {
    let stage = Stage::start().await;
    let alice = stage.user("alice").await;
    stage.put("public/a", b"open").await;
    stage.put("private/b", b"closed").await;
    let text = document(&[
        statement("Allow", json!("*"), json!("s3:GetObject"), json!("arn:aws:s3:::bucket/public/*")),
        statement(
            "Allow",
            json!({"AWS": alice.arn()}),
            json!(["s3:PutObject", "s3:DeleteObject"]),
            json!("arn:aws:s3:::bucket/inbox/*"),
        ),
        statement(
            "Deny",
            json!({"AWS": alice.id.clone()}),
            json!("s3:DeleteObject"),
            json!("arn:aws:s3:::bucket/inbox/kept"),
        ),
    ]);
    assert_eq!(put_policy(&stage, &text).send().await.status, 204);
    let unsigned = |method: &str, target: &str| stage.request(method, target).anonymous();
    assert_eq!(unsigned("GET", "/bucket/public/a").send().await.body, b"open");
    for (method, target) in [
        ("GET", "/bucket/private/b"),
        ("GET", "/bucket/public/absent"),
        ("GET", "/bucket"),
        ("PUT", "/bucket/public/a"),
    ] {
        assert_eq!(
            unsigned(method, target).send().await.refusal(),
            (403, "AccessDenied".to_owned()),
            "{method} {target}"
        );
    }
    let ranged = unsigned("GET", "/bucket/private/b").header("range", "bytes=oops");
    assert_eq!(ranged.send().await.refusal(), (403, "AccessDenied".to_owned()), "an odd header is no way around");
    let ranged = unsigned("GET", "/bucket/public/a").header("range", "bytes=oops");
    assert_eq!(ranged.send().await.body, b"open");

    assert_eq!(alice.request("PUT", "/bucket/inbox/new").body("x").send().await.status, 200);
    assert_eq!(alice.request("PUT", "/bucket/inbox/kept").body("x").send().await.status, 200);
    assert_eq!(alice.asks("PUT", "/bucket/outbox").await.0, 403);
    assert_eq!(alice.asks("DELETE", "/bucket/inbox/kept").await.0, 403);
    let keys =
        ["inbox/new", "inbox/kept", "private/b"].map(|key| format!("<Object><Key>{key}</Key></Object>")).concat();
    let batch = alice.request("POST", "/bucket?delete").body(format!("<Delete>{keys}</Delete>"));
    let reply = batch.send().await;
    assert_eq!((reply.status, reply.xml_all("Code")), (200, vec!["AccessDenied".to_owned(); 2]), "{}", reply.text());
    assert!(!stage.exists("inbox/new").await && stage.exists("inbox/kept").await && stage.exists("private/b").await);
}

#[tokio::test]
async fn a_deny_holds_for_root_too_but_the_policy_can_be_mended() {
    let stage = Stage::start().await;
    stage.put("a", b"x").await;
    let all = json!(["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]);
    let text = document(&[statement("Deny", json!("*"), json!("s3:*"), all)]);
    assert_eq!(put_policy(&stage, &text).send().await.status, 204);
    assert_eq!(stage.request("GET", "/bucket/a").send().await.refusal(), (403, "AccessDenied".to_owned()));
    assert_eq!(stage.request("GET", "/bucket?policy").send().await.status, 200);
    assert_eq!(stage.request("DELETE", "/bucket?policy").send().await.status, 204);
    assert_eq!(stage.get("a").await, b"x");
}

#[tokio::test]
async fn conditions_see_the_request_and_the_object() {
    let stage = Stage::start().await;
    let alice = stage.user("alice").await;
    stage.put("tagged", b"x").await;
    let tags = "<Tagging><TagSet><Tag><Key>class</Key><Value>open</Value></Tag></TagSet></Tagging>";
    assert_eq!(stage.request("PUT", "/bucket/tagged?tagging").body(tags).send().await.status, 200);
    stage.put("bare", b"x").await;
    let with = |mut statement: Value, condition: Value| {
        statement["Condition"] = condition;
        statement
    };
    let who = json!({"AWS": alice.arn()});
    let text = document(&[
        with(
            statement("Allow", who.clone(), json!("s3:GetObject"), json!("arn:aws:s3:::bucket/*")),
            json!({"StringEquals": {"s3:ExistingObjectTag/class": "open"}}),
        ),
        with(
            statement("Allow", who.clone(), json!("s3:ListBucket"), json!("arn:aws:s3:::bucket")),
            json!({"StringLike": {"s3:prefix": "${aws:username}/*"}, "IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}),
        ),
        with(
            statement("Allow", who, json!(["s3:PutObject", "s3:PutObjectTagging"]), json!("arn:aws:s3:::bucket/*")),
            json!({"StringEquals": {"s3:RequestObjectTag/team": "blue"}, "Bool": {"aws:SecureTransport": "false"}}),
        ),
    ]);
    assert_eq!(put_policy(&stage, &text).send().await.status, 204);
    assert_eq!(alice.asks("GET", "/bucket/tagged").await.0, 200);
    assert_eq!(alice.asks("GET", "/bucket/bare").await.0, 403);
    assert_eq!(alice.asks("GET", "/bucket?prefix=alice%2F2026").await.0, 200);
    assert_eq!(alice.asks("GET", "/bucket?prefix=bob%2F").await.0, 403);
    assert_eq!(alice.asks("GET", "/bucket").await.0, 403);
    let put = |tags: &str| alice.request("PUT", "/bucket/new").header("x-amz-tagging", tags).body("x");
    assert_eq!(put("team=blue").send().await.status, 200);
    assert_eq!(put("team=red").send().await.status, 403);
}

#[tokio::test]
async fn policies_of_users_and_groups_take_effect_at_once_on_every_gateway() {
    let stage = Stage::start().await;
    let other = crate::harness::Gateway::start(&stage.database.url(), &[]).await;
    let alice = stage.user("alice").await;
    stage.put("a", b"x").await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("policy.json");
    let write = |actions: Value, effect: &str| {
        let text = json!({"Version": "2012-10-17", "Statement": [
            {"Effect": effect, "Action": actions, "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]}]});
        std::fs::write(&file, text.to_string()).expect("written");
    };
    let name = file.to_str().expect("a path");
    let read = |endpoint: String| RawRequest::new(&endpoint, "GET", "/bucket/a").credentials("alice", alice.secret);
    let statuses = || async {
        let here = read(stage.gateway.endpoint.clone()).send().await.status;
        (here, read(other.endpoint.clone()).send().await.status)
    };
    assert_eq!(statuses().await, (403, 403));
    write(json!(["s3:Get*", "s3:List*"]), "Allow");
    stage.lobgate(&["policy", "put", "read", name]).await;
    stage.lobgate(&["group", "create", "readers"]).await;
    stage.lobgate(&["group", "add", "readers", "alice"]).await;
    stage.lobgate(&["policy", "attach", "read", "--group", "readers"]).await;
    eventually("both gateways know", || async { statuses().await == (200, 200) }).await;
    assert_eq!(alice.asks("PUT", "/bucket/b").await.0, 403);
    assert_eq!(alice.asks("PUT", "/of-alice").await.0, 403, "with policies, these alone say what she may do");
    write(json!("s3:GetObject"), "Deny");
    stage.lobgate(&["policy", "put", "no-reading", name]).await;
    stage.lobgate(&["policy", "attach", "no-reading", "--user", "alice"]).await;
    eventually("both gateways know", || async { statuses().await == (403, 403) }).await;
    stage.lobgate(&["policy", "detach", "no-reading", "--user", "alice"]).await;
    eventually("both gateways know", || async { statuses().await == (200, 200) }).await;
    let in_use = crate::harness::server::run(&stage.database.url(), &["policy", "delete", "read"]).await;
    assert_eq!(in_use.status.code(), Some(1));
    stage.lobgate(&["group", "remove", "readers", "alice"]).await;
    eventually("both gateways know", || async { statuses().await == (403, 403) }).await;
}

#[tokio::test]
async fn a_public_access_block_keeps_the_public_out() {
    let stage = Stage::start().await;
    let alice = stage.user("alice").await;
    stage.put("a", b"x").await;
    let public = document(&[statement("Allow", json!("*"), json!("s3:GetObject"), json!("arn:aws:s3:::bucket/*"))]);
    assert_eq!(put_policy(&stage, &public).send().await.status, 204);
    let block = |which: &str| {
        let body = format!("<PublicAccessBlockConfiguration><{which}>true</{which}></PublicAccessBlockConfiguration>");
        stage.request("PUT", "/bucket?publicAccessBlock").body(body)
    };
    assert_eq!(block("RestrictPublicBuckets").send().await.status, 200);
    assert_eq!(stage.request("GET", "/bucket/a").anonymous().send().await.status, 403);
    assert_eq!(alice.asks("GET", "/bucket/a").await.0, 403);
    assert_eq!(stage.get("a").await, b"x");
    assert_eq!(block("BlockPublicPolicy").send().await.status, 200);
    assert_eq!(put_policy(&stage, &public).send().await.refusal(), (403, "AccessDenied".to_owned()));
    assert_eq!(stage.request("GET", "/bucket/a").anonymous().send().await.body, b"x");
    let named = document(&[statement(
        "Allow",
        json!({"AWS": alice.arn()}),
        json!("s3:GetObject"),
        json!("arn:aws:s3:::bucket/*"),
    )]);
    assert_eq!(put_policy(&stage, &named).send().await.status, 204);
    assert_eq!(stage.request("GET", "/bucket?policyStatus").send().await.xml("IsPublic").as_deref(), Some("false"));
    assert_eq!(alice.asks("GET", "/bucket/a").await.0, 200);
}
