//! Ways around policies, none of which lead anywhere: names written oddly, facts that come late, copies, forms.

use serde_json::{Value, json};

use crate::harness::server::{ACCESS_KEY, SECRET_KEY};
use crate::harness::{RawRequest, Stage, User};

const DENIED: u16 = 403;

fn statement(effect: &str, actions: Value, condition: Value) -> Value {
    let both = json!(["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]);
    json!({"Effect": effect, "Principal": "*", "Action": actions, "Resource": both, "Condition": condition})
}

/// Everything is allowed to everybody, but for what a condition denies.
async fn all_but(stage: &Stage, actions: Value, condition: Value) {
    let text =
        json!({"Statement": [statement("Allow", json!("s3:*"), json!({})), statement("Deny", actions, condition)]});
    put_policy(stage, &text).await;
}

async fn put_policy(stage: &Stage, text: &Value) {
    let put = stage.request("PUT", "/bucket?policy").body(text.to_string()).send().await;
    assert_eq!(put.status, 204, "{}", put.text());
}

async fn status(request: RawRequest) -> u16 {
    request.send().await.status
}

fn user_request(user: &User<'_>, method: &str, target: &str) -> RawRequest {
    user.request(method, target)
}

async fn versioned(stage: &Stage) -> String {
    let enabled = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(stage.request("PUT", "/bucket?versioning").body(enabled).send().await.status, 200);
    let first = stage.request("PUT", "/bucket/k").body("old").send().await;
    stage.put("k", b"new").await;
    first.header("x-amz-version-id").expect("a version").to_owned()
}

#[tokio::test]
async fn a_name_in_the_query_is_the_same_name_however_it_is_written() {
    let stage = Stage::start().await;
    let bob = stage.user("bob").await;
    let version = versioned(&stage).await;
    all_but(&stage, json!(["s3:GetObjectVersion", "s3:DeleteObjectVersion", "s3:GetObjectVersionTagging"]), json!({}))
        .await;
    for name in ["versionId", "version%49d", "%76ersionId"] {
        for (method, more) in [("GET", ""), ("DELETE", ""), ("GET", "tagging&")] {
            let target = format!("/bucket/k?{more}{name}={version}");
            assert_eq!(status(bob.request(method, &target)).await, DENIED, "{method} {target}");
        }
    }
    assert_eq!(status(bob.request("GET", "/bucket/k")).await, 200);
    all_but(&stage, json!("s3:ListBucket"), json!({"StringLike": {"s3:prefix": "secret*"}})).await;
    for name in ["prefix", "pre%66ix"] {
        assert_eq!(status(bob.request("GET", &format!("/bucket?list-type=2&{name}=secret"))).await, DENIED, "{name}");
        assert_eq!(status(bob.request("GET", &format!("/bucket?list-type=2&{name}=open"))).await, 200, "{name}");
    }
    all_but(&stage, json!("s3:GetObject"), json!({"NumericGreaterThan": {"s3:signatureAge": "60000"}})).await;
    let aged = |age: i64| bob.request("GET", "/bucket/k").presigned(600).at(time::Duration::seconds(-age));
    assert_eq!((status(aged(10)).await, status(aged(120)).await), (200, DENIED));
    let odd_range = aged(120).unsigned_header("range", "bytes=0-1,2-3");
    assert_eq!(status(odd_range).await, DENIED, "a request that goes a second way has the same facts");
}

#[tokio::test]
async fn a_copy_is_judged_by_the_conditions_of_its_source() {
    let stage = Stage::start().await;
    let bob = stage.user("bob").await;
    let version = versioned(&stage).await;
    assert_eq!(bob.asks("PUT", "/of-bob").await.0, 200);
    let copy = |source: &str| bob.request("PUT", "/of-bob/k").header("x-amz-copy-source", source);
    all_but(&stage, json!("s3:GetObject"), json!({"Bool": {"aws:SecureTransport": "false"}})).await;
    assert_eq!((status(bob.request("GET", "/bucket/k")).await, status(copy("/bucket/k")).await), (DENIED, DENIED));
    all_but(&stage, json!("s3:GetObjectVersion"), json!({"StringEquals": {"s3:VersionId": version}})).await;
    assert_eq!(status(copy(&format!("/bucket/k?versionId={version}"))).await, DENIED);
    assert_eq!(status(copy("/bucket/k")).await, 200);
    // Whether a source is there is told to those who may list.
    let only_read = json!({"Statement": [statement("Allow", json!("s3:GetObject"), json!({}))]});
    put_policy(&stage, &only_read).await;
    assert_eq!(status(copy("/bucket/absent")).await, DENIED);
    // Tags are not to be had by way of a copy.
    let tagged = stage.request("PUT", "/bucket/t").header("x-amz-tagging", "secret=1").body("x");
    assert_eq!(status(tagged).await, 200);
    assert_eq!(status(copy("/bucket/t")).await, DENIED);
    assert_eq!(status(copy("/bucket/t").header("x-amz-tagging-directive", "REPLACE")).await, 200);

    let to_bucket = |source: &str| bob.request("PUT", "/bucket/c").header("x-amz-copy-source", source);
    all_but(&stage, json!("s3:PutObject"), json!({"StringLike": {"s3:x-amz-copy-source": "of-bob/*"}})).await;
    for source in ["of-bob/k", "/of-bob/k", "of-bob%2Fk", "%6ff-bob/k"] {
        assert_eq!(status(to_bucket(source)).await, DENIED, "{source}");
    }
    assert_eq!(status(to_bucket("/bucket/k")).await, 200);
}

#[tokio::test]
async fn facts_in_a_document_count() {
    let stage = Stage::start().await;
    let bob = stage.user("bob").await;
    let version = versioned(&stage).await;
    let enabled = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
    assert_eq!(stage.request("PUT", "/bucket?object-lock").body(enabled).send().await.status, 200);
    let tag = |query: &str, name: &str, value: &str| {
        let set = format!("<TagSet><Tag><Key>{name}</Key><Value>{value}</Value></Tag></TagSet>");
        user_request(&bob, "PUT", query).body(format!("<Tagging>{set}</Tagging>"))
    };
    all_but(&stage, json!("s3:PutObjectTagging"), json!({"StringEquals": {"s3:RequestObjectTag/class": "public"}}))
        .await;
    assert_eq!(status(tag("/bucket/k?tagging", "class", "public")).await, DENIED);
    assert_eq!(status(tag("/bucket/k?tagging", "class", "secret")).await, 200);
    let known_keys = json!({"ForAnyValue:StringNotLike": {"s3:RequestObjectTagKeys": ["class", "owner"]}});
    all_but(&stage, json!("s3:PutObjectTagging"), known_keys).await;
    assert_eq!(status(tag("/bucket/k?tagging", "other", "x")).await, DENIED);
    let only_owner = json!({"StringEquals": {"s3:RequestObjectTag/owner": "bob"}});
    put_policy(&stage, &json!({"Statement": [statement("Allow", json!("s3:PutObjectTagging"), only_owner)]})).await;
    assert_eq!(status(tag("/bucket/k?tagging", "owner", "bob")).await, 200, "an allowance by a fact of the document");
    all_but(&stage, json!("s3:PutBucketTagging"), json!({"ForAnyValue:StringEquals": {"aws:TagKeys": ["bad"]}})).await;
    assert_eq!(
        (status(tag("/bucket?tagging", "bad", "x")).await, status(tag("/bucket?tagging", "ok", "x")).await),
        (DENIED, 200)
    );

    let retain = |mode: &str, days: i64| {
        let until = time::OffsetDateTime::now_utc() + time::Duration::days(days);
        let until = until.format(&time::format_description::well_known::Rfc3339).expect("a date");
        let document = format!("<Retention><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>");
        bob.request("PUT", &format!("/bucket/k?retention&versionId={version}")).body(document)
    };
    all_but(&stage, json!("s3:PutObjectRetention"), json!({"StringEquals": {"s3:object-lock-mode": "COMPLIANCE"}}))
        .await;
    assert_eq!(status(retain("COMPLIANCE", 1)).await, DENIED);
    let at_most = json!({"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}});
    all_but(&stage, json!("s3:PutObjectRetention"), at_most).await;
    assert_eq!((status(retain("GOVERNANCE", 50)).await, status(retain("GOVERNANCE", 10)).await), (DENIED, 200));
    let hold = |status: &str| {
        bob.request("PUT", "/bucket/k?legal-hold").body(format!("<LegalHold><Status>{status}</Status></LegalHold>"))
    };
    all_but(&stage, json!("s3:PutObjectLegalHold"), json!({"StringEquals": {"s3:object-lock-legal-hold": "OFF"}}))
        .await;
    assert_eq!((status(hold("ON")).await, status(hold("OFF")).await), (200, DENIED));
}

#[tokio::test]
async fn a_form_is_judged_by_its_fields() {
    let stage = Stage::with(&[("LOBGATE_AUTH_DEFAULT_OBJECT_OWNERSHIP", "ObjectWriter")]).await;
    let form = |fields: &[(&str, &str)]| {
        let part = |(name, value): &(&str, &str)| {
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let file = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\ncontent\r\n--b--\r\n";
        let body = fields.iter().map(part).collect::<String>() + file;
        stage
            .request("POST", "/bucket")
            .anonymous()
            .header("content-type", "multipart/form-data; boundary=b")
            .body(body)
    };
    let denied = json!({"StringEquals": {"s3:x-amz-acl": "public-read"}});
    all_but(&stage, json!("s3:PutObject"), denied).await;
    for field in ["acl", "x-amz-acl"] {
        assert_eq!(status(form(&[("key", "k"), (field, "public-read")])).await, DENIED, "{field}");
        assert_eq!(status(form(&[("key", "k"), (field, "nonsense")])).await, 400, "{field}");
    }
    assert_eq!(status(form(&[("key", "k"), ("acl", "private"), ("acl", "public-read")])).await, 400);
    // A header of the request says nothing about the object.
    let only = json!({"StringEquals": {"s3:x-amz-acl": "private"}});
    put_policy(&stage, &json!({"Statement": [statement("Allow", json!(["s3:PutObject", "s3:PutObjectAcl"]), only)]}))
        .await;
    assert_eq!(status(form(&[("key", "k")]).header("x-amz-acl", "private")).await, DENIED);
    assert_eq!(status(form(&[("key", "k"), ("acl", "private")])).await, 204);
}

#[tokio::test]
async fn a_bucket_is_created_with_no_more_than_one_may_set_later() {
    let stage = Stage::start().await;
    let carol = stage.user("carol").await;
    let allow =
        |actions: Value| json!({"Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}).to_string();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let attach = async |actions: Value| {
        std::fs::write(file.path(), allow(actions)).expect("write");
        stage.lobgate(&["policy", "put", "create", file.path().to_str().expect("a path")]).await;
        stage.lobgate(&["policy", "attach", "create", "--user", "carol"]).await;
    };
    attach(json!("s3:CreateBucket")).await;
    let create = |name: &str| carol.request("PUT", name);
    assert_eq!(status(create("/plain")).await, 200);
    for (name, value) in [("x-amz-bucket-object-lock-enabled", "true"), ("x-amz-object-ownership", "ObjectWriter")] {
        assert_eq!(status(create("/more").header(name, value)).await, DENIED, "{name}");
    }
    let tags =
        "<CreateBucketConfiguration><Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags></CreateBucketConfiguration>";
    assert_eq!(status(create("/more").body(tags)).await, DENIED);
    attach(json!(["s3:CreateBucket", "s3:PutBucketOwnershipControls", "s3:PutBucketTagging"])).await;
    let public = create("/more").header("x-amz-object-ownership", "ObjectWriter").header("x-amz-acl", "public-read");
    assert_eq!(status(public).await, DENIED);
    let more = create("/more").header("x-amz-object-ownership", "ObjectWriter").body(tags);
    assert_eq!(status(more).await, 200);
}

#[tokio::test]
async fn a_written_object_is_listed_to_others_only_by_who_may_list_it() {
    let stage = Stage::with(&[("LOBGATE_AUTH_DEFAULT_OBJECT_OWNERSHIP", "ObjectWriter")]).await;
    let alice = stage.user("alice").await;
    let put = || alice.request("PUT", "/bucket/k").body("x");
    let public = || put().header("x-amz-acl", "public-read");
    put_policy(&stage, &json!({"Statement": [statement("Allow", json!("s3:PutObject"), json!({}))]})).await;
    assert_eq!((status(put()).await, status(public()).await), (200, DENIED));
    put_policy(
        &stage,
        &json!({"Statement": [statement("Allow", json!(["s3:PutObject", "s3:PutObjectAcl"]), json!({}))]}),
    )
    .await;
    assert_eq!(status(public()).await, 200);
}

#[tokio::test]
async fn headers_in_a_presigned_url_are_headers() {
    let stage = Stage::start().await;
    let put = |query: &str| stage.request("PUT", &format!("/bucket/k?{query}")).presigned(60).body("content");
    assert_eq!(status(put("x-amz-tagging=a%3Db&x-amz-meta-colour=red&x-amz-checksum-crc32=AAAAAA%3D%3D")).await, 200);
    let head = stage.request("HEAD", "/bucket/k").send().await;
    assert_eq!((head.header("x-amz-meta-colour"), head.header("x-amz-tagging-count")), (Some("red"), Some("1")));
    assert_eq!(stage.get("k").await, b"content");
    assert_eq!(put("x-amz-acl=public-read").send().await.refusal().1, "AccessControlListNotSupported");
    assert_eq!(status(put("x-amz-server-side-encryption=AES256")).await, 501);
    let forged = stage.request("PUT", "/bucket/k?x-amz-meta-colour=red").presigned(60).body("x").tampered();
    assert_eq!(status(forged).await, DENIED);
    // Keys are known to the test alone: the URL of somebody else does not get better.
    let other = put("x-amz-meta-colour=red").credentials(ACCESS_KEY, &SECRET_KEY.replace('a', "b"));
    assert_eq!(status(other).await, DENIED);
}

#[tokio::test]
async fn who_began_an_upload_may_end_it_and_nobody_else() {
    let stage = Stage::start().await;
    let (alice, bob) = (stage.user("alice").await, stage.user("bob").await);
    put_policy(&stage, &json!({"Statement": [statement("Allow", json!("s3:PutObject"), json!({}))]})).await;
    let begin = || async { alice.request("POST", "/bucket/k?uploads").send().await.xml("UploadId").expect("an id") };
    let upload = begin().await;
    let target = format!("/bucket/k?uploadId={upload}");
    for method in ["GET", "DELETE"] {
        assert_eq!(bob.asks(method, &target).await.0, DENIED, "{method}");
        assert_eq!(stage.request(method, &target).anonymous().send().await.status, DENIED, "{method}");
    }
    assert_eq!((alice.asks("GET", &target).await.0, alice.asks("DELETE", &target).await.0), (200, 204));
    assert_eq!(bob.asks("GET", &target).await.0, DENIED, "nor is it told that it is gone");
    let upload = begin().await;
    let denied = json!({"Statement": [
        statement("Allow", json!("s3:PutObject"), json!({})),
        statement("Deny", json!("s3:AbortMultipartUpload"), json!({})),
    ]});
    put_policy(&stage, &denied).await;
    assert_eq!(alice.asks("DELETE", &format!("/bucket/k?uploadId={upload}")).await.0, DENIED);
}

#[tokio::test]
async fn the_owner_that_is_expected_is_an_account() {
    let stage = Stage::start().await;
    let get = |owner: &str| stage.request("GET", "/bucket").header("x-amz-expected-bucket-owner", owner);
    let account = lobgate_account(&stage).await;
    assert_eq!(status(get(&account)).await, 200);
    assert_eq!(get("000000000000").send().await.refusal(), (403, "AccessDenied".to_owned()));
    assert_eq!(get("abc").send().await.refusal(), (400, "InvalidBucketOwnerAWSAccountID".to_owned()));
}

/// The id of root, as a listing of buckets shows it.
async fn lobgate_account(stage: &Stage) -> String {
    stage.request("GET", "/").send().await.xml("ID").expect("an owner")
}
