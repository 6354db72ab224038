//! Statements on one version: which one a write made, deletion, tags, locks.

use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql, Type};
use uuid::Uuid;

use super::objects::etags;
use super::{bigint, version_of};
use crate::db::{Db, DbError, Statement};
use crate::storage::types::BucketName;
use crate::storage::version_types::{Retention, Tags, VersionId, Written};
use crate::storage::{DeleteObject, ObjectVersion};

// Where the write replaced the null version, its own id is no version's.
static WRITTEN: Statement = Statement {
    name: "written_version",
    sql: "-- written_version
SELECT coalesce(o.last_modified, clock_timestamp()) AS last_modified,
       lobgate.version_name(b.versioning, o.version_id) AS version
FROM lobgate.bucket b LEFT JOIN lobgate.object o ON o.version_id = $2
WHERE b.name = $1",
    types: &[Type::TEXT, Type::UUID],
};

static DELETE: Statement = Statement {
    name: "delete_objects",
    sql: "-- delete_objects
SELECT ordinal, outcome, version, is_delete_marker FROM lobgate.delete_objects($1 /* bucket */, $2 /* owner */,
    $3 /* keys */, $4 /* versions */, $5 /* markers */, $6 /* if_match */, $7 /* if_size */, $8 /* if_last_modified */,
    $9 /* bypass */) ORDER BY ordinal",
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::BOOL,
    ],
};

static SET_TAGS: Statement = Statement {
    name: "set_tags",
    sql: "-- set_tags
SELECT lobgate.set_tags($1 /* bucket */, $2 /* key */, $3 /* version */, $4 /* tags */) AS version",
    types: &[Type::TEXT, Type::TEXT, Type::UUID, Type::JSONB],
};

// The nil UUID is the null version.
static ACL: Statement = Statement {
    name: "object_acl",
    sql: "-- object_acl
SELECT o.owner, o.acl FROM lobgate.bucket b JOIN LATERAL (
    SELECT v.owner, v.acl FROM lobgate.object v
    WHERE $3::uuid /* version */ IS NULL AND v.bucket_id = b.id AND v.key = $2 /* key */ AND v.is_latest
      AND NOT v.is_delete_marker
    UNION ALL
    SELECT v.owner, v.acl FROM lobgate.object v
    WHERE v.version_id = $3 AND v.bucket_id = b.id AND v.key = $2 AND NOT v.is_delete_marker
    UNION ALL
    SELECT v.owner, v.acl FROM lobgate.object v
    WHERE $3 = '00000000-0000-0000-0000-000000000000' AND v.bucket_id = b.id AND v.key = $2 AND v.version_id IS NULL
      AND NOT v.is_delete_marker
    LIMIT 1) o ON true
WHERE b.name = $1 /* bucket */",
    types: &[Type::TEXT, Type::TEXT, Type::UUID],
};

static SET_ACL: Statement = Statement {
    name: "set_acl",
    sql: "-- set_acl
SELECT lobgate.set_acl($1 /* bucket */, $2 /* key */, $3 /* version */, $4 /* acl */) AS version",
    types: &[Type::TEXT, Type::TEXT, Type::UUID, Type::JSONB],
};

static SET_RETENTION: Statement = Statement {
    name: "set_retention",
    sql: "-- set_retention
SELECT lobgate.set_retention($1 /* bucket */, $2 /* key */, $3 /* version */, $4 /* mode */, $5 /* until */,
    $6 /* bypass */) AS version",
    types: &[Type::TEXT, Type::TEXT, Type::UUID, Type::TEXT, Type::TIMESTAMPTZ, Type::BOOL],
};

static SET_LEGAL_HOLD: Statement = Statement {
    name: "set_legal_hold",
    sql: "-- set_legal_hold
SELECT lobgate.set_legal_hold($1 /* bucket */, $2 /* key */, $3 /* version */, $4 /* hold */) AS version",
    types: &[Type::TEXT, Type::TEXT, Type::UUID, Type::BOOL],
};

/// What the write of this id made, known to have happened.
pub(crate) async fn written(db: &Db, bucket: &BucketName, write: Uuid) -> Result<Written, DbError> {
    Ok(super::written(&db.read(&WRITTEN, &[&bucket.as_str(), &write]).await?))
}

/// What became of a key or version that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteOutcome {
    /// It is gone, or was never there.
    Done,
    /// It had a condition and is not there.
    NoSuchKey,
    /// Its condition does not hold.
    PreconditionFailed,
    /// It is locked.
    Locked,
}

