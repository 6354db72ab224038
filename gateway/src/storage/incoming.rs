//! A body that arrives: timed, counted, hashed.
//!
//! Silence beyond the idle timeout, a byte more than declared or allowed, and an end before the declared length are
//! errors of the body; whoever receives it has stored nothing visible by then.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};

use super::content::digest::Digests;
use super::content::hashing::Hashing;
use super::error::{ErrorKind, Result, StorageError};

/// Bytes from a client. The error is the stream's own; it comes back as the source of [`ErrorKind::Body`].
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>> + Send>>;

/// Pieces of a body are joined up to this size, so that many tiny ones do not cost an allocation each.
const PIECE_BYTES: usize = 64 << 10;

/// A body being received.
pub(super) struct Incoming {
    body: BodyStream,
    idle_timeout: Duration,
    hashing: Hashing,
    declared: Option<u64>,
    max_length: u64,
    received: u64,
}

impl Incoming {
    pub(super) fn new(
        body: BodyStream,
        hashing: Hashing,
        declared: Option<u64>,
        max_length: u64,
        idle_timeout: Duration,
    ) -> Self {
        Self { body, idle_timeout, hashing, declared, max_length, received: 0 }
    }

    /// Bytes so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// The next bytes; `None` at the end of a body that is as long as it said.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        let next = tokio::time::timeout(self.idle_timeout, self.body.next()).await;
        let piece = match next.map_err(|_| ErrorKind::BodyTimeout)? {
            None if self.declared.is_some_and(|declared| declared != self.received) => {
                return Err(ErrorKind::IncompleteBody.into());
            }
            None => return Ok(None),
            Some(Err(source)) => return Err(StorageError::new(ErrorKind::Body, source)),
            Some(Ok(piece)) => piece,
        };
        self.received += piece.len() as u64;
        if self.declared.is_some_and(|declared| self.received > declared) {
            return Err(ErrorKind::IncompleteBody.into());
        }
        if self.received > self.max_length {
            return Err(ErrorKind::EntityTooLarge.into());
        }
        self.hashing.push(piece.clone()).await?;
        Ok(Some(piece))
    }

    /// Receives until the end, or until more than `limit` bytes are there. The flag tells that more may follow.
    pub(super) async fn receive(&mut self, limit: u64) -> Result<(Vec<Bytes>, bool)> {
        let mut pieces = Vec::new();
        let mut joined = BytesMut::new();
        while let Some(piece) = self.next().await? {
            if piece.len() >= PIECE_BYTES {
                push_some(&mut pieces, joined.split().freeze());
                pieces.push(piece);
            } else {
                joined.extend_from_slice(&piece);
                if joined.len() >= PIECE_BYTES {
                    pieces.push(joined.split().freeze());
                }
            }
            if self.received > limit {
                push_some(&mut pieces, joined.freeze());
                return Ok((pieces, true));
            }
        }
        push_some(&mut pieces, joined.freeze());
        Ok((pieces, false))
    }

    /// The digests of a body received to its end.
    pub(super) async fn finish(self) -> Result<Digests> {
        self.hashing.finish().await
    }
}

fn push_some(pieces: &mut Vec<Bytes>, piece: Bytes) {
    if !piece.is_empty() {
        pieces.push(piece);
    }
}
