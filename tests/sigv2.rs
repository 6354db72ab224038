//! Signature version 2, which is off unless it is switched on: headers, presigned URLs, forms.

use ring::hmac;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use crate::harness::server::{ACCESS_KEY, SECRET_KEY};
use crate::harness::{RawRequest, Stage, base64, sigv4};

fn signature(text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, SECRET_KEY.as_bytes());
    base64(hmac::sign(&key, text.as_bytes()).as_ref())
}

fn http_date() -> String {
    let now = OffsetDateTime::now_utc().replace_nanosecond(0).expect("seconds");
    now.format(&Rfc2822).expect("a date").replace("+0000", "GMT")
}

/// A request whose header authorizes it.
fn by_header(stage: &Stage, method: &str, target: &str) -> RawRequest {
    let date = http_date();
    let authorization = format!("AWS {ACCESS_KEY}:{}", signature(&format!("{method}\n\n\n{date}\n{target}")));
    let request = stage.request(method, target).anonymous();
    request.unsigned_header("date", &date).unsigned_header("authorization", &authorization)
}

/// A request whose URL authorizes it until some seconds from now.
fn presigned(stage: &Stage, method: &str, target: &str, seconds: i64) -> RawRequest {
    let expires = OffsetDateTime::now_utc().unix_timestamp() + seconds;
    let signature = sigv4::encode(&signature(&format!("{method}\n\n\n{expires}\n{target}")), false);
    let target = format!("{target}?AWSAccessKeyId={ACCESS_KEY}&Expires={expires}&Signature={signature}");
    stage.request(method, &target).anonymous()
}

#[tokio::test]
async fn legacy_signatures_are_accepted_where_they_are_switched_on() {
    let stage = Stage::with(&[("LOBGATE_AUTH_SIGV2", "true")]).await;
    assert_eq!(by_header(&stage, "PUT", "/bucket/a").body("content").send().await.status, 200);
    assert_eq!(by_header(&stage, "GET", "/bucket/a").send().await.body, b"content");
    assert_eq!(presigned(&stage, "GET", "/bucket/a", 60).send().await.body, b"content");
    assert_eq!(presigned(&stage, "PUT", "/bucket/b", 60).body("more").send().await.status, 200);
    let odd = by_header(&stage, "GET", "/bucket/a").unsigned_header("range", "bytes=oops");
    assert_eq!(odd.send().await.body, b"content");
    let odd = presigned(&stage, "GET", "/bucket/a", 60).unsigned_header("range", "bytes=oops");
    assert_eq!(odd.send().await.body, b"content");

    assert_eq!(presigned(&stage, "GET", "/bucket/a", -1).send().await.refusal().0, 403);
    let date = http_date();
    let wrong = format!("AWS {ACCESS_KEY}:{}", signature("something else"));
    let request = stage.request("GET", "/bucket/a").anonymous().unsigned_header("date", &date);
    let refused = request.unsigned_header("authorization", &wrong).send().await.refusal();
    assert_eq!(refused, (403, "SignatureDoesNotMatch".to_owned()));
    let unknown = stage.request("GET", "/bucket/a").anonymous().unsigned_header("date", &date);
    let refused = unknown.unsigned_header("authorization", "AWS nobody:c2lnbmF0dXJl").send().await.refusal();
    assert_eq!(refused, (403, "InvalidAccessKeyId".to_owned()));
    assert_eq!(stage.request("GET", "/bucket/a").send().await.status, 200, "version 4 goes on");
}

#[tokio::test]
async fn legacy_clients_write_dates_and_resources_in_their_own_ways() {
    let stage = Stage::with(&[("LOBGATE_AUTH_SIGV2", "true")]).await;
    stage.put("a", b"content").await;
    for zone in ["GMT", "UTC", "+0000"] {
        let date = http_date().replace("GMT", zone);
        let text = format!("GET\n\n\n\nx-amz-date:{date}\n/bucket/a");
        let request = stage.request("GET", "/bucket/a").anonymous().unsigned_header("x-amz-date", &date);
        let signed = request.unsigned_header("authorization", &format!("AWS {ACCESS_KEY}:{}", signature(&text)));
        assert_eq!(signed.send().await.body, b"content", "{zone}");
    }
    // They sign the bucket's resource with a slash, whether they send one or not.
    for (target, resource) in
        [("/bucket", "/bucket/"), ("/bucket/", "/bucket/"), ("/bucket?location", "/bucket/?location")]
    {
        let date = http_date();
        let proof = signature(&format!("GET\n\n\n{date}\n{resource}"));
        let request = stage.request("GET", target).anonymous().unsigned_header("date", &date);
        let signed = request.unsigned_header("authorization", &format!("AWS {ACCESS_KEY}:{proof}"));
        assert_eq!(signed.send().await.status, 200, "{target}");
    }
    let undated = stage.request("GET", "/bucket").anonymous().unsigned_header("authorization", "AWS a:c2ln");
    assert_eq!(undated.send().await.refusal(), (403, "AccessDenied".to_owned()));
    let malformed = stage.request("GET", "/bucket").anonymous().unsigned_header("authorization", "AWS nonsense");
    assert_eq!(malformed.send().await.refusal(), (400, "InvalidArgument".to_owned()));
}

#[tokio::test]
async fn a_legacy_url_does_nothing_but_what_it_was_signed_for() {
    let stage = Stage::with(&[("LOBGATE_AUTH_SIGV2", "true")]).await;
    stage.put("a", b"content").await;
    for more in ["retention", "legal-hold", "attributes", "renameObject", "%72etention", "publicAccessBlock"] {
        let url = presigned(&stage, "PUT", "/bucket/a", 60).target();
        let refused = stage.request("PUT", &format!("{url}&{more}")).anonymous().body("x").send().await;
        assert!(refused.status >= 400, "{more}: {}", refused.text());
    }
    let url = presigned(&stage, "PUT", "/bucket", 60).target();
    for more in ["publicAccessBlock", "ownershipControls"] {
        let refused = stage.request("PUT", &format!("{url}&{more}")).anonymous().body("<x/>").send().await;
        assert_eq!(refused.refusal(), (400, "InvalidRequest".to_owned()), "{more}");
    }
    assert_eq!(stage.get("a").await, b"content");
}

#[tokio::test]
async fn legacy_forms_are_accepted_where_they_are_switched_on() {
    let form = |stage: &Stage, signature: &str, policy: &str| {
        let field = |name: &str, value: &str| {
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let file = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\ncontent\r\n--b--\r\n";
        let fields = [("key", "form"), ("AWSAccessKeyId", ACCESS_KEY), ("policy", policy), ("signature", signature)];
        let body = fields.map(|(name, value)| field(name, value)).concat() + file;
        let request = stage.request("POST", "/bucket").anonymous();
        request.header("content-type", "multipart/form-data; boundary=b").body(body)
    };
    let policy = base64(r#"{"expiration":"2099-01-01T00:00:00Z","conditions":[{"bucket":"bucket"},{"key":"form"}]}"#);
    let stage = Stage::with(&[("LOBGATE_AUTH_SIGV2", "true")]).await;
    assert_eq!(form(&stage, &signature("another policy"), &policy).send().await.refusal().0, 403);
    assert!(!stage.exists("form").await);
    assert_eq!(form(&stage, &signature(&policy), &policy).send().await.status, 204);
    assert_eq!(stage.get("form").await, b"content");
    let without = Stage::start().await;
    assert!(form(&without, &signature(&policy), &policy).send().await.status >= 400);
    assert!(!without.exists("form").await);
}
