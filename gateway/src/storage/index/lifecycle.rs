//! Statements of lifecycle rules at work: claims on buckets, the versions that rules are asked about, and their end.

use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql, Type};
use uuid::Uuid;

use super::{integer, size_of};
use crate::db::{Db, DbError, Lane, Statement};
use crate::storage::expiry::{CurrentVersion, Expired, LifecycleRun, PastVersion};
use crate::storage::types::BucketName;
use crate::storage::version_types::Tags;

static CLAIM: Statement = Statement {
    name: "claim_lifecycle",
    sql: "-- claim_lifecycle
SELECT bucket_id, name, owner, document, started_at
FROM lobgate.claim_lifecycle($1 /* run */, make_interval(secs => $2 /* claim */))",
    types: &[Type::UUID, Type::FLOAT8],
};

static RENEW: Statement = Statement {
    name: "renew_lifecycle",
    sql:
        "-- renew_lifecycle
SELECT lobgate.renew_lifecycle($1 /* bucket */, $2 /* run */, make_interval(secs => $3 /* claim */), $4 /* finished */)",
    types: &[Type::INT4, Type::UUID, Type::FLOAT8, Type::BOOL],
};

static CURRENT: Statement = Statement {
    name: "current_versions",
    sql: "-- current_versions
SELECT o.id, o.key, o.is_delete_marker, o.etag, o.size, o.tags, o.last_modified,
       o.is_delete_marker AND NOT EXISTS (
           SELECT FROM lobgate.object p WHERE p.bucket_id = $1 AND p.key = o.key AND NOT p.is_latest) AS is_alone
FROM lobgate.object o
WHERE o.bucket_id = $1 AND o.is_latest AND o.key >= $2 /* from */ AND o.key < $3 /* end */
ORDER BY o.key LIMIT $4",
    types: &[Type::INT4, Type::TEXT, Type::TEXT, Type::INT4],
};

// First what is left of the key at which the page before ended: two scans of object_past, each as short as the page.
static PAST: Statement = Statement {
    name: "past_versions",
    sql: "-- past_versions
SELECT v.id, v.key, v.is_delete_marker, v.size, v.tags, v.last_modified,
       (SELECT l.last_modified FROM lobgate.object l
        WHERE l.bucket_id = $1 AND l.key = v.key AND l.is_latest) AS latest_since
FROM (
    (SELECT o.* FROM lobgate.object o
     WHERE o.bucket_id = $1 AND NOT o.is_latest AND o.key = $2 /* from */ AND o.id < $3 /* before */
     ORDER BY o.id DESC LIMIT $5)
    UNION ALL
    (SELECT o.* FROM lobgate.object o
     WHERE o.bucket_id = $1 AND NOT o.is_latest AND o.key > $2 AND o.key < $4 /* end */
     ORDER BY o.key, o.id DESC LIMIT $5)) v
ORDER BY v.key, v.id DESC LIMIT $5",
    types: &[Type::INT4, Type::TEXT, Type::INT8, Type::TEXT, Type::INT4],
};

static EXPIRE_CURRENT: Statement = Statement {
    name: "expire_latest",
    sql: "-- expire_latest
SELECT lobgate.expire_latest($1 /* bucket */, $2 /* owner */, $3 /* keys */, $4 /* ids */, $5 /* times */, $6 /* tags */,
    $7 /* markers */)",
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::JSONB_ARRAY,
        Type::UUID_ARRAY,
    ],
};

static EXPIRE: Statement = Statement {
    name: "expire_versions",
    sql: "-- expire_versions
SELECT lobgate.expire_versions($1 /* bucket */, $2 /* keys */, $3 /* ids */, $4 /* tags */, $5 /* keep */)",
    types: &[Type::TEXT, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::JSONB_ARRAY, Type::INT4_ARRAY],
};

/// Claims a bucket whose rules are due, for so many seconds.
pub(crate) async fn claim(db: &Db, run: Uuid, seconds: f64) -> Result<Option<LifecycleRun>, DbError> {
    let rows = db.write_in(Lane::Background, &CLAIM, &[&run, &seconds]).await?;
    Ok(rows.first().map(|row| LifecycleRun {
        run,
        bucket_id: row.get(0),
        bucket: BucketName::new(row.get::<_, String>(1)),
        owner: row.get(2),
        document: row.get(3),
        started_at: row.get(4),
    }))
}

