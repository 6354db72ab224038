//! A body that arrives: timed, counted, hashed.
//!
//! Silence beyond the idle timeout, a byte more than declared or allowed, and an end before the declared length are
//! errors of the body; whoever receives it has stored nothing visible by then. Tiny pieces are joined before anybody gets
//! them: what is paid for is bytes, and a piece costs more than a byte.
//!
//! Of the bodies that hold memory or a writer which others wait for, those that arrive slowest are given up first.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use tokio::time::Instant;

use super::content::digest::Digests;
use super::content::hashing::Hashing;
use super::error::{ErrorKind, Result, StorageError};

/// Bytes from a client. The error is the stream's own; it comes back as the source of [`ErrorKind::Body`].
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>> + Send>>;

/// Pieces of a body are joined up to this size, so that many tiny ones do not cost an allocation each.
const PIECE_BYTES: usize = 64 << 10;

/// A body is slow below this rate since its beginning, bytes per second, once so much time has passed.
const SLOW_RATE: u64 = 64 << 10;
const SLOW_GRACE: Duration = Duration::from_secs(5);
/// How often it is looked at, while nothing arrives.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A body being received.
pub(super) struct Incoming {
    body: BodyStream,
    idle_timeout: Duration,
    hashing: Hashing,
    declared: Option<u64>,
    max_length: u64,
    received: u64,
    has_ended: bool,
    begun: Instant,
    /// Whether others wait for what this body holds.
    pressure: Pressure,
}

/// Whether somebody waits.
pub(super) type Pressure = Box<dyn Fn() -> bool + Send + Sync>;

impl Incoming {
    pub(super) fn new(
        body: BodyStream,
        hashing: Hashing,
        declared: Option<u64>,
        max_length: u64,
        idle_timeout: Duration,
        pressure: Pressure,
    ) -> Self {
        let begun = Instant::now();
        Self { body, idle_timeout, hashing, declared, max_length, received: 0, has_ended: false, begun, pressure }
    }

    /// Bytes so far.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// The next bytes, of which nothing is kept here; `None` at the end of a body that is as long as it said.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        let Some(piece) = self.joined().await? else { return Ok(None) };
        self.hashing.push(piece.clone())?;
        self.hashing.catch_up().await?;
        Ok(Some(piece))
    }

    async fn joined(&mut self) -> Result<Option<Bytes>> {
        let mut joined = BytesMut::new();
        loop {
            match self.arrival_within(self.idle_timeout).await? {
                None => return Err(ErrorKind::BodyTimeout.into()),
                Some(None) => return Ok((!joined.is_empty()).then(|| joined.freeze())),
                Some(Some(piece)) if joined.is_empty() && piece.len() >= PIECE_BYTES => return Ok(Some(piece)),
                Some(Some(piece)) => joined.extend_from_slice(&piece),
            }
            if joined.len() >= PIECE_BYTES {
                return Ok(Some(joined.freeze()));
            }
        }
    }

    /// What arrives within a time; nothing where nothing does.
    async fn arrival_within(&mut self, patience: Duration) -> Result<Option<Option<Bytes>>> {
        let end = Instant::now() + patience;
        loop {
            let look = end.min(Instant::now() + LOOK_INTERVAL);
            let arrival = tokio::time::timeout_at(look, self.arrival()).await;
            let has_ended = matches!(arrival, Ok(Ok(None)));
            if !has_ended && self.is_in_the_way() {
                let why = "others wait for what a slow body holds";
                return Err(StorageError::new(ErrorKind::Busy, why));
            }
            match arrival {
                Ok(arrival) => return arrival.map(Some),
                Err(_) if look >= end => return Ok(None),
                Err(_) => {}
            }
        }
    }

    fn is_in_the_way(&self) -> bool {
        let elapsed = self.begun.elapsed();
        elapsed > SLOW_GRACE && self.received < SLOW_RATE * elapsed.as_secs() && (self.pressure)()
    }

    /// Adds to the pieces what arrives within a time.
    pub(super) async fn receive_next(&mut self, pieces: &mut Pieces, patience: Duration) -> Result<Arrival> {
        let Some(arrival) = self.arrival_within(patience).await? else { return Ok(Arrival::Late) };
        let Some(piece) = arrival else {
            pieces.close();
            self.hash(pieces)?;
            return Ok(Arrival::End);
        };
        pieces.push(piece);
        self.hash(pieces)?;
        Ok(Arrival::Bytes)
    }

    /// What has been received into `pieces`, so that the rest may be taken with [`Incoming::next`].
    pub(super) fn take(&mut self, mut pieces: Pieces) -> Result<Vec<Bytes>> {
        pieces.close();
        self.hash(&mut pieces)?;
        Ok(pieces.whole)
    }

    /// Hashes the pieces that are whole. They are kept, however long that takes.
    fn hash(&mut self, pieces: &mut Pieces) -> Result<()> {
        for piece in &pieces.whole[pieces.hashed..] {
            self.hashing.push(piece.clone())?;
        }
        pieces.hashed = pieces.whole.len();
        Ok(())
    }

    /// The next bytes; `None` at the end.
    async fn arrival(&mut self) -> Result<Option<Bytes>> {
        if self.has_ended {
            return Ok(None);
        }
        let piece = match self.body.next().await {
            None if self.declared.is_some_and(|declared| declared != self.received) => {
                return Err(ErrorKind::IncompleteBody.into());
            }
            None => {
                self.has_ended = true;
                return Ok(None);
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
        Ok(Some(piece))
    }

    /// Receives until the end, or until more than `limit` bytes are there: then more may follow, and it returns true.
    pub(super) async fn receive(&mut self, pieces: &mut Pieces, limit: u64) -> Result<bool> {
        loop {
            match self.receive_next(pieces, self.idle_timeout).await? {
                Arrival::Bytes if self.received > limit => return Ok(true),
                Arrival::Bytes => {}
                Arrival::End => return Ok(false),
                Arrival::Late => return Err(ErrorKind::BodyTimeout.into()),
            }
        }
    }

    /// The body has been received to its end: it may be hashed while the caller does something else.
    pub(super) fn seal(&mut self) -> Result<()> {
        self.hashing.seal()
    }

    /// What to call when the digests will be needed soon.
    pub(super) fn hurry(&self) -> impl FnOnce() + Send + use<> {
        self.hashing.hurry()
    }

    /// The digests of a body received to its end.
    pub(super) async fn finish(self) -> Result<Digests> {
        self.hashing.finish().await
    }
}

/// What came of waiting for a body.
pub(super) enum Arrival {
    /// Bytes.
    Bytes,
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
    /// How many of the whole ones have been given away to be hashed.
    hashed: usize,
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
}
