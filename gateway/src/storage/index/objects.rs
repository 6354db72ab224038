//! Statements on `object`: publish and delete.

use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::contents::LargeContent;
use super::{attributes_column, bigint, checksum_columns, integer, last_modified, size_of, unsigned};
use crate::db::{Db, DbError, Statement, Tx};
use crate::storage::types::{BucketName, Checksum, EtagSet, ObjectInfo, ObjectKey, PartInfo};
use crate::storage::{DeleteObject, PublishObject};

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

static PUBLISH_LARGE: Statement = Statement {
    name: "publish_large_object",
    sql: "-- publish_large_object
SELECT lobgate.publish_large_object($1 /* loid */, $2 /* md5 */, $3 /* sha256 */, $4 /* bucket */, $5 /* key */,
    $6 /* owner */, $7 /* content */, $8 /* size */, $9 /* etag */, $10 /* checksum_algorithm */,
    $11 /* checksum_type */, $12 /* checksum */, $13 /* attributes */, $14 /* if_match */, $15 /* if_none_match */)
    AS last_modified",
    types: &[
        Type::OID,
        Type::BYTEA,
        Type::BYTEA,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::UUID,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::BYTEA,
        Type::JSONB,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

// A content whose SHA-256 nobody needed so far is hashed by the server.
static SAME_CONTENT: Statement = Statement {
    name: "same_content",
    sql: "-- same_content
SELECT c.id FROM lobgate.bucket b
JOIN lobgate.object o ON o.bucket_id = b.id AND o.key = $2 AND o.is_latest AND NOT o.is_delete_marker
JOIN lobgate.content c ON c.id = o.content_id
WHERE b.name = $1 AND c.size = $3
  AND CASE WHEN c.sha256 IS NOT NULL THEN c.sha256 = $4
           ELSE sha256(CASE WHEN c.loid IS NULL THEN c.inline ELSE lo_get(c.loid) END) = $4 END",
    types: &[Type::TEXT, Type::TEXT, Type::INT8, Type::BYTEA],
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

/// Makes a large object that this transaction wrote a content, and publishes it. Returns last_modified.
pub(crate) async fn publish_large(
    tx: &Tx,
    large: &LargeContent,
    object: &PublishObject,
    etag: &str,
) -> Result<OffsetDateTime, DbError> {
    let (algorithm, kind, checksum) = checksum_columns(object.checksum.as_ref());
    let params: [&(dyn ToSql + Sync); 15] = [
        &large.loid,
        &large.digests.md5.as_slice(),
        &large.digests.sha256.as_ref().map(<[u8; 32]>::as_slice),
        &object.bucket.as_str(),
        &object.key.as_str(),
        &object.owner,
        &large.content,
        &bigint(large.size),
        &etag,
        &algorithm,
        &kind,
        &checksum,
        &attributes_column(&object.attributes),
        &etags(object.conditions.if_match.as_ref()),
        &etags(object.conditions.if_none_match.as_ref()),
    ];
    Ok(last_modified(&tx.run(&PUBLISH_LARGE, &params).await?))
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
    // Not repeated where the answer is lost, though what is gone is gone: an object that another client put in between, told
    // that there was none, would be deleted by a deletion that had happened before.
    let rows = db.write(&DELETE, &params).await?;
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

pub(super) fn etags(set: Option<&EtagSet>) -> Option<Vec<&str>> {
    set.map(|set| match set {
        EtagSet::Any => vec!["*"],
        EtagSet::OneOf(tags) => tags.iter().map(String::as_str).collect(),
    })
}
