//! Statements that scan the live objects of a bucket in key order.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{checksum_kind_of, size_of};
use crate::db::{Db, DbError, Statement};
use crate::storage::{ListEntry, ListedObject};

static BUCKET_ID: Statement = Statement {
    name: "bucket_id",
    sql: "-- bucket_id
SELECT id FROM lobgate.bucket WHERE name = $1",
    types: &[Type::TEXT],
};

static PLAIN: Statement = Statement {
    name: "list_objects",
    sql: "-- list_objects
SELECT o.key AS name, o.id AS object_id, o.size, o.etag, o.last_modified, o.attributes ->> 'storage_class' AS storage_class,
       o.checksum_algorithm, o.checksum_type
FROM lobgate.object o
WHERE o.bucket_id = $1 AND o.is_latest AND NOT o.is_delete_marker
  AND o.key >= $2 /* from */ AND o.key < $3 /* end */
ORDER BY o.key LIMIT $4",
    types: &[Type::INT4, Type::TEXT, Type::TEXT, Type::INT8],
};

static DELIMITED: Statement = Statement {
    name: "list_entries",
    sql: "-- list_entries
SELECT name, object_id, size, etag, last_modified, storage_class, checksum_algorithm, checksum_type
FROM lobgate.list_entries($1 /* bucket_id */, $2 /* prefix */, $3 /* delimiter */, $4 /* from */, $5 /* limit */)",
    types: &[Type::INT4, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT4],
};

/// The id of a bucket.
pub(crate) async fn bucket_id(db: &Db, bucket: &str) -> Result<Option<i32>, DbError> {
    Ok(db.read(&BUCKET_ID, &[&bucket]).await?.first().map(|row| row.get(0)))
}

/// Live objects with keys in `from..end`, in byte order. `end` is the least text that sorts after all of them.
pub(crate) async fn plain(
    db: &Db,
    bucket_id: i32,
    from: &str,
    end: &str,
    limit: u32,
) -> Result<Vec<ListEntry>, DbError> {
    let rows = db.read(&PLAIN, &[&bucket_id, &from, &end, &i64::from(limit)]).await?;
    Ok(rows.iter().map(entry).collect())
}

/// Live objects and common prefixes from a key on, in byte order.
pub(crate) async fn delimited(
    db: &Db,
    bucket_id: i32,
    prefix: &str,
    delimiter: &str,
    from: &str,
    limit: u32,
) -> Result<Vec<ListEntry>, DbError> {
    let limit = super::integer(limit);
    let rows = db.read(&DELIMITED, &[&bucket_id, &prefix, &delimiter, &from, &limit]).await?;
    Ok(rows.iter().map(entry).collect())
}

fn entry(row: &Row) -> ListEntry {
    let name: String = row.get("name");
    if row.get::<_, Option<i64>>("object_id").is_none() {
        return ListEntry::CommonPrefix(name);
    }
    ListEntry::Object(ListedObject {
        key: name,
        size: size_of(row, "size"),
        etag: row.get("etag"),
        last_modified: row.get("last_modified"),
        storage_class: row.get("storage_class"),
        checksum: checksum_kind_of(row),
    })
}
