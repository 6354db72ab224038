//! Bodies that arrive fast are written while they arrive.
//!
//! A body up to `buffer_max` is received whole before its transaction begins, because nobody knows how long a client takes.
//! But where the first bytes came at the speed of a near network, the rest is expected to follow, and the database
//! need not wait for it. The bytes are kept until the end all the same: should the client fall behind, the transaction is
//! rolled back and the body is written when it is there. So a client can hold a connection for [`PATIENCE`] and no longer, and a
//! failed early write costs nothing but the time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::error::Result;
use super::incoming::{Arrival, Incoming, Pieces};
use super::large_object_writer::LargeObjectWriter;
use super::{Storage, processors};
use crate::db::Lane;

/// Shorter bodies are not worth it: their transaction would be made of more statements and more waiting than one that
/// stores all of them at once.
pub(super) const LEAST_BYTES: u64 = 2 << 20;
/// What is received before anything is decided, bytes.
pub(super) const FIRST_BYTES: u64 = 256 << 10;
/// The time that it may take: 10 MiB/s.
const FAST: Duration = Duration::from_millis(25);
/// How long one body may be waited for while its transaction is open, altogether.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the transaction may take to begin, while nothing is received: a busy pool is nothing to wait for.
const BEGIN_PATIENCE: Duration = Duration::from_millis(100);

/// How many bodies may be written early at once.
#[derive(Clone)]
pub(super) struct EarlyWrites(Arc<Semaphore>);

impl EarlyWrites {
    /// Half as many as there are processors. Beyond that the database has enough to do, and one statement per body
    /// costs it less than several.
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new((processors() / 2).max(1))))
    }

    /// A place for a body of which the first bytes came in this time, if it was fast and one is free.
    pub(super) fn admit(&self, took: Duration) -> Option<OwnedSemaphorePermit> {
        if took <= FAST { Arc::clone(&self.0).try_acquire_owned().ok() } else { None }
    }
}

impl Storage {
    /// Receives the rest of a body of known length and writes it. `None` where it was not written to its end, for whatever
    /// reason, or not received to its end.
    pub(super) async fn write_early(
        &self,
        incoming: &mut Incoming,
        pieces: &mut Pieces,
        _place: OwnedSemaphorePermit,
    ) -> Result<Option<LargeObjectWriter>> {
        let chunk = usize::try_from(self.options.write_chunk).unwrap_or(usize::MAX);
        let begun = tokio::time::timeout(BEGIN_PATIENCE, LargeObjectWriter::begin(self, Lane::Short, chunk)).await;
        let Ok(Ok(mut writer)) = begun else { return Ok(None) };
        let mut patience = PATIENCE;
        let mut written = 0;
        loop {
            for piece in &pieces.whole()[written..] {
                if let Err(error) = writer.push(piece.clone()).await {
                    tracing::debug!(%error, "a body could not be written while it arrived");
                    return Ok(None);
                }
            }
            written = pieces.whole().len();
            let asked = Instant::now();
            match incoming.receive_next(pieces, patience).await? {
                Arrival::Bytes => {}
                Arrival::End => break,
                Arrival::Late => return Ok(None),
            }
            patience = patience.saturating_sub(asked.elapsed());
        }
        for piece in &pieces.whole()[written..] {
            if let Err(error) = writer.push(piece.clone()).await {
                tracing::debug!(%error, "a body could not be written to its end");
                return Ok(None);
            }
        }
        Ok(Some(writer))
    }
}
