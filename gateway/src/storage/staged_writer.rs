//! Bytes in: received, hashed and kept, then published by one transaction; or dropped, leaving nothing.
//!
//! Staging and publishing are two steps so that the caller can compare digests, lengths and trailers in between, with
//! nothing visible yet. A body up to `buffer_max` is received whole before the database is asked for anything: a slow
//! client holds memory (bounded by the upload budget), but no connection and no transaction. A longer one is written
//! to a large object as it arrives, inside one transaction on a connection of the writers' pool. Whatever fails before
//! COMMIT rolls all of it back.
//!
//! Publishing runs to its end even if the client goes away: once COMMIT may have been sent, stopping half-way would
//! leave nobody to learn the outcome.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use time::OffsetDateTime;
use tokio_postgres::types::Oid;
use uuid::Uuid;

use super::budget::Permit;
use super::content::digest::{Digester, Digests};
use super::error::{ErrorKind, Result, StorageError};
use super::index::objects::ExistingContent;

use super::index::{contents, objects, uploads};
use super::large_object_writer::{LargeObjectWriter, WRITES_IN_FLIGHT};
use super::settle::Target;
use super::types::{ChecksumAlgorithm, PartInfo};
use super::{PublishObject, PublishPart, Published, Storage, new_id};
use crate::db::{DbError, Lane, Tx};

/// Bytes from a client. The error is the stream's own; it comes back as the source of [`ErrorKind::Body`].
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, Box<dyn std::error::Error + Send + Sync>>> + Send>>;

/// Longest byte string that is stored by one statement (`lo_from_bytea`): beyond it chunked writes are faster, and the
/// server's memory per session stays small.
const ONE_STATEMENT_MAX: u64 = 8 << 20;
/// Pieces of a body are joined up to this size, so that many tiny ones do not cost an allocation each.
const PIECE_BYTES: usize = 64 << 10;

/// What to compute while bytes arrive; MD5 and the length always are.
#[derive(Clone, Debug, Default)]
pub struct StageOptions {
    /// Length the client declared.
    pub length: Option<u64>,
    /// Checksums to compute.
    pub checksums: Vec<ChecksumAlgorithm>,
    /// The SHA-256 of the body, where the body stream itself fails unless it is right (a signed payload).
    pub signed_sha256: Option<[u8; 32]>,
    /// Longest body that is accepted.
    pub max_length: u64,
}

/// Bytes received, not yet visible.
pub struct Staged {
    size: u64,
    digests: Digests,
    place: Place,
}

enum Place {
    /// In memory, with the share of the budget that they take.
    Memory { pieces: Vec<Bytes>, _permit: Option<Permit> },
    /// In a large object of an open transaction.
    Transaction { tx: Box<Tx>, loid: Oid },
}

impl Staged {
    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// MD5 of the bytes.
    #[must_use]
    pub fn md5(&self) -> [u8; 16] {
        self.digests.md5
    }

    /// A checksum that was asked for.
    #[must_use]
    pub fn checksum(&self, algorithm: ChecksumAlgorithm) -> Option<&[u8]> {
        self.digests.checksum(algorithm)
    }
}

impl Storage {
    /// Receives a body.
    ///
    /// # Errors
    /// [`ErrorKind::IncompleteBody`] where it is shorter or longer than declared, [`ErrorKind::EntityTooLarge`],
    /// [`ErrorKind::BodyTimeout`], [`ErrorKind::Body`], [`ErrorKind::Busy`], and those of the database.
    pub async fn stage(&self, body: BodyStream, options: StageOptions) -> Result<Staged> {
        if options.length.is_some_and(|length| length > options.max_length) {
            return Err(ErrorKind::EntityTooLarge.into());
        }
        // Every buffered body gets a SHA-256, by which a repeated upload of the same bytes is recognised.
        let buffered_at_most = options.length.unwrap_or(self.options.buffer_max).min(self.options.buffer_max);
        let hash = options.signed_sha256.is_none();
        let mut incoming = Incoming {
            body,
            idle_timeout: self.options.body_idle_timeout,
            digester: Digester::new(&options.checksums, hash),
            declared: options.length,
            max_length: options.max_length,
            received: 0,
        };
        let place = if options.length.is_some_and(|length| length > self.options.buffer_max) {
            self.stream(&mut incoming, Vec::new()).await?
        } else {
            let short = options.length.is_some_and(|length| length <= self.options.inline_max);
            let budget = if short { &self.short_uploads } else { &self.uploads };
            let permit = budget.take(buffered_at_most).await?;
            let (pieces, more) = incoming.receive(self.options.buffer_max).await?;
            if more {
                self.stream(&mut incoming, pieces).await?
            } else {
                Place::Memory { pieces, _permit: Some(permit) }
            }
        };
        let size = incoming.received;
        let mut digests = incoming.finish()?;
        digests.sha256 = options.signed_sha256.or(digests.sha256);
        Ok(Staged { size, digests, place })
    }

