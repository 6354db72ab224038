//! Statements that find an object and where its bytes lie.
//!
//! One statement finds any number of objects, each by the same three index look-ups (bucket, live version, content), and
//! brings the bytes of those that lie inline. Which parts of a composite content a range touches is asked afterwards,
//! since few objects have parts. The composite never changes, so nothing can go wrong in between while the read is
//! registered.

use std::ops::Range;

use bytes::Bytes;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql, Type};
use uuid::Uuid;

use super::{attributes_of, bigint, checksum_of, integer, size_of, unsigned, version_of};
use crate::db::{Db, DbError, Statement};
use crate::storage::types::{BucketName, ObjectInfo, ObjectKey};
use crate::storage::version_types::{DeleteMarker, Retention, RetentionMode, Tags, VersionId};

// Longer inline bytes are read as windows, as those of large objects are: within the memory for downloads, and cached.
// LIMIT keeps the planner from joining the tables as a whole, whatever it believes of their sizes when the plan is made:
// a plan outlives the first objects of a bucket.
static LOCATE: Statement = Statement {
    name: "locate_objects",
    sql: "-- locate_objects
SELECT w.ordinal, f.*
FROM unnest($1 /* buckets */, $2 /* keys */, $3 /* with_content */)
     WITH ORDINALITY AS w (bucket, key, with_content, ordinal)
CROSS JOIN LATERAL (
    SELECT o.id, o.size, o.etag, o.last_modified, o.attributes, o.checksum_algorithm, o.checksum_type, o.checksum,
           o.parts_count, o.content_id, CASE WHEN w.with_content AND o.size <= 65536 THEN c.inline END AS inline,
           o.is_delete_marker, lobgate.version_name(b.versioning, o.version_id) AS version, o.owner, o.tags,
           o.retention_mode, o.retain_until, o.legal_hold
    FROM lobgate.bucket b
    LEFT JOIN lobgate.object o ON o.bucket_id = b.id AND o.key = w.key AND o.is_latest
    LEFT JOIN lobgate.content c ON c.id = o.content_id
    WHERE b.name = w.bucket
    LIMIT 1
) f",
    types: &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::BOOL_ARRAY],
};

// The nil UUID is the null version. One branch for each index that may have it.
static LOCATE_VERSION: Statement = Statement {
    name: "locate_version",
    sql: "-- locate_version
SELECT o.id, o.size, o.etag, o.last_modified, o.attributes, o.checksum_algorithm, o.checksum_type, o.checksum,
       o.parts_count, o.content_id, CASE WHEN $4 /* with_content */ AND o.size <= 65536 THEN c.inline END AS inline,
       o.is_delete_marker, lobgate.version_name(b.versioning, o.version_id) AS version, o.owner, o.tags,
       o.retention_mode, o.retain_until, o.legal_hold
FROM lobgate.bucket b
LEFT JOIN LATERAL (
    SELECT v.* FROM lobgate.object v WHERE v.version_id = $3 /* version */ AND v.bucket_id = b.id AND v.key = $2 /* key */
    UNION ALL
    SELECT v.* FROM lobgate.object v
    WHERE $3 = '00000000-0000-0000-0000-000000000000' AND v.bucket_id = b.id AND v.key = $2 AND v.version_id IS NULL
      AND v.is_latest
    UNION ALL
    SELECT v.* FROM lobgate.object v
    WHERE $3 = '00000000-0000-0000-0000-000000000000' AND v.bucket_id = b.id AND v.key = $2 AND v.version_id IS NULL
      AND NOT v.is_latest
    LIMIT 1) o ON true
LEFT JOIN lobgate.content c ON c.id = o.content_id
WHERE b.name = $1 /* bucket */",
    types: &[Type::TEXT, Type::TEXT, Type::UUID, Type::BOOL],
};

// The first part that a range touches is the last one that starts at or before it.
static PARTS_IN_RANGE: Statement = Statement {
    name: "parts_in_range",
    sql: "-- parts_in_range
SELECT part_number, start, size, content_id, checksum FROM lobgate.content_part
WHERE composite_id = $1 AND size > 0 AND start < $3 /* end */
  AND start >= (SELECT max(start) FROM lobgate.content_part WHERE composite_id = $1 AND start <= $2 /* first */)
ORDER BY start, part_number",
    types: &[Type::UUID, Type::INT8, Type::INT8],
};

static PART: Statement = Statement {
    name: "find_content_part",
    sql: "-- find_content_part
SELECT part_number, start, size, content_id, checksum FROM lobgate.content_part
WHERE composite_id = $1 AND part_number = $2",
    types: &[Type::UUID, Type::INT4],
};

/// An object that somebody looks for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// In which bucket.
    pub bucket: BucketName,
    /// Under which key.
    pub key: ObjectKey,
    /// Whether bytes that lie inline are wanted too.
    pub with_content: bool,
}

