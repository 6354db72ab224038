//! Access control lists and object ownership.

use crate::harness::Stage;

const ALL: &str = "http://acs.amazonaws.com/groups/global/AllUsers";

async fn with_lists(stage: &Stage, name: &str, ownership: &str, acl: Option<&str>) {
    let mut create = stage.request("PUT", &format!("/{name}")).header("x-amz-object-ownership", ownership);
    if let Some(acl) = acl {
        create = create.header("x-amz-acl", acl);
    }
    assert_eq!(create.send().await.status, 200);
}

#[tokio::test]
async fn lists_are_off_unless_ownership_switches_them_on() {
    let stage = Stage::start().await;
    let denied = (400, "AccessControlListNotSupported".to_owned());
    stage.put("a", b"x").await;
    assert_eq!(stage.request("PUT", "/bucket/b").header("x-amz-acl", "public-read").send().await.refusal(), denied);
    assert_eq!(stage.request("PUT", "/bucket?acl").header("x-amz-acl", "public-read").send().await.refusal(), denied);
    assert_eq!(stage.request("PUT", "/bucket/a?acl").header("x-amz-acl", "private").send().await.refusal(), denied);
    let create = stage.request("PUT", "/second").header("x-amz-acl", "public-read").send().await;
    assert_eq!(create.refusal(), (400, "InvalidBucketAclWithObjectOwnership".to_owned()));
    let controls = |ownership: &str| {
        let rule = format!("<Rule><ObjectOwnership>{ownership}</ObjectOwnership></Rule>");
        stage.request("PUT", "/bucket?ownershipControls").body(format!("<OwnershipControls>{rule}</OwnershipControls>"))
    };
    assert_eq!(controls("ObjectWriter").send().await.status, 200);
    assert_eq!(
        stage.request("GET", "/bucket?ownershipControls").send().await.xml("ObjectOwnership").as_deref(),
        Some("ObjectWriter")
    );
    assert_eq!(stage.request("PUT", "/bucket?acl").header("x-amz-acl", "public-read").send().await.status, 200);
    assert_eq!(stage.request("GET", "/bucket").anonymous().send().await.status, 200);
    let refused = controls("BucketOwnerEnforced").send().await.refusal();
    assert_eq!(refused, (400, "InvalidBucketAclWithObjectOwnership".to_owned()));
    assert_eq!(stage.request("PUT", "/bucket?acl").header("x-amz-acl", "private").send().await.status, 200);
    assert_eq!(controls("BucketOwnerEnforced").send().await.status, 200);
    assert_eq!(controls("Nonsense").send().await.refusal(), (400, "MalformedXML".to_owned()));
}

#[tokio::test]
async fn a_list_that_was_read_can_be_put_back_where_lists_are_off() {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    let read = stage.request("GET", "/bucket/k?acl").send().await.text();
    let put = |document: &str| stage.request("PUT", "/bucket/k?acl").body(document);
    assert_eq!(put(&read).send().await.status, 200);
    let refused = (400, "AccessControlListNotSupported".to_owned());
    assert_eq!(put(&read.replace("FULL_CONTROL", "READ")).send().await.refusal(), refused);
    assert_eq!(put(&read).header("x-amz-acl", "private").send().await.refusal(), refused);
}

#[tokio::test]
async fn without_controls_lists_count_as_before_there_were_any() {
    let stage = Stage::start().await;
    for _ in 0..2 {
        assert_eq!(stage.request("DELETE", "/bucket?ownershipControls").send().await.status, 204);
    }
    let controls = stage.request("GET", "/bucket?ownershipControls").send().await;
    assert_eq!(controls.refusal(), (404, "OwnershipControlsNotFoundError".to_owned()));
    let put = stage.request("PUT", "/bucket/k").header("x-amz-acl", "public-read").body("x");
    assert_eq!(put.send().await.status, 200);
    assert_eq!(stage.request("GET", "/bucket/k").anonymous().send().await.body, b"x");
}

