//! Statements on `object`: publish, locate, delete.

use bytes::Bytes;
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::{
    attributes_column, attributes_of, bigint, checksum_columns, checksum_of, integer, last_modified, size_of, unsigned,
};
use crate::db::{Db, DbError, Segments, Statement, Tx};
use crate::storage::content::digest::Digests;
use crate::storage::types::{BucketName, Checksum, EtagSet, ObjectInfo, ObjectKey, PartInfo, RangeRequest};
use crate::storage::{DeleteObject, PublishObject};

static PUT: Statement = Statement {
    name: "put_object",
    sql: "-- put_object
SELECT lobgate.put_object($1 /* bucket */, $2 /* key */, $3 /* owner */, $4 /* content */, $5 /* bytes */,
    $6 /* large */, $7 /* md5 */, $8 /* sha256 */, $9 /* etag */, $10 /* checksum_algorithm */, $11 /* checksum_type */,
    $12 /* checksum */, $13 /* attributes */, $14 /* if_match */, $15 /* if_none_match */) AS last_modified",
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::UUID,
        Type::BYTEA,
        Type::BOOL,
        Type::BYTEA,
        Type::BYTEA,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::BYTEA,
        Type::JSONB,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

static PUBLISH: Statement = Statement {
    name: "publish_object",
    sql: "-- publish_object
SELECT lobgate.publish_object($1 /* bucket */, $2 /* key */, $3 /* owner */, $4 /* content */, $5 /* size */,
    $6 /* etag */, $7 /* parts_count */, $8 /* checksum_algorithm */, $9 /* checksum_type */, $10 /* checksum */,
    $11 /* attributes */, $12 /* if_match */, $13 /* if_none_match */) AS last_modified",
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::UUID,
        Type::INT8,
        Type::TEXT,
        Type::INT4,
        Type::TEXT,
        Type::TEXT,
        Type::BYTEA,
        Type::JSONB,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

static SAME_CONTENT: Statement = Statement {
    name: "same_content",
    sql: "-- same_content
SELECT c.id FROM lobgate.bucket b
JOIN lobgate.object o ON o.bucket_id = b.id AND o.key = $2 AND o.is_latest AND NOT o.is_delete_marker
JOIN lobgate.content c ON c.id = o.content_id
WHERE b.name = $1 AND c.size = $3 AND c.sha256 = $4",
    types: &[Type::TEXT, Type::TEXT, Type::INT8, Type::BYTEA],
};

// One round trip for everything a GET needs: metadata, inline bytes, and the parts that the range touches. The range
// is applied here, not by the caller, because the size is known here.
static LOCATE: Statement = Statement {
    name: "locate_object",
    sql: "-- locate_object
SELECT o.id, o.size, o.etag, o.last_modified, o.attributes, o.checksum_algorithm, o.checksum_type, o.checksum,
       o.parts_count, o.content_id, CASE WHEN $3 THEN c.inline END AS inline, p.*
FROM lobgate.bucket b
LEFT JOIN lobgate.object o ON o.bucket_id = b.id AND o.key = $2 AND o.is_latest AND NOT o.is_delete_marker
LEFT JOIN lobgate.content c ON c.id = o.content_id
LEFT JOIN LATERAL (
    SELECT array_agg(s.part_number ORDER BY s.part_number) AS part_numbers,
           array_agg(s.start ORDER BY s.part_number) AS part_starts,
           array_agg(s.size ORDER BY s.part_number) AS part_sizes,
           array_agg(s.content_id ORDER BY s.part_number) AS part_contents,
           array_agg(s.checksum ORDER BY s.part_number) AS part_checksums
    FROM lobgate.content_part s
    WHERE s.composite_id = o.content_id AND o.parts_count IS NOT NULL
      AND CASE WHEN $4 /* part */ IS NOT NULL THEN s.part_number = $4
               ELSE $3 AND s.size > 0
                    AND s.start < coalesce($6 /* last */, o.size)::numeric + 1
                    AND s.start + s.size > coalesce($5 /* first */, o.size - $7 /* suffix */, 0) END
) p ON true
WHERE b.name = $1",
    types: &[Type::TEXT, Type::TEXT, Type::BOOL, Type::INT4, Type::INT8, Type::INT8, Type::INT8],
};

static PARTS: Statement = Statement {
    name: "list_object_parts",
    sql: "-- list_object_parts
SELECT s.part_number, s.start, s.size, s.checksum, c.md5
FROM lobgate.content_part s JOIN lobgate.content c ON c.id = s.content_id
WHERE s.composite_id = $1 AND s.part_number > $2 ORDER BY s.part_number LIMIT $3",
    types: &[Type::UUID, Type::INT4, Type::INT8],
};

static CONTENT_MD5: Statement = Statement {
    name: "content_md5",
    sql: "-- content_md5
SELECT md5 FROM lobgate.content WHERE id = $1 AND md5 IS NOT NULL",
    types: &[Type::UUID],
};

static DELETE: Statement = Statement {
    name: "delete_objects",
    sql: "-- delete_objects
SELECT ordinal, outcome FROM lobgate.delete_objects($1 /* bucket */, $2 /* keys */, $3 /* if_match */,
    $4 /* if_size */, $5 /* if_last_modified */) ORDER BY ordinal",
    types: &[Type::TEXT, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TIMESTAMPTZ_ARRAY],
};

/// A byte string to store, and where.
pub(crate) struct Bytestring<'a> {
    /// Id of the content to be.
    pub content: Uuid,
    /// The bytes, in pieces.
    pub pieces: &'a [Bytes],
    /// Whether as a large object, else inline.
    pub large: bool,
    /// Their digests.
    pub digests: &'a Digests,
}

/// An object's row as located.
pub(crate) struct LocatedRow {
    /// What the index knows.
    pub info: ObjectInfo,
    /// Its content.
    pub content: Uuid,
    /// The bytes, where they lie in the row and were asked for.
    pub inline: Option<Bytes>,
    /// For a composite content, the parts that the request touches.
    pub parts: Vec<LocatedPart>,
}

/// A part of a composite content.
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
pub(crate) enum Found {
    /// No such bucket.
    NoBucket,
    /// The bucket has no such object.
    NoKey,
    /// The object.
    Object(Box<LocatedRow>),
}

/// Stores a short byte string and publishes it, in one statement and transaction. Returns last_modified.
pub(crate) async fn put(
    db: &Db,
    bytes: &Bytestring<'_>,
    object: &PublishObject,
    etag: &str,
) -> Result<OffsetDateTime, DbError> {
    let (algorithm, kind, checksum) = checksum_columns(object.checksum.as_ref());
    let sha256 = bytes.digests.sha256.as_ref().map(<[u8; 32]>::as_slice);
    let params: [&(dyn ToSql + Sync); 15] = [
        &object.bucket.as_str(),
        &object.key.as_str(),
        &object.owner,
        &bytes.content,
        &Segments(bytes.pieces),
        &bytes.large,
        &bytes.digests.md5.as_slice(),
        &sha256,
        &etag,
        &algorithm,
        &kind,
        &checksum,
        &attributes_column(&object.attributes),
        &etags(object.conditions.if_match.as_ref()),
        &etags(object.conditions.if_none_match.as_ref()),
    ];
    Ok(last_modified(&db.write(&PUT, &params).await?))
}

/// A content that exists, to be published as an object.
pub(crate) struct ExistingContent<'a> {
    /// Its id.
    pub content: Uuid,
    /// Its length.
    pub size: u64,
    /// The object's ETag.
    pub etag: &'a str,
    /// Set where the content is a composite.
    pub parts_count: Option<u32>,
}

