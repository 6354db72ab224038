//! Statements on `upload` and `upload_part`.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql, Type};
use uuid::Uuid;

use super::contents::LargeContent;
use super::puts::Bytestring;
use super::{
    attributes_column, attributes_of, bigint, checksum_kind_of, integer, last_modified, settings_column, size_of,
    unsigned,
};
use crate::db::{Db, DbError, Segments, Statement, Tx};
use crate::storage::types::{BucketName, Checksum, ChecksumAlgorithm, ChecksumType, ObjectKey, PartInfo, UploadId};
use crate::storage::version_types::VersionSettings;
use crate::storage::{CreateUpload, PublishPart, Upload};

static CREATE: Statement = Statement {
    name: "create_upload",
    sql: "-- create_upload
INSERT INTO lobgate.upload (id, bucket_id, key, initiator, checksum_algorithm, checksum_type, attributes, settings)
VALUES ($1, lobgate.hold_bucket($2), $3, $4, $5, $6, $7, $8)",
    types: &[Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::JSONB, Type::JSONB],
};

static FIND: Statement = Statement {
    name: "find_upload",
    sql: "-- find_upload
SELECT u.id, u.key, u.initiator, u.initiated_at, u.checksum_algorithm, u.checksum_type, u.attributes, u.settings
FROM lobgate.bucket b
LEFT JOIN lobgate.upload u ON u.bucket_id = b.id AND u.id = $3 AND u.key = $2 AND (u.completed_at IS NULL OR $4)
WHERE b.name = $1",
    types: &[Type::TEXT, Type::TEXT, Type::UUID, Type::BOOL],
};

static LOCK: Statement = Statement {
    name: "lock_upload",
    sql: "-- lock_upload
SELECT u.id, u.key, u.initiator, u.initiated_at, u.checksum_algorithm, u.checksum_type, u.attributes, u.settings,
       u.completed
FROM lobgate.upload u JOIN lobgate.bucket b ON b.id = u.bucket_id
WHERE b.name = $1 AND u.key = $2 AND u.id = $3
FOR UPDATE OF u",
    types: &[Type::TEXT, Type::TEXT, Type::UUID],
};

static HOLD_BUCKET: Statement = Statement {
    name: "hold_bucket",
    sql: "-- hold_bucket
SELECT lobgate.hold_bucket($1)",
    types: &[Type::TEXT],
};

static PUT_PART: Statement = Statement {
    name: "put_part",
    sql: "-- put_part
SELECT lobgate.put_part($1 /* bucket */, $2 /* key */, $3 /* upload */, $4 /* part_number */, $5 /* content */,
    $6 /* bytes */, $7 /* large */, $8 /* md5 */, $9 /* sha256 */, $10 /* checksum */) AS last_modified",
    types: &[
        Type::TEXT,
        Type::TEXT,
        Type::UUID,
        Type::INT4,
        Type::UUID,
        Type::BYTEA,
        Type::BOOL,
        Type::BYTEA,
        Type::BYTEA,
        Type::BYTEA,
    ],
};

static PUBLISH_PART: Statement = Statement {
    name: "publish_part",
    sql: "-- publish_part
SELECT lobgate.publish_part($1 /* bucket */, $2 /* key */, $3 /* upload */, $4 /* part_number */, $5 /* content */,
    $6 /* size */, $7 /* md5 */, $8 /* checksum */) AS last_modified",
    types: &[Type::TEXT, Type::TEXT, Type::UUID, Type::INT4, Type::UUID, Type::INT8, Type::BYTEA, Type::BYTEA],
};

static PUBLISH_LARGE_PART: Statement = Statement {
    name: "publish_large_part",
    sql: "-- publish_large_part
SELECT lobgate.publish_large_part($1 /* loid */, $2 /* sha256 */, $3 /* bucket */, $4 /* key */, $5 /* upload */,
    $6 /* part_number */, $7 /* content */, $8 /* size */, $9 /* md5 */, $10 /* checksum */) AS last_modified",
    types: &[
        Type::OID,
        Type::BYTEA,
        Type::TEXT,
        Type::TEXT,
        Type::UUID,
        Type::INT4,
        Type::UUID,
        Type::INT8,
        Type::BYTEA,
        Type::BYTEA,
    ],
};

static PARTS: Statement = Statement {
    name: "list_upload_parts",
    sql: "-- list_upload_parts
SELECT part_number, content_id, size, md5, checksum, last_modified FROM lobgate.upload_part
WHERE upload_id = $1 AND part_number > $2 ORDER BY part_number LIMIT $3",
    types: &[Type::UUID, Type::INT4, Type::INT8],
};

