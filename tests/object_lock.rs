//! Object lock: no path deletes what is locked, not even a statement behind the gateway's back.

use std::time::{Duration, SystemTime};

use aws_sdk_s3::primitives::DateTime;
use aws_sdk_s3::types::{
    Delete, ObjectIdentifier, ObjectLockLegalHold, ObjectLockLegalHoldStatus as Hold, ObjectLockMode as Mode,
    ObjectLockRetention, ObjectLockRetentionMode,
};

use crate::harness::client::body;
use crate::harness::{Failure, Stage, failure};

const LOCKED: &str = "locked-bucket";
const DENIED: (u16, &str) = (403, "AccessDenied");

fn in_days(days: u64) -> DateTime {
    DateTime::from(SystemTime::now() + Duration::from_secs(days * 86_400))
}

async fn stage() -> Stage {
    let stage = Stage::start().await;
    let create = stage.s3.create_bucket().bucket(LOCKED).object_lock_enabled_for_bucket(true).send().await;
    create.expect("a bucket with object lock");
    stage
}

async fn put(stage: &Stage, key: &str, mode: Option<Mode>) -> String {
    let until = mode.is_some().then(|| in_days(1));
    let put = stage.s3.put_object().bucket(LOCKED).key(key).body(body(b"x")).set_object_lock_mode(mode);
    let put = put.set_object_lock_retain_until_date(until).send().await.expect("put");
    put.version_id().expect("a version").to_owned()
}

/// Deletes a version; what refused it.
async fn delete(stage: &Stage, key: &str, version: &str, bypass: bool) -> Option<(u16, String)> {
    let delete = stage.s3.delete_object().bucket(LOCKED).key(key).version_id(version);
    let delete = delete.set_bypass_governance_retention(bypass.then_some(true)).send().await;
    delete.is_err().then(|| failure(delete)).map(|f| (f.status, f.code))
}

fn denied() -> Option<(u16, String)> {
    Some((DENIED.0, DENIED.1.to_owned()))
}

async fn set_retention(
    stage: &Stage,
    key: &str,
    retention: Option<(ObjectLockRetentionMode, u64)>,
    bypass: bool,
) -> Option<(u16, String)> {
    let (mode, until) = retention.map(|(mode, days)| (mode, in_days(days))).unzip();
    let retention = ObjectLockRetention::builder().set_mode(mode).set_retain_until_date(until).build();
    let put = stage.s3.put_object_retention().bucket(LOCKED).key(key).retention(retention);
    let put = put.set_bypass_governance_retention(bypass.then_some(true)).send().await;
    put.is_err().then(|| failure(put)).map(|f| (f.status, f.code))
}

#[tokio::test]
async fn a_retained_version_is_not_deleted_by_any_path() {
    let stage = stage().await;
    let version = put(&stage, "k", Some(Mode::Compliance)).await;
    assert_eq!(delete(&stage, "k", &version, false).await, denied());
    assert_eq!(delete(&stage, "k", &version, true).await, denied(), "nobody bypasses COMPLIANCE");
    let object = ObjectIdentifier::builder().key("k").version_id(&version).build().unwrap();
    let batch = Delete::builder().objects(object).build().unwrap();
    let batch = stage.s3.delete_objects().bucket(LOCKED).delete(batch).send().await.expect("a batch");
    assert_eq!(batch.errors()[0].code(), Some("AccessDenied"));
    // Without a version a marker comes before it, and it stays.
    stage.s3.delete_object().bucket(LOCKED).key("k").send().await.expect("a delete marker");
    let database = stage.database.superuser().await;
    for statement in [
        "DELETE FROM lobgate.object WHERE retention_mode IS NOT NULL",
        "UPDATE lobgate.object SET content_id = NULL, is_delete_marker = true WHERE retention_mode IS NOT NULL",
        "UPDATE lobgate.object SET key = 'other' WHERE retention_mode IS NOT NULL",
        "UPDATE lobgate.object SET retention_mode = NULL, retain_until = NULL WHERE retention_mode IS NOT NULL",
        "UPDATE lobgate.object SET retain_until = now() WHERE retention_mode IS NOT NULL",
    ] {
        let refused = database.batch_execute(statement).await.expect_err(statement);
        assert_eq!(refused.code().map(|c| c.code()), Some("LG006"), "{statement}");
    }
    let got = stage.s3.get_object().bucket(LOCKED).key("k").version_id(&version).send().await.expect("get");
    assert_eq!(got.object_lock_mode(), Some(&Mode::Compliance));
    assert!(got.object_lock_retain_until_date().is_some());
}