/// What a deletion did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deletion {
    /// Whether it did.
    pub outcome: DeleteOutcome,
    /// The delete marker that was made, or the version that was named.
    pub version: Option<VersionId>,
    /// Whether that is a delete marker.
    pub is_delete_marker: bool,
}

/// Deletes keys or versions in one transaction; outcomes in their order. `markers`: ids for delete markers, one each.
pub(crate) async fn delete(
    db: &Db,
    bucket: &BucketName,
    owner: &str,
    objects: &[DeleteObject],
    markers: &[Uuid],
    bypass: bool,
) -> Result<Vec<Deletion>, DbError> {
    let keys: Vec<_> = objects.iter().map(|o| o.key.as_str()).collect();
    let versions: Vec<_> = objects.iter().map(|o| o.version.map(VersionId::parameter)).collect();
    let if_match: Vec<_> = objects.iter().map(|o| etags(o.if_match.as_ref()).map(|tags| tags.join(","))).collect();
    let sizes: Vec<_> = objects.iter().map(|o| o.if_match_size.map(bigint)).collect();
    let times: Vec<_> = objects.iter().map(|o| o.if_match_last_modified).collect();
    let params: [&(dyn ToSql + Sync); 9] =
        [&bucket.as_str(), &owner, &keys, &versions, &markers, &if_match, &sizes, &times, &bypass];
    // Not repeated where the answer is lost, though what is gone is gone: an object that another client put in between, told
    // that there was none, would be deleted by a deletion that had happened before.
    let rows = db.write(&DELETE, &params).await?;
    Ok(rows.iter().map(deletion).collect())
}

fn deletion(row: &Row) -> Deletion {
    let outcome = match row.get::<_, Option<&str>>("outcome") {
        None => DeleteOutcome::Done,
        Some("LG002") => DeleteOutcome::NoSuchKey,
        Some("LG006") => DeleteOutcome::Locked,
        Some(_) => DeleteOutcome::PreconditionFailed,
    };
    Deletion { outcome, version: version_of(row, "version"), is_delete_marker: row.get("is_delete_marker") }
}

/// Replaces the tags of a version. Returns which it is.
pub(crate) async fn set_tags(db: &Db, object: &ObjectVersion, tags: &Tags) -> Result<Option<VersionId>, DbError> {
    let tags = (!tags.is_empty()).then_some(Json(tags));
    let rows = db.write(&SET_TAGS, &[&object.bucket.as_str(), &object.key.as_str(), &parameter(object), &tags]).await?;
    Ok(named(&rows))
}

/// The owner and the access control list of a version.
pub(crate) async fn acl(
    db: &Db,
    object: &ObjectVersion,
) -> Result<Option<(String, Option<serde_json::Value>)>, DbError> {
    let rows = db.read(&ACL, &[&object.bucket.as_str(), &object.key.as_str(), &parameter(object)]).await?;
    Ok(rows.first().map(|row| (row.get("owner"), row.get("acl"))))
}

/// Replaces the access control list of a version. Returns which it is.
pub(crate) async fn set_acl(
    db: &Db,
    object: &ObjectVersion,
    acl: &serde_json::Value,
) -> Result<Option<VersionId>, DbError> {
    let acl = Json(acl);
    let rows = db.write(&SET_ACL, &[&object.bucket.as_str(), &object.key.as_str(), &parameter(object), &acl]).await?;
    Ok(named(&rows))
}

/// Replaces the retention of a version. Returns which it is.
pub(crate) async fn set_retention(
    db: &Db,
    object: &ObjectVersion,
    retention: Option<Retention>,
    bypass: bool,
) -> Result<Option<VersionId>, DbError> {
    let mode: Option<&str> = retention.map(|r| r.mode.as_str());
    let until: Option<OffsetDateTime> = retention.map(|r| r.until);
    let params: [&(dyn ToSql + Sync); 6] =
        [&object.bucket.as_str(), &object.key.as_str(), &parameter(object), &mode, &until, &bypass];
    Ok(named(&db.write(&SET_RETENTION, &params).await?))
}

/// Sets or lifts the legal hold of a version. Returns which it is.
pub(crate) async fn set_legal_hold(db: &Db, object: &ObjectVersion, hold: bool) -> Result<Option<VersionId>, DbError> {
    let params: [&(dyn ToSql + Sync); 4] = [&object.bucket.as_str(), &object.key.as_str(), &parameter(object), &hold];
    Ok(named(&db.write(&SET_LEGAL_HOLD, &params).await?))
}

fn parameter(object: &ObjectVersion) -> Option<Uuid> {
    object.version.map(VersionId::parameter)
}

fn named(rows: &[Row]) -> Option<VersionId> {
    rows.first().and_then(|row| version_of(row, "version"))
}
