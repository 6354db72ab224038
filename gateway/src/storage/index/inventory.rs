//! Statements that compare the companion tables with the large objects that exist: for `sweep` and `verify`.

use tokio_postgres::Row;
use tokio_postgres::types::{Oid, Type};
use uuid::Uuid;

use super::size_of;
use crate::db::{Db, DbError, Statement, Tx};

static PING: Statement = Statement { name: "ping", sql: "-- ping\nSELECT 1", types: &[] };

static IDENTITY: Statement = Statement {
    name: "database_identity",
    sql:
        "-- database_identity
SELECT current_database()::text AS name, (SELECT system_identifier FROM pg_control_system())::text AS system_identifier",
    types: &[],
};

static UNCLAIMED: Statement = Statement {
    name: "unclaimed_large_objects",
    sql: "-- unclaimed_large_objects
SELECT m.oid, pg_get_userbyid(m.lomowner)::text AS owner, pg_has_role(m.lomowner, 'USAGE') AS ours
FROM pg_largeobject_metadata m
WHERE m.oid > $1 AND NOT EXISTS (SELECT 1 FROM lobgate.content c WHERE c.loid = m.oid)
ORDER BY m.oid LIMIT $2",
    types: &[Type::OID, Type::INT8],
};

// Columns that may refer to large objects, as contrib/vacuumlo sees it: of type oid or lo, in ordinary tables and
// materialised views outside the system's schemas.
static REFERRING_COLUMNS: Statement = Statement {
    name: "referring_columns",
    sql: "-- referring_columns
SELECT format('%I.%I', n.nspname, c.relname) AS relation, format('%I', a.attname) AS attribute,
       has_table_privilege(c.oid, 'SELECT') AS readable
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attnum > 0 AND NOT a.attisdropped AND t.typname IN ('oid', 'lo') AND c.relkind IN ('r', 'm', 'p')
  AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'lobgate')",
    types: &[],
};

static LARGE_OBJECT_SIZE: Statement = Statement {
    name: "large_object_size",
    sql: "-- large_object_size
SELECT lo_lseek64(lo_open($1, 262144 /* INV_READ */), 0, 2 /* SEEK_END */)",
    types: &[Type::OID],
};

static UNLINK_UNCLAIMED: Statement = Statement {
    name: "unlink_unclaimed",
    sql: "-- unlink_unclaimed
SELECT m.oid, lo_unlink(m.oid) FROM pg_largeobject_metadata m
WHERE m.oid = ANY ($1) AND pg_has_role(m.lomowner, 'USAGE')
  AND NOT EXISTS (SELECT 1 FROM lobgate.content c WHERE c.loid = m.oid)",
    types: &[Type::OID_ARRAY],
};

static SWEEP_LOCK: Statement = Statement {
    name: "sweep_lock",
    sql: "-- sweep_lock
SELECT pg_advisory_xact_lock(hashtextextended('lobgate.reaper', 0))",
    types: &[],
};

static CONTENTS: Statement = Statement {
    name: "scan_contents",
    sql: "-- scan_contents
SELECT c.id, c.size, c.md5, c.loid, (c.loid IS NULL OR m.oid IS NOT NULL) AS present
FROM lobgate.content c LEFT JOIN pg_largeobject_metadata m ON m.oid = c.loid
WHERE c.id > $1 ORDER BY c.id LIMIT $2",
    types: &[Type::UUID, Type::INT8],
};

static TOTALS: Statement = Statement {
    name: "content_totals",
    sql: "-- content_totals
SELECT count(*) AS contents, coalesce(sum(size) FILTER (WHERE md5 IS NOT NULL), 0)::bigint AS bytes FROM lobgate.content",
    types: &[],
};

static STILL_THERE: Statement = Statement {
    name: "content_exists",
    sql: "-- content_exists
SELECT 1 FROM lobgate.content WHERE id = $1",
    types: &[Type::UUID],
};

static OBJECTS_OF_CONTENT: Statement = Statement {
    name: "objects_of_content",
    sql: "-- objects_of_content
SELECT b.name || '/' || o.key AS object
FROM lobgate.object o JOIN lobgate.bucket b ON b.id = o.bucket_id
WHERE o.content_id = $1
   OR o.content_id IN (SELECT p.composite_id FROM lobgate.content_part p WHERE p.content_id = $1)
ORDER BY 1 LIMIT 10",
    types: &[Type::UUID],
};

