//! ListObjects and ListObjectsV2: order, folding and pages, told by rules and against a model.

use crate::harness::sigv4::encode;
use crate::harness::{BUCKET, Failure, Reply, Stage, failure};

async fn fill(stage: &Stage, keys: &[&str]) {
    for key in keys {
        stage.put(key, b"x").await;
    }
}

async fn list(stage: &Stage, query: &str) -> Reply {
    stage.request("GET", &format!("/bucket?{query}")).send().await
}

fn prefixes(reply: &Reply) -> Vec<String> {
    let text = reply.text();
    let pieces = text.split("<CommonPrefixes><Prefix>").skip(1);
    pieces.map(|piece| piece.split("</Prefix>").next().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn an_empty_bucket_lists_nothing() {
    let stage = Stage::start().await;
    for query in ["", "list-type=2", "list-type=2&delimiter=%2F&prefix=a", "marker=a"] {
        let reply = list(&stage, query).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("content-type"), Some("application/xml"));
        assert!(reply.xml_all("Key").is_empty());
        assert_eq!(reply.xml("IsTruncated").as_deref(), Some("false"), "{query}");
        assert_eq!(reply.xml("Name").as_deref(), Some(BUCKET));
        assert_eq!(reply.xml("MaxKeys").as_deref(), Some("1000"));
    }
    let missing = stage.s3.list_objects_v2().bucket("no-such-bucket").send().await;
    assert_eq!(failure(missing), Failure::new(404, "NoSuchBucket"));
    let missing = stage.s3.list_objects().bucket("no-such-bucket").send().await;
    assert_eq!(failure(missing), Failure::new(404, "NoSuchBucket"));
}

#[tokio::test]
async fn keys_come_in_the_byte_order_of_utf_8() {
    let stage = Stage::start().await;
    let mut keys =
        vec!["a", "B", "b", "Z", "_", "ä", "z", "é", "e\u{301}", "\u{ff5e}", "\u{10000}", "日", "a/b", "a-b", "a0"];
    fill(&stage, &keys).await;
    keys.sort_unstable_by_key(|key| key.as_bytes());
    assert_eq!(list(&stage, "list-type=2").await.xml_all("Key"), keys);
    assert_eq!(list(&stage, "").await.xml_all("Key"), keys);
}

#[tokio::test]
async fn an_entry_says_size_etag_date_and_class_and_the_owner_when_asked() {
    let stage = Stage::start().await;
    stage.put("k", b"hello").await;
    let plain = list(&stage, "list-type=2").await;
    assert_eq!(plain.xml("Size").as_deref(), Some("5"));
    assert_eq!(plain.xml("ETag").as_deref(), Some("\"5d41402abc4b2a76b9719d911017c592\""));
    assert_eq!(plain.xml("StorageClass").as_deref(), Some("STANDARD"));
    let date = plain.xml("LastModified").expect("a date");
    assert!(date.len() == 24 && date.ends_with('Z') && date.contains('T'), "ISO 8601 with milliseconds: {date}");
    assert_eq!(plain.xml("Owner"), None, "only when asked");
    let owned = list(&stage, "list-type=2&fetch-owner=true").await;
    assert!(owned.text().contains("<Owner><"), "{}", owned.text());
    assert!(list(&stage, "").await.text().contains("<Owner><"), "version 1 always says it");
}

#[tokio::test]
async fn a_delimiter_folds_keys_into_common_prefixes() {
    let stage = Stage::start().await;
    fill(&stage, &["a", "a/", "a/1", "a/2/3", "b/1", "b/2", "c", "d//e", "xx--yy", "xx--zz"]).await;
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("delimiter=%2F", &["a", "c", "xx--yy", "xx--zz"], &["a/", "b/", "d/"]),
        ("delimiter=%2F&prefix=a", &["a"], &["a/"]),
        ("delimiter=%2F&prefix=a%2F", &["a/", "a/1"], &["a/2/"]),
        ("delimiter=%2F&prefix=d%2F", &[], &["d//"]),
        ("delimiter=--", &["a", "a/", "a/1", "a/2/3", "b/1", "b/2", "c", "d//e"], &["xx--"]),
        ("delimiter=%2F&prefix=none", &[], &[]),
        ("prefix=b", &["b/1", "b/2"], &[]),
        ("delimiter=&prefix=b", &["b/1", "b/2"], &[]),
        ("delimiter=a", &["b/1", "b/2", "c", "d//e", "xx--yy", "xx--zz"], &["a"]),
    ];
    for (query, keys, folded) in cases {
        for version in ["list-type=2&", ""] {
            let reply = list(&stage, &format!("{version}{query}")).await;
            assert_eq!(reply.xml_all("Key"), *keys, "{version}{query}");
            assert_eq!(prefixes(&reply), *folded, "{version}{query}");
        }
        let count = list(&stage, &format!("list-type=2&{query}")).await.xml("KeyCount");
        assert_eq!(count, Some((keys.len() + folded.len()).to_string()), "{query}");
    }
}