#[tokio::test]
async fn governance_yields_to_those_who_bypass_it() {
    let stage = stage().await;
    let version = put(&stage, "k", Some(Mode::Governance)).await;
    assert_eq!(delete(&stage, "k", &version, false).await, denied());
    let (governance, compliance) = (ObjectLockRetentionMode::Governance, ObjectLockRetentionMode::Compliance);
    assert_eq!(set_retention(&stage, "k", Some((governance.clone(), 3)), false).await, None, "longer");
    assert_eq!(set_retention(&stage, "k", Some((governance.clone(), 2)), false).await, denied(), "shorter");
    assert_eq!(set_retention(&stage, "k", Some((governance, 2)), true).await, None, "shorter, bypassed");
    assert_eq!(set_retention(&stage, "k", None, false).await, denied(), "lifted");
    assert_eq!(set_retention(&stage, "k", None, true).await, None, "lifted, bypassed");
    let none = stage.s3.get_object_retention().bucket(LOCKED).key("k").send().await;
    assert_eq!(failure(none), Failure::new(404, "NoSuchObjectLockConfiguration"));
    assert_eq!(delete(&stage, "k", &version, false).await, None);

    let version = put(&stage, "k", Some(Mode::Governance)).await;
    assert_eq!(delete(&stage, "k", &version, true).await, None, "deleted, bypassed");
    put(&stage, "k", Some(Mode::Governance)).await;
    assert_eq!(set_retention(&stage, "k", Some((compliance.clone(), 2)), false).await, None, "stronger");
    assert_eq!(set_retention(&stage, "k", Some((compliance.clone(), 1)), true).await, denied());
    assert_eq!(set_retention(&stage, "k", Some((ObjectLockRetentionMode::Governance, 9)), true).await, denied());
    assert_eq!(set_retention(&stage, "k", Some((compliance, 3)), false).await, None, "longer");
}

#[tokio::test]
async fn a_legal_hold_keeps_a_version_until_it_is_lifted() {
    let stage = stage().await;
    let version = put(&stage, "k", None).await;
    let none = stage.s3.get_object_legal_hold().bucket(LOCKED).key("k").send().await;
    assert_eq!(failure(none), Failure::new(404, "NoSuchObjectLockConfiguration"));
    let set = |status: Hold| {
        let hold = ObjectLockLegalHold::builder().status(status).build();
        stage.s3.put_object_legal_hold().bucket(LOCKED).key("k").legal_hold(hold).send()
    };
    set(Hold::On).await.expect("a hold");
    assert_eq!(delete(&stage, "k", &version, true).await, denied(), "no bypass of a hold");
    let head = stage.s3.head_object().bucket(LOCKED).key("k").send().await.expect("head");
    assert_eq!(head.object_lock_legal_hold_status().map(|s| s.as_str()), Some("ON"));
    set(Hold::Off).await.expect("no hold");
    let hold = stage.s3.get_object_legal_hold().bucket(LOCKED).key("k").send().await.expect("a hold");
    assert_eq!(hold.legal_hold().and_then(|h| h.status()), Some(&Hold::Off));
    assert_eq!(delete(&stage, "k", &version, false).await, None);
}