static CONTRADICTIONS: Statement = Statement {
    name: "contradictions",
    sql: "-- contradictions
SELECT 'object ' || o.id || ' has size ' || o.size || ', its content ' || c.id || ' has ' || c.size AS finding
FROM lobgate.object o JOIN lobgate.content c ON c.id = o.content_id WHERE c.size <> o.size
UNION ALL
SELECT 'object ' || o.id || ' has ' || o.parts_count || ' parts by its row, its content ' || o.content_id || ' has ' || count(p.part_number)
FROM lobgate.object o LEFT JOIN lobgate.content_part p ON p.composite_id = o.content_id
WHERE o.parts_count IS NOT NULL GROUP BY o.id, o.parts_count, o.content_id HAVING count(p.part_number) <> o.parts_count
UNION ALL
SELECT 'object ' || o.id || ' refers to bucket ' || o.bucket_id || ', which does not exist'
FROM lobgate.object o WHERE NOT EXISTS (SELECT 1 FROM lobgate.bucket b WHERE b.id = o.bucket_id)
UNION ALL
SELECT 'part ' || p.part_number || ' of content ' || p.composite_id || ' has size ' || p.size || ', its content ' || c.id || ' has ' || c.size
FROM lobgate.content_part p JOIN lobgate.content c ON c.id = p.content_id WHERE c.size <> p.size
UNION ALL
SELECT 'composite content ' || c.id || ' has size ' || c.size || ', its parts have ' || coalesce(sum(p.size), 0)
FROM lobgate.content c LEFT JOIN lobgate.content_part p ON p.composite_id = c.id
WHERE c.md5 IS NULL GROUP BY c.id, c.size HAVING coalesce(sum(p.size), 0) <> c.size
UNION ALL
SELECT 'part ' || s.part_number || ' of content ' || s.composite_id || ' starts at ' || s.start || ', where ' || s.expected || ' was expected'
FROM (SELECT p.composite_id, p.part_number, p.start,
             coalesce(sum(p.size) OVER (PARTITION BY p.composite_id ORDER BY p.part_number
                                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS expected
      FROM lobgate.content_part p) s WHERE s.start <> s.expected
UNION ALL
SELECT 'part ' || p.part_number || ' of upload ' || p.upload_id || ' has size ' || p.size || ', its content ' || c.id || ' has ' || c.size
FROM lobgate.upload_part p JOIN lobgate.content c ON c.id = p.content_id WHERE c.size <> p.size
UNION ALL
SELECT 'nothing refers to content ' || c.id || ' and it is not marked as removed'
FROM lobgate.content c
WHERE NOT EXISTS (SELECT 1 FROM lobgate.object o WHERE o.content_id = c.id)
  AND NOT EXISTS (SELECT 1 FROM lobgate.content_part p WHERE p.content_id = c.id)
  AND NOT EXISTS (SELECT 1 FROM lobgate.upload_part p WHERE p.content_id = c.id)
  AND NOT EXISTS (SELECT 1 FROM lobgate.removed r WHERE r.content_id = c.id)",
    types: &[],
};

/// A sign of life.
pub(crate) async fn ping(db: &Db) -> Result<(), DbError> {
    db.read(&PING, &[]).await.map(drop)
}

/// Which database this is.
pub(crate) async fn identity(db: &Db) -> Result<(String, String), DbError> {
    let rows = db.read(&IDENTITY, &[]).await?;
    Ok(rows.first().map(|row| (row.get("name"), row.get("system_identifier"))).unwrap_or_default())
}

/// A large object without a row in `content`.
#[derive(Clone, Debug)]
pub struct Unclaimed {
    /// Its oid.
    pub oid: Oid,
    /// The role that owns it.
    pub owner: String,
    /// Whether this role may unlink it.
    pub ours: bool,
}

/// Large objects without a row in `content`, with oids after `after`.
pub(crate) async fn unclaimed(db: &Db, after: Oid, limit: u32) -> Result<Vec<Unclaimed>, DbError> {
    let rows = db.read(&UNCLAIMED, &[&after, &i64::from(limit)]).await?;
    Ok(rows
        .iter()
        .map(|row| Unclaimed { oid: row.get("oid"), owner: row.get("owner"), ours: row.get("ours") })
        .collect())
}

/// A column outside our schema that may refer to large objects. The names are quoted for SQL.
#[derive(Clone, Debug)]
pub struct ReferringColumn {
    /// Schema and table.
    pub relation: String,
    /// Column.
    pub attribute: String,
    /// Whether this role may look.
    pub readable: bool,
}

/// Columns outside our schema that may refer to large objects.
pub(crate) async fn referring_columns(db: &Db) -> Result<Vec<ReferringColumn>, DbError> {
    let rows = db.read(&REFERRING_COLUMNS, &[]).await?;
    let column = |row: &Row| ReferringColumn {
        relation: row.get("relation"),
        attribute: row.get("attribute"),
        readable: row.get("readable"),
    };
    Ok(rows.iter().map(column).collect())
}

/// Those of the oids that a column refers to. The column's names come quoted from [`referring_columns`].
async fn referred_to(tx: &Tx, column: &ReferringColumn, oids: &[Oid]) -> Result<Vec<Oid>, DbError> {
    let ReferringColumn { relation, attribute, .. } = column;
    let sql =
        format!("-- referred_to\nSELECT DISTINCT {attribute}::oid FROM {relation} WHERE {attribute}::oid = ANY ($1)");
    let rows = tx.run_text(&sql, &[(&oids, Type::OID_ARRAY)]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Those of the oids that any of the columns refers to, as far as they are readable.
pub(crate) async fn referred_to_by_any(
    tx: &Tx,
    columns: &[ReferringColumn],
    oids: &[Oid],
) -> Result<Vec<Oid>, DbError> {
    let mut referred = Vec::new();
    for column in columns.iter().filter(|c| c.readable) {
        referred.extend(referred_to(tx, column, oids).await?);
    }
    Ok(referred)
}

/// Length of a large object in bytes.
pub(crate) async fn large_object_size(tx: &Tx, oid: Oid) -> Result<u64, DbError> {
    let rows = tx.run(&LARGE_OBJECT_SIZE, &[&oid]).await?;
    Ok(rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

/// Keeps the reaper and other sweeps away until the transaction ends.
pub(crate) async fn lock_sweep(tx: &Tx) -> Result<(), DbError> {
    tx.run(&SWEEP_LOCK, &[]).await.map(drop)
}

/// Unlinks those of the large objects that still have no row. Returns how many they were.
pub(crate) async fn unlink_unclaimed(tx: &Tx, oids: &[Oid]) -> Result<u64, DbError> {
    Ok(tx.run(&UNLINK_UNCLAIMED, &[&oids]).await?.len() as u64)
}

/// A content as `verify` sees it.
#[derive(Clone, Debug)]
pub struct ScannedContent {
    /// Its id.
    pub id: Uuid,
    /// Its length.
    pub size: u64,
    /// `None` for a composite.
    pub md5: Option<Vec<u8>>,
    /// Its large object.
    pub loid: Option<Oid>,
    /// Whether the large object exists.
    pub present: bool,
}

/// Contents after an id.
pub(crate) async fn scan_contents(db: &Db, after: Uuid, limit: u32) -> Result<Vec<ScannedContent>, DbError> {
    let rows = db.read(&CONTENTS, &[&after, &i64::from(limit)]).await?;
    let content = |row: &Row| ScannedContent {
        id: row.get("id"),
        size: size_of(row, "size"),
        md5: row.get("md5"),
        loid: row.get("loid"),
        present: row.get("present"),
    };
    Ok(rows.iter().map(content).collect())
}

/// How many contents there are, and their bytes.
pub(crate) async fn totals(db: &Db) -> Result<(u64, u64), DbError> {
    let rows = db.read(&TOTALS, &[]).await?;
    Ok(rows.first().map(|row| (size_of(row, "contents"), size_of(row, "bytes"))).unwrap_or_default())
}

/// Whether a content still exists.
pub(crate) async fn exists(db: &Db, id: Uuid) -> Result<bool, DbError> {
    Ok(!db.read(&STILL_THERE, &[&id]).await?.is_empty())
}

/// Objects whose bytes lie in a content, as `bucket/key`; ten at most.
pub(crate) async fn objects_of(db: &Db, id: Uuid) -> Result<Vec<String>, DbError> {
    Ok(db.read(&OBJECTS_OF_CONTENT, &[&id]).await?.iter().map(|row| row.get("object")).collect())
}

/// Rows that contradict each other, as sentences.
pub(crate) async fn contradictions(db: &Db) -> Result<Vec<String>, DbError> {
    Ok(db.read(&CONTRADICTIONS, &[]).await?.iter().map(|row| row.get(0)).collect())
}