static COMPLETE: Statement = Statement {
    name: "complete_upload",
    sql: "-- complete_upload
WITH parts AS (DELETE FROM lobgate.upload_part WHERE upload_id = $1)
UPDATE lobgate.upload SET completed_at = clock_timestamp(), completed = $2 WHERE id = $1",
    types: &[Type::UUID, Type::JSONB],
};

static ABORT: Statement = Statement {
    name: "abort_upload",
    sql: "-- abort_upload
DELETE FROM lobgate.upload u USING lobgate.bucket b
WHERE b.id = u.bucket_id AND b.name = $1 AND u.key = $2 AND u.id = $3 AND u.completed_at IS NULL RETURNING u.id",
    types: &[Type::TEXT, Type::TEXT, Type::UUID],
};

static LIST: Statement = Statement {
    name: "list_uploads",
    sql: "-- list_uploads
SELECT u.id, u.key, u.initiator, u.initiated_at, u.checksum_algorithm, u.checksum_type, u.attributes, u.settings
FROM lobgate.bucket b JOIN lobgate.upload u ON u.bucket_id = b.id
WHERE b.name = $1 AND u.completed_at IS NULL AND starts_with(u.key, $2 /* prefix */)
  AND (u.key > $3 /* key_marker */ OR (u.key = $3 AND u.id > $4 /* upload_id_marker */))
ORDER BY u.key, u.id LIMIT $5",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::UUID, Type::INT8],
};

/// What CompleteMultipartUpload answered; the column `completed`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CompletedColumn {
    /// Of the object.
    pub etag: String,
    /// Of the object.
    pub size: u64,
    /// Unix time in nanoseconds.
    pub last_modified_ns: i128,
    /// Algorithm, type and base-16 value of the object's checksum.
    pub checksum: Option<(String, String, String)>,
    /// How many parts.
    pub parts_count: u32,
    /// Digest of the list of parts that the request named; none from before it was noted.
    #[serde(default)]
    pub named: Option<String>,
    /// The version's id; none in a bucket that never was versioned.
    #[serde(default)]
    pub version: Option<String>,
}

/// A part with its content.
pub(crate) struct StoredPart {
    /// What a client sees.
    pub info: PartInfo,
    /// Where its bytes are.
    pub content: Uuid,
    /// Its MD5, raw.
    pub md5: Vec<u8>,
}

/// Records an upload. SQLSTATE LG001: no such bucket.
pub(crate) async fn create(db: &Db, id: UploadId, upload: &CreateUpload) -> Result<(), DbError> {
    let (algorithm, kind) = checksum_kind_columns(upload.checksum);
    let params: [&(dyn ToSql + Sync); 8] = [
        &id.0,
        &upload.bucket.as_str(),
        &upload.key.as_str(),
        &upload.initiator,
        &algorithm,
        &kind,
        &attributes_column(&upload.attributes),
        &settings_column(&upload.settings),
    ];
    db.write(&CREATE, &params).await.map(drop)
}

/// An upload, under way or, where `completed` is set, completed too: `None`: no such bucket; `Some(None)`: no such upload.
pub(crate) async fn find(
    db: &Db,
    bucket: &BucketName,
    key: &ObjectKey,
    id: UploadId,
    completed: bool,
) -> Result<Option<Option<Upload>>, DbError> {
    let rows = db.read(&FIND, &[&bucket.as_str(), &key.as_str(), &id.0, &completed]).await?;
    Ok(rows.first().map(|row| row.get::<_, Option<Uuid>>("id").map(|_| upload(row))))
}

/// Locks an upload against parts, completion and abort. The second value is set where it was completed already.
pub(crate) async fn lock(
    tx: &Tx,
    bucket: &BucketName,
    key: &ObjectKey,
    id: UploadId,
) -> Result<Option<(Upload, Option<CompletedColumn>)>, DbError> {
    tx.run(&HOLD_BUCKET, &[&bucket.as_str()]).await?;
    let rows = tx.run(&LOCK, &[&bucket.as_str(), &key.as_str(), &id.0]).await?;
    Ok(rows.first().map(|row| (upload(row), row.get::<_, Option<Json<CompletedColumn>>>("completed").map(|c| c.0))))
}

/// Stores a short byte string as a part, in one statement and transaction. Returns last_modified.
pub(crate) async fn put_part(db: &Db, bytes: &Bytestring<'_>, part: &PublishPart) -> Result<OffsetDateTime, DbError> {
    let sha256 = bytes.digests.sha256.as_ref().map(<[u8; 32]>::as_slice);
    let params: [&(dyn ToSql + Sync); 10] = [
        &part.bucket.as_str(),
        &part.key.as_str(),
        &part.upload.0,
        &integer(part.number),
        &bytes.content,
        &Segments(bytes.pieces),
        &bytes.large,
        &bytes.digests.md5.as_slice(),
        &sha256,
        &part.checksum.as_ref().map(|c| c.value.as_slice()),
    ];
    Ok(last_modified(&db.write(&PUT_PART, &params).await?))
}

