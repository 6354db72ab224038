//! Writes a large object in aligned chunks, a few of them under way at once.
//!
//! Chunks are whole multiples of the page size at aligned offsets, so that no page is written twice; each carries its
//! offset, so their order on the wire does not matter. A write that is abandoned keeps the transaction alive until it
//! ends; then it rolls back.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_postgres::types::Oid;

use super::error::{ErrorKind, Result, StorageError};
use super::{Storage, content};
use crate::db::{DbError, Lane, Tx};

/// Writes of one large object under way at once: enough to keep the server busy while the next chunk is hashed.
pub(super) const WRITES_IN_FLIGHT: usize = 3;

/// A chunk on its way to the server.
type Write = Pin<Box<dyn Future<Output = std::result::Result<(), DbError>> + Send>>;

/// A large object being written, in a transaction of its own.
pub(super) struct LargeObjectWriter {
    tx: Arc<Tx>,
    loid: Oid,
    chunk: usize,
    offset: i64,
    pending: Vec<Bytes>,
    pending_bytes: usize,
    writes: FuturesUnordered<Write>,
}

impl LargeObjectWriter {
    pub(super) async fn begin(storage: &Storage, lane: Lane, chunk: usize) -> Result<Self> {
        let tx = storage.db.begin("write_large_object", lane).await?;
        let loid = content::create(&tx).await?;
        let tx = Arc::new(tx);
        Ok(Self { tx, loid, chunk, offset: 0, pending: Vec::new(), pending_bytes: 0, writes: FuturesUnordered::new() })
    }

    pub(super) async fn push(&mut self, mut piece: Bytes) -> Result<()> {
        while self.pending_bytes + piece.len() >= self.chunk {
            let head = piece.split_to(self.chunk - self.pending_bytes);
            self.pending_bytes += head.len();
            self.pending.push(head);
            self.write_pending().await?;
        }
        self.pending_bytes += piece.len();
        if !piece.is_empty() {
            self.pending.push(piece);
        }
        Ok(())
    }

    async fn write_pending(&mut self) -> Result<()> {
        let pieces = std::mem::take(&mut self.pending);
        let length = i64::try_from(std::mem::take(&mut self.pending_bytes)).unwrap_or(0);
        let (tx, loid, offset) = (Arc::clone(&self.tx), self.loid, self.offset);
        self.offset += length;
        let mut write: Write = Box::pin(async move { content::put_chunk(&tx, loid, offset, &pieces).await });
        // Polled once, it is on its way to the server while the next chunk is received.
        if let std::task::Poll::Ready(outcome) = futures::poll!(write.as_mut()) {
            outcome?;
        } else {
            self.writes.push(write);
        }
        while self.writes.len() >= WRITES_IN_FLIGHT {
            if let Some(outcome) = self.writes.next().await {
                outcome?;
            }
        }
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<(Tx, Oid)> {
        if self.pending_bytes > 0 {
            self.write_pending().await?;
        }
        while let Some(outcome) = self.writes.next().await {
            outcome?;
        }
        let (tx, loid) = (self.tx, self.loid);
        let tx =
            Arc::into_inner(tx).ok_or_else(|| StorageError::new(ErrorKind::Internal, "a write outlived its writer"))?;
        Ok((tx, loid))
    }
}
