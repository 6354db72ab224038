//! Statements on `content` and `content_part`.

use tokio_postgres::types::{Oid, Type};
use uuid::Uuid;

use super::{bigint, integer};
use crate::db::{DbError, Statement, Tx};
use crate::storage::content::digest::Digests;

static INSERT_COMPOSITE: Statement = Statement {
    name: "insert_composite_content",
    sql: "-- insert_composite_content
INSERT INTO lobgate.content (id, size) VALUES ($1, $2)",
    types: &[Type::UUID, Type::INT8],
};

static INSERT_PARTS: Statement = Statement {
    name: "insert_content_parts",
    sql: "-- insert_content_parts
INSERT INTO lobgate.content_part (composite_id, part_number, start, size, content_id, checksum)
SELECT $1, * FROM unnest($2::integer[], $3::bigint[], $4::bigint[], $5::uuid[], $6::bytea[])",
    types: &[Type::UUID, Type::INT4_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY, Type::UUID_ARRAY, Type::BYTEA_ARRAY],
};

// created_at tells a fence from every content that was ever stored.
static FENCE: Statement = Statement {
    name: "fence_content",
    sql: "-- fence_content
WITH fence AS (
    INSERT INTO lobgate.content (id, inline, size, md5, created_at)
    VALUES ($1, '', 0, decode(md5(''), 'hex'), '-infinity')
    ON CONFLICT (id) DO NOTHING RETURNING id)
INSERT INTO lobgate.removed (content_id) SELECT id FROM fence",
    types: &[Type::UUID],
};

static WAS_STORED: Statement = Statement {
    name: "content_was_stored",
    sql: "-- content_was_stored
SELECT created_at > '-infinity' FROM lobgate.content WHERE id = $1",
    types: &[Type::UUID],
};

static RECEIPT: Statement = Statement {
    name: "leave_receipt",
    sql: "-- leave_receipt
SELECT lobgate.leave_receipt($1)",
    types: &[Type::UUID],
};

/// A large object that the caller's transaction wrote, to become a content.
pub(crate) struct LargeContent {
    /// Id of the content to be.
    pub content: Uuid,
    /// The large object.
    pub loid: Oid,
    /// Its length.
    pub size: u64,
    /// Its digests.
    pub digests: Digests,
}

/// A part of a composite content.
pub(crate) struct CompositePart {
    /// 1 to 10,000, ascending.
    pub number: u32,
    /// Where it starts.
    pub start: u64,
    /// Its length.
    pub size: u64,
    /// Its content.
    pub content: Uuid,
    /// Its checksum, of the object's algorithm.
    pub checksum: Option<Vec<u8>>,
}

/// A content made of others.
pub(crate) async fn insert_composite(tx: &Tx, id: Uuid, size: u64, parts: &[CompositePart]) -> Result<(), DbError> {
    tx.run(&INSERT_COMPOSITE, &[&id, &bigint(size)]).await?;
    let numbers: Vec<_> = parts.iter().map(|p| integer(p.number)).collect();
    let starts: Vec<_> = parts.iter().map(|p| bigint(p.start)).collect();
    let sizes: Vec<_> = parts.iter().map(|p| bigint(p.size)).collect();
    let contents: Vec<_> = parts.iter().map(|p| p.content).collect();
    let checksums: Vec<_> = parts.iter().map(|p| p.checksum.as_deref()).collect();
    tx.run(&INSERT_PARTS, &[&id, &numbers, &starts, &sizes, &contents, &checksums]).await.map(drop)
}

/// Leaves an empty content of this id for the reaper: what a transaction that stores no content was there by.
pub(crate) async fn leave_receipt(tx: &Tx, id: Uuid) -> Result<(), DbError> {
    tx.run(&RECEIPT, &[&id]).await.map(drop)
}

/// Settles whether the transaction that was to insert a content happened: true if it did. If it did not, it now never
/// will: an empty content takes the id, and the reaper takes that. Waits for a transaction that is still under way.
pub(crate) async fn fence(tx: &Tx, id: Uuid) -> Result<bool, DbError> {
    tx.run(&FENCE, &[&id]).await?;
    // A statement of its own: the row that the fence ran into may be younger than the first one's snapshot.
    let rows = tx.run(&WAS_STORED, &[&id]).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}
