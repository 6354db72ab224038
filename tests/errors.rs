//! Refusals: S3's XML, S3's codes, the ids on every answer, and nothing mistaken for another operation.

use crate::harness::inspect::assert_empty;
use crate::harness::{Reply, Stage, path};

fn assert_ids(reply: &Reply, what: &str) {
    for name in ["x-amz-request-id", "x-amz-id-2"] {
        assert!(reply.header(name).is_some_and(|id| !id.is_empty()), "{name} of {what}");
    }
}

#[tokio::test]
async fn every_answer_carries_both_request_ids_and_no_two_are_equal() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    let requests = [
        stage.request("GET", "/"),
        stage.request("GET", "/bucket"),
        stage.request("HEAD", "/bucket"),
        stage.request("GET", &path("k")),
        stage.request("HEAD", &path("k")),
        stage.request("HEAD", &path("none")),
        stage.request("GET", &path("none")),
        stage.request("GET", &path("k")).header("if-none-match", "*"),
        stage.request("GET", &path("k")).header("range", "bytes=99-"),
        stage.request("PUT", &path("new")).body("x"),
        stage.request("DELETE", &path("new")),
        stage.request("GET", &path("k")).tampered(),
        stage.request("GET", &path("k")).anonymous(),
        stage.request("GET", "/bucket?versions"),
        stage.request("PATCH", &path("k")),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for (number, request) in requests.iter().enumerate() {
        let reply = request.send().await;
        assert_ids(&reply, &format!("request {number}"));
        assert!(seen.insert(reply.header("x-amz-request-id").map(str::to_owned)), "request {number}: a new id");
        assert!(reply.header("date").is_some());
    }
}

#[tokio::test]
async fn an_error_is_xml_with_code_message_resource_and_the_ids_of_its_headers() {
    let stage = Stage::start().await;
    let cases = [
        (stage.request("GET", &path("no such/key é")), "NoSuchKey", "/bucket/no such/key é"),
        (stage.request("GET", "/no-such-bucket?list-type=2"), "NoSuchBucket", "/no-such-bucket"),
        (stage.request("GET", &path("k")).tampered(), "SignatureDoesNotMatch", "/bucket/k"),
        (stage.request("PUT", &path("<&>\"'")).header("content-md5", "!").body("x"), "InvalidDigest", "/bucket/<&>\"'"),
    ];
    for (request, code, resource) in cases {
        let reply = request.send().await;
        assert_eq!(reply.header("content-type"), Some("application/xml"), "{code}");
        assert!(reply.text().starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"), "{}", reply.text());
        assert_eq!(reply.xml("Code").as_deref(), Some(code), "{}", reply.text());
        assert!(reply.xml("Message").is_some_and(|message| !message.is_empty()), "{code}");
        let shown = reply.xml("Resource").expect("a resource");
        let shown = percent_encoding::percent_decode_str(&shown).decode_utf8_lossy().into_owned();
        assert_eq!(shown, resource, "{code}");
        assert_eq!(reply.xml("RequestId").as_deref(), reply.header("x-amz-request-id"), "{code}");
        assert_eq!(reply.xml("HostId").as_deref(), reply.header("x-amz-id-2"), "{code}");
    }
}

#[tokio::test]
async fn errors_of_head_have_a_status_and_no_body() {
    let stage = Stage::start().await;
    for (target, status) in
        [(path("none"), 404), ("/no-such-bucket".to_owned(), 404), ("/no-such-bucket/k".to_owned(), 404)]
    {
        let reply = stage.request("HEAD", &target).send().await;
        assert_eq!(reply.status, status, "{target}");
        assert!(reply.body.is_empty(), "{target}");
    }
    assert_eq!(stage.request("HEAD", &path("k")).tampered().send().await.status, 403);
}

#[tokio::test]
async fn sub_resources_that_lobgate_does_not_have_are_not_implemented() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    let of_buckets = [
        "accelerate",
        "analytics",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "logging",
        "metrics",
        "notification",
        "policyStatus",
        "replication",
        "requestPayment",
        "website",
        "metadataTable",
        "metadataConfiguration",
        "session",
        "abac",
    ];
    let of_objects = ["torrent", "restore", "select", "encryption"];
    for (path, names) in [("/bucket".to_owned(), &of_buckets[..]), (path("k"), &of_objects[..])] {
        for name in names {
            for method in ["GET", "PUT", "DELETE", "POST"] {
                // Some can be read, removed or set to what holds anyway: `bucket_settings.rs`.
                let answered = match method {
                    "GET" => !name.starts_with("metadata") && !["session", "abac"].contains(name),
                    "PUT" => ["accelerate", "logging", "notification", "requestPayment"].contains(name),
                    "DELETE" => ["encryption", "replication", "website", "analytics", "metrics", "inventory"]
                        .iter()
                        .chain(&["intelligent-tiering"])
                        .any(|deletable| deletable == name),
                    _ => false,
                };
                if answered && path == "/bucket" {
                    continue;
                }
                let body = if matches!(method, "PUT" | "POST") { "<x/>" } else { "" };
                let reply = stage.request(method, &format!("{path}?{name}")).body(body).send().await;
                let refused = reply.refusal();
                let known = [(501, "NotImplemented"), (405, "MethodNotAllowed")];
                let known = known.map(|(status, code)| (status, code.to_owned()));
                assert!(known.contains(&refused), "{method} {path}?{name}: {refused:?}");
            }
        }
    }
    assert_eq!(stage.get("k").await, b"hello", "nothing was mistaken for a put or a delete");
    let listed = stage.request("GET", "/bucket").send().await;
    assert_eq!(listed.xml_all("Key"), ["k"]);
}

