//! Who may ask: signatures in headers and URLs, their age, their region, and everything that is not a signature.

use time::Duration;

use crate::harness::chunked::{Chunked, Defect};
use crate::harness::inspect::assert_empty;
use crate::harness::server::{ACCESS_KEY, SECRET_KEY};
use crate::harness::{Stage, bytes, path};

fn denied(code: &str) -> (u16, String) {
    (403, code.to_owned())
}

#[tokio::test]
async fn a_wrong_signature_key_or_secret_is_refused() {
    let stage = Stage::start().await;
    for request in
        [stage.request("PUT", &path("k")).body("x"), stage.request("PUT", &path("k")).presigned(60).body("x")]
    {
        let tampered = request.clone().tampered().send().await;
        assert_eq!(tampered.refusal(), denied("SignatureDoesNotMatch"));
        let secret = request.clone().credentials(ACCESS_KEY, "wrong").send().await;
        assert_eq!(secret.refusal(), denied("SignatureDoesNotMatch"));
        let unknown = request.clone().credentials("UNKNOWN", SECRET_KEY).send().await;
        assert_eq!(unknown.refusal(), denied("InvalidAccessKeyId"));
    }
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn nobody_may_do_anything_without_a_signature() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    for (method, target) in [
        ("GET", "/"),
        ("GET", "/bucket"),
        ("PUT", "/new-bucket"),
        ("DELETE", "/bucket"),
        ("GET", "/bucket/k"),
        ("PUT", "/bucket/k"),
        ("DELETE", "/bucket/k"),
        ("POST", "/bucket/k?uploads"),
        ("POST", "/bucket?delete"),
    ] {
        let reply = stage.request(method, target).anonymous().send().await;
        assert_eq!(reply.refusal(), denied("AccessDenied"), "{method} {target}");
    }
    assert_eq!(stage.request("HEAD", &path("k")).anonymous().send().await.status, 403);
    assert_eq!(stage.get("k").await, b"hello");
}

#[tokio::test]
async fn a_clock_that_is_a_quarter_of_an_hour_off_is_too_skewed() {
    let stage = Stage::start().await;
    for minutes in [-16, 16] {
        let reply = stage.request("GET", "/bucket").at(Duration::minutes(minutes)).send().await;
        assert_eq!(reply.refusal(), denied("RequestTimeTooSkewed"), "{minutes} minutes");
    }
    for minutes in [-13, 13] {
        assert_eq!(stage.request("GET", "/bucket").at(Duration::minutes(minutes)).send().await.status, 200);
    }
}

#[tokio::test]
async fn another_region_is_refused() {
    let stage = Stage::start().await;
    let header = stage.request("GET", "/bucket").region("eu-central-1").send().await;
    assert_eq!(header.refusal(), (400, "AuthorizationHeaderMalformed".to_owned()));
    let presigned = stage.request("GET", "/bucket").region("eu-central-1").presigned(60).send().await;
    assert_eq!(presigned.refusal(), (400, "AuthorizationQueryParametersError".to_owned()));
}

#[tokio::test]
async fn a_presigned_url_serves_until_it_expires_and_never_longer_than_seven_days() {
    let stage = Stage::start().await;
    let put = stage.request("PUT", &path("k")).presigned(60).body("hello").send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    let get = |seconds| stage.request("GET", &path("k")).presigned(seconds);
    assert_eq!(get(60).send().await.text(), "hello");
    assert_eq!(get(604_800).send().await.text(), "hello");
    assert_eq!(get(604_800).at(Duration::days(-6)).send().await.text(), "hello");
    let expired = get(60).at(Duration::minutes(-2)).send().await;
    assert_eq!(expired.refusal(), denied("AccessDenied"));
    assert!(expired.text().contains("expired"), "{}", expired.text());
    for seconds in [604_801, -1] {
        let reply = get(seconds).send().await;
        assert_eq!(reply.refusal(), (400, "AuthorizationQueryParametersError".to_owned()), "{seconds} s");
    }
    let override_header = format!("{}?response-content-type=text%2Fx", path("k"));
    let reply = stage.request("GET", &override_header).presigned(60).send().await;
    assert_eq!(reply.header("content-type"), Some("text/x"));
}

#[tokio::test]
async fn amz_headers_that_the_signature_does_not_cover_are_refused() {
    let stage = Stage::start().await;
    stage.put("secret", b"secret").await;
    for name in ["x-amz-copy-source", "X-Amz-Meta-A", "x-amz-acl"] {
        for request in
            [stage.request("PUT", &path("k")).body("x"), stage.request("PUT", &path("k")).presigned(60).body("x")]
        {
            let reply = request.unsigned_header(name, "/bucket/secret").send().await;
            assert_eq!(reply.refusal(), denied("AccessDenied"), "{name}");
        }
    }
    assert!(!stage.exists("k").await, "a presigned put was not turned into a copy");
}