#[tokio::test]
async fn keys_between_common_prefixes_come_in_order_on_pages_of_any_size() {
    let stage = Stage::start().await;
    // Runs of keys of different lengths before, between and behind folded ones; a prefix of several bytes a character.
    let mut keys = Vec::new();
    for group in 0..6_u32 {
        keys.extend((0..group).map(|number| format!("é/{group}a{number}")));
        keys.extend((0..3).map(|number| format!("é/{group}b/{number}")));
    }
    keys.extend(["é/x", "é/y", "é/z/1", "é0"].map(str::to_owned));
    futures::future::join_all(keys.iter().map(|key| stage.put(key, b""))).await;
    let fold = |key: &String| match key["é/".len()..].find('/') {
        Some(at) => key[..="é/".len() + at].to_owned(),
        None => key.clone(),
    };
    let mut expected: Vec<String> = keys.iter().filter(|key| key.starts_with("é/")).map(fold).collect();
    expected.dedup();
    for size in [1, 2, 3, 7, 1000] {
        let (mut listed, mut token) = (Vec::new(), String::new());
        loop {
            let query = format!("list-type=2&prefix=%C3%A9%2F&delimiter=%2F&max-keys={size}{token}");
            let page = list(&stage, &query).await;
            let mut entries = page.xml_all("Key");
            entries.extend(prefixes(&page));
            entries.sort_unstable();
            assert_eq!(page.xml("KeyCount"), Some(entries.len().to_string()));
            listed.extend(entries);
            let Some(next) = page.xml("NextContinuationToken") else { break };
            token = format!("&continuation-token={}", encode(&next, false));
        }
        assert_eq!(listed, expected, "in pages of {size}");
    }
}

#[tokio::test]
async fn pages_continue_where_the_last_one_ended() {
    let stage = Stage::start().await;
    fill(&stage, &["a", "b/1", "b/2", "c", "d/1", "e"]).await;
    let mut pages = Vec::new();
    let mut token = String::new();
    loop {
        let page = list(&stage, &format!("list-type=2&delimiter=%2F&max-keys=2{token}")).await;
        assert_eq!(page.xml("MaxKeys").as_deref(), Some("2"));
        pages.push([page.xml_all("Key"), prefixes(&page)].concat());
        let Some(next) = page.xml("NextContinuationToken") else {
            assert_eq!(page.xml("IsTruncated").as_deref(), Some("false"));
            break;
        };
        assert_eq!(page.xml("IsTruncated").as_deref(), Some("true"));
        token = format!("&continuation-token={}", encode(&next, false));
        let echoed = list(&stage, &format!("list-type=2&max-keys=1{token}")).await.xml("ContinuationToken");
        assert_eq!(echoed, Some(next));
    }
    assert_eq!(pages, [vec!["a", "b/"], vec!["c", "d/"], vec!["e"]]);
}

#[tokio::test]
async fn version_one_pages_by_markers() {
    let stage = Stage::start().await;
    fill(&stage, &["a", "b/1", "b/2", "c", "d/1"]).await;
    let first = list(&stage, "delimiter=%2F&max-keys=2").await;
    assert_eq!(first.xml("NextMarker").as_deref(), Some("b/"), "a common prefix can be the marker");
    let second = list(&stage, "delimiter=%2F&max-keys=2&marker=b%2F").await;
    assert_eq!([second.xml_all("Key"), prefixes(&second)].concat(), ["c", "d/"], "b/ is not folded again");
    assert_eq!(second.xml("Marker").as_deref(), Some("b/"));
    assert_eq!(second.xml("NextMarker"), None);
    let flat = list(&stage, "max-keys=2").await;
    assert_eq!(flat.xml("IsTruncated").as_deref(), Some("true"));
    assert_eq!(flat.xml("NextMarker"), None, "without a delimiter the last key is the marker");
    assert_eq!(list(&stage, "marker=b%2F2").await.xml_all("Key"), ["c", "d/1"]);
    assert_eq!(list(&stage, "marker=bb").await.xml_all("Key"), ["c", "d/1"], "a marker need not be a key");
    assert!(list(&stage, "marker=zzz").await.xml_all("Key").is_empty());
}

