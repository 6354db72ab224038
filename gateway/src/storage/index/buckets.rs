//! Statements on `bucket`.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{integer, unsigned};
use crate::db::{Db, DbError, Statement};
use crate::storage::bucket_settings::Setting;
use crate::storage::types::{Bucket, BucketName, Page};
use crate::storage::version_types::{DefaultRetention, RetentionMode, RetentionPeriod, Versioning};

static CREATE: Statement = Statement {
    name: "create_bucket",
    sql: "-- create_bucket
WITH made AS (
    INSERT INTO lobgate.bucket (name, owner, versioning, object_lock)
    VALUES ($1, $2, CASE WHEN $3 THEN 'Enabled' END, $3) ON CONFLICT (name) DO NOTHING RETURNING id),
configured AS (
    INSERT INTO lobgate.bucket_setting (bucket_id, kind, document)
    SELECT made.id, s.kind, s.document FROM made, unnest($4 /* kinds */, $5 /* documents */) AS s (kind, document))
SELECT id FROM made",
    types: &[Type::TEXT, Type::TEXT, Type::BOOL, Type::TEXT_ARRAY, Type::TEXT_ARRAY],
};

static FIND: Statement = Statement {
    name: "find_bucket",
    sql: "-- find_bucket
SELECT name, owner, created_at, versioning, object_lock, retention_mode, retention_days, retention_years
FROM lobgate.bucket WHERE name = $1",
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
SELECT name, owner, created_at, versioning, object_lock, retention_mode, retention_days, retention_years
FROM lobgate.bucket
WHERE starts_with(name, $1 /* prefix */) AND name > $2 /* after */ AND ($4::text /* owner */ IS NULL OR owner = $4)
ORDER BY name LIMIT $3",
    types: &[Type::TEXT, Type::TEXT, Type::INT8, Type::TEXT],
};

static SET_VERSIONING: Statement = Statement {
    name: "set_versioning",
    sql: "-- set_versioning
SELECT lobgate.set_versioning($1, $2)",
    types: &[Type::TEXT, Type::TEXT],
};

static SET_OBJECT_LOCK: Statement = Statement {
    name: "set_object_lock",
    sql: "-- set_object_lock
SELECT lobgate.set_object_lock($1 /* bucket */, $2 /* mode */, $3 /* days */, $4 /* years */)",
    types: &[Type::TEXT, Type::TEXT, Type::INT4, Type::INT4],
};

/// Creates a bucket, with object lock also with versioning; false where one of that name exists.
pub(crate) async fn create(
    db: &Db,
    name: &BucketName,
    owner: &str,
    object_lock: bool,
    settings: &[(Setting, String)],
) -> Result<bool, DbError> {
    let kinds: Vec<&str> = settings.iter().map(|(kind, _)| kind.as_str()).collect();
    let documents: Vec<&str> = settings.iter().map(|(_, document)| document.as_str()).collect();
    Ok(!db.write(&CREATE, &[&name.as_str(), &owner, &object_lock, &kinds, &documents]).await?.is_empty())
}

/// Sets a bucket's versioning. SQLSTATE LG001 or LG008 otherwise.
pub(crate) async fn set_versioning(db: &Db, name: &BucketName, versioning: Versioning) -> Result<(), DbError> {
    db.write(&SET_VERSIONING, &[&name.as_str(), &versioning.as_str()]).await.map(drop)
}

/// Switches object lock on and sets the default retention. SQLSTATE LG001 or LG008 otherwise.
pub(crate) async fn set_object_lock(
    db: &Db,
    name: &BucketName,
    default: Option<DefaultRetention>,
) -> Result<(), DbError> {
    let mode = default.map(|d| d.mode.as_str());
    let (days, years) = match default.map(|d| d.period) {
        None => (None, None),
        Some(RetentionPeriod::Days(n)) => (Some(integer(n)), None),
        Some(RetentionPeriod::Years(n)) => (None, Some(integer(n))),
    };
    db.write(&SET_OBJECT_LOCK, &[&name.as_str(), &mode, &days, &years]).await.map(drop)
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
pub(crate) async fn list(
    db: &Db,
    prefix: &str,
    after: &str,
    max: u32,
    owner: Option<&str>,
) -> Result<Page<Bucket>, DbError> {
    let limit = i64::from(integer(max)) + 1;
    let mut entries: Vec<_> = db.read(&LIST, &[&prefix, &after, &limit, &owner]).await?.iter().map(bucket).collect();
    let truncated = entries.len() > max as usize;
    entries.truncate(max as usize);
    Ok(Page { entries, truncated })
}

fn bucket(row: &Row) -> Bucket {
    Bucket {
        name: BucketName::new(row.get::<_, String>("name")),
        owner: row.get("owner"),
        created_at: row.get("created_at"),
        versioning: row.get::<_, Option<&str>>("versioning").and_then(Versioning::parse),
        object_lock: row.get("object_lock"),
        default_retention: default_retention(row),
    }
}

fn default_retention(row: &Row) -> Option<DefaultRetention> {
    let mode = RetentionMode::parse(row.get::<_, Option<&str>>("retention_mode")?)?;
    let days = row.get::<_, Option<i32>>("retention_days").map(|n| RetentionPeriod::Days(unsigned(n)));
    let years = row.get::<_, Option<i32>>("retention_years").map(|n| RetentionPeriod::Years(unsigned(n)));
    Some(DefaultRetention { mode, period: days.or(years)? })
}
