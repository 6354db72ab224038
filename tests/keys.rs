//! Any UTF-8 key of 1 to 1024 bytes is a key: stored, listed, copied and deleted as the bytes it consists of.

use crate::harness::inspect::{assert_consistent, assert_empty, until_reclaimed};
use crate::harness::raw::Reply;
use crate::harness::{Stage, path};

/// One of each kind that some server, proxy, database or library is known to mistreat.
const ODD: &[&str] = &[
    "a",
    "a/b",
    "a/",
    "a//b",
    "/",
    "//",
    "/leading",
    "//leading",
    "trailing/",
    "trailing//",
    " ",
    " leading",
    "trailing ",
    "in the middle",
    "plus+plus",
    "+",
    "%",
    "%2F",
    "%2f",
    "%25",
    "100%",
    "a%20b",
    "?",
    "a?b=c",
    "#",
    "a#b",
    "&",
    "=",
    ";",
    ":",
    "@",
    "$",
    ",",
    "!",
    "*",
    "'",
    "\"",
    "<",
    ">",
    "<a>&amp;</a>",
    "\\",
    "a\\b",
    "|",
    "^",
    "`",
    "~",
    "{}",
    "[]",
    "()",
    "_",
    "-",
    ".",
    "..",
    "./a",
    "../a",
    "a/.",
    "a/..",
    "a/./b",
    "a/../b",
    "a/...",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\u{1}",
    "\u{8}",
    "\u{b}",
    "\u{1f}",
    "\u{7f}",
    "\u{80}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{200b}",
    "\u{2028}",
    "\u{202e}",
    "\u{feff}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{ffff}",
    "\u{10000}",
    "\u{10ffff}",
    "é",
    "e\u{301}",
    "ﬁ",
    "fi",
    "İ",
    "ß",
    "SS",
    "日本語/キー",
    "한글",
    "عربى",
    "🦀",
    "👩‍👩‍👧‍👦",
    "uploads",
    "?uploads",
    "x-id=PutObject",
    "bucket/bucket",
    "null",
    "NULL",
    "true",
    "0",
    "-1",
    "'; DROP TABLE lobgate.object; --",
    "$1",
    "E'\\\\x00'",
];

#[tokio::test]
async fn every_kind_of_key_is_put_got_listed_copied_and_deleted() {
    let stage = Stage::start().await;
    let longest = ["x".repeat(1024), "é".repeat(512), format!("{}/", "🦀/".repeat(204))];
    let mut keys: Vec<&str> = ODD.iter().copied().chain(longest.iter().map(String::as_str)).collect();
    for key in &keys {
        let put = stage.request("PUT", &path(key)).body(key).send().await;
        assert_eq!(put.status, 200, "put {key:?}: {}", put.text());
    }
    for key in &keys {
        let got = stage.request("GET", &path(key)).send().await;
        assert_eq!((got.status, got.text().as_str()), (200, *key), "get {key:?}");
        assert_eq!(stage.request("HEAD", &path(key)).send().await.status, 200, "head {key:?}");
    }
    keys.sort_unstable_by_key(|key| key.as_bytes());
    for version in ["list-type=2&", ""] {
        let listed = stage.request("GET", &format!("/bucket?{version}encoding-type=url&max-keys=1000")).send().await;
        assert_eq!(decoded(&listed), keys, "list with {version:?}");
    }
    for key in &keys {
        let source = path(key);
        let copy = stage.request("PUT", "/bucket/copy").header("x-amz-copy-source", &source).send().await;
        assert_eq!(copy.status, 200, "copy {key:?}: {}", copy.text());
        assert_eq!(stage.get("copy").await, key.as_bytes(), "the copy of {key:?}");
        assert_eq!(stage.request("DELETE", &path(key)).send().await.status, 204, "delete {key:?}");
        assert_eq!(stage.request("HEAD", &path(key)).send().await.status, 404, "{key:?} is gone");
    }
    stage.delete("copy").await;
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn a_listing_without_encoding_is_still_xml_for_keys_that_xml_can_hold() {
    let stage = Stage::start().await;
    let mut keys = vec!["<&>\"'", "a b", "é", "e\u{301}", "日本", "🦀", "a+b%20c"];
    for key in &keys {
        stage.put(key, b"").await;
    }
    keys.sort_unstable();
    let listed = stage.request("GET", "/bucket?list-type=2").send().await;
    assert_eq!(listed.xml_all("Key"), keys);
    let sdk = stage.s3.list_objects_v2().bucket("bucket").send().await.expect("the SDK's listing");
    assert_eq!(sdk.contents().iter().filter_map(|object| object.key()).collect::<Vec<_>>(), keys);
}

#[tokio::test]
async fn a_key_of_1025_bytes_is_too_long_wherever_it_is_named() {
    let stage = Stage::start().await;
    let long = "x".repeat(1025);
    for method in ["PUT", "GET", "DELETE"] {
        let reply = stage.request(method, &path(&long)).body(if method == "PUT" { "x" } else { "" }).send().await;
        assert_eq!(reply.refusal(), (400, "KeyTooLongError".to_owned()), "{method}");
    }
    let wide = stage.request("PUT", &path(&"é".repeat(513))).body("x").send().await;
    assert_eq!(wide.refusal(), (400, "KeyTooLongError".to_owned()), "bytes count, not characters");
    let create = stage.request("POST", &format!("{}?uploads", path(&long))).send().await;
    assert_eq!(create.refusal(), (400, "KeyTooLongError".to_owned()));
    assert_empty(&stage.database).await;
}

#[tokio::test]
async fn nul_and_broken_utf_8_are_refused_as_keys() {
    let stage = Stage::start().await;
    for target in ["/bucket/%00", "/bucket/a%00b", "/bucket/%FF", "/bucket/a%C3", "/bucket/%ED%A0%80"] {
        for method in ["PUT", "GET", "DELETE"] {
            let reply = stage.request(method, target).body(if method == "PUT" { "x" } else { "" }).send().await;
            assert_eq!(reply.status, 400, "{method} {target}: {}", reply.text());
            assert!(reply.xml("Code").is_some(), "an S3 error: {}", reply.text());
        }
    }
    assert_empty(&stage.database).await;
    assert!(stage.request("GET", "/bucket?list-type=2&prefix=%00").send().await.status < 500);
}

#[tokio::test]
async fn keys_that_differ_only_in_normal_form_or_case_are_different_objects() {
    let stage = Stage::with(&[("LOBGATE_GC_INTERVAL", "100ms")]).await;
    let keys = ["é", "e\u{301}", "É", "a", "A", "ﬁ", "fi"];
    for key in keys {
        stage.put(key, key.as_bytes()).await;
    }
    for key in keys {
        assert_eq!(stage.get(key).await, key.as_bytes());
        stage.delete(key).await;
        assert!(!stage.exists(key).await);
    }
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

fn decoded(listed: &Reply) -> Vec<String> {
    let decode = |key: String| {
        let key = key.replace('+', " ");
        percent_encoding::percent_decode_str(&key).decode_utf8().expect("UTF-8").into_owned()
    };
    listed.xml_all("Key").into_iter().map(decode).collect()
}