#[tokio::test]
async fn an_operator_chooses_the_ownership_of_new_buckets() {
    let stage = Stage::with(&[("LOBGATE_AUTH_DEFAULT_OBJECT_OWNERSHIP", "ObjectWriter")]).await;
    let ownership = |bucket: &str| stage.request("GET", &format!("/{bucket}?ownershipControls"));
    assert_eq!(ownership("bucket").send().await.xml("ObjectOwnership").as_deref(), Some("ObjectWriter"));
    let create = stage.request("PUT", "/public").header("x-amz-acl", "public-read");
    assert_eq!(create.send().await.status, 200);
    assert_eq!(stage.request("GET", "/public").anonymous().send().await.status, 200);
    with_lists(&stage, "strict", "BucketOwnerEnforced", None).await;
    assert_eq!(ownership("strict").send().await.xml("ObjectOwnership").as_deref(), Some("BucketOwnerEnforced"));
}

#[tokio::test]
async fn canned_lists_grant_what_they_say() {
    let stage = Stage::start().await;
    let alice = stage.user("alice").await;
    with_lists(&stage, "lists", "ObjectWriter", Some("public-read-write")).await;
    for (key, acl) in [("private", "private"), ("public", "public-read"), ("known", "authenticated-read")] {
        let put = stage.request("PUT", &format!("/lists/{key}")).header("x-amz-acl", acl).body(key);
        assert_eq!(put.send().await.status, 200);
    }
    let statuses = |key: &'static str| {
        let (stage, alice) = (&stage, &alice);
        async move {
            let target = format!("/lists/{key}");
            (stage.request("GET", &target).anonymous().send().await.status, alice.asks("GET", &target).await.0)
        }
    };
    assert_eq!(statuses("private").await, (403, 403));
    assert_eq!(statuses("public").await, (200, 200));
    assert_eq!(statuses("known").await, (403, 200));
    assert_eq!(statuses("absent").await, (404, 404), "who may list is told what is not there");
    assert_eq!(stage.request("GET", "/lists").anonymous().send().await.status, 200);
    assert_eq!(stage.request("PUT", "/lists/unsigned").anonymous().body("x").send().await.status, 200);
    assert_eq!(stage.request("GET", "/lists?acl").anonymous().send().await.status, 403);
    let acl = stage.request("GET", "/lists/public?acl").send().await;
    assert_eq!(acl.xml_all("Permission"), ["FULL_CONTROL", "READ"]);
    assert_eq!(acl.xml("URI").as_deref(), Some(ALL));
    let block =
        "<PublicAccessBlockConfiguration><IgnorePublicAcls>true</IgnorePublicAcls></PublicAccessBlockConfiguration>";
    assert_eq!(stage.request("PUT", "/lists?publicAccessBlock").body(block).send().await.status, 200);
    assert_eq!(statuses("public").await, (403, 403));
    let block =
        "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>";
    assert_eq!(stage.request("PUT", "/lists?publicAccessBlock").body(block).send().await.status, 200);
    let put = stage.request("PUT", "/lists/more").header("x-amz-acl", "public-read").body("x").send().await;
    assert_eq!(put.refusal(), (403, "AccessDenied".to_owned()));
    assert_eq!(statuses("public").await, (200, 200));
}

