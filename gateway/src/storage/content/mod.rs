//! Large objects: the only home of `lo_*` calls outside the schema's own functions.
//!
//! Contract: a content never changes once its transaction has committed. So a window of it may be read at any time,
//! over any connection, without a transaction, and a cache of it is never stale. Windows are read through the content
//! row, never by a bare oid: should a content have been reaped, the read finds nothing, and can never hit another
//! large object that was given the same oid.

pub(super) mod block_cache;
pub mod digest;
pub(super) mod flights;
pub(super) mod hashing;
mod md5_lanes;

use std::ops::Range;

use bytes::Bytes;
use tokio_postgres::types::{Oid, Type};
use uuid::Uuid;

use super::error::{ErrorKind, Result, StorageError};
use crate::db::{Db, DbError, Segments, Statement, Tx};

static CREATE: Statement =
    Statement { name: "create_large_object", sql: "-- create_large_object\nSELECT lo_create(0)", types: &[] };

static CREATE_FROM: Statement = Statement {
    name: "create_large_object_from",
    sql: "-- create_large_object_from\nSELECT lo_from_bytea(0, $1 /* bytes */)",
    types: &[Type::BYTEA],
};

static PUT: Statement = Statement {
    name: "put_chunk",
    sql: "-- put_chunk\nSELECT lo_put($1 /* loid */, $2 /* offset */, $3 /* bytes */)",
    types: &[Type::OID, Type::INT8, Type::BYTEA],
};

// The offset is cut to an integer for inline bytes only, but a planner that knows its value computes the cast whichever
// branch is taken: LEAST keeps it from overflowing for a large object.
static READ_WINDOW: Statement = Statement {
    name: "read_window",
    sql: "-- read_window
SELECT CASE WHEN c.loid IS NULL THEN substr(c.inline, least($2, 2147483646)::int + 1, $3) ELSE lo_get(c.loid, $2, $3) END
FROM lobgate.content c WHERE c.id = $1 /* id */ AND num_nonnulls(c.loid, c.inline) = 1",
    types: &[Type::UUID, Type::INT8, Type::INT4],
};

static READ_BEYOND: Statement = Statement {
    name: "read_beyond",
    sql: "-- read_beyond
SELECT octet_length(lo_get(c.loid, $2, 1)) > 0 FROM lobgate.content c WHERE c.id = $1 AND c.loid IS NOT NULL",
    types: &[Type::UUID, Type::INT8],
};

/// Creates an empty large object, in the caller's transaction.
///
/// # Errors
/// [`DbError`].
pub(super) async fn create(tx: &Tx) -> Result<Oid, DbError> {
    let rows = tx.run(&CREATE, &[]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

/// Creates a large object of these bytes, a few MiB at most, in the caller's transaction.
///
/// # Errors
/// [`DbError`].
pub(super) async fn create_from(tx: &Tx, pieces: &[Bytes]) -> Result<Oid, DbError> {
    let rows = tx.run(&CREATE_FROM, &[&Segments(pieces)]).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

/// Writes a chunk at an offset, both multiples of 2048 (`LOBLKSIZE`, storage/large_object.h) unless the chunk is the last: a page is then written
/// once. Chunks are written by offset, not by a descriptor's position, so several may be under way at once.
///
/// # Errors
/// [`DbError`].
pub(super) async fn put_chunk(tx: &Tx, loid: Oid, offset: i64, pieces: &[Bytes]) -> Result<(), DbError> {
    tx.run(&PUT, &[&loid, &offset, &Segments(pieces)]).await.map(drop)
}

/// Reads a range of a content's bytes, as a row whose only column they are.
///
/// # Errors
/// [`ErrorKind::ReadInterrupted`] where the content is gone, [`ErrorKind::Internal`] where it is shorter than it should be.
pub(super) async fn read_window(db: &Db, content: Uuid, range: Range<u64>) -> Result<Window> {
    let too_far = |_| StorageError::new(ErrorKind::Internal, "a window lies beyond every large object");
    let offset = i64::try_from(range.start).map_err(too_far)?;
    let length = i32::try_from(range.end.saturating_sub(range.start)).map_err(too_far)?;
    let row = db.read(&READ_WINDOW, &[&content, &offset, &length]).await?.pop().ok_or(ErrorKind::ReadInterrupted)?;
    let window = Window(row);
    let got = window.as_ref().len();
    if i32::try_from(got) == Ok(length) {
        return Ok(window);
    }
    let text = format!("content {content} gave {got} of {length} bytes at offset {offset}");
    Err(StorageError::new(ErrorKind::Internal, text))
}

/// Whether a content's large object has a byte at `offset`.
///
/// # Errors
/// [`DbError`].
pub(super) async fn read_beyond(db: &Db, content: Uuid, offset: u64) -> Result<bool, DbError> {
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    let rows = db.read(&READ_BEYOND, &[&content, &offset]).await?;
    Ok(rows.first().and_then(|row| row.get::<_, Option<bool>>(0)).unwrap_or(false))
}

/// A window of a content, in the buffer that it was received in.
pub(super) struct Window(tokio_postgres::Row);

impl Window {
    /// The bytes in an allocation of their own size. The buffer may be twice as large, and is free for the connection's
    /// next answer.
    pub(super) fn copied_out(self) -> Bytes {
        Bytes::copy_from_slice(self.as_ref())
    }
}

impl AsRef<[u8]> for Window {
    fn as_ref(&self) -> &[u8] {
        self.0.try_get(0).unwrap_or_default()
    }
}
