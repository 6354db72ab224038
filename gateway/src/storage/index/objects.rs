//! Statements on `object` that publish, and those on what objects consist of.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::contents::LargeContent;
use super::{attributes_column, bigint, checksum_columns, integer, settings_column, size_of, unsigned, written};
use crate::db::{Db, DbError, Statement, Tx};
use crate::storage::PublishObject;
use crate::storage::types::{BucketName, Checksum, EtagSet, ObjectInfo, ObjectKey, PartInfo};
use crate::storage::version_types::Written;

static PUBLISH: Statement = Statement {
    name: "publish_object",
    sql: "-- publish_object
SELECT last_modified, version FROM lobgate.publish_object($1 /* bucket */, $2 /* key */, $3 /* owner */, $4 /* write */,
    $5 /* content */, $6 /* size */, $7 /* etag */, $8 /* parts_count */, $9 /* checksum_algorithm */,
    $10 /* checksum_type */, $11 /* checksum */, $12 /* attributes */, $13 /* settings */, $14 /* if_match */,
    $15 /* if_none_match */)",
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::UUID,
        Type::UUID,
        Type::INT8,
        Type::TEXT,
        Type::INT4,
        Type::TEXT,
        Type::TEXT,
        Type::BYTEA,
        Type::JSONB,
        Type::JSONB,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

static PUBLISH_LARGE: Statement = Statement {
    name: "publish_large_object",
    sql: "-- publish_large_object
SELECT last_modified, version FROM lobgate.publish_large_object($1 /* loid */, $2 /* md5 */, $3 /* sha256 */,
    $4 /* bucket */, $5 /* key */, $6 /* owner */, $7 /* content */, $8 /* size */, $9 /* etag */,
    $10 /* checksum_algorithm */, $11 /* checksum_type */, $12 /* checksum */, $13 /* attributes */, $14 /* settings */,
    $15 /* if_match */, $16 /* if_none_match */)",
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

/// A content that exists, to be published as an object.
pub(crate) struct ExistingContent<'a> {
    /// Id of the write: the version's, if it gets one.
    pub write: Uuid,
    /// Its id.
    pub content: Uuid,
    /// Its length.
    pub size: u64,
    /// The object's ETag.
    pub etag: &'a str,
    /// Set where the content is a composite.
    pub parts_count: Option<u32>,
}

/// Publishes an existing content.
pub(crate) async fn publish(
    tx: &Tx,
    content: &ExistingContent<'_>,
    object: &PublishObject,
) -> Result<Written, DbError> {
    let (algorithm, kind, checksum) = checksum_columns(object.checksum.as_ref());
    let params: [&(dyn ToSql + Sync); 15] = [
        &object.bucket.as_str(),
        &object.key.as_str(),
        &object.owner,
        &content.write,
        &content.content,
        &bigint(content.size),
        &content.etag,
        &content.parts_count.map(integer),
        &algorithm,
        &kind,
        &checksum,
        &attributes_column(&object.attributes),
        &settings_column(&object.settings),
        &etags(object.conditions.if_match.as_ref()),
        &etags(object.conditions.if_none_match.as_ref()),
    ];
    Ok(written(&tx.run(&PUBLISH, &params).await?))
}

/// Makes a large object that this transaction wrote a content, and publishes it.
pub(crate) async fn publish_large(
    tx: &Tx,
    large: &LargeContent,
    object: &PublishObject,
    etag: &str,
) -> Result<Written, DbError> {
    let (algorithm, kind, checksum) = checksum_columns(object.checksum.as_ref());
    let params: [&(dyn ToSql + Sync); 16] = [
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
        &settings_column(&object.settings),
        &etags(object.conditions.if_match.as_ref()),
        &etags(object.conditions.if_none_match.as_ref()),
    ];
    Ok(written(&tx.run(&PUBLISH_LARGE, &params).await?))
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
