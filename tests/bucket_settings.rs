//! What is configured on buckets: what can be, and the answers where nothing is.

use crate::harness::{Stage, path};

#[tokio::test]
async fn what_is_not_configured_is_answered_as_s3_does_and_cannot_be_set() {
    let stage = Stage::start().await;
    for (query, status, code) in [
        ("encryption", 404, "ServerSideEncryptionConfigurationNotFoundError"),
        ("lifecycle", 404, "NoSuchLifecycleConfiguration"),
        ("policy", 404, "NoSuchBucketPolicy"),
        ("policyStatus", 404, "NoSuchBucketPolicy"),
        ("replication", 404, "ReplicationConfigurationNotFoundError"),
        ("website", 404, "NoSuchWebsiteConfiguration"),
        ("cors", 404, "NoSuchCORSConfiguration"),
        ("tagging", 404, "NoSuchTagSet"),
        ("publicAccessBlock", 404, "NoSuchPublicAccessBlockConfiguration"),
        ("object-lock", 404, "ObjectLockConfigurationNotFoundError"),
        ("analytics&id=a", 404, "NoSuchConfiguration"),
        ("metrics&id=a", 404, "NoSuchConfiguration"),
        ("inventory&id=a", 404, "NoSuchConfiguration"),
        ("intelligent-tiering&id=a", 404, "NoSuchConfiguration"),
    ] {
        let reply = stage.request("GET", &format!("/bucket?{query}")).send().await;
        assert_eq!(reply.refusal(), (status, code.to_owned()), "{query}");
    }
    for (query, root) in [
        ("accelerate", "AccelerateConfiguration"),
        ("logging", "BucketLoggingStatus"),
        ("notification", "NotificationConfiguration"),
        ("requestPayment", "RequestPaymentConfiguration"),
        ("analytics", "ListBucketAnalyticsConfigurationResult"),
        ("metrics", "ListMetricsConfigurationsResult"),
        ("inventory", "ListInventoryConfigurationsResult"),
        ("intelligent-tiering", "ListBucketIntelligentTieringConfigurationsOutput"),
    ] {
        let reply = stage.request("GET", &format!("/bucket?{query}")).send().await;
        assert_eq!(reply.status, 200, "{query}: {}", reply.text());
        assert!(reply.text().contains(root), "{query}: {}", reply.text());
        let absent = stage.request("GET", &format!("/absent?{query}")).send().await;
        assert_eq!(absent.refusal(), (404, "NoSuchBucket".to_owned()), "{query}");
    }
    for query in ["encryption", "replication", "website", "analytics&id=a", "metrics&id=a", "inventory&id=a"] {
        let reply = stage.request("PUT", &format!("/bucket?{query}")).body("<x/>").send().await;
        assert_eq!(reply.refusal(), (501, "NotImplemented".to_owned()), "{query}");
    }
}

#[tokio::test]
async fn what_is_not_configured_can_be_removed_and_set_to_what_holds_anyway() {
    let stage = Stage::start().await;
    for query in ["encryption", "replication", "website"] {
        let target = |bucket: &str| format!("/{bucket}?{query}");
        assert_eq!(stage.request("DELETE", &target("bucket")).send().await.status, 204, "{query}");
        let absent = stage.request("DELETE", &target("absent")).send().await;
        assert_eq!(absent.refusal(), (404, "NoSuchBucket".to_owned()), "{query}");
    }
    for query in ["analytics", "metrics", "inventory", "intelligent-tiering"] {
        let reply = stage.request("DELETE", &format!("/bucket?{query}&id=a")).send().await;
        assert_eq!(reply.refusal(), (404, "NoSuchConfiguration".to_owned()), "{query}");
        let nameless = stage.request("DELETE", &format!("/bucket?{query}")).send().await;
        assert!((400..500).contains(&nameless.status), "{query}: {}", nameless.text());
        assert_eq!(stage.request("HEAD", "/bucket").send().await.status, 200, "{query}");
    }
    let accelerate = |status| format!("<AccelerateConfiguration><Status>{status}</Status></AccelerateConfiguration>");
    let target = "<LoggingEnabled><TargetBucket>b</TargetBucket><TargetPrefix>p</TargetPrefix></LoggingEnabled>";
    let queue = "<QueueConfiguration><Queue>arn:aws:sqs:us-east-1:1:q</Queue><Event>s3:ObjectCreated:*</Event>\
        </QueueConfiguration>";
    for (query, body, answer) in [
        ("accelerate", accelerate("Suspended"), 200),
        ("accelerate", accelerate("Enabled"), 501),
        ("accelerate", accelerate("Perhaps"), 400),
        ("logging", "<BucketLoggingStatus/>".to_owned(), 200),
        ("logging", format!("<BucketLoggingStatus>{target}</BucketLoggingStatus>"), 501),
        ("notification", "<NotificationConfiguration/>".to_owned(), 200),
        ("notification", format!("<NotificationConfiguration>{queue}</NotificationConfiguration>"), 501),
    ] {
        let reply = stage.request("PUT", &format!("/bucket?{query}")).body(&body).send().await;
        assert_eq!(reply.status, answer, "{query} {body}: {}", reply.text());
    }
}