    /// Publishes staged bytes as an object.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::PreconditionFailed`], [`ErrorKind::NoSuchKey`] (If-Match on a key
    /// without object), and those of the database.
    pub async fn publish_object(&self, staged: Staged, object: PublishObject) -> Result<Published> {
        let storage = self.clone();
        detached(async move {
            let (size, etag) = (staged.size, hex::encode(staged.digests.md5));
            let last_modified = storage.publish_staged_object(staged, &object, &etag).await?;
            Ok(Published { etag, size, last_modified })
        })
        .await
    }

    /// Publishes staged bytes as a part of an upload.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchUpload`], and those of the database.
    pub async fn publish_part(&self, staged: Staged, part: PublishPart) -> Result<PartInfo> {
        let storage = self.clone();
        detached(async move {
            let (size, etag) = (staged.size, hex::encode(staged.digests.md5));
            let last_modified = storage.publish_staged_part(staged, &part).await?;
            Ok(PartInfo { number: part.number, size, start: 0, etag, checksum: part.checksum, last_modified })
        })
        .await
    }

    async fn publish_staged_object(
        &self,
        staged: Staged,
        object: &PublishObject,
        etag: &str,
    ) -> Result<OffsetDateTime> {
        let (size, digests) = (staged.size, staged.digests);
        match staged.place {
            Place::Memory { pieces, _permit } => {
                if let Some(published) = self.publish_same_content(size, &digests, object, etag).await? {
                    return Ok(published);
                }
                if size <= ONE_STATEMENT_MAX {
                    return self.store_settled(&pieces, size, &digests, Target::Object { object, etag }).await;
                }
                let (tx, loid) = self.write_pieces(&pieces).await?;
                self.publish_large(Large { tx, loid, size, digests }, object, etag).await
            }
            Place::Transaction { tx, loid } => {
                self.publish_large(Large { tx: *tx, loid, size, digests }, object, etag).await
            }
        }
    }

    async fn publish_staged_part(&self, staged: Staged, part: &PublishPart) -> Result<OffsetDateTime> {
        let (size, digests) = (staged.size, staged.digests);
        let (tx, loid) = match staged.place {
            Place::Memory { pieces, _permit } if size <= ONE_STATEMENT_MAX => {
                return self.store_settled(&pieces, size, &digests, Target::Part(part)).await;
            }
            Place::Memory { pieces, _permit } => self.write_pieces(&pieces).await?,
            Place::Transaction { tx, loid } => (*tx, loid),
        };
        let guard = self.reads.begin().await?;
        let large = Large { tx, loid, size, digests };
        let content = large.insert().await?;
        let last_modified = uploads::publish_part(&large.tx, content, size, &large.digests.md5, part).await?;
        self.commit_settled(large.tx, content, &guard).await?;
        Ok(last_modified)
    }

    async fn publish_large(&self, large: Large, object: &PublishObject, etag: &str) -> Result<OffsetDateTime> {
        let guard = self.reads.begin().await?;
        let content = large.insert().await?;
        let existing = ExistingContent { content, size: large.size, etag, parts_count: None };
        let last_modified = objects::publish(&large.tx, &existing, object).await?;
        self.commit_settled(large.tx, content, &guard).await?;
        Ok(last_modified)
    }

