//! Lifecycle rules: what they may say, what they do to versions and uploads, and what they leave alone. Days pass by
//! making versions older in the database.

use aws_sdk_s3::types::BucketVersioningStatus as Versioning;

use crate::harness::inspect::assert_consistent;
use crate::harness::server::Gateway;
use crate::harness::{Stage, eventually};
use crate::versions::{put, set_versioning};

/// Gateways look for due rules ten times as rarely.
const OFTEN: [(&str, &str); 1] = [("LOBGATE_GC_INTERVAL", "100ms")];

fn document(rules: &str) -> String {
    format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>")
}

/// A rule: what stands in its filter, and its actions.
fn rule(id: &str, filter: &str, actions: &str) -> String {
    format!("<Rule><ID>{id}</ID><Status>Enabled</Status><Filter>{filter}</Filter>{actions}</Rule>")
}

fn days(days: u32) -> String {
    format!("<Expiration><Days>{days}</Days></Expiration>")
}

async fn refusal(stage: &Stage, rules: &str) -> (u16, String) {
    let reply = stage.request("PUT", "/bucket?lifecycle").body(document(rules)).send().await;
    if reply.status == 200 { (200, String::new()) } else { reply.refusal() }
}

/// Sets rules, and waits until they have been applied.
async fn apply(stage: &Stage, rules: &str) {
    assert_eq!(refusal(stage, rules).await.0, 200, "{rules}");
    eventually("the rules are applied", || async {
        let query = "SELECT count(*) FROM lobgate.bucket_setting s JOIN lobgate.lifecycle_run r \
                     ON r.bucket_id = s.bucket_id AND r.document = s.document \
                     WHERE s.kind = 'lifecycle' AND r.finished_at IS NOT NULL";
        stage.database.count(query).await == 1
    })
    .await;
}

/// Makes what is stored under keys like this older.
async fn age(stage: &Stage, keys: &str, days: u32) {
    let set = format!("last_modified = last_modified - interval '{days} days'");
    stage.database.execute(&format!("UPDATE lobgate.object SET {set} WHERE key LIKE '{keys}'")).await;
}

/// The keys of live objects.
async fn keys(stage: &Stage) -> Vec<String> {
    stage.request("GET", "/bucket?list-type=2").send().await.xml_all("Key")
}

/// Versions and delete markers of a key.
async fn versions(stage: &Stage, key: &str) -> (i64, i64) {
    let count = |marker: &'static str| async move {
        let query = format!("SELECT count(*) FROM lobgate.object WHERE key = '{key}' AND {marker} is_delete_marker");
        stage.database.count(&query).await
    };
    (count("NOT").await, count("").await)
}

#[tokio::test]
async fn rules_are_kept_as_they_were_given_until_they_are_deleted() {
    let stage = Stage::start().await;
    let rules = "<Rule><ID>all</ID><Status>Enabled</Status><Filter/><Expiration><Date>2030-01-01T00:00:00.000Z</Date>\
                 </Expiration></Rule>\
                 <Rule><ID>old</ID><Status>Disabled</Status><Prefix>a/</Prefix><Expiration>\
                 <ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration></Rule>\
                 <Rule><Status>Enabled</Status><Filter><And><Prefix>b</Prefix><Tag><Key>k</Key><Value>v</Value></Tag>\
                 <ObjectSizeGreaterThan>5</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan></And></Filter>\
                 <NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays>\
                 <NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration></Rule>\
                 <Rule><ID>uploads</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>\
                 <AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation>\
                 </AbortIncompleteMultipartUpload></Rule>";
    let set = stage.request("PUT", "/bucket?lifecycle").body(document(rules)).send().await;
    assert_eq!(set.status, 200, "{}", set.text());
    let got = stage.request("GET", "/bucket?lifecycle").send().await;
    assert_eq!(got.header("x-amz-transition-default-minimum-object-size"), Some("all_storage_classes_128K"));
    let ids = got.xml_all("ID");
    assert_eq!((&ids[0], &ids[1], &ids[3]), (&"all".to_owned(), &"old".to_owned(), &"uploads".to_owned()));
    assert!(!ids[2].is_empty(), "a rule without a name is given one");
    assert_eq!(got.xml_all("Status"), ["Enabled", "Disabled", "Enabled", "Enabled"]);
    for (element, value) in [
        ("Date", "2030-01-01T00:00:00Z"),
        ("ExpiredObjectDeleteMarker", "true"),
        ("ObjectSizeGreaterThan", "5"),
        ("ObjectSizeLessThan", "9"),
        ("NoncurrentDays", "3"),
        ("NewerNoncurrentVersions", "2"),
        ("DaysAfterInitiation", "7"),
    ] {
        assert_eq!(got.xml(element).map(|v| v.replace(".000Z", "Z")).as_deref(), Some(value), "{}", got.text());
    }
    assert!(got.text().contains("<Prefix>a/</Prefix>") && got.text().contains("<And>"), "{}", got.text());
    // Given back as they were shown, they are taken.
    let again = stage.request("PUT", "/bucket?lifecycle").body(got.text()).send().await;
    assert_eq!(again.status, 200, "{}", again.text());

    assert_eq!(stage.request("DELETE", "/bucket?lifecycle").send().await.status, 204);
    let none = stage.request("GET", "/bucket?lifecycle").send().await;
    assert_eq!(none.refusal(), (404, "NoSuchLifecycleConfiguration".to_owned()));
    let absent = stage.request("PUT", "/absent?lifecycle").body(document(rules)).send().await;
    assert_eq!(absent.refusal(), (404, "NoSuchBucket".to_owned()));
}