/// Publishes an existing content. Returns last_modified.
pub(crate) async fn publish(
    tx: &Tx,
    content: &ExistingContent<'_>,
    object: &PublishObject,
) -> Result<OffsetDateTime, DbError> {
    let (algorithm, kind, checksum) = checksum_columns(object.checksum.as_ref());
    let params: [&(dyn ToSql + Sync); 13] = [
        &object.bucket.as_str(),
        &object.key.as_str(),
        &object.owner,
        &content.content,
        &bigint(content.size),
        &content.etag,
        &content.parts_count.map(integer),
        &algorithm,
        &kind,
        &checksum,
        &attributes_column(&object.attributes),
        &etags(object.conditions.if_match.as_ref()),
        &etags(object.conditions.if_none_match.as_ref()),
    ];
    Ok(last_modified(&tx.run(&PUBLISH, &params).await?))
}

/// The content of the live version of a key, if it has these bytes.
pub(crate) async fn same_content(
    db: &Db,
    bucket: &BucketName,
    key: &ObjectKey,
    size: u64,
    sha256: &[u8; 32],
) -> Result<Option<Uuid>, DbError> {
    let rows = db.read(&SAME_CONTENT, &[&bucket.as_str(), &key.as_str(), &bigint(size), &sha256.as_slice()]).await?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Finds an object, with the bytes or parts that a request needs when `with_content` is set.
pub(crate) async fn locate(
    db: &Db,
    bucket: &BucketName,
    key: &ObjectKey,
    range: RangeRequest,
    with_content: bool,
) -> Result<Found, DbError> {
    let (part, first, last, suffix) = match range {
        RangeRequest::Whole => (None, None, None, None),
        RangeRequest::Between { first, last } => (None, Some(bigint(first)), Some(bigint(last)), None),
        RangeRequest::From { first } => (None, Some(bigint(first)), None, None),
        RangeRequest::Suffix { length } => (None, None, None, Some(bigint(length))),
        RangeRequest::Part(number) => (Some(integer(number)), None, None, None),
    };
    let params: [&(dyn ToSql + Sync); 7] =
        [&bucket.as_str(), &key.as_str(), &with_content, &part, &first, &last, &suffix];
    let rows = db.read(&LOCATE, &params).await?;
    let Some(row) = rows.first() else { return Ok(Found::NoBucket) };
    if row.get::<_, Option<i64>>("id").is_none() {
        return Ok(Found::NoKey);
    }
    Ok(Found::Object(Box::new(located(row))))
}

/// Parts of a composite content, after a number.
pub(crate) async fn parts(
    db: &Db,
    content: Uuid,
    info: &ObjectInfo,
    after: u32,
    limit: u32,
) -> Result<Vec<PartInfo>, DbError> {
    let rows = db.read(&PARTS, &[&content, &integer(after), &i64::from(limit)]).await?;
    let part = |row: &Row| PartInfo {
        number: unsigned(row.get("part_number")),
        size: size_of(row, "size"),
        start: size_of(row, "start"),
        etag: row.get::<_, Option<Vec<u8>>>("md5").map(hex::encode).unwrap_or_default(),
        checksum: part_checksum(info.checksum.as_ref(), row.get("checksum")),
        last_modified: info.last_modified,
    };
    Ok(rows.iter().map(part).collect())
}

/// The MD5 of a content that is not a composite.
pub(crate) async fn content_md5(db: &Db, content: Uuid) -> Result<Option<Vec<u8>>, DbError> {
    Ok(db.read(&CONTENT_MD5, &[&content]).await?.first().map(|row| row.get(0)))
}

/// What became of a key that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeleteOutcome {
    /// It is gone, or was never there.
    Done,
    /// It had a condition and is not there.
    NoSuchKey,
    /// Its condition does not hold.
    PreconditionFailed,
}

