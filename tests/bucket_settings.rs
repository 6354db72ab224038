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
    for query in ["encryption", "replication", "website", "logging", "notification", "requestPayment"] {
        let reply = stage.request("PUT", &format!("/bucket?{query}")).body("<x/>").send().await;
        assert_eq!(reply.refusal(), (501, "NotImplemented".to_owned()), "{query}");
    }
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
