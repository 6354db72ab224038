//! The bare operations of an object store on large objects: what the gateway asks of the server, without the gateway.
//!
//! put = the large object and its row in one transaction (one statement for short bodies, aligned chunks of which a few are
//! under way at once for longer ones); get = `lo_get` windows, without descriptor or transaction; delete = `lo_unlink` and
//! the row's deletion in one transaction. Statements are prepared once per session.
//! Invariant: a large object is created and unlinked together with its row in `object`, see [`super::scratch`].

use futures::{StreamExt, TryStreamExt};
use tokio_postgres::{Client, Statement};

use super::noise::Body;

/// Longest body stored by one statement. (The gateway, which has many bodies in memory, stops at 1 MiB.)
const ONE_STATEMENT_MAX: u64 = 8 << 20;
/// Chunks under way at once, as the gateway does (`storage/large_object_writer.rs`).
pub(super) const WRITES_IN_FLIGHT: usize = 3;

/// A session with its statements.
pub(super) struct Bare {
    /// The session, for what only one command does.
    pub(super) client: Client,
    put_whole: Statement,
    put_inline: Statement,
    create: Statement,
    write: Statement,
    insert: Statement,
    locate: Statement,
    window: Statement,
    inline: Statement,
    delete: Statement,
}

/// Where an object's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Located {
    /// Its large object.
    pub(super) loid: u32,
    /// Its bytes.
    pub(super) size: u64,
}

impl Bare {
    /// Prepares the statements.
    ///
    /// # Errors
    /// A statement failed.
    pub(super) async fn new(client: Client) -> anyhow::Result<Self> {
        let put_whole = client
            .prepare(
                "-- bench_put_whole
WITH l AS (SELECT lo_from_bytea(0, $2::bytea) AS loid)
INSERT INTO object (key, loid, size, sha256) SELECT $1, l.loid, octet_length($2::bytea), $3 FROM l",
            )
            .await?;
        let put_inline = client
            .prepare(
                "-- bench_put_inline\nINSERT INTO object (key, inline, size) VALUES ($1, $2, octet_length($2::bytea))",
            )
            .await?;
        let create = client.prepare("-- bench_create\nSELECT lo_create(0)").await?;
        let write = client.prepare("-- bench_write\nSELECT lo_put($1, $2 /* offset */, $3 /* bytes */)").await?;
        let insert = client
            .prepare("-- bench_insert\nINSERT INTO object (key, loid, size, sha256) VALUES ($1, $2, $3, $4)")
            .await?;
        let locate = client.prepare("-- bench_locate\nSELECT loid, size FROM object WHERE key = $1").await?;
        let window = client.prepare("-- bench_window\nSELECT lo_get($1, $2 /* offset */, $3 /* length */)").await?;
        let inline = client.prepare("-- bench_inline\nSELECT inline FROM object WHERE key = $1").await?;
        let delete = client
            .prepare(
                "-- bench_delete
WITH gone AS (DELETE FROM object WHERE key = ANY ($1) RETURNING loid)
SELECT count(lo_unlink(loid)) FROM gone WHERE loid IS NOT NULL",
            )
            .await?;
        Ok(Self { client, put_whole, put_inline, create, write, insert, locate, window, inline, delete })
    }

    /// Stores a body durably as a large object with its row.
    ///
    /// # Errors
    /// A statement failed; then nothing is stored, and the session can't be used any more.
    pub(super) async fn put(&self, key: &str, body: &Body, chunk: u64, sha256: Option<&[u8]>) -> anyhow::Result<()> {
        if body.len() <= ONE_STATEMENT_MAX {
            let whole = body.piece(0, body.len());
            self.client.execute(&self.put_whole, &[&key, &whole.as_ref(), &sha256]).await?;
            return Ok(());
        }
        self.client.batch_execute("BEGIN").await?;
        let loid: u32 = self.client.query_one(&self.create, &[]).await?.get(0);
        let writes = body.pieces(chunk).map(|(offset, bytes)| async move {
            self.client.execute(&self.write, &[&loid, &signed(offset), &bytes.as_ref()]).await
        });
        futures::stream::iter(writes).buffered(WRITES_IN_FLIGHT).try_collect::<Vec<_>>().await?;
        self.client.execute(&self.insert, &[&key, &loid, &signed(body.len()), &sha256]).await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(())
    }

    /// Stores a body durably in its row.
    ///
    /// # Errors
    /// A statement failed.
    pub(super) async fn put_inline(&self, key: &str, body: &Body) -> anyhow::Result<()> {
        let whole = body.piece(0, body.len());
        self.client.execute(&self.put_inline, &[&key, &whole.as_ref()]).await?;
        Ok(())
    }

    /// Finds an object.
    ///
    /// # Errors
    /// A statement failed, or there is no such large object.
    pub(super) async fn locate(&self, key: &str) -> anyhow::Result<Located> {
        let row = self.client.query_one(&self.locate, &[&key]).await?;
        Ok(Located { loid: row.try_get(0)?, size: u64::try_from(row.get::<_, i64>(1))? })
    }

    /// Reads a window of a large object and returns how many bytes came.
    ///
    /// # Errors
    /// A statement failed.
    pub(super) async fn window(&self, loid: u32, offset: u64, length: u64) -> anyhow::Result<u64> {
        let length = i32::try_from(length)?;
        let row = self.client.query_one(&self.window, &[&loid, &signed(offset), &length]).await?;
        Ok(row.get::<_, &[u8]>(0).len() as u64)
    }

    /// Reads a large object, window by window, one under way at a time.
    ///
    /// # Errors
    /// A statement failed, or bytes are missing.
    pub(super) async fn read(&self, object: Located, window: u64) -> anyhow::Result<()> {
        let mut offset = 0;
        while offset < object.size {
            let got = self.window(object.loid, offset, window.min(object.size - offset)).await?;
            anyhow::ensure!(got > 0, "large object {} ended at {offset} of {} bytes", object.loid, object.size);
            offset += got;
        }
        Ok(())
    }

    /// Reads a body from its row and returns how many bytes came.
    ///
    /// # Errors
    /// A statement failed.
    pub(super) async fn read_inline(&self, key: &str) -> anyhow::Result<u64> {
        let row = self.client.query_one(&self.inline, &[&key]).await?;
        Ok(row.try_get::<_, &[u8]>(0)?.len() as u64)
    }

    /// Deletes objects, a few at a time.
    ///
    /// # Errors
    /// A statement failed.
    pub(super) async fn delete(&self, keys: &[String]) -> anyhow::Result<()> {
        // Each unlink takes a slot of the server's lock table until its transaction ends.
        for some in keys.chunks(100) {
            self.client.execute(&self.delete, &[&some]).await?;
        }
        Ok(())
    }
}

/// A size or an offset as PostgreSQL counts.
#[must_use]
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
