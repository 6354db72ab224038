//! Statements on `bucket`.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::integer;
use crate::db::{Db, DbError, Statement};
use crate::storage::types::{Bucket, BucketName, Page};

static CREATE: Statement = Statement {
    name: "create_bucket",
    sql: "-- create_bucket
INSERT INTO lobgate.bucket (name, owner) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id",
    types: &[Type::TEXT, Type::TEXT],
};

static FIND: Statement = Statement {
    name: "find_bucket",
    sql: "-- find_bucket
SELECT name, owner, created_at FROM lobgate.bucket WHERE name = $1",
    types: &[Type::TEXT],
};

static DELETE: Statement = Statement {
    name: "delete_bucket",
    sql: "-- delete_bucket
SELECT lobgate.delete_bucket($1)",
    types: &[Type::TEXT],
};

static LIST: Statement = Statement {
    name: "list_buckets",
    sql: "-- list_buckets
SELECT name, owner, created_at FROM lobgate.bucket
WHERE starts_with(name, $1 /* prefix */) AND name > $2 /* after */
ORDER BY name LIMIT $3",
    types: &[Type::TEXT, Type::TEXT, Type::INT8],
};

/// Creates a bucket; false where one of that name exists.
pub(crate) async fn create(db: &Db, name: &BucketName, owner: &str) -> Result<bool, DbError> {
    Ok(!db.write(&CREATE, &[&name.as_str(), &owner]).await?.is_empty())
}

/// Finds a bucket.
pub(crate) async fn find(db: &Db, name: &BucketName) -> Result<Option<Bucket>, DbError> {
    Ok(db.read(&FIND, &[&name.as_str()]).await?.first().map(bucket))
}

/// Deletes an empty bucket. SQLSTATE LG001 or LG005 otherwise.
pub(crate) async fn delete(db: &Db, name: &BucketName) -> Result<(), DbError> {
    db.write(&DELETE, &[&name.as_str()]).await.map(drop)
}

/// Buckets whose names have a prefix, after a name.
pub(crate) async fn list(db: &Db, prefix: &str, after: &str, max: u32) -> Result<Page<Bucket>, DbError> {
    let limit = i64::from(integer(max)) + 1;
    let mut entries: Vec<_> = db.read(&LIST, &[&prefix, &after, &limit]).await?.iter().map(bucket).collect();
    let truncated = entries.len() > max as usize;
    entries.truncate(max as usize);
    Ok(Page { entries, truncated })
}

fn bucket(row: &Row) -> Bucket {
    Bucket {
        name: BucketName::new(row.get::<_, String>("name")),
        owner: row.get("owner"),
        created_at: row.get("created_at"),
    }
}