#[tokio::test]
async fn older_and_broken_authorizations_are_refused() {
    let stage = Stage::start().await;
    let anonymous = |name: &str, value: &str| stage.request("GET", "/bucket").anonymous().header(name, value);
    for value in [
        "AWS LOBGATETESTROOT:c2lnbmF0dXJl",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 Credential=x",
        "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00",
        "Basic dXNlcjpwYXNz",
        "Bearer token",
        "",
    ] {
        let reply = anonymous("authorization", value).send().await;
        assert!(matches!(reply.status, 400 | 403), "{value:?}: {} {}", reply.status, reply.text());
    }
    let query = "/bucket?AWSAccessKeyId=LOBGATETESTROOT&Expires=9999999999&Signature=c2lnbmF0dXJl";
    let reply = stage.request("GET", query).anonymous().send().await;
    assert!(matches!(reply.status, 400 | 403), "version 2 in the query: {}", reply.text());
    let signed = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00";
    for value in [signed, "AWS4-HMAC-SHA256 x", "Basic dXNlcjpwYXNz", ""] {
        let both = stage.request("GET", "/bucket").presigned(60).header("authorization", value).send().await;
        assert_eq!(both.refusal(), (400, "InvalidArgument".to_owned()), "two proofs: {value:?}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_proof_is_said_as_s3_says_it() {
    let stage = Stage::start().await;
    let now = time::OffsetDateTime::now_utc();
    let form = time::macros::format_description!("[year][month][day]T[hour][minute][second]Z");
    let date = now.format(form).expect("a date");
    let (day, yesterday) =
        (date[..8].to_owned(), (now - Duration::days(1)).format(form).expect("a date")[..8].to_owned());
    let scope = |region: &str, service: &str, end: &str| format!("AKID/{day}/{region}/{service}/{end}");
    let sound = scope("us-east-1", "s3", "aws4_request");
    let proof = |scope: &str| format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=00");
    let malformed = (400, "AuthorizationHeaderMalformed");
    let undated = (403, "AccessDenied");
    for (authorization, date, hash, refusal) in [
        (String::new(), &*date, "UNSIGNED-PAYLOAD", undated),
        ("nonsense".into(), &date, "UNSIGNED-PAYLOAD", (400, "InvalidArgument")),
        ("Bearer token".into(), &date, "UNSIGNED-PAYLOAD", (400, "InvalidArgument")),
        ("AWS4-HMAC-SHA1 Credential=x".into(), &date, "UNSIGNED-PAYLOAD", (400, "InvalidRequest")),
        ("AWS AKID:c2lnbmF0dXJl".into(), &date, "UNSIGNED-PAYLOAD", (400, "InvalidRequest")),
        (format!("AWS4-HMAC-SHA256 Credential={sound}"), &date, "UNSIGNED-PAYLOAD", malformed),
        (proof("AKID/20260101"), &date, "UNSIGNED-PAYLOAD", malformed),
        (proof(&scope("us-east-1", "ec2", "aws4_request")), &date, "UNSIGNED-PAYLOAD", malformed),
        (proof(&scope("us-east-1", "s3", "aws5_request")), &date, "UNSIGNED-PAYLOAD", malformed),
        (proof(&scope("eu-north-1", "s3", "aws4_request")), &date, "UNSIGNED-PAYLOAD", malformed),
        (proof(&sound.replace(&day, "2026-01-")), &date, "UNSIGNED-PAYLOAD", malformed),
        (proof(&sound.replace(&day, &yesterday)), &date, "UNSIGNED-PAYLOAD", malformed),
        (proof(&sound), "today", "UNSIGNED-PAYLOAD", undated),
        (proof(&sound), "19500707T215304Z", "UNSIGNED-PAYLOAD", undated),
        (proof(&sound), &date, "abc", (400, "InvalidArgument")),
        (proof(&sound), &date, "UNSIGNED-PAYLOAD", (403, "SignatureDoesNotMatch")),
        (
            proof(&sound).replace("=00", &format!("={}", "0".repeat(64))),
            &date,
            "UNSIGNED-PAYLOAD",
            (403, "InvalidAccessKeyId"),
        ),
    ] {
        let request = stage.request("GET", "/bucket").anonymous().header("authorization", &authorization);
        let reply = request.header("x-amz-date", date).header("x-amz-content-sha256", hash).send().await;
        assert_eq!(
            reply.refusal(),
            (refusal.0, refusal.1.to_owned()),
            "{authorization} {date} {hash}: {}",
            reply.text()
        );
    }
    let fields = |changed: &str, value: Option<&str>| {
        let sound = sound.replace('/', "%2F");
        let fields = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &sound),
            ("X-Amz-Date", &date),
            ("X-Amz-Expires", "60"),
            ("X-Amz-SignedHeaders", "host"),
            ("X-Amz-Signature", "00"),
        ];
        let changed = fields.into_iter().filter_map(|(name, sound)| {
            let value = if name == changed { value } else { Some(sound) };
            value.map(|value| format!("{name}={value}"))
        });
        changed.collect::<Vec<_>>().join("&")
    };
    for (name, value, message) in [
        ("X-Amz-Algorithm", None, "requires the X-Amz-Algorithm"),
        ("X-Amz-Credential", None, "requires the X-Amz-Algorithm"),
        ("X-Amz-Date", None, "requires the X-Amz-Algorithm"),
        ("X-Amz-Expires", None, "requires the X-Amz-Algorithm"),
        ("X-Amz-SignedHeaders", None, "requires the X-Amz-Algorithm"),
        ("X-Amz-Signature", None, "requires the X-Amz-Algorithm"),
        ("X-Amz-Algorithm", Some("AWS4-SHA256"), "only supports"),
        ("X-Amz-Credential", Some("a%2Fb"), "the Credential is mal-formed"),
        ("X-Amz-Credential", Some("a%2Fb%2Fc%2Fd%2F%01"), "incorrect terminal &quot;?&quot;"),
        ("X-Amz-Date", Some("today"), "ISO8601 Long Format"),
        ("X-Amz-Expires", Some("soon"), "should be a number"),
        ("X-Amz-Expires", Some("-1"), "must be non-negative"),
        ("X-Amz-Expires", Some("604801"), "less than a week"),
    ] {
        let reply = stage.request("GET", &format!("/bucket?{}", fields(name, value))).anonymous().send().await;
        assert_eq!(reply.refusal(), (400, "AuthorizationQueryParametersError".to_owned()), "{name} {value:?}");
        assert!(reply.text().contains(message), "{name} {value:?}: {}", reply.text());
    }
    let early = stage.request("GET", "/bucket").presigned(60).at(Duration::hours(1)).send().await;
    assert_eq!(early.refusal(), denied("AccessDenied"));
}

