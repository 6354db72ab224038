//! The schema: made once by whichever gateway comes first, and refused where this binary does not understand it.

use crate::harness::server::{run, text};
use crate::harness::{Database, Gateway, Stage, client};

#[tokio::test]
async fn several_gateways_that_start_at_once_on_a_virgin_database_all_serve() {
    let database = Database::virgin().await;
    let mut gateways: Vec<Gateway> = (0..5).map(|_| Gateway::spawn(&database.url(), &[])).collect();
    for gateway in &mut gateways {
        gateway.ready().await;
    }
    let first = client::sdk(&gateways[0].endpoint);
    first.create_bucket().bucket("bucket").send().await.expect("create a bucket through one");
    for gateway in &gateways {
        client::sdk(&gateway.endpoint).head_bucket().bucket("bucket").send().await.expect("find it through each");
    }
}

#[tokio::test]
async fn migrating_twice_changes_nothing() {
    let database = Database::virgin().await;
    let before = run(&database.url(), &["migrate", "status"]).await;
    assert!(text(&before).to_lowercase().contains("pending"), "{}", text(&before));
    for _ in 0..2 {
        let migrated = run(&database.url(), &["migrate", "up"]).await;
        assert!(migrated.status.success(), "{}", text(&migrated));
    }
    let history = "SELECT count(*) - count(DISTINCT version) FROM lobgate.schema_history";
    assert_eq!(database.count(history).await, 0);
    let after = run(&database.url(), &["migrate", "status"]).await;
    assert!(after.status.success(), "{}", text(&after));
}

#[tokio::test]
async fn a_schema_newer_than_the_binary_is_refused() {
    let stage = Stage::start().await;
    let newer = "INSERT INTO lobgate.schema_history (version, name, applied_on, checksum) \
                 SELECT 9999, 'from_the_future', applied_on, checksum FROM lobgate.schema_history LIMIT 1";
    stage.database.execute(newer).await;
    let mut gateway = Gateway::spawn(&stage.database.url(), &[]);
    assert!(!gateway.ended().await.success());
    assert!(gateway.log().contains("9999"), "{}", gateway.log());
    for command in [&["migrate", "up"][..], &["verify"], &["gc", "run"]] {
        let refused = run(&stage.database.url(), command).await;
        assert!(!refused.status.success(), "{command:?}: {}", text(&refused));
    }
}

#[tokio::test]
async fn a_database_that_is_not_utf_8_is_refused_in_one_sentence() {
    let database = Database::virgin().await;
    let name = format!("{}_latin1", database.name);
    let create = format!(
        "CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C' OWNER {}",
        crate::harness::cluster::ROLE
    );
    database.execute(&create).await;
    let mut gateway = Gateway::spawn(&database.cluster.url(&name), &[]);
    assert!(!gateway.ended().await.success());
    assert!(gateway.log().contains("UTF8") || gateway.log().contains("UTF-8"), "{}", gateway.log());
    drop(gateway);
    database.execute(&format!("DROP DATABASE {name}")).await;
}

#[tokio::test]
async fn a_role_without_the_right_to_create_the_schema_is_told_so() {
    let database = Database::virgin().await;
    let role = format!("{}_poor", database.name);
    database.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'poor'")).await;
    let url = database.url().replace(crate::harness::cluster::ROLE_PASSWORD, "poor");
    let url = url.replacen(crate::harness::cluster::ROLE, &role, 1);
    let mut gateway = Gateway::spawn(&url, &[]);
    assert!(!gateway.ended().await.success());
    let log = gateway.log();
    assert!(log.contains("CREATE") || log.contains("GRANT"), "the mend is named: {log}");
    assert!(!log.contains("poor@"), "the password is not: {log}");
    drop(gateway);
    database.execute(&format!("DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_so() {
    let port = crate::harness::cluster::free_port();
    let mut gateway = Gateway::spawn(&format!("postgres://x:y@127.0.0.1:{port}/z"), &[]);
    assert!(!gateway.ended().await.success());
    assert!(gateway.log().contains(&port.to_string()), "{}", gateway.log());
}

#[tokio::test]
async fn rows_that_contradict_themselves_are_refused_by_the_tables() {
    let stage = Stage::start().await;
    stage.put("k", b"abc").await;
    let content = "UPDATE lobgate.content SET ";
    let object = "UPDATE lobgate.object SET ";
    for (table, change) in [
        (content, "size = 2"),
        (content, "size = -1"),
        (content, "loid = 1"),
        (content, "inline = NULL"),
        (content, "md5 = NULL"),
        (content, "md5 = '\\x00'"),
        (content, "sha256 = '\\x00'"),
        (object, "key = ''"),
        (object, "key = repeat('x', 1025)"),
        (object, "size = -1"),
        (object, "content_id = NULL"),
        (object, "is_delete_marker = true"),
        (object, "parts_count = 0"),
        (object, "checksum = NULL"),
        (object, "retention_mode = 'GOVERNANCE'"),
        (object, "retention_mode = 'OTHER', retain_until = now()"),
    ] {
        let refused = stage.database.superuser().await.batch_execute(&format!("{table}{change}")).await;
        let code = refused.err().and_then(|e| e.code().map(|c| c.code().to_owned()));
        assert_eq!(code.as_deref(), Some("23514"), "check_violation: {table}{change}");
    }
    assert_eq!(stage.get("k").await, b"abc");
}
