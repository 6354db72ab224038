//! Looks behind the gateway's back: do the companion tables and the large objects tell the same story?

use super::server::{run, text};
use super::{Database, eventually};

/// Asserts that the store is whole: every large object has exactly one owner, every content exactly its bytes.
///
/// Holds at any moment between transactions, also while removed contents still wait for the reaper.
pub(crate) async fn assert_consistent(database: &Database) {
    let client = database.superuser().await;
    let unowned: Vec<u32> = column(
        &client,
        "SELECT m.oid FROM pg_largeobject_metadata m \
         WHERE NOT EXISTS (SELECT 1 FROM lobgate.content c WHERE c.loid = m.oid)",
    )
    .await;
    assert!(unowned.is_empty(), "large objects that no content owns: {unowned:?}");
    let missing: Vec<u32> = column(
        &client,
        "SELECT c.loid FROM lobgate.content c WHERE c.loid IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM pg_largeobject_metadata m WHERE m.oid = c.loid)",
    )
    .await;
    assert!(missing.is_empty(), "contents whose large object is gone: {missing:?}");
    let shared: Vec<u32> =
        column(&client, "SELECT loid FROM lobgate.content WHERE loid IS NOT NULL GROUP BY 1 HAVING count(*) > 1").await;
    assert!(shared.is_empty(), "large objects of several contents: {shared:?}");
    let torn: Vec<u32> = column(
        &client,
        "SELECT c.loid FROM lobgate.content c LEFT JOIN \
           (SELECT loid, count(*) AS pages, sum(length(data)) AS bytes FROM pg_largeobject GROUP BY 1) l USING (loid) \
         WHERE c.loid IS NOT NULL AND (coalesce(l.bytes, 0) <> c.size OR coalesce(l.pages, 0) <> (c.size + 2047) / 2048)",
    )
    .await;
    assert!(torn.is_empty(), "large objects whose pages are not exactly their content's size: {torn:?}");
    let short: Vec<i64> =
        column(&client, "SELECT size FROM lobgate.content WHERE inline IS NOT NULL AND length(inline) <> size").await;
    assert!(short.is_empty(), "inline contents of another size than recorded: {short:?}");
    let forgotten: Vec<String> = column(
        &client,
        "SELECT c.id::text FROM lobgate.content c \
         WHERE NOT EXISTS (SELECT 1 FROM lobgate.object WHERE content_id = c.id) \
         AND NOT EXISTS (SELECT 1 FROM lobgate.upload_part WHERE content_id = c.id) \
         AND NOT EXISTS (SELECT 1 FROM lobgate.content_part WHERE content_id = c.id) \
         AND NOT EXISTS (SELECT 1 FROM lobgate.removed WHERE content_id = c.id)",
    )
    .await;
    assert!(forgotten.is_empty(), "contents that nothing refers to and the reaper does not know: {forgotten:?}");
    let differing: Vec<String> = column(
        &client,
        "SELECT o.key FROM lobgate.object o LEFT JOIN lobgate.content c ON c.id = o.content_id \
         WHERE o.size IS DISTINCT FROM coalesce(c.size, CASE WHEN o.is_delete_marker THEN 0 END) \
         UNION ALL \
         SELECT c.id::text FROM lobgate.content c JOIN lobgate.content_part p ON p.composite_id = c.id \
         GROUP BY c.id, c.size HAVING sum(p.size) <> c.size",
    )
    .await;
    assert!(differing.is_empty(), "objects and composites of another size than their contents: {differing:?}");
}

/// Asserts that the store is whole, every stored byte included: `lobgate verify` says so, and the tables do.
pub(crate) async fn assert_verified(database: &Database) {
    let verified = run(&database.url(), &["verify"]).await;
    assert!(verified.status.success(), "{}", text(&verified));
    assert_consistent(database).await;
}

/// The number of large objects in the database.
pub(crate) async fn large_objects(database: &Database) -> i64 {
    database.count("SELECT count(*) FROM pg_largeobject_metadata").await
}

/// Waits until the reaper has reclaimed everything that was removed, save the fences of writes that did not happen: they
/// stay for a day.
pub(crate) async fn until_reclaimed(database: &Database) {
    eventually("removed contents are reclaimed", || async {
        let query = "SELECT count(*) FROM lobgate.removed r WHERE NOT EXISTS \
                     (SELECT 1 FROM lobgate.content c WHERE c.id = r.content_id AND c.created_at = '-infinity')";
        database.count(query).await == 0
    })
    .await;
}

/// Asserts that nothing at all is stored: no object, no content, no large object, not one page.
pub(crate) async fn assert_empty(database: &Database) {
    for query in [
        "SELECT count(*) FROM lobgate.object",
        "SELECT count(*) FROM lobgate.content WHERE created_at > '-infinity'",
        "SELECT count(*) FROM pg_largeobject_metadata",
        "SELECT count(*) FROM pg_largeobject",
    ] {
        assert_eq!(database.count(query).await, 0, "{query}");
    }
}

async fn column<T: for<'a> tokio_postgres::types::FromSql<'a>>(client: &tokio_postgres::Client, query: &str) -> Vec<T> {
    let rows = client.query(query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}
