//! Statements that scan the live objects of a bucket in key order.
//!
//! A page is one statement, and so one snapshot. Both statements find the bucket themselves; one that returns nothing
//! has said nothing about whether the bucket exists. They return the same columns, by whose order rows are decoded: a
//! listing is a thousand rows, and looking names up costs more than the rest.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::db::{Db, DbError, Statement};
use crate::storage::types::{ChecksumAlgorithm, ChecksumType};
use crate::storage::{ListEntry, ListedObject};

static BUCKET_EXISTS: Statement = Statement {
    name: "bucket_exists",
    sql: "-- bucket_exists
SELECT 1 FROM lobgate.bucket WHERE name = $1",
    types: &[Type::TEXT],
};

static PLAIN: Statement = Statement {
    name: "list_objects",
    sql: "-- list_objects
SELECT o.key, o.size, o.etag, o.last_modified, o.attributes ->> 'storage_class', o.checksum_algorithm, o.checksum_type
FROM lobgate.object o
WHERE o.bucket_id = (SELECT b.id FROM lobgate.bucket b WHERE b.name = $1) AND o.is_latest AND NOT o.is_delete_marker
  AND o.key >= $2 /* from */ AND o.key < $3 /* end */
ORDER BY o.key LIMIT $4",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8],
};

/// A loose index scan: past each common prefix the index is entered anew, so the cost is that of the entries returned,
/// not of the keys below. The walk goes from one folded key (the first of a common prefix) to the next, reading the index
/// alone; what lies between two of them are keys that stand for themselves, and only those are fetched from the table.
/// - `first_key`: the first key of a step. If it is not folded itself, keys of their own come first.
/// - `folded_key`: the next folded key; NULL where none comes within a page, and the walk ends there.
/// - `stem`: `folded_key` up to its delimiter. What follows the common prefix is not less than stem and `skip`.
///
/// `OFFSET 0` keeps the planner from writing the expression `g` out wherever it is used. The LATERAL join makes the walk
/// the outer side of a nested loop, so entries come in the order of the walk, which is that of the keys, and LIMIT ends
/// the walk as soon as the page is full.
static DELIMITED: Statement = Statement {
    name: "list_entries",
    sql: "-- list_entries
WITH RECURSIVE walk AS (
    SELECT b.id AS bucket_id, NULL::text COLLATE \"C\" AS first_key, NULL::text COLLATE \"C\" AS folded_key,
           NULL::text COLLATE \"C\" AS stem
    FROM lobgate.bucket b WHERE b.name = $1
    UNION ALL
    SELECT w.bucket_id, f.key, g.key, left(g.key, $2 /* prefix length */ + strpos(substr(g.key, $2 + 1), $3 /* delimiter */) - 1)
    FROM walk w
    CROSS JOIN LATERAL (
        SELECT o.key FROM lobgate.object o
        WHERE o.bucket_id = w.bucket_id AND o.is_latest AND NOT o.is_delete_marker
          AND o.key >= coalesce(w.stem || $4 /* skip */, $5 /* from */) AND o.key < $6 /* end */
        ORDER BY o.key LIMIT 1) f
    CROSS JOIN LATERAL (
        SELECT CASE WHEN strpos(substr(f.key, $2 + 1), $3) > 0 THEN f.key ELSE (
            SELECT n.key FROM (
                SELECT o.key FROM lobgate.object o
                WHERE o.bucket_id = w.bucket_id AND o.is_latest AND NOT o.is_delete_marker
                  AND o.key > f.key AND o.key < $6
                ORDER BY o.key LIMIT $7) n
            WHERE strpos(substr(n.key, $2 + 1), $3) > 0 LIMIT 1) END AS key
        OFFSET 0) g
    WHERE w.first_key IS NULL OR w.stem IS NOT NULL)
SELECT e.* FROM walk w
CROSS JOIN LATERAL (
    (SELECT o.key, o.size, o.etag, o.last_modified, o.attributes ->> 'storage_class', o.checksum_algorithm, o.checksum_type
     FROM lobgate.object o
     WHERE w.folded_key IS DISTINCT FROM w.first_key
       AND o.bucket_id = w.bucket_id AND o.is_latest AND NOT o.is_delete_marker
       AND o.key >= w.first_key AND o.key < coalesce(w.folded_key, $6)
     ORDER BY o.key)
    UNION ALL
    SELECT w.stem || $3, NULL, NULL, NULL, NULL, NULL, NULL WHERE w.stem IS NOT NULL) e
LIMIT $7",
    types: &[Type::TEXT, Type::INT4, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8],
};

/// Where keys are folded.
pub(crate) struct Folding<'a> {
    /// Characters of the prefix, which is not searched for the delimiter.
    pub(crate) prefix_chars: u32,
    /// The delimiter, not empty.
    pub(crate) delimiter: &'a str,
    /// What comes after the delimiter and everything that begins with it.
    pub(crate) skip: &'a str,
}

/// Whether a bucket exists.
pub(crate) async fn bucket_exists(db: &Db, bucket: &str) -> Result<bool, DbError> {
    Ok(!db.read(&BUCKET_EXISTS, &[&bucket]).await?.is_empty())
}

/// Live objects with keys in `from..end`, in byte order. `end` is the least text that sorts after all of them.
pub(crate) async fn plain(
    db: &Db,
    bucket: &str,
    (from, end): (&str, &str),
    limit: u32,
) -> Result<Vec<ListEntry>, DbError> {
    db.read_mapped(&PLAIN, &[&bucket, &from, &end, &i64::from(limit)], |row| entry(&row)).await
}

/// Live objects and common prefixes with keys in `from..end`, in byte order.
pub(crate) async fn delimited(
    db: &Db,
    bucket: &str,
    folding: &Folding<'_>,
    (from, end): (&str, &str),
    limit: u32,
) -> Result<Vec<ListEntry>, DbError> {
    let (prefix_chars, limit) = (super::integer(folding.prefix_chars), i64::from(limit));
    let params: [&(dyn ToSql + Sync); 7] =
        [&bucket, &prefix_chars, &folding.delimiter, &folding.skip, &from, &end, &limit];
    db.read_mapped(&DELIMITED, &params, |row| entry(&row)).await
}

fn entry(row: &Row) -> ListEntry {
    let name: String = row.get(0);
    let Some(size) = row.get::<_, Option<i64>>(1) else { return ListEntry::CommonPrefix(name) };
    ListEntry::Object(ListedObject {
        key: name,
        size: u64::try_from(size).unwrap_or(0),
        etag: row.get(2),
        last_modified: row.get(3),
        storage_class: row.get(4),
        checksum: checksum_kind(row.get(5), row.get(6)),
    })
}

pub(super) fn checksum_kind(algorithm: Option<&str>, kind: Option<&str>) -> Option<(ChecksumAlgorithm, ChecksumType)> {
    Some((ChecksumAlgorithm::parse(algorithm?)?, ChecksumType::parse(kind?)?))
}