#[tokio::test]
async fn signed_chunks_are_verified_one_by_one() {
    let stage = Stage::with(&[("LOBGATE_STORAGE_BUFFER_MAX", "128KiB"), ("LOBGATE_GC_INTERVAL", "100ms")]).await;
    for size in [10, 100_000, 300_000] {
        let data = bytes(1, size);
        let put = |chunked: Chunked| stage.request("PUT", &path("k")).body(&data).chunked(chunked);
        let framing = || Chunked::signed().chunk_size(8192.min(size / 2));
        let broken = put(framing().defect(Defect::ChunkSignature));
        assert_eq!(broken.send().await.refusal(), denied("SignatureDoesNotMatch"), "{size}");
        let trailer = crate::checksums::checksum("crc32", &data);
        let trailing = framing().trailer("x-amz-checksum-crc32", &trailer);
        let forged = put(trailing.clone().defect(Defect::TrailerSignature));
        assert_eq!(forged.send().await.refusal(), denied("SignatureDoesNotMatch"), "{size}");
        assert_empty(&stage.database).await;
        let right = put(trailing).send().await;
        assert_eq!(right.status, 200, "{}", right.text());
        assert!(stage.get("k").await == data);
        stage.delete("k").await;
        crate::harness::inspect::until_reclaimed(&stage.database).await;
    }
}

#[tokio::test]
async fn the_secret_is_never_written_to_the_log() {
    let stage = Stage::with(&[("LOBGATE_LOG_FILTER", "trace")]).await;
    stage.put("k", b"x").await;
    stage.request("GET", &path("k")).tampered().send().await;
    stage.request("GET", &path("k")).presigned(60).send().await;
    let log = stage.gateway.log();
    assert!(!log.contains(SECRET_KEY), "the secret key");
    assert!(!log.contains("X-Amz-Signature="), "a presigned URL, good for a while");
    assert!(!log.contains("Signature="), "an Authorization header");
    assert!(!log.contains("lobgate-test@"), "the database's password");
}

#[tokio::test]
async fn the_memory_of_a_gateway_is_not_dumped() {
    use std::os::unix::process::ExitStatusExt as _;
    let mut stage = Stage::start().await;
    let pid = stage.gateway.process_id().to_string();
    let allowed = tokio::process::Command::new("prlimit").args(["--pid", &pid, "--core=unlimited"]).status().await;
    assert!(allowed.expect("run prlimit").success());
    stage.gateway.signal(nix::sys::signal::Signal::SIGABRT);
    let ended = stage.gateway.ended().await;
    assert!(ended.signal() == Some(6) && !ended.core_dumped(), "{ended:?}");
}
