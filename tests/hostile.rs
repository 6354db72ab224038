//! What was once got wrong under hostile input and odd surroundings stays right.

use crate::harness::inspect::{assert_consistent, until_reclaimed};
use crate::harness::{BUCKET, Database, Gateway, Stage, client, eventually, path};

const FAST: &[(&str, &str)] = &[("LOBGATE_GC_INTERVAL", "100ms"), ("LOBGATE_GC_LEASE", "3s")];

#[tokio::test]
async fn a_cdata_section_never_deletes_another_key_than_it_names() {
    let stage = Stage::start().await;
    stage.put("ab", b"x").await;
    let delete = "<Delete><Object><Key>ab<![CDATA[c]]></Key></Object></Delete>";
    let reply = stage.request("POST", &format!("/{BUCKET}?delete")).body(delete).send().await;
    assert_eq!(reply.refusal(), (400, "MalformedXML".to_owned()));
    assert!(stage.exists("ab").await);
}

#[tokio::test]
async fn documents_and_query_values_that_cannot_be_are_the_client_s_fault() {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    for target in
        ["/bucket/k?partNumber=%01", "/bucket?max-keys=%01", "/bucket?uploads&max-uploads=%00", "/?max-buckets=%01"]
    {
        let reply = stage.request("GET", target).send().await;
        assert_eq!(reply.status, 400, "{target}: {}", reply.text());
        assert!(reply.xml("Code").is_some(), "{target}");
    }
    let blanks = format!("<Delete>{}</Delete>", " ".repeat(9 << 20));
    let reply = stage.request("POST", &format!("/{BUCKET}?delete")).body(blanks).send().await;
    assert_eq!(reply.refusal(), (400, "MalformedXML".to_owned()));
}

#[tokio::test]
async fn a_star_in_quotes_is_an_ordinary_tag() {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    let put = stage.request("PUT", &path("k")).header("if-match", "\"*\"").body("y").send().await;
    assert_eq!(put.refusal(), (412, "PreconditionFailed".to_owned()));
    let delete = stage.request("DELETE", &path("k")).header("if-match", "\"*\"").send().await;
    assert_eq!(delete.refusal(), (412, "PreconditionFailed".to_owned()));
    let get = stage.request("GET", &path("k")).header("if-match", "\"*\"").send().await;
    assert_eq!(get.status, 412);
    assert_eq!(stage.get("k").await, b"x");
    let put = stage.request("PUT", &path("k")).header("if-match", "*").body("z").send().await;
    assert_eq!(put.status, 200);
}

#[tokio::test]
async fn another_default_isolation_level_changes_nothing() {
    let database = Database::virgin().await;
    let name = &database.name;
    database.execute(&format!("ALTER DATABASE {name} SET default_transaction_isolation = 'repeatable read'")).await;
    let gateway = Gateway::start(&database.url(), &[]).await;
    let s3 = client::sdk(&gateway.endpoint);
    s3.create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    let writers: Vec<_> = (0..40)
        .map(|number: u8| {
            let s3 = s3.clone();
            tokio::spawn(async move {
                let put = s3.put_object().bucket(BUCKET).key("k").body(vec![number; 10].into());
                put.send().await.map_err(|e| format!("{e:?}"))
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer").expect("an overwrite that waits for another sees what it did");
    }
    assert_eq!(database.count("SELECT count(*) FROM lobgate.object").await, 1);
    assert_consistent(&database).await;
}

#[tokio::test]
async fn removals_of_another_cluster_are_reclaimed_after_a_restore() {
    let database = Database::create().await;
    let slow = Gateway::start(&database.url(), &[("LOBGATE_GC_INTERVAL", "10s"), ("LOBGATE_GC_LEASE", "1m")]).await;
    let s3 = client::sdk(&slow.endpoint);
    s3.create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    s3.put_object().bucket(BUCKET).key("k").body(vec![7; 200_000].into()).send().await.expect("an object");
    s3.delete_object().bucket(BUCKET).key("k").send().await.expect("its end");
    drop(slow);
    // A restored dump has the transaction ids of the cluster that it was made of.
    database.execute("UPDATE lobgate.removed SET xid = '4000000000'; DELETE FROM lobgate.instance").await;
    let _gateway = Gateway::start(&database.url(), FAST).await;
    until_reclaimed(&database).await;
    assert_eq!(database.count("SELECT count(*) FROM pg_largeobject_metadata").await, 0);
}

#[tokio::test]
async fn a_fence_outlasts_the_reaper_so_that_a_late_statement_finds_its_id_taken() {
    let stage = Stage::with(FAST).await;
    let id = "00000000-0000-7000-8000-00000000000f";
    stage
        .database
        .execute(&format!(
            "INSERT INTO lobgate.content (id, inline, size, md5, created_at) \
             VALUES ('{id}', '', 0, decode(md5(''), 'hex'), '-infinity'); \
             INSERT INTO lobgate.removed (content_id) VALUES ('{id}')"
        ))
        .await;
    stage.put("k", b"x").await;
    stage.delete("k").await;
    eventually("what was removed after the fence is reclaimed", || async {
        stage.database.count("SELECT count(*) FROM lobgate.removed").await == 1
    })
    .await;
    assert_eq!(stage.database.count(&format!("SELECT count(*) FROM lobgate.content WHERE id = '{id}'")).await, 1);
    stage.database.execute("UPDATE lobgate.removed SET removed_at = removed_at - interval '2 days'").await;
    eventually("after its day the fence goes", || async {
        stage.database.count("SELECT count(*) FROM lobgate.content").await == 0
    })
    .await;
}

#[tokio::test]
async fn tables_that_the_reaper_depends_on_cannot_be_truncated() {
    let stage = Stage::start().await;
    stage.put("k", b"x").await;
    let refused = stage.database.superuser().await.batch_execute("TRUNCATE lobgate.object").await;
    assert!(refused.is_err_and(|e| e.as_db_error().is_some_and(|e| e.message().contains("DELETE"))));
    assert_eq!(stage.get("k").await, b"x");
}
