//! The statement that lists versions, and how its markers are found.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::listing::checksum_kind;
use crate::db::{Db, DbError, Statement};
use crate::storage::version_types::VersionId;
use crate::storage::{ListedVersion, VersionEntry};

static LIST: Statement = Statement {
    name: "list_versions",
    sql: "-- list_versions
SELECT v.name, v.version_id, v.is_latest, v.is_delete_marker, v.size, v.etag, v.last_modified, v.owner, v.storage_class,
       v.checksum_algorithm, v.checksum_type
FROM lobgate.bucket b,
     lobgate.list_versions(b.id, $2 /* prefix */, $3 /* delimiter */, $4 /* from */, $5 /* before */, $6 /* end */,
         $7 /* limit */) v
WHERE b.name = $1",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::INT8, Type::TEXT, Type::INT4],
};

static PLACE: Statement = Statement {
    name: "place_of_version",
    sql: "-- place_of_version
SELECT o.id FROM lobgate.object o JOIN lobgate.bucket b ON b.id = o.bucket_id
WHERE b.name = $1 AND o.key = $2 AND o.version_id = $3",
    types: &[Type::TEXT, Type::TEXT, Type::UUID],
};

static PLACE_OF_NULL: Statement = Statement {
    name: "place_of_null_version",
    sql: "-- place_of_null_version
SELECT o.id FROM lobgate.object o JOIN lobgate.bucket b ON b.id = o.bucket_id
WHERE b.name = $1 AND o.key = $2 AND o.version_id IS NULL AND o.is_latest
UNION ALL
SELECT o.id FROM lobgate.object o JOIN lobgate.bucket b ON b.id = o.bucket_id
WHERE b.name = $1 AND o.key = $2 AND o.version_id IS NULL AND NOT o.is_latest",
    types: &[Type::TEXT, Type::TEXT],
};

/// Where a page begins and ends.
pub(crate) struct Page<'a> {
    /// Keys begin with this.
    pub(crate) prefix: &'a str,
    /// Empty: keys are not rolled up.
    pub(crate) delimiter: &'a str,
    /// First key.
    pub(crate) from: &'a str,
    /// Of that key, versions older than this place.
    pub(crate) before: Option<i64>,
    /// The least text that sorts after all keys.
    pub(crate) end: &'a str,
    /// At most so many entries.
    pub(crate) limit: u32,
}

/// The place of a version among those of its key, if it is still there.
pub(crate) async fn place(db: &Db, bucket: &str, key: &str, version: VersionId) -> Result<Option<i64>, DbError> {
    let rows = match version {
        VersionId::Id(id) => db.read(&PLACE, &[&bucket, &key, &id]).await?,
        VersionId::Null => db.read(&PLACE_OF_NULL, &[&bucket, &key]).await?,
    };
    Ok(rows.first().map(|row| row.get(0)))
}

/// Versions and common prefixes, in the order of keys and from newest to oldest.
pub(crate) async fn list(db: &Db, bucket: &str, page: &Page<'_>) -> Result<Vec<VersionEntry>, DbError> {
    let limit = super::integer(page.limit);
    let params: [&(dyn ToSql + Sync); 7] =
        [&bucket, &page.prefix, &page.delimiter, &page.from, &page.before, &page.end, &limit];
    db.read_mapped(&LIST, &params, |row| entry(&row)).await
}

fn entry(row: &Row) -> VersionEntry {
    let name: String = row.get(0);
    let Some(size) = row.get::<_, Option<i64>>(4) else { return VersionEntry::CommonPrefix(name) };
    VersionEntry::Version(Box::new(ListedVersion {
        key: name,
        version: row.get::<_, Option<Uuid>>(1).map_or(VersionId::Null, VersionId::Id),
        is_latest: row.get(2),
        is_delete_marker: row.get(3),
        size: u64::try_from(size).unwrap_or(0),
        etag: row.get(5),
        last_modified: row.get(6),
        owner: row.get(7),
        storage_class: row.get(8),
        checksum: checksum_kind(row.get(9), row.get(10)),
    }))
}