#[tokio::test]
async fn where_the_requester_pays_nobody_gets_in_without_saying_so() {
    let stage = Stage::start().await;
    let (alice, bob) = (stage.user("alice").await, stage.user("bob").await);
    assert_eq!(alice.asks("PUT", "/of-alice").await.0, 200);
    let policy = r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":["s3:GetObject","s3:ListBucket"],
        "Resource":["arn:aws:s3:::of-alice","arn:aws:s3:::of-alice/*"]}]}"#;
    assert_eq!(alice.request("PUT", "/of-alice?policy").body(policy).send().await.status, 204);
    assert_eq!(alice.request("PUT", "/of-alice/key").body("hers").send().await.status, 200);
    let set = |payer: &str| {
        let document = format!("<RequestPaymentConfiguration><Payer>{payer}</Payer></RequestPaymentConfiguration>");
        alice.request("PUT", "/of-alice?requestPayment").body(document)
    };
    assert_eq!(set("Nobody").send().await.refusal(), (400, "MalformedXML".to_owned()));
    assert_eq!(set("Requester").send().await.status, 200);
    let payer = || async { alice.request("GET", "/of-alice?requestPayment").send().await.xml("Payer") };
    assert_eq!(payer().await.as_deref(), Some("Requester"));

    let get = |target: &str| bob.request("GET", target);
    let pays = |request: crate::harness::RawRequest| request.header("x-amz-request-payer", "requester");
    assert_eq!(get("/of-alice/key").send().await.refusal(), (403, "AccessDenied".to_owned()));
    assert_eq!(get("/of-alice").send().await.status, 403);
    assert_eq!(pays(get("/of-alice/key")).send().await.body, b"hers");
    assert_eq!(pays(get("/of-alice")).send().await.status, 200);
    let presigned = get("/of-alice/key?x-amz-request-payer=requester").presigned(60);
    assert_eq!(presigned.send().await.body, b"hers");
    let anonymous = pays(stage.request("GET", "/of-alice/key").anonymous());
    assert_eq!(anonymous.send().await.status, 403, "who pays has to be known");
    assert_eq!(alice.request("GET", "/of-alice/key").send().await.status, 200);
    assert_eq!(bob.asks("PUT", "/of-bob").await.0, 200);
    let copy = || bob.request("PUT", "/of-bob/key").header("x-amz-copy-source", "/of-alice/key");
    assert_eq!(copy().send().await.status, 403);
    assert_eq!(pays(copy()).send().await.status, 200);

    assert_eq!(set("BucketOwner").send().await.status, 200);
    assert_eq!(payer().await.as_deref(), Some("BucketOwner"));
    assert_eq!(get("/of-alice/key").send().await.status, 200);
}

#[tokio::test]
async fn buckets_have_tags() {
    let stage = Stage::start().await;
    let document = |count: usize| {
        let tags: String = (0..count).map(|n| format!("<Tag><Key>k{n}</Key><Value>v{n}</Value></Tag>")).collect();
        format!("<Tagging><TagSet>{tags}</TagSet></Tagging>")
    };
    let put = |body: String| stage.request("PUT", "/bucket?tagging").body(body);
    assert_eq!(put(document(50)).send().await.status, 200);
    assert_eq!(stage.request("GET", "/bucket?tagging").send().await.xml_all("Key").len(), 50);
    assert_eq!(put(document(1)).send().await.status, 200);
    let got = stage.request("GET", "/bucket?tagging").send().await;
    assert_eq!((got.xml_all("Key"), got.xml_all("Value")), (vec!["k0".to_owned()], vec!["v0".to_owned()]));
    assert_eq!(put(document(51)).send().await.refusal(), (400, "BadRequest".to_owned()));
    assert_eq!(stage.request("DELETE", "/bucket?tagging").send().await.status, 204);
    assert_eq!(stage.request("GET", "/bucket?tagging").send().await.refusal(), (404, "NoSuchTagSet".to_owned()));
    // They go with the bucket.
    assert_eq!(put(document(1)).send().await.status, 200);
    assert_eq!(stage.request("DELETE", "/bucket").send().await.status, 204);
    assert_eq!(stage.request("PUT", "/bucket").send().await.status, 200);
    assert_eq!(stage.request("GET", "/bucket?tagging").send().await.refusal(), (404, "NoSuchTagSet".to_owned()));
}