#[tokio::test]
async fn start_after_skips_up_to_and_including_its_key() {
    let stage = Stage::start().await;
    fill(&stage, &["a", "b", "c"]).await;
    let reply = list(&stage, "list-type=2&start-after=a").await;
    assert_eq!(reply.xml_all("Key"), ["b", "c"]);
    assert_eq!(reply.xml("StartAfter").as_deref(), Some("a"));
    assert_eq!(list(&stage, "list-type=2&start-after=aa").await.xml_all("Key"), ["b", "c"]);
    assert!(list(&stage, "list-type=2&start-after=c").await.xml_all("Key").is_empty());
    assert_eq!(list(&stage, "list-type=2&start-after=").await.xml_all("Key"), ["a", "b", "c"]);
}

#[tokio::test]
async fn max_keys_may_be_zero_or_large_but_must_be_a_number() {
    let stage = Stage::start().await;
    fill(&stage, &["a", "b"]).await;
    for version in ["list-type=2&", ""] {
        let none = list(&stage, &format!("{version}max-keys=0")).await;
        assert_eq!(none.status, 200);
        assert!(none.xml_all("Key").is_empty());
        assert_eq!(none.xml("IsTruncated").as_deref(), Some("false"));
        assert_eq!(none.xml("MaxKeys").as_deref(), Some("0"));
        let many = list(&stage, &format!("{version}max-keys=5000")).await;
        assert_eq!(many.xml_all("Key"), ["a", "b"]);
        assert_eq!(many.xml("MaxKeys").as_deref(), Some("1000"), "never more than a thousand");
        for wrong in ["-1", "x", "1.5", "99999999999999999999"] {
            let reply = list(&stage, &format!("{version}max-keys={wrong}")).await;
            assert_eq!(reply.refusal(), (400, "InvalidArgument".to_owned()), "{version}max-keys={wrong}");
        }
    }
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused() {
    let stage = Stage::start().await;
    for query in ["list-type=2&continuation-token=nonsense", "list-type=2&encoding-type=x", "encoding-type=x"] {
        let reply = list(&stage, query).await;
        assert_eq!(reply.refusal(), (400, "InvalidArgument".to_owned()), "{query}");
    }
}

#[tokio::test]
async fn encoding_type_url_encodes_every_name_in_the_answer() {
    let stage = Stage::start().await;
    fill(&stage, &["a b/c d", "a b/\u{1}\n", "a b/x+y/z", "ü"]).await;
    let reply = list(&stage, "list-type=2&encoding-type=url&prefix=a%20b%2F&delimiter=%2F&start-after=a%20b%2F").await;
    assert_eq!(reply.xml("EncodingType").as_deref(), Some("url"));
    let keys = reply.xml_all("Key");
    assert_eq!(keys.len(), 2);
    assert!(keys.contains(&"a+b/c+d".to_owned()) || keys.contains(&"a%20b/c%20d".to_owned()), "{keys:?}");
    assert!(keys.iter().any(|key| key.ends_with("%01%0A")), "{keys:?}");
    assert!(prefixes(&reply)[0].ends_with("/x%2By/"), "{:?}", prefixes(&reply));
    let prefix = reply.xml("Prefix").expect("the prefix");
    assert!(!prefix.contains(' '), "{prefix}");
    let all = list(&stage, "encoding-type=url").await;
    assert_eq!(all.xml_all("Key").last().map(String::as_str), Some("%C3%BC"));
}

#[tokio::test]
async fn tokens_outlive_the_gateway_and_the_key_they_stand_on() {
    let stage = Stage::start().await;
    fill(&stage, &["a", "b", "c"]).await;
    let page = list(&stage, "list-type=2&max-keys=2").await;
    let token = encode(&page.xml("NextContinuationToken").expect("a token"), false);
    stage.delete("b").await;
    let twin = crate::harness::Gateway::start(&stage.database.url(), &[]).await;
    let target = format!("/bucket?list-type=2&continuation-token={token}");
    let next = crate::harness::RawRequest::new(&twin.endpoint, "GET", &target).send().await;
    assert_eq!(next.xml_all("Key"), ["c"]);
}

#[tokio::test]
async fn more_than_a_thousand_keys_are_listed_in_pages_of_a_thousand() {
    let stage = Stage::start().await;
    let keys: Vec<String> = (0..1005).map(|number| format!("k{number:05}")).collect();
    for batch in keys.chunks(32) {
        futures::future::join_all(batch.iter().map(|key| stage.put(key, b""))).await;
    }
    let first = list(&stage, "list-type=2").await;
    assert_eq!(first.xml_all("Key"), keys[..1000]);
    assert_eq!(first.xml("KeyCount").as_deref(), Some("1000"));
    let token = encode(&first.xml("NextContinuationToken").expect("a token"), false);
    assert_eq!(list(&stage, &format!("list-type=2&continuation-token={token}")).await.xml_all("Key"), keys[1000..]);
    assert_eq!(prefixes(&list(&stage, "list-type=2&delimiter=0").await), ["k0"]);
}