/// Renews a claim or ends its run; false where it was lost.
pub(crate) async fn renew(db: &Db, run: &LifecycleRun, seconds: f64, finished: bool) -> Result<bool, DbError> {
    let params: [&(dyn ToSql + Sync); 4] = [&run.bucket_id, &run.run, &seconds, &finished];
    Ok(db.write_in(Lane::Background, &RENEW, &params).await?.first().is_some_and(|row| row.get(0)))
}

/// The latest versions of keys in a range, at most `limit`.
pub(crate) async fn current(
    db: &Db,
    bucket: i32,
    (from, end): (&str, &str),
    limit: u32,
) -> Result<Vec<CurrentVersion>, DbError> {
    db.read_mapped(&CURRENT, &[&bucket, &from, &end, &integer(limit)], |row| CurrentVersion {
        place: row.get("id"),
        is_delete_marker: row.get("is_delete_marker"),
        is_alone: row.get("is_alone"),
        etag: row.get("etag"),
        size: size_of(&row, "size"),
        tags: tags_of(&row),
        last_modified: row.get("last_modified"),
        key: row.get("key"),
    })
    .await
}

/// Versions that are not the latest, newest first, of the key `from` those before a place, then of the keys up to `end`.
pub(crate) async fn past(
    db: &Db,
    bucket: i32,
    (from, before): (&str, i64),
    end: &str,
    limit: u32,
) -> Result<Vec<PastVersion>, DbError> {
    db.read_mapped(&PAST, &[&bucket, &from, &before, &end, &integer(limit)], |row| PastVersion {
        place: row.get("id"),
        is_delete_marker: row.get("is_delete_marker"),
        size: size_of(&row, "size"),
        tags: tags_of(&row),
        last_modified: row.get("last_modified"),
        latest_since: row.get::<_, Option<OffsetDateTime>>("latest_since"),
        key: row.get("key"),
    })
    .await
}

/// Deletes latest versions, where they still are what was judged; how many went.
pub(crate) async fn expire_current(
    db: &Db,
    run: &LifecycleRun,
    versions: &[CurrentVersion],
    markers: &[Uuid],
) -> Result<u64, DbError> {
    let keys: Vec<&str> = versions.iter().map(|v| v.key.as_str()).collect();
    let ids: Vec<i64> = versions.iter().map(|v| v.place).collect();
    let times: Vec<OffsetDateTime> = versions.iter().map(|v| v.last_modified).collect();
    let tags: Vec<_> = versions.iter().map(|v| stored_tags(&v.tags)).collect();
    let params: [&(dyn ToSql + Sync); 7] = [&run.bucket.as_str(), &run.owner, &keys, &ids, &times, &tags, &markers];
    Ok(gone(&db.write_in(Lane::Background, &EXPIRE_CURRENT, &params).await?))
}

/// Deletes versions for good, where they still are what was judged; how many went.
pub(crate) async fn expire(db: &Db, bucket: &BucketName, versions: &[Expired<'_>]) -> Result<u64, DbError> {
    let keys: Vec<&str> = versions.iter().map(|v| v.key).collect();
    let ids: Vec<i64> = versions.iter().map(|v| v.place).collect();
    let tags: Vec<_> = versions.iter().map(|v| stored_tags(v.tags)).collect();
    let keep: Vec<i32> = versions.iter().map(|v| integer(v.keep)).collect();
    let params: [&(dyn ToSql + Sync); 5] = [&bucket.as_str(), &keys, &ids, &tags, &keep];
    Ok(gone(&db.write_in(Lane::Background, &EXPIRE, &params).await?))
}

fn gone(rows: &[Row]) -> u64 {
    rows.first().map_or(0, |row| u64::try_from(row.get::<_, i32>(0)).unwrap_or(0))
}

/// As they are stored: no tags are none.
fn stored_tags(tags: &Tags) -> Option<Json<&Tags>> {
    (!tags.is_empty()).then_some(Json(tags))
}

fn tags_of(row: &Row) -> Tags {
    row.get::<_, Option<Json<Tags>>>("tags").map(|tags| tags.0).unwrap_or_default()
}