#[tokio::test]
async fn buckets_are_created_with_tags() {
    let stage = Stage::start().await;
    let create = |name: &str, keys: &[&str]| {
        let tags: String = keys.iter().map(|key| format!("<Tag><Key>{key}</Key><Value>v</Value></Tag>")).collect();
        let document = format!("<CreateBucketConfiguration><Tags>{tags}</Tags></CreateBucketConfiguration>");
        stage.request("PUT", &format!("/{name}")).body(document)
    };
    assert_eq!(create("tagged", &["a", "b"]).send().await.status, 200);
    assert_eq!(stage.request("GET", "/tagged?tagging").send().await.xml_all("Key"), ["a", "b"]);
    assert_eq!(create("twice", &["a", "a"]).send().await.refusal(), (400, "InvalidTag".to_owned()));
    assert_eq!(stage.request("HEAD", "/twice").send().await.status, 404);
}

#[tokio::test]
async fn a_public_access_block_is_kept() {
    let stage = Stage::start().await;
    let document = "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls>\
        <RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>";
    assert_eq!(stage.request("PUT", "/bucket?publicAccessBlock").body(document).send().await.status, 200);
    let got = stage.request("GET", "/bucket?publicAccessBlock").send().await;
    let value = |name| got.xml(name).unwrap_or_default();
    assert_eq!((value("BlockPublicAcls"), value("IgnorePublicAcls")), ("true".to_owned(), "false".to_owned()));
    assert_eq!((value("BlockPublicPolicy"), value("RestrictPublicBuckets")), ("false".to_owned(), "true".to_owned()));
    assert_eq!(stage.request("DELETE", "/bucket?publicAccessBlock").send().await.status, 204);
}

#[tokio::test]
async fn buckets_are_owned_by_their_owner_and_allow_no_access_control_lists() {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    let ownership = stage.request("GET", "/bucket?ownershipControls").send().await;
    assert_eq!(ownership.xml("ObjectOwnership").as_deref(), Some("BucketOwnerEnforced"));
    let controls = |kind: &str| {
        let rule = format!("<Rule><ObjectOwnership>{kind}</ObjectOwnership></Rule>");
        let document = format!("<OwnershipControls>{rule}</OwnershipControls>");
        stage.request("PUT", "/bucket?ownershipControls").body(document)
    };
    assert_eq!(controls("BucketOwnerEnforced").send().await.status, 200);
    assert_eq!(controls("Nobody").send().await.refusal(), (400, "MalformedXML".to_owned()));
    for target in ["/bucket?acl".to_owned(), format!("{}?acl", path("k"))] {
        let list = stage.request("GET", &target).send().await;
        assert_eq!(list.xml("Permission").as_deref(), Some("FULL_CONTROL"), "{}", list.text());
        assert!(list.text().contains("CanonicalUser"), "{}", list.text());
        let set = stage.request("PUT", &target).header("x-amz-acl", "public-read").send().await;
        assert_eq!(set.refusal(), (400, "AccessControlListNotSupported".to_owned()), "{target}");
    }
    let put = |name: &str, value: &str| stage.request("PUT", &path("new")).header(name, value).body("x");
    assert_eq!(put("x-amz-acl", "public-read").send().await.refusal().1, "AccessControlListNotSupported");
    assert_eq!(put("x-amz-grant-read", "id=1").send().await.refusal().1, "AccessControlListNotSupported");
    assert!(!stage.exists("new").await);
    assert_eq!(put("x-amz-acl", "bucket-owner-full-control").send().await.status, 200);
    let create = stage.request("PUT", "/another").header("x-amz-acl", "public-read").send().await;
    assert_eq!(create.refusal(), (400, "InvalidBucketAclWithObjectOwnership".to_owned()));
}