#[tokio::test]
async fn encryption_is_refused_wherever_it_is_asked_for() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    for (name, value) in [
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "key"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-server-side-encryption-customer-key-md5", "CY9rzUYh03PK3k6DJie09g=="),
    ] {
        for (method, target) in [("PUT", path("new")), ("POST", format!("{}?uploads", path("new")))] {
            let refused = stage.request(method, &target).header(name, value).send().await;
            assert_eq!(refused.refusal(), (501, "NotImplemented".to_owned()), "{method} with {name}");
        }
        let copy = stage.request("PUT", &path("new")).header("x-amz-copy-source", "/bucket/k");
        assert_eq!(copy.header(name, value).send().await.status, 501, "a copy with {name}");
        let read = stage.request("GET", &path("k")).header(name, value).send().await;
        assert_eq!(read.status, 501, "GET with {name}");
    }
    assert!(!stage.exists("new").await, "nothing is stored unencrypted instead");
}

#[tokio::test]
async fn a_sub_resource_with_a_value_or_further_keys_is_still_itself() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    for (method, target) in
        [("PUT", "/bucket/k?torrent="), ("DELETE", "/bucket?unknown=1&torrent"), ("DELETE", "/bucket?session&unknown")]
    {
        let body = if method == "PUT" { "<x/>" } else { "" };
        let reply = stage.request(method, target).body(body).send().await;
        assert_eq!(reply.refusal(), (501, "NotImplemented".to_owned()), "{method} {target}");
    }
    assert_eq!(stage.get("k").await, b"hello");
    stage.delete("k").await;
    for query in ["unknown=1&website", "replication", "encryption="] {
        assert_eq!(stage.request("DELETE", &format!("/bucket?{query}")).send().await.status, 204, "{query}");
        assert_eq!(stage.request("HEAD", "/bucket").send().await.status, 200, "{query}: the bucket is still there");
    }
}

#[tokio::test]
async fn query_keys_that_s3_does_not_know_are_ignored() {
    let stage = Stage::start().await;
    let target = |query: &str| format!("{}?{query}", path("k"));
    assert_eq!(stage.request("PUT", &target("foo=bar&baz")).body("hello").send().await.status, 200);
    assert_eq!(stage.request("GET", &target("unknown&x=%20y")).send().await.text(), "hello");
    assert_eq!(stage.request("HEAD", &target("x=1")).send().await.status, 200);
    assert_eq!(stage.request("GET", "/bucket?foo=bar&list-type=2").send().await.xml_all("Key"), ["k"]);
    let unknown = stage.request("DELETE", &target("foo")).send().await;
    assert_eq!(unknown.refusal(), (501, "NotImplemented".to_owned()), "whatever it is, it is no deletion");
    assert_eq!(stage.request("DELETE", &target("foo=1")).send().await.status, 204);
    assert!(!stage.exists("k").await);
}

#[tokio::test]
async fn the_operation_names_that_sdks_add_do_no_harm() {
    let stage = Stage::start().await;
    for (method, target) in [
        ("PUT", "/bucket/k?x-id=PutObject"),
        ("GET", "/bucket/k?x-id=GetObject"),
        ("GET", "/?x-id=ListBuckets"),
        ("DELETE", "/bucket/k?x-id=DeleteObject"),
    ] {
        let status = stage.request(method, target).body(if method == "PUT" { "x" } else { "" }).send().await.status;
        assert!(matches!(status, 200 | 204), "{method} {target}: {status}");
    }
}

#[tokio::test]
async fn methods_that_do_not_fit_are_not_allowed() {
    let stage = Stage::start().await;
    for (method, target) in [
        ("POST", "/bucket/k"),
        ("PATCH", "/bucket/k"),
        ("DELETE", "/"),
        ("PUT", "/"),
        ("POST", "/"),
        ("TRACE", "/bucket"),
    ] {
        let reply = stage.request(method, target).send().await;
        assert!(matches!(reply.status, 400 | 405 | 501), "{method} {target}: {} {}", reply.status, reply.text());
        assert!(reply.xml("Code").is_some(), "{method} {target}: an S3 error");
    }
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn garbage_on_the_wire_harms_nobody() {
    use crate::harness::raw::Connection;
    let stage = Stage::start().await;
    let huge = format!("GET /bucket HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(2 << 20));
    for garbage in ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET /bucket HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00", &huge] {
        let mut connection = Connection::open(&stage.gateway.endpoint).await;
        connection.write(garbage.as_bytes()).await;
        connection.finish_writing().await;
        connection.read_some(usize::MAX).await;
    }
    stage.put("k", b"still here").await;
    assert_eq!(stage.get("k").await, b"still here");
}