#[tokio::test]
async fn the_buckets_default_retention_is_that_of_versions_without_their_own() {
    let stage = stage().await;
    let configuration = |mode: &str, period: &str| {
        let rule = format!("<Rule><DefaultRetention><Mode>{mode}</Mode>{period}</DefaultRetention></Rule>");
        let document = format!(
            "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}</ObjectLockConfiguration>"
        );
        stage.request("PUT", "/locked-bucket?object-lock").body(document)
    };
    for (mode, period, code) in [
        ("GOVERNANCE", "<Days>0</Days>", "InvalidArgument"),
        ("GOVERNANCE", "<Years>-1</Years>", "InvalidArgument"),
        ("GOVERNANCE", "<Days>1</Days><Years>1</Years>", "MalformedXML"),
        ("GOVERNANCE", "", "MalformedXML"),
        ("governance", "<Days>1</Days>", "MalformedXML"),
    ] {
        let refused = configuration(mode, period).send().await;
        assert_eq!(refused.refusal(), (400, code.to_owned()), "{mode} {period}");
    }
    assert_eq!(configuration("COMPLIANCE", "<Days>30</Days>").send().await.status, 200);
    let got = stage.request("GET", "/locked-bucket?object-lock").send().await;
    assert_eq!((got.xml("Mode").as_deref(), got.xml("Days").as_deref()), (Some("COMPLIANCE"), Some("30")));

    let version = put(&stage, "k", None).await;
    assert_eq!(delete(&stage, "k", &version, true).await, denied());
    let retention = stage.s3.get_object_retention().bucket(LOCKED).key("k").send().await.expect("a retention");
    let retention = retention.retention().expect("a retention");
    assert_eq!(retention.mode(), Some(&ObjectLockRetentionMode::Compliance));
    let days = (retention.retain_until_date().unwrap().secs() - in_days(0).secs()) as f64 / 86_400.0;
    assert!((29.9..=30.1).contains(&days), "{days} days");
    // A version with a retention of its own.
    put(&stage, "own", Some(Mode::Governance)).await;
    let own = stage.s3.get_object_retention().bucket(LOCKED).key("own").send().await.expect("a retention");
    assert_eq!(own.retention().and_then(|r| r.mode()), Some(&ObjectLockRetentionMode::Governance));
    // A delete marker is not retained.
    let marker = stage.s3.delete_object().bucket(LOCKED).key("k").send().await.expect("a marker");
    assert_eq!(delete(&stage, "k", marker.version_id().unwrap(), false).await, None);
}

#[tokio::test]
async fn locks_need_object_lock_and_object_lock_needs_versions() {
    let stage = stage().await;
    stage.put("k", b"x").await;
    let plain = "/bucket?object-lock";
    let none = stage.request("GET", plain).send().await;
    assert_eq!(none.refusal(), (404, "ObjectLockConfigurationNotFoundError".to_owned()));
    let enabled = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
    let unversioned = stage.request("PUT", plain).body(enabled).send().await;
    assert_eq!(unversioned.refusal(), (409, "InvalidBucketState".to_owned()));
    for (name, value) in [("x-amz-object-lock-legal-hold", "ON"), ("x-amz-object-lock-legal-hold", "OFF")] {
        let put = |bucket: &str| stage.request("PUT", &format!("/{bucket}/new")).header(name, value).body("x");
        let refused = put("bucket").content_md5().send().await;
        assert_eq!(refused.refusal(), (400, "InvalidRequest".to_owned()));
        let unchecked = put("locked-bucket").send().await;
        assert_eq!(unchecked.refusal(), (400, "InvalidRequest".to_owned()));
        assert!(unchecked.text().contains("Content-MD5 OR x-amz-checksum-"), "{}", unchecked.text());
        assert_eq!(put("locked-bucket").content_md5().send().await.status, 200);
        let refused = stage.request("POST", "/bucket/new?uploads").header(name, value).send().await;
        assert_eq!(refused.refusal(), (400, "InvalidRequest".to_owned()));
    }
    for query in ["retention", "legal-hold"] {
        let refused = stage.request("GET", &format!("/bucket/k?{query}")).send().await;
        assert_eq!(refused.refusal(), (400, "InvalidRequest".to_owned()), "{query}");
    }
    let suspend = "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";
    let refused = stage.request("PUT", "/locked-bucket?versioning").body(suspend).send().await;
    assert_eq!(refused.refusal(), (409, "InvalidBucketState".to_owned()));
    // A versioned bucket can be given object lock later.
    let versioned = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(stage.request("PUT", "/bucket?versioning").body(versioned).send().await.status, 200);
    assert_eq!(stage.request("PUT", plain).body(enabled).send().await.status, 200);
    assert_eq!(stage.request("GET", plain).send().await.status, 200);
    assert!(!stage.exists("new").await);
}

#[tokio::test]
async fn a_lock_is_refused_however_many_puts_come_together() {
    let stage = Stage::start().await;
    let puts = (0..60).map(|n| {
        let request = stage.request("PUT", &format!("/bucket/{n}")).body("x").content_md5();
        let locked = if n % 2 == 0 { request.header("x-amz-object-lock-legal-hold", "ON") } else { request };
        async move { locked.send().await.status }
    });
    let statuses = futures::future::join_all(puts).await;
    for (n, status) in statuses.into_iter().enumerate() {
        assert_eq!(status, if n % 2 == 0 { 400 } else { 200 }, "put {n}");
    }
    assert_eq!(stage.database.count("SELECT count(*) FROM lobgate.object").await, 30);
}