/// Deletes keys in one transaction; outcomes in their order.
pub(crate) async fn delete(
    db: &Db,
    bucket: &BucketName,
    objects: &[DeleteObject],
) -> Result<Vec<DeleteOutcome>, DbError> {
    let keys: Vec<_> = objects.iter().map(|o| o.key.as_str()).collect();
    let if_match: Vec<_> = objects.iter().map(|o| etags(o.if_match.as_ref()).map(|tags| tags.join(","))).collect();
    let sizes: Vec<_> = objects.iter().map(|o| o.if_match_size.map(bigint)).collect();
    let times: Vec<_> = objects.iter().map(|o| o.if_match_last_modified).collect();
    let params: [&(dyn ToSql + Sync); 5] = [&bucket.as_str(), &keys, &if_match, &sizes, &times];
    let conditional = objects.iter().any(DeleteObject::is_conditional);
    // Without conditions a delete may be repeated: what is gone is gone.
    let rows = if conditional { db.write(&DELETE, &params).await? } else { db.read(&DELETE, &params).await? };
    let outcome = |row: &Row| match row.get::<_, Option<&str>>("outcome") {
        None => DeleteOutcome::Done,
        Some("LG002") => DeleteOutcome::NoSuchKey,
        Some(_) => DeleteOutcome::PreconditionFailed,
    };
    Ok(rows.iter().map(outcome).collect())
}

/// The checksum of a part of an object, which has the object's algorithm and covers the whole part.
pub(crate) fn part_checksum(of_object: Option<&Checksum>, value: Option<Vec<u8>>) -> Option<Checksum> {
    Some(Checksum::full_object(of_object?.algorithm, value?))
}

fn located(row: &Row) -> LocatedRow {
    let info = ObjectInfo {
        size: size_of(row, "size"),
        etag: row.get("etag"),
        last_modified: row.get("last_modified"),
        attributes: attributes_of(row, "attributes"),
        checksum: checksum_of(row),
        parts_count: row.get::<_, Option<i32>>("parts_count").map(unsigned),
    };
    let inline = row.get::<_, Option<&[u8]>>("inline").map(Bytes::copy_from_slice);
    LocatedRow { info, content: row.get("content_id"), inline, parts: located_parts(row) }
}

fn located_parts(row: &Row) -> Vec<LocatedPart> {
    let Some(numbers) = row.get::<_, Option<Vec<i32>>>("part_numbers") else { return Vec::new() };
    let starts: Vec<i64> = row.get("part_starts");
    let sizes: Vec<i64> = row.get("part_sizes");
    let contents: Vec<Uuid> = row.get("part_contents");
    let checksums: Vec<Option<Vec<u8>>> = row.get("part_checksums");
    let unsigned64 = |n: i64| u64::try_from(n).unwrap_or(0);
    numbers
        .into_iter()
        .zip(starts)
        .zip(sizes)
        .zip(contents)
        .zip(checksums)
        .map(|((((number, start), size), content), checksum)| LocatedPart {
            number: unsigned(number),
            start: unsigned64(start),
            size: unsigned64(size),
            content,
            checksum,
        })
        .collect()
}

fn etags(set: Option<&EtagSet>) -> Option<Vec<&str>> {
    set.map(|set| match set {
        EtagSet::Any => vec!["*"],
        EtagSet::OneOf(tags) => tags.iter().map(String::as_str).collect(),
    })
}