/// An object's row as located.
#[derive(Debug)]
pub(crate) struct LocatedRow {
    /// What the index knows.
    pub info: ObjectInfo,
    /// Its content.
    pub content: Uuid,
    /// The bytes, where they lie in the row and were asked for.
    pub inline: Option<Bytes>,
}

/// A part of a composite content.
#[derive(Clone, Debug)]
pub(crate) struct LocatedPart {
    /// 1 to 10,000.
    pub number: u32,
    /// Where it starts in the object.
    pub start: u64,
    /// Its length.
    pub size: u64,
    /// Its content.
    pub content: Uuid,
    /// Its checksum, of the object's algorithm.
    pub checksum: Option<Vec<u8>>,
}

/// What a locate query found.
#[derive(Debug)]
pub(crate) enum Found {
    /// No such bucket.
    NoBucket,
    /// The bucket has no such object, or not that version of it.
    NoKey,
    /// A delete marker.
    Marker(DeleteMarker),
    /// The object.
    Object(Box<LocatedRow>),
}

/// Finds objects; the answers are in the order of the questions.
pub(crate) async fn locate(db: &Db, wanted: &[Wanted]) -> Result<Vec<Found>, DbError> {
    let buckets: Vec<_> = wanted.iter().map(|w| w.bucket.as_str()).collect();
    let keys: Vec<_> = wanted.iter().map(|w| w.key.as_str()).collect();
    let with_content: Vec<_> = wanted.iter().map(|w| w.with_content).collect();
    let rows = db.read(&LOCATE, &[&buckets, &keys, &with_content]).await?;
    let mut found: Vec<_> = wanted.iter().map(|_| Found::NoBucket).collect();
    for row in &rows {
        let place = usize::try_from(row.get::<_, i64>("ordinal") - 1).ok().and_then(|i| found.get_mut(i));
        if let Some(place) = place {
            *place = located(row, false);
        }
    }
    Ok(found)
}

/// Finds a version.
pub(crate) async fn locate_version(db: &Db, wanted: &Wanted, version: VersionId) -> Result<Found, DbError> {
    let params: [&(dyn ToSql + Sync); 4] =
        [&wanted.bucket.as_str(), &wanted.key.as_str(), &version.parameter(), &wanted.with_content];
    let rows = db.read(&LOCATE_VERSION, &params).await?;
    Ok(rows.first().map_or(Found::NoBucket, |row| located(row, true)))
}

/// The parts of a composite content that have bytes in a range, in order.
pub(crate) async fn parts_in_range(db: &Db, composite: Uuid, range: &Range<u64>) -> Result<Vec<LocatedPart>, DbError> {
    let rows = db.read(&PARTS_IN_RANGE, &[&composite, &bigint(range.start), &bigint(range.end)]).await?;
    Ok(rows.iter().map(located_part).collect())
}

/// A part of a composite content by its number.
pub(crate) async fn part(db: &Db, composite: Uuid, number: u32) -> Result<Option<LocatedPart>, DbError> {
    Ok(db.read(&PART, &[&composite, &integer(number)]).await?.first().map(located_part))
}

fn located(row: &Row, named: bool) -> Found {
    if row.get::<_, Option<i64>>("id").is_none() {
        return Found::NoKey;
    }
    let version = version_of(row, "version");
    if row.get("is_delete_marker") {
        let version = version.unwrap_or(VersionId::Null);
        return Found::Marker(DeleteMarker { version, last_modified: row.get("last_modified"), named });
    }
    let info = ObjectInfo {
        size: size_of(row, "size"),
        etag: row.get("etag"),
        last_modified: row.get("last_modified"),
        attributes: attributes_of(row, "attributes"),
        checksum: checksum_of(row),
        parts_count: row.get::<_, Option<i32>>("parts_count").map(unsigned),
        version,
        owner: row.get("owner"),
        tags: row.get::<_, Option<Json<Tags>>>("tags").map(|json| json.0).unwrap_or_default(),
        retention: retention_of(row),
        legal_hold: row.get("legal_hold"),
    };
    let inline = row.get::<_, Option<&[u8]>>("inline").map(Bytes::copy_from_slice);
    Found::Object(Box::new(LocatedRow { info, content: row.get("content_id"), inline }))
}

const END_OF_TIME: OffsetDateTime = time::macros::datetime!(9998-12-31 23:59:59 UTC);

fn retention_of(row: &Row) -> Option<Retention> {
    let mode = RetentionMode::parse(row.get::<_, Option<&str>>("retention_mode")?)?;
    // One that cannot be held here is further off than any that can.
    let until = row.try_get::<_, Option<OffsetDateTime>>("retain_until").unwrap_or(Some(END_OF_TIME))?;
    Some(Retention { mode, until })
}

fn located_part(row: &Row) -> LocatedPart {
    LocatedPart {
        number: unsigned(row.get("part_number")),
        start: size_of(row, "start"),
        size: size_of(row, "size"),
        content: row.get("content_id"),
        checksum: row.get("checksum"),
    }
}