/// Makes an existing content a part. Returns last_modified.
pub(crate) async fn publish_part(
    tx: &Tx,
    content: Uuid,
    size: u64,
    md5: &[u8],
    part: &PublishPart,
) -> Result<OffsetDateTime, DbError> {
    let params: [&(dyn ToSql + Sync); 8] = [
        &part.bucket.as_str(),
        &part.key.as_str(),
        &part.upload.0,
        &integer(part.number),
        &content,
        &bigint(size),
        &md5,
        &part.checksum.as_ref().map(|c| c.value.as_slice()),
    ];
    Ok(last_modified(&tx.run(&PUBLISH_PART, &params).await?))
}

/// Makes a large object that this transaction wrote a content, and publishes it as a part. Returns last_modified.
pub(crate) async fn publish_large_part(
    tx: &Tx,
    large: &LargeContent,
    part: &PublishPart,
) -> Result<OffsetDateTime, DbError> {
    let params: [&(dyn ToSql + Sync); 10] = [
        &large.loid,
        &large.digests.sha256.as_ref().map(<[u8; 32]>::as_slice),
        &part.bucket.as_str(),
        &part.key.as_str(),
        &part.upload.0,
        &integer(part.number),
        &large.content,
        &bigint(large.size),
        &large.digests.md5.as_slice(),
        &part.checksum.as_ref().map(|c| c.value.as_slice()),
    ];
    Ok(last_modified(&tx.run(&PUBLISH_LARGE_PART, &params).await?))
}

/// Parts of an upload after a number.
pub(crate) async fn parts(
    db: &Db,
    id: UploadId,
    algorithm: Option<ChecksumAlgorithm>,
    after: u32,
    limit: u32,
) -> Result<Vec<StoredPart>, DbError> {
    let rows = db.read(&PARTS, &[&id.0, &integer(after), &i64::from(limit)]).await?;
    Ok(rows.iter().map(|row| stored_part(row, algorithm)).collect())
}

/// All parts of an upload that this transaction has locked.
pub(crate) async fn locked_parts(
    tx: &Tx,
    id: UploadId,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<Vec<StoredPart>, DbError> {
    let rows = tx.run(&PARTS, &[&id.0, &0, &i64::from(i32::MAX)]).await?;
    Ok(rows.iter().map(|row| stored_part(row, algorithm)).collect())
}

/// Marks an upload completed and lets go of its parts.
pub(crate) async fn complete(tx: &Tx, id: UploadId, answer: &CompletedColumn) -> Result<(), DbError> {
    tx.run(&COMPLETE, &[&id.0, &Json(answer)]).await.map(drop)
}

/// Deletes an upload under way with its parts; false where there is none.
pub(crate) async fn abort(db: &Db, bucket: &BucketName, key: &ObjectKey, id: UploadId) -> Result<bool, DbError> {
    Ok(!db.write(&ABORT, &[&bucket.as_str(), &key.as_str(), &id.0]).await?.is_empty())
}

/// Uploads under way whose keys have a prefix, after a key or after an upload of that key.
pub(crate) async fn list(
    db: &Db,
    bucket: &BucketName,
    prefix: &str,
    after: (&str, Uuid),
    limit: u32,
) -> Result<Vec<Upload>, DbError> {
    let rows = db.read(&LIST, &[&bucket.as_str(), &prefix, &after.0, &after.1, &i64::from(limit)]).await?;
    Ok(rows.iter().map(upload).collect())
}

fn checksum_kind_columns(
    checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
) -> (Option<&'static str>, Option<&'static str>) {
    (checksum.map(|c| c.0.as_str()), checksum.map(|c| c.1.as_str()))
}

fn upload(row: &Row) -> Upload {
    Upload {
        id: UploadId(row.get("id")),
        key: row.get("key"),
        attributes: attributes_of(row, "attributes"),
        checksum: checksum_kind_of(row),
        initiated_at: row.get("initiated_at"),
        initiator: row.get("initiator"),
        settings: row.get::<_, Option<Json<VersionSettings>>>("settings").map(|json| json.0).unwrap_or_default(),
    }
}

fn stored_part(row: &Row, algorithm: Option<ChecksumAlgorithm>) -> StoredPart {
    let md5: Vec<u8> = row.get("md5");
    let value: Option<Vec<u8>> = row.get("checksum");
    let checksum = algorithm.zip(value).map(|(algorithm, value)| Checksum::full_object(algorithm, value));
    StoredPart {
        info: PartInfo {
            number: unsigned(row.get("part_number")),
            size: size_of(row, "size"),
            start: 0,
            etag: hex::encode(&md5),
            checksum,
            last_modified: row.get("last_modified"),
        },
        content: row.get("content_id"),
        md5,
    }
}
