//! CORS: what a page of another origin is told, for its preflights and beside the answers to its requests.

use crate::harness::raw::Reply;
use crate::harness::{Stage, path};

const RULES: &str = "<CORSConfiguration>
  <CORSRule><ID>first</ID><AllowedOrigin>http://*.example.org</AllowedOrigin><AllowedMethod>PUT</AllowedMethod>
    <AllowedMethod>GET</AllowedMethod><AllowedHeader>x-amz-*</AllowedHeader><AllowedHeader>Content-Type</AllowedHeader>
    <ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>3000</MaxAgeSeconds></CORSRule>
  <CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>
</CORSConfiguration>";

async fn configured() -> Stage {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    let put = stage.request("PUT", "/bucket?cors").body(RULES).send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    stage
}

async fn preflight(stage: &Stage, target: &str, origin: &str, method: &str, headers: &str) -> Reply {
    let request = stage.request("OPTIONS", target).anonymous().header("origin", origin);
    let request = request.header("access-control-request-method", method);
    if headers.is_empty() {
        request.send().await
    } else {
        request.header("access-control-request-headers", headers).send().await
    }
}

#[tokio::test]
async fn a_preflight_is_answered_by_the_first_rule_that_fits() {
    let stage = configured().await;
    let site = "http://www.example.org";
    let reply = preflight(&stage, &path("k"), site, "PUT", "X-Amz-Date, content-type").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("access-control-allow-origin"), Some(site));
    assert_eq!(reply.header("access-control-allow-credentials"), Some("true"));
    assert_eq!(reply.header("access-control-allow-methods"), Some("PUT, GET"));
    assert_eq!(reply.header("access-control-allow-headers"), Some("x-amz-date, content-type"));
    assert_eq!(reply.header("access-control-expose-headers"), Some("ETag"));
    assert_eq!(reply.header("access-control-max-age"), Some("3000"));
    assert_eq!(reply.header("vary"), Some("Origin, Access-Control-Request-Headers, Access-Control-Request-Method"));
    let anyone = preflight(&stage, "/bucket", "http://other", "GET", "").await;
    assert_eq!((anyone.status, anyone.header("access-control-allow-origin")), (200, Some("*")));
    assert_eq!(anyone.header("access-control-allow-credentials"), None);
}

#[tokio::test]
async fn a_preflight_that_no_rule_fits_is_forbidden() {
    let stage = configured().await;
    for (what, target, origin, method, headers) in [
        ("a method", path("k"), "http://other", "PUT", ""),
        ("a header", path("k"), "http://www.example.org", "PUT", "authorization"),
        ("no such bucket", "/absent/k".to_owned(), "http://www.example.org", "GET", ""),
        ("no bucket", "/".to_owned(), "http://www.example.org", "GET", ""),
        ("no name of a bucket", "/%00/k".to_owned(), "http://www.example.org", "GET", ""),
    ] {
        let reply = preflight(&stage, &target, origin, method, headers).await;
        assert_eq!(reply.refusal(), (403, "AccessForbidden".to_owned()), "{what}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{what}");
    }
    let without_origin = stage.request("OPTIONS", "/bucket").anonymous().send().await;
    assert_eq!(without_origin.refusal(), (400, "BadRequest".to_owned()));
    for method in ["PATCH", "get", ""] {
        let reply = preflight(&stage, "/bucket", "http://other", method, "").await;
        assert_eq!(reply.refusal(), (400, "BadRequest".to_owned()), "{method}");
    }
}

#[tokio::test]
async fn answers_to_pages_of_other_origins_say_who_may_read_them_errors_included() {
    let stage = configured().await;
    let get = |target: &str, origin: &str| stage.request("GET", target).header("origin", origin);
    let site = "http://www.example.org";
    let reply = get(&path("k"), site).send().await;
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some(site)));
    assert_eq!(reply.header("access-control-expose-headers"), Some("ETag"));
    let missing = get(&path("none"), site).send().await;
    assert_eq!((missing.status, missing.header("access-control-allow-origin")), (404, Some(site)));
    let denied = get(&path("k"), "http://other").anonymous().send().await;
    assert_eq!((denied.status, denied.header("access-control-allow-origin")), (403, Some("*")));
    let put = stage.request("PUT", &path("k")).header("origin", "http://other").body("y").send().await;
    assert_eq!(
        (put.status, put.header("access-control-allow-origin")),
        (200, None),
        "done, though the page may not see it"
    );
    let same = stage.request("GET", &path("k")).send().await;
    assert_eq!(same.header("access-control-allow-origin"), None, "no origin, nothing to say");
}

#[tokio::test]
async fn rules_are_kept_as_they_were_given_until_they_are_deleted() {
    let stage = configured().await;
    let got = stage.request("GET", "/bucket?cors").send().await;
    assert_eq!(got.xml_all("AllowedOrigin"), ["http://*.example.org", "*"]);
    assert_eq!(got.xml_all("AllowedHeader"), ["x-amz-*", "Content-Type"]);
    assert_eq!((got.xml("ID").as_deref(), got.xml("MaxAgeSeconds").as_deref()), (Some("first"), Some("3000")));
    assert_eq!(stage.request("DELETE", "/bucket?cors").send().await.status, 204);
    let none = stage.request("GET", "/bucket?cors").send().await;
    assert_eq!(none.refusal(), (404, "NoSuchCORSConfiguration".to_owned()));
    let reply = preflight(&stage, "/bucket", "http://other", "GET", "").await;
    assert_eq!(reply.refusal(), (403, "AccessForbidden".to_owned()));
    for (rule, code) in [
        ("<AllowedOrigin>*</AllowedOrigin><AllowedMethod>OPTIONS</AllowedMethod>", "InvalidRequest"),
        ("<AllowedOrigin>*.*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>", "InvalidRequest"),
        ("<AllowedOrigin>*</AllowedOrigin>", "MalformedXML"),
    ] {
        let document = format!("<CORSConfiguration><CORSRule>{rule}</CORSRule></CORSConfiguration>");
        let refused = stage.request("PUT", "/bucket?cors").body(document).send().await;
        assert_eq!(refused.refusal(), (400, code.to_owned()), "{rule}");
    }
    let absent = stage.request("PUT", "/absent?cors").body(RULES).send().await;
    assert_eq!(absent.refusal(), (404, "NoSuchBucket".to_owned()));
}
