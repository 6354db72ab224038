//! Statements on `bucket_setting`.

use tokio_postgres::types::Type;

use crate::db::{Db, DbError, Statement};
use crate::storage::types::BucketName;

static FIND: Statement = Statement {
    name: "find_bucket_setting",
    sql: "-- find_bucket_setting
SELECT s.document FROM lobgate.bucket b
LEFT JOIN lobgate.bucket_setting s ON s.bucket_id = b.id AND s.kind = $2
WHERE b.name = $1",
    types: &[Type::TEXT, Type::TEXT],
};

static PUT: Statement = Statement {
    name: "put_bucket_setting",
    sql: "-- put_bucket_setting
INSERT INTO lobgate.bucket_setting (bucket_id, kind, document)
SELECT b.id, $2, $3 FROM lobgate.bucket b WHERE b.name = $1
ON CONFLICT (bucket_id, kind) DO UPDATE SET document = excluded.document, updated_at = excluded.updated_at
RETURNING bucket_id",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT],
};

static DELETE: Statement = Statement {
    name: "delete_bucket_setting",
    sql: "-- delete_bucket_setting
DELETE FROM lobgate.bucket_setting s USING lobgate.bucket b WHERE b.id = s.bucket_id AND b.name = $1 AND s.kind = $2",
    types: &[Type::TEXT, Type::TEXT],
};

/// A document. `None`: no such bucket; `Some(None)`: the bucket has none.
pub(crate) async fn find(db: &Db, bucket: &BucketName, kind: &str) -> Result<Option<Option<String>>, DbError> {
    Ok(db.read(&FIND, &[&bucket.as_str(), &kind]).await?.first().map(|row| row.get(0)))
}

/// Sets or replaces a document; false where there is no such bucket.
pub(crate) async fn put(db: &Db, bucket: &BucketName, kind: &str, document: &str) -> Result<bool, DbError> {
    Ok(!db.write(&PUT, &[&bucket.as_str(), &kind, &document]).await?.is_empty())
}

/// Removes a document.
pub(crate) async fn delete(db: &Db, bucket: &BucketName, kind: &str) -> Result<(), DbError> {
    db.write(&DELETE, &[&bucket.as_str(), &kind]).await.map(drop)
}
