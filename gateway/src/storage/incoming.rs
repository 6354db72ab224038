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
    has_ended: bool,
}

impl Incoming {
    pub(super) fn new(
        body: BodyStream,
        hashing: Hashing,
        declared: Option<u64>,
        max_length: u64,
        idle_timeout: Duration,
    ) -> Self {
        Self { body, idle_timeout, hashing, declared, max_length, received: 0, has_ended: false }
    }

    /// Bytes so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// The next bytes; `None` at the end of a body that is as long as it said.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        match self.next_within(self.idle_timeout).await? {
            Arrival::Bytes(piece) => Ok(Some(piece)),
            Arrival::End => Ok(None),
            Arrival::Late => Err(ErrorKind::BodyTimeout.into()),
        }
    }

    /// What arrives within a time.
    pub(super) async fn next_within(&mut self, patience: Duration) -> Result<Arrival> {
        if self.has_ended {
            return Ok(Arrival::End);
        }
        let Ok(next) = tokio::time::timeout(patience, self.body.next()).await else { return Ok(Arrival::Late) };
        let piece = match next {
            None if self.declared.is_some_and(|declared| declared != self.received) => {
                return Err(ErrorKind::IncompleteBody.into());
            }
            None => {
                self.has_ended = true;
                return Ok(Arrival::End);
            }
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
        Ok(Arrival::Bytes(piece))
    }

    /// Receives until the end, or until more than `limit` bytes are there: then more may follow, and it returns true.
    pub(super) async fn receive(&mut self, pieces: &mut Pieces, limit: u64) -> Result<bool> {
        while let Some(piece) = self.next().await? {
            pieces.push(piece);
            if self.received > limit {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The body has been received to its end: it may be hashed while the caller does something else.
    pub(super) fn seal(&mut self) -> Result<()> {
        self.hashing.seal()
    }

    /// The digests of a body received to its end.
    pub(super) async fn finish(self) -> Result<Digests> {
        self.hashing.finish().await
    }
}

/// What came of waiting for a body.
pub(super) enum Arrival {
    /// Bytes.
    Bytes(Bytes),
    /// Its end.
    End,
    /// Nothing in time.
    Late,
}

/// What has been received of a body.
#[derive(Default)]
pub(super) struct Pieces {
    whole: Vec<Bytes>,
    joined: BytesMut,
}

impl Pieces {
    pub(super) fn push(&mut self, piece: Bytes) {
        if piece.len() >= PIECE_BYTES {
            self.close();
            self.whole.push(piece);
        } else {
            self.joined.extend_from_slice(&piece);
            if self.joined.len() >= PIECE_BYTES {
                self.close();
            }
        }
    }

    /// Those that will not grow any more.
    pub(super) fn whole(&self) -> &[Bytes] {
        &self.whole
    }

    /// All of them.
    pub(super) fn close(&mut self) -> &[Bytes] {
        if !self.joined.is_empty() {
            self.whole.push(self.joined.split().freeze());
        }
        &self.whole
    }

    pub(super) fn into_all(mut self) -> Vec<Bytes> {
        self.close();
        self.whole
    }
}