#[tokio::test]
async fn grants_by_header_and_by_document() {
    let stage = Stage::start().await;
    let (alice, bob) = (stage.user("alice").await, stage.user("bob").await);
    with_lists(&stage, "lists", "ObjectWriter", None).await;
    let to = |id: &str| format!("id=\"{id}\"");
    let put = stage.request("PUT", "/lists/a").header("x-amz-grant-read", &to(&alice.id)).body("x");
    assert_eq!(put.send().await.status, 200);
    assert_eq!((alice.asks("GET", "/lists/a").await.0, bob.asks("GET", "/lists/a").await.0), (200, 403));
    assert_eq!(alice.asks("GET", "/lists/a?acl").await.0, 403);
    let root = stage.request("GET", "/lists?acl").send().await.xml("ID").expect("an id");
    let grant = |id: &str, permission: &str| {
        format!(
            "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\"><ID>{id}</ID>\
             </Grantee><Permission>{permission}</Permission></Grant>"
        )
    };
    let list = |owner: &str, grants: &str| {
        format!(
            "<AccessControlPolicy><Owner><ID>{owner}</ID></Owner><AccessControlList>{grants}</AccessControlList>\
             </AccessControlPolicy>"
        )
    };
    let set = |target: &str, body: String| stage.request("PUT", target).body(body);
    let grants = grant(&bob.id, "FULL_CONTROL");
    assert_eq!(set("/lists/a?acl", list(&root, &grants)).send().await.status, 200);
    assert_eq!((alice.asks("GET", "/lists/a").await.0, bob.asks("GET", "/lists/a?acl").await.0), (403, 200));
    for (body, status, code) in [
        (list(&alice.id, &grants), 403, "AccessDenied"),
        (list(&root, &grant("0123", "READ")), 400, "InvalidArgument"),
        (list(&root, &grant(&bob.id, "SOME")), 400, "MalformedACLError"),
        ("<AccessControlPolicy/>".to_owned(), 400, "MalformedACLError"),
    ] {
        assert_eq!(set("/lists/a?acl", body.clone()).send().await.refusal(), (status, code.to_owned()), "{body}");
    }
    let both = stage.request("PUT", "/lists/b").header("x-amz-acl", "private").header("x-amz-grant-read", &to(&bob.id));
    assert_eq!(both.send().await.refusal(), (400, "InvalidRequest".to_owned()));
    let nobody = stage.request("PUT", "/lists/b").header("x-amz-grant-read", "emailAddress=\"a@b\"").send().await;
    assert_eq!(nobody.refusal(), (400, "UnresolvableGrantByEmailAddress".to_owned()));
    assert_eq!(stage.request("PUT", "/lists/b").header("x-amz-acl", "odd").send().await.refusal().0, 400);
    // A grant on the bucket: bob may write, and owns what he writes.
    let write = format!("{}{}", grant(&root, "FULL_CONTROL"), grant(&bob.id, "WRITE"));
    assert_eq!(set("/lists?acl", list(&root, &write)).send().await.status, 200);
    assert_eq!(bob.request("PUT", "/lists/his").body("x").send().await.status, 200);
    assert_eq!(bob.asks("GET", "/lists/his").await.0, 200);
    assert_eq!(alice.asks("GET", "/lists/his").await.0, 403);
    assert_eq!(bob.request("GET", "/lists/his?acl").send().await.xml_all("ID")[0], bob.id);
    assert_eq!(bob.asks("GET", "/lists").await.0, 403);
    assert_eq!(bob.asks("DELETE", "/lists/his").await.0, 204);
}

#[tokio::test]
async fn preferred_owners_get_what_is_granted_to_them() {
    let stage = Stage::start().await;
    let bob = stage.user("bob").await;
    with_lists(&stage, "lists", "BucketOwnerPreferred", Some("public-read-write")).await;
    assert_eq!(bob.request("PUT", "/lists/his").body("x").send().await.status, 200);
    let given = bob.request("PUT", "/lists/given").header("x-amz-acl", "bucket-owner-full-control").body("x");
    assert_eq!(given.send().await.status, 200);
    let owner = |reply: crate::harness::Reply| reply.xml_all("ID")[0].clone();
    assert_eq!(owner(bob.request("GET", "/lists/his?acl").send().await), bob.id);
    assert_ne!(owner(stage.request("GET", "/lists/given?acl").send().await), bob.id);
}

#[tokio::test]
async fn a_policy_can_keep_writers_from_setting_lists() {
    let stage = Stage::start().await;
    let bob = stage.user("bob").await;
    with_lists(&stage, "lists", "ObjectWriter", Some("public-read-write")).await;
    let put = || bob.request("PUT", "/lists/a").header("x-amz-acl", "public-read").body("x");
    assert_eq!(put().send().await.status, 200);
    let policy = r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": {"AWS": "bob"},
        "Action": "s3:PutObjectAcl", "Resource": "arn:aws:s3:::lists/*"}]}"#;
    assert_eq!(stage.request("PUT", "/lists?policy").body(policy).send().await.status, 204);
    assert_eq!(put().send().await.refusal(), (403, "AccessDenied".to_owned()));
    let upload = bob.request("POST", "/lists/b?uploads").header("x-amz-acl", "public-read").send().await;
    assert_eq!(upload.refusal(), (403, "AccessDenied".to_owned()));
    let copy =
        bob.request("PUT", "/lists/b").header("x-amz-copy-source", "/lists/a").header("x-amz-acl", "public-read");
    assert_eq!(copy.send().await.refusal(), (403, "AccessDenied".to_owned()));
    assert_eq!(bob.request("PUT", "/lists/a").body("x").send().await.status, 200);
}