    /// Compare and skip: where the key has these bytes already, they are not sent again. Small ones are compared by the
    /// storing statement itself, which saves the round trip.
    async fn publish_same_content(
        &self,
        size: u64,
        digests: &Digests,
        object: &PublishObject,
        etag: &str,
    ) -> Result<Option<OffsetDateTime>> {
        let Some(sha256) = digests.sha256.filter(|_| size > self.options.inline_max) else { return Ok(None) };
        let Some(content) = objects::same_content(&self.db, &object.bucket, &object.key, size, &sha256).await? else {
            return Ok(None);
        };
        let guard = self.reads.begin().await?;
        let tx = self.db.begin("put_same_content", Lane::Short).await?;
        let existing = ExistingContent { content, size, etag, parts_count: None };
        match objects::publish(&tx, &existing, object).await {
            Ok(last_modified) => {
                self.commit_with_receipt(tx, &guard).await?;
                Ok(Some(last_modified))
            }
            // Replaced and reaped since we looked: its bytes have to be stored after all.
            Err(e) if is_content_gone(&e) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Writes bytes at hand to a large object of a new transaction.
    async fn write_pieces(&self, pieces: &[Bytes]) -> Result<(Tx, Oid)> {
        let chunk = usize::try_from(self.options.write_chunk).unwrap_or(usize::MAX);
        let mut writer = LargeObjectWriter::begin(self, Lane::Short, chunk).await?;
        for piece in pieces {
            writer.push(piece.clone()).await?;
        }
        writer.finish().await
    }

    /// Writes a body to a large object of a new transaction as it arrives, after the pieces that already have.
    async fn stream(&self, incoming: &mut Incoming, pieces: Vec<Bytes>) -> Result<Place> {
        let chunk = usize::try_from(self.options.write_chunk).unwrap_or(usize::MAX);
        let _permit = self.uploads.take(self.options.write_chunk * (WRITES_IN_FLIGHT as u64 + 1)).await?;
        let mut writer = LargeObjectWriter::begin(self, Lane::Writer, chunk).await?;
        for piece in pieces {
            writer.push(piece).await?;
        }
        while let Some(piece) = incoming.next().await? {
            writer.push(piece).await?;
        }
        let (tx, loid) = writer.finish().await?;
        Ok(Place::Transaction { tx: Box::new(tx), loid })
    }
}

/// A large object written by an open transaction, with what is known of its bytes.
struct Large {
    tx: Tx,
    loid: Oid,
    size: u64,
    digests: Digests,
}

impl Large {
    /// Inserts its content row.
    async fn insert(&self) -> Result<Uuid> {
        let content = new_id();
        let (md5, sha256) = (&self.digests.md5, self.digests.sha256.as_ref());
        contents::insert_large(&self.tx, content, self.loid, self.size, md5, sha256).await?;
        Ok(content)
    }
}

/// Runs work that must not stop half-way when the caller goes away.
pub(super) async fn detached<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    tokio::spawn(work).await.unwrap_or_else(|e| Err(StorageError::new(ErrorKind::Internal, e)))
}

/// Whether a statement failed because the content that it was to refer to has been reaped (the foreign key).
pub(super) fn is_content_gone(error: &DbError) -> bool {
    error.sqlstate() == Some(&tokio_postgres::error::SqlState::FOREIGN_KEY_VIOLATION)
}

/// A body that arrives: timed, counted, hashed.
struct Incoming {
    body: BodyStream,
    idle_timeout: Duration,
    digester: Digester,
    declared: Option<u64>,
    max_length: u64,
    received: u64,
}

impl Incoming {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let next = tokio::time::timeout(self.idle_timeout, self.body.next()).await;
        let piece = match next.map_err(|_| ErrorKind::BodyTimeout)? {
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
        self.digester.update(&piece);
        Ok(Some(piece))
    }

    /// Receives until the end, or until more than `limit` bytes are there. The flag tells that more may follow.
    async fn receive(&mut self, limit: u64) -> Result<(Vec<Bytes>, bool)> {
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

    fn finish(self) -> Result<Digests> {
        if self.declared.is_some_and(|declared| declared != self.received) {
            return Err(ErrorKind::IncompleteBody.into());
        }
        Ok(self.digester.finish())
    }
}

fn push_some(pieces: &mut Vec<Bytes>, piece: Bytes) {
    if !piece.is_empty() {
        pieces.push(piece);
    }
}