#[tokio::test]
async fn rules_that_say_nothing_or_too_much_are_refused() {
    let stage = Stage::start().await;
    let long = "i".repeat(256);
    let expiration = |inner: &str| rule("r", "", &format!("<Expiration>{inner}</Expiration>"));
    let tag = "<Tag><Key>k</Key><Value>v</Value></Tag>";
    let abort =
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload>";
    let kept = |n: i32| {
        let action =
            format!("<NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>{n}</NewerNoncurrentVersions>");
        rule("r", "", &format!("<NoncurrentVersionExpiration>{action}</NoncurrentVersionExpiration>"))
    };
    let of_marker = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>";
    let transition = "<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>";
    let bad_transition =
        "<Transition><Date>2030-01-01T01:00:00Z</Date><StorageClass>GLACIER</StorageClass></Transition>";
    let bounds =
        "<And><ObjectSizeGreaterThan>9</ObjectSizeGreaterThan><ObjectSizeLessThan>9</ObjectSizeLessThan></And>";
    let many: String = (0..1001).map(|n| rule(&n.to_string(), "", &days(1))).collect();
    let cases = [
        (String::new(), 400, "MalformedXML"),
        (many, 400, "MalformedXML"),
        (rule(&long, "", &days(1)), 400, "InvalidArgument"),
        (rule("r", "", &days(1)).repeat(2), 400, "InvalidArgument"),
        (rule("r", "", &days(1)).replace("Enabled", "enabled"), 400, "MalformedXML"),
        (rule("r", "", &days(1)).replace("<Filter></Filter>", ""), 400, "MalformedXML"),
        (rule("r", "", &format!("<Prefix>a</Prefix>{}", days(1))), 400, "MalformedXML"),
        (rule("r", &format!("<Prefix>a</Prefix>{tag}"), &days(1)), 400, "MalformedXML"),
        (rule("r", "<And></And>", &days(1)), 400, "MalformedXML"),
        (rule("r", "logs/", &days(1)), 400, "MalformedXML"),
        (rule("r", "<Prefix>a</Prefix>logs/", &days(1)), 400, "MalformedXML"),
        (rule("r", &format!("<And>{tag}{tag}</And>"), &days(1)), 400, "InvalidTag"),
        (rule("r", bounds, &days(1)), 400, "InvalidRequest"),
        (rule("r", "", ""), 400, "InvalidRequest"),
        (expiration(""), 400, "MalformedXML"),
        (expiration("<Days>1</Days><Date>2030-01-01T00:00:00Z</Date>"), 400, "MalformedXML"),
        (expiration("<Days>0</Days>"), 400, "InvalidArgument"),
        (expiration("<Days>-1</Days>"), 400, "InvalidArgument"),
        (expiration("<Days>99999999999</Days>"), 400, "MalformedXML"),
        (expiration("<Date>2030-01-01T00:00:01Z</Date>"), 400, "InvalidArgument"),
        (expiration("<Date>20300101</Date>"), 400, "MalformedXML"),
        (rule("r", tag, of_marker), 400, "InvalidRequest"),
        (rule("r", tag, abort), 400, "InvalidRequest"),
        (rule("r", "<ObjectSizeLessThan>9</ObjectSizeLessThan>", abort), 400, "InvalidRequest"),
        (rule("r", "", &abort.replace('1', "0")), 400, "InvalidArgument"),
        (rule("r", "", "<NoncurrentVersionExpiration></NoncurrentVersionExpiration>"), 400, "MalformedXML"),
        (kept(0), 400, "InvalidArgument"),
        (kept(101), 400, "InvalidArgument"),
        (rule("r", "", bad_transition), 400, "InvalidArgument"),
        (rule("r", "", transition), 501, "NotImplemented"),
    ];
    for (rules, status, code) in cases {
        assert_eq!(refusal(&stage, &rules).await, (status, code.to_owned()), "{}", &rules[..rules.len().min(300)]);
    }
    assert_eq!(stage.request("GET", "/bucket?lifecycle").send().await.status, 404, "nothing of it was stored");
}

