//! Buckets: their names, their pages, and that only empty ones can be deleted.

use crate::harness::sigv4::encode;
use crate::harness::{BUCKET, Failure, Stage, failure, path};

#[tokio::test]
async fn a_bucket_is_created_found_listed_and_deleted() {
    let stage = Stage::start().await;
    let created = stage.request("PUT", "/second").send().await;
    assert_eq!((created.status, created.header("location")), (200, Some("/second")));
    let head = stage.request("HEAD", "/second").send().await;
    assert_eq!((head.status, head.header("x-amz-bucket-region")), (200, Some("us-east-1")));
    let listed = stage.request("GET", "/").send().await;
    assert_eq!(listed.xml_all("Name"), [BUCKET, "second"]);
    assert!(listed.xml("CreationDate").is_some_and(|date| date.ends_with('Z')));
    assert!(listed.xml("ID").is_some());
    assert_eq!(stage.request("DELETE", "/second").send().await.status, 204);
    assert_eq!(stage.request("HEAD", "/second").send().await.status, 404);
    assert_eq!(stage.request("DELETE", "/second").send().await.refusal(), (404, "NoSuchBucket".to_owned()));
}

#[tokio::test]
async fn creating_what_one_owns_already_is_said_so() {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    let again = stage.request("PUT", "/bucket").send().await;
    // S3 answers 200 in us-east-1 and 409 elsewhere; either way nothing changes.
    assert!(again.status == 200 || again.refusal() == (409, "BucketAlreadyOwnedByYou".to_owned()), "{}", again.text());
    assert_eq!(stage.get("k").await, b"x");
}

#[tokio::test]
async fn a_bucket_with_objects_or_uploads_is_not_deleted() {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    let refused = stage.s3.delete_bucket().bucket(BUCKET).send().await;
    assert_eq!(failure(refused), Failure::new(409, "BucketNotEmpty"));
    assert!(stage.exists("k").await);
    stage.delete("k").await;
    stage.s3.delete_bucket().bucket(BUCKET).send().await.expect("an empty bucket is deleted");
    assert_eq!(stage.request("PUT", &path("k")).body("x").send().await.refusal(), (404, "NoSuchBucket".to_owned()));
}

#[tokio::test]
async fn names_that_s3_does_not_allow_are_refused() {
    let stage = Stage::start().await;
    let long = "x".repeat(64);
    for name in [
        "ab",
        &long,
        "Upper",
        "under_score",
        "-dash",
        "dash-",
        ".dot",
        "dot.",
        "two..dots",
        "192.168.0.1",
        "sp%20ace",
        "xn--b",
        "sthree-b",
        "amzn-s3-demo-b",
        "b-s3alias",
        "b--ol-s3",
        "b.mrap",
        "a.-b",
        "a-.b",
    ] {
        let reply = stage.request("PUT", &format!("/{name}")).send().await;
        assert_eq!(reply.refusal(), (400, "InvalidBucketName".to_owned()), "{name}");
    }
    for name in ["abc", &"x".repeat(63), "a.b", "a-b", "1st", "123"] {
        let reply = stage.request("PUT", &format!("/{name}")).send().await;
        assert_eq!(reply.status, 200, "{name}: {}", reply.text());
    }
}

#[tokio::test]
async fn buckets_are_listed_by_prefix_and_in_pages() {
    let stage = Stage::start().await;
    for name in ["aaa", "aab", "abb"] {
        stage.s3.create_bucket().bucket(name).send().await.expect("a bucket");
    }
    let list = async |query: &str| stage.request("GET", &format!("/?{query}")).send().await;
    assert_eq!(list("prefix=aa").await.xml_all("Name"), ["aaa", "aab"]);
    let first = list("max-buckets=3").await;
    assert_eq!(first.xml_all("Name"), ["aaa", "aab", "abb"]);
    let token = encode(&first.xml("ContinuationToken").expect("a token"), false);
    let second = list(&format!("max-buckets=3&continuation-token={token}")).await;
    assert_eq!(second.xml_all("Name"), [BUCKET]);
    assert_eq!(second.xml("ContinuationToken"), None);
    assert_eq!(list("max-buckets=0").await.refusal(), (400, "InvalidArgument".to_owned()));
}

#[tokio::test]
async fn the_location_of_the_classic_region_is_empty() {
    let stage = Stage::start().await;
    let reply = stage.request("GET", "/bucket?location").send().await;
    assert_eq!(reply.status, 200);
    assert!(reply.text().contains("LocationConstraint"), "{}", reply.text());
    assert!(!reply.text().contains("us-east-1"), "us-east-1 is told as nothing: {}", reply.text());
    let missing = stage.request("GET", "/no-such-bucket?location").send().await;
    assert_eq!(missing.refusal(), (404, "NoSuchBucket".to_owned()));
}

#[tokio::test]
async fn of_racing_creations_and_deletions_no_object_is_orphaned() {
    let stage = Stage::start().await;
    for round in 0..10 {
        let name = format!("race-{round}");
        stage.s3.create_bucket().bucket(&name).send().await.expect("a bucket");
        let put = stage.request("PUT", &format!("/{name}/k")).body("x");
        let delete = stage.request("DELETE", &format!("/{name}"));
        let (put, delete) = tokio::join!(put.send(), delete.send());
        let both = (put.status, delete.status);
        assert!(both == (200, 409) || both == (404, 204), "{both:?}");
    }
    let homeless = "SELECT count(*) FROM lobgate.object o WHERE NOT EXISTS \
                    (SELECT 1 FROM lobgate.bucket b WHERE b.id = o.bucket_id)";
    assert_eq!(stage.database.count(homeless).await, 0);
}

#[tokio::test]
async fn a_bucket_can_be_addressed_by_its_host_name() {
    let stage = Stage::with(&[("LOBGATE_DOMAINS", "s3.example.test")]).await;
    let host = format!("bucket.s3.example.test:{}", stage.gateway.port());
    let put = stage.request("PUT", "/dir/k").header("host", &host).body("hello").send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(stage.get("dir/k").await, b"hello");
    let listed = stage.request("GET", "/?list-type=2").header("host", &host.to_uppercase()).send().await;
    assert_eq!(listed.xml_all("Key"), ["dir/k"], "{}", listed.text());
    let plain = stage.request("GET", "/").header("host", "s3.example.test").send().await;
    assert_eq!(plain.xml_all("Name"), [BUCKET], "the domain itself is path style");
    for host in ["localhost", "unknown.example", "127.0.0.1:1"] {
        let reply = stage.request("GET", "/bucket/dir/k").header("host", host).send().await;
        assert_eq!(reply.text(), "hello", "{host} is path style");
    }
}
