//! Statements that store short byte strings and publish them as objects: one round trip each, or for several.

use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::objects::etags;
use super::{attributes_column, checksum_columns, settings_column, written, written_of};
use crate::db::{Db, DbError, Segments, Statement};
use crate::storage::PublishObject;
use crate::storage::content::digest::Digests;
use crate::storage::version_types::Written;

static PUT: Statement = Statement {
    name: "put_object",
    sql: "-- put_object
SELECT last_modified, version FROM lobgate.put_object($1 /* bucket */, $2 /* key */, $3 /* owner */, $4 /* content */, $5 /* bytes */,
    $6 /* large */, $7 /* md5 */, $8 /* sha256 */, $9 /* etag */, $10 /* checksum_algorithm */, $11 /* checksum_type */,
    $12 /* checksum */, $13 /* attributes */, $14 /* settings */, $15 /* if_match */, $16 /* if_none_match */)",
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
        Type::JSONB,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

static PUT_MANY: Statement = Statement {
    name: "put_objects",
    sql: "-- put_objects
SELECT ordinal, last_modified, version FROM lobgate.put_objects($1 /* bucket */, $2 /* keys */, $3 /* owners */,
    $4 /* contents */, $5 /* bytes */, $6 /* md5 */, $7 /* sha256 */, $8 /* etags */, $9 /* checksum_algorithms */,
    $10 /* checksum_types */, $11 /* checksums */, $12 /* attributes */, $13 /* settings */)",
    types: &[
        Type::TEXT,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::UUID_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::JSONB_ARRAY,
        Type::JSONB_ARRAY,
    ],
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

/// A byte string to store inline as an object, unconditionally.
#[derive(Clone, Debug)]
pub(crate) struct SmallPut {
    /// Id of the content to be.
    pub content: Uuid,
    /// The bytes, in pieces.
    pub pieces: Vec<Bytes>,
    /// Their digests.
    pub digests: Digests,
    /// The object to be, without conditions.
    pub object: Arc<PublishObject>,
    /// Its ETag.
    pub etag: String,
}

impl SmallPut {
    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }
}

/// Stores a short byte string and publishes it, in one statement and transaction.
pub(crate) async fn put(
    db: &Db,
    bytes: &Bytestring<'_>,
    object: &PublishObject,
    etag: &str,
) -> Result<Written, DbError> {
    let (algorithm, kind, checksum) = checksum_columns(object.checksum.as_ref());
    let sha256 = bytes.digests.sha256.as_ref().map(<[u8; 32]>::as_slice);
    let params: [&(dyn ToSql + Sync); 16] = [
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
        &settings_column(&object.settings),
        &etags(object.conditions.if_match.as_ref()),
        &etags(object.conditions.if_none_match.as_ref()),
    ];
    Ok(written(&db.write(&PUT, &params).await?))
}

/// As [`put`], for byte strings with different keys of one bucket: all of them, or none; in their order.
pub(crate) async fn put_many(db: &Db, puts: &[SmallPut]) -> Result<Vec<Written>, DbError> {
    let Some(bucket) = puts.first().map(|p| p.object.bucket.as_str()) else { return Ok(Vec::new()) };
    let keys: Vec<_> = puts.iter().map(|p| p.object.key.as_str()).collect();
    let owners: Vec<_> = puts.iter().map(|p| p.object.owner.as_str()).collect();
    let contents: Vec<_> = puts.iter().map(|p| p.content).collect();
    let bytes: Vec<_> = puts.iter().map(|p| Segments(&p.pieces)).collect();
    let md5: Vec<_> = puts.iter().map(|p| p.digests.md5.as_slice()).collect();
    let sha256: Vec<_> = puts.iter().map(|p| p.digests.sha256.as_ref().map(<[u8; 32]>::as_slice)).collect();
    let etags: Vec<_> = puts.iter().map(|p| p.etag.as_str()).collect();
    let checksums: Vec<_> = puts.iter().map(|p| checksum_columns(p.object.checksum.as_ref())).collect();
    let algorithms: Vec<_> = checksums.iter().map(|c| c.0).collect();
    let kinds: Vec<_> = checksums.iter().map(|c| c.1).collect();
    let values: Vec<_> = checksums.iter().map(|c| c.2).collect();
    let attributes: Vec<_> = puts.iter().map(|p| attributes_column(&p.object.attributes)).collect();
    let settings: Vec<_> = puts.iter().map(|p| settings_column(&p.object.settings)).collect();
    let params: [&(dyn ToSql + Sync); 13] = [
        &bucket,
        &keys,
        &owners,
        &contents,
        &bytes,
        &md5,
        &sha256,
        &etags,
        &algorithms,
        &kinds,
        &values,
        &attributes,
        &settings,
    ];
    let rows = db.write(&PUT_MANY, &params).await?;
    let mut all = vec![written(&[]); puts.len()];
    for row in &rows {
        let place = usize::try_from(row.get::<_, i64>("ordinal") - 1).ok().and_then(|i| all.get_mut(i));
        if let Some(place) = place {
            *place = written_of(row);
        }
    }
    Ok(all)
}