#[tokio::test]
async fn objects_expire_by_prefix_tag_and_size() {
    let stage = Stage::with(&OFTEN).await;
    for key in ["logs/old", "logs/locked-out", "other/old", "tagged/no", "size/large"] {
        stage.put(key, b"0123456789").await;
    }
    stage.put("size/small", b"0").await;
    stage.request("PUT", "/bucket/tagged/yes").header("x-amz-tagging", "keep=no&a=b").send().await;
    age(&stage, "%", 3).await;
    stage.put("logs/young", b"x").await;
    let tag = "<Tag><Key>keep</Key><Value>no</Value></Tag>";
    let rules = [
        rule("logs", "<Prefix>logs/</Prefix>", &days(2)),
        rule("tagged", tag, &days(1)),
        rule("large", "<And><Prefix>size/</Prefix><ObjectSizeGreaterThan>5</ObjectSizeGreaterThan></And>", &days(1)),
        rule("later", "<Prefix>other/</Prefix>", &days(4)),
        rule("off", "<Prefix>other/</Prefix>", &days(1)).replace("Enabled", "Disabled"),
    ];
    apply(&stage, &rules.concat()).await;
    assert_eq!(keys(&stage).await, ["logs/young", "other/old", "size/small", "tagged/no"]);
    // Everything, by a day that has come.
    let past = "<Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration>";
    apply(&stage, &rule("date", "", past)).await;
    assert!(keys(&stage).await.is_empty());
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn expired_versions_leave_markers_and_markers_go_last() {
    let stage = Stage::with(&OFTEN).await;
    set_versioning(&stage, Versioning::Enabled).await;
    put(&stage, "k", b"1").await;
    age(&stage, "k", 10).await;
    apply(&stage, &rule("current", "", &days(3))).await;
    assert_eq!(versions(&stage, "k").await, (1, 1), "the version stays beneath a delete marker");
    assert!(keys(&stage).await.is_empty());

    // It has been past since the marker came: not long enough.
    let noncurrent = "<NoncurrentVersionExpiration><NoncurrentDays>5</NoncurrentDays></NoncurrentVersionExpiration>";
    let markers = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>";
    let both = format!("{markers}{noncurrent}");
    apply(&stage, &rule("past", "", &both)).await;
    assert_eq!(versions(&stage, "k").await, (1, 1));
    age(&stage, "k", 6).await;
    apply(&stage, &rule("again", "", &both)).await;
    assert_eq!(versions(&stage, "k").await, (0, 0), "the version went, and then the marker that was left alone");
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn the_newest_past_versions_are_kept() {
    let stage = Stage::with(&OFTEN).await;
    set_versioning(&stage, Versioning::Enabled).await;
    // More than one page of them, so that a key's history goes over the end of a page.
    for n in 0..4 {
        put(&stage, "a", &[n]).await;
    }
    let copies = "INSERT INTO lobgate.object (bucket_id, key, version_id, is_latest, content_id, size, etag, owner, last_modified)
        SELECT o.bucket_id, 'b', gen_random_uuid(), n = 1200, o.content_id, o.size, o.etag, o.owner, o.last_modified
        FROM lobgate.object o, generate_series(1, 1200) n WHERE o.key = 'a' AND o.is_latest";
    stage.database.execute(copies).await;
    age(&stage, "%", 10).await;
    let keep = "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>2\
                </NewerNoncurrentVersions></NoncurrentVersionExpiration>";
    apply(&stage, &rule("keep", "", keep)).await;
    assert_eq!(versions(&stage, "a").await, (3, 0));
    assert_eq!(versions(&stage, "b").await, (3, 0));
    let newest = "SELECT count(*) FROM lobgate.object o WHERE o.key = 'b' AND \
                  o.id > (SELECT max(id) - 3 FROM lobgate.object WHERE key = 'b')";
    assert_eq!(stage.database.count(newest).await, 3, "the newest stay");
}

#[tokio::test]
async fn locked_versions_stay() {
    let stage = Stage::with(&OFTEN).await;
    set_versioning(&stage, Versioning::Enabled).await;
    let enable = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
    assert_eq!(stage.request("PUT", "/bucket?object-lock").body(enable).send().await.status, 200);
    put(&stage, "k", b"1").await;
    let held = stage
        .request("PUT", "/bucket/k")
        .header("x-amz-object-lock-legal-hold", "ON")
        .body("2")
        .content_md5()
        .send()
        .await;
    assert_eq!(held.status, 200, "{}", held.text());
    put(&stage, "k", b"3").await;
    age(&stage, "k", 10).await;
    let past = "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>";
    apply(&stage, &rule("past", "", past)).await;
    let left = "SELECT count(*) FROM lobgate.object WHERE is_latest OR legal_hold";
    assert_eq!((versions(&stage, "k").await, stage.database.count(left).await), ((2, 0), 2));
}

#[tokio::test]
async fn uploads_are_aborted_when_their_days_have_passed() {
    let stage = Stage::with(&OFTEN).await;
    let create = |key: &'static str| {
        let s3 = stage.s3.clone();
        async move { s3.create_multipart_upload().bucket("bucket").key(key).send().await.expect("an upload") }
    };
    let (old, other) = (create("tmp/old").await, create("keep/old").await);
    // Their ids tell when they began.
    let age = "UPDATE lobgate.upload SET initiated_at = initiated_at - interval '3 days'";
    stage.database.execute(age).await;
    let young = create("tmp/young").await;
    let abort =
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload>";
    apply(&stage, &rule("abort", "<Prefix>tmp/</Prefix>", abort)).await;
    let listed = stage.request("GET", "/bucket?uploads").send().await.xml_all("Key");
    assert_eq!(listed, ["keep/old", "tmp/young"]);
    assert!(young.abort_date().is_none() && old.upload_id() != other.upload_id());

    let told = create("tmp/told").await;
    assert!(told.abort_date().is_some());
    assert_eq!(told.abort_rule_id(), Some("abort"));
    let id = told.upload_id().expect("an id");
    let parts = stage.s3.list_parts().bucket("bucket").key("tmp/told").upload_id(id).send().await.expect("parts");
    assert_eq!((parts.abort_date(), parts.abort_rule_id()), (told.abort_date(), Some("abort")));
}

#[tokio::test]
async fn answers_say_when_an_object_expires() {
    let stage = Stage::start().await;
    assert_eq!(refusal(&stage, &rule("a rule", "<Prefix>x</Prefix>", &days(1))).await.0, 200);
    let header = |reply: &crate::harness::raw::Reply| reply.header("x-amz-expiration").map(ToOwned::to_owned);
    let put = stage.request("PUT", "/bucket/x").body("1").send().await;
    let told = header(&put).expect("x-amz-expiration");
    let (date, name) = told.split_once(", rule-id=").expect("two parts");
    assert!(date.starts_with("expiry-date=\"") && date.ends_with(" 00:00:00 GMT\""), "{told}");
    assert_eq!(name, "\"a%20rule\"");
    for (method, target) in [("GET", "/bucket/x"), ("HEAD", "/bucket/x")] {
        assert_eq!(header(&stage.request(method, target).send().await), Some(told.clone()), "{method}");
    }
    let copy = stage.request("PUT", "/bucket/xcopy").header("x-amz-copy-source", "/bucket/x").send().await;
    assert_eq!(header(&copy), Some(told.clone()));
    assert_eq!(header(&stage.request("PUT", "/bucket/y").body("1").send().await), None);
    assert_eq!(stage.request("DELETE", "/bucket?lifecycle").send().await.status, 204);
    assert_eq!(header(&stage.request("GET", "/bucket/x").send().await), None, "the rules of now are told");
}

#[tokio::test]
async fn one_gateway_goes_through_a_bucket_and_another_takes_over() {
    let stage = Stage::with(&OFTEN).await;
    let mut other = Gateway::start(&stage.database.url(), &OFTEN).await;
    for n in 0..20 {
        stage.put(&format!("k{n}"), b"x").await;
    }
    age(&stage, "%", 5).await;
    apply(&stage, &rule("all", "", &days(1))).await;
    assert!(keys(&stage).await.is_empty());
    let applied = |log: String| log.matches("lifecycle rules applied").count();
    eventually("one of them says so", || async { applied(stage.gateway.log()) + applied(other.log()) == 1 }).await;

    // A gateway that died in the middle: its claim runs out, and its bucket is gone through again.
    stage.put("left", b"x").await;
    age(&stage, "left", 5).await;
    let died = "UPDATE lobgate.lifecycle_run SET run = gen_random_uuid(), finished_at = NULL, claimed_until = \
                clock_timestamp() + interval '1 second'";
    stage.database.execute(died).await;
    eventually("another has taken over", || async { keys(&stage).await.is_empty() }).await;
    other.kill_9();
}

#[tokio::test]
async fn what_changes_under_the_rules_stays() {
    let stage = Stage::with(&OFTEN).await;
    set_versioning(&stage, Versioning::Enabled).await;
    put(&stage, "k", b"1").await;
    // The functions themselves, asked about what is no longer as a page has shown it.
    let latest = stage.database.count("SELECT id FROM lobgate.object WHERE key = 'k'").await;
    let expire = |id: i64| format!("SELECT lobgate.expire_versions('bucket', ARRAY['k'], ARRAY[{id}::bigint])::bigint");
    assert_eq!(stage.database.count(&expire(latest)).await, 0, "a current version is no past one");
    stage.delete("k").await;
    let marker = stage.database.count("SELECT id FROM lobgate.object WHERE key = 'k' AND is_latest").await;
    assert_eq!(stage.database.count(&expire(marker)).await, 0, "a marker with a version beneath it is not alone");
    assert_eq!(stage.database.count(&expire(latest)).await, 1);
    assert_eq!(stage.database.count(&expire(marker)).await, 1);
    assert_consistent(&stage.database).await;
}

#[tokio::test]
async fn what_changes_after_it_was_judged_stays() {
    let stage = Stage::start().await;
    let tagged = |key: &str, value: &str| {
        let set = format!("<TagSet><Tag><Key>tmp</Key><Value>{value}</Value></Tag></TagSet>");
        stage.request("PUT", &format!("/bucket/{key}?tagging")).body(format!("<Tagging>{set}</Tagging>"))
    };
    let latest = |tags: &str| {
        format!(
            "SELECT lobgate.expire_latest('bucket', 'o', array_agg(key), array_agg(id), array_agg(last_modified), \
             array_agg({tags}), array_agg(gen_random_uuid()))::bigint FROM lobgate.object WHERE key = 'k' AND is_latest"
        )
    };
    stage.put("k", b"1").await;
    assert_eq!(tagged("k", "1").send().await.status, 200);
    // Between the page and the deletion somebody has said that it is not temporary.
    let stored = "(SELECT tags FROM lobgate.object WHERE key = 'k' AND is_latest)";
    stage.database.execute(&format!("CREATE TABLE judged AS SELECT {stored} AS tags")).await;
    assert_eq!(tagged("k", "0").send().await.status, 200);
    assert_eq!(stage.database.count(&latest("(SELECT tags FROM judged)")).await, 0);
    assert_eq!(stage.database.count(&latest("NULL::jsonb")).await, 0);
    assert_eq!(stage.get("k").await, b"1");
    assert_eq!(stage.database.count(&latest("tags")).await, 1);
    assert!(!stage.exists("k").await);

    set_versioning(&stage, Versioning::Enabled).await;
    for body in [b"1", b"2", b"3"] {
        put(&stage, "k", body).await;
    }
    let oldest = "(SELECT min(id) FROM lobgate.object WHERE key = 'k')";
    let past = |tags: &str, keep: u32| {
        format!(
            "SELECT lobgate.expire_versions('bucket', ARRAY['k'], ARRAY[{oldest}], ARRAY[{tags}]::jsonb[], ARRAY[{keep}])::bigint"
        )
    };
    assert_eq!(stage.database.count(&past("(SELECT tags FROM judged)", 0)).await, 0, "other tags");
    assert_eq!(stage.database.count(&past("NULL", 2)).await, 0, "a newer one that was to be kept is gone");
    assert_eq!(stage.database.count(&past("NULL", 1)).await, 1);
}
