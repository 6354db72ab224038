//! Bytes in: received, hashed and kept, then published by one transaction; or dropped, leaving nothing.
//!
//! Staging and publishing are two steps so that the caller can compare digests, lengths and trailers in between, with
//! nothing visible yet. A body up to `buffer_max` is received whole before the database is asked for anything: a slow
//! client holds memory (bounded by the upload budget), but no connection and no transaction, save for the moment that
//! [`super::early_write`] gives a fast one. Beyond `inline_max` it is then written to a large object of an open
//! transaction while the rest of it is still being hashed, unless the key may
//! have the same bytes already. A body longer than `buffer_max` is written as it arrives, on a connection of the writers'
//! pool. Whatever fails before COMMIT rolls all of it back.
//!
//! Publishing runs to its end even if the client goes away: once COMMIT may have been sent, stopping half-way would
//! leave nobody to learn the outcome.

use std::sync::Arc;

use bytes::Bytes;
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_postgres::types::Oid;

use super::budget::Permit;
use super::content::digest::{self, Digester, Digests};
use super::content::hashing::{Hashing, MAX_PENDING_BYTES};
use super::early_write::{self, FIRST_BYTES};
use super::error::{ErrorKind, Result, StorageError};
use super::incoming::{BodyStream, Incoming, Pieces, Pressure};
use super::index::contents::LargeContent;
use super::index::locate::{Found, Wanted};
use super::index::objects::ExistingContent;
use super::index::{objects, uploads};
use super::large_object_writer::{LargeObjectWriter, WRITES_IN_FLIGHT};
use super::settle::Target;
use super::types::{BucketName, ChecksumAlgorithm, ObjectInfo, ObjectKey, PartInfo};
use super::version_types::Written;
use super::{PublishObject, PublishPart, Published, Storage, StorageOptions, content, new_id};
use crate::db::{DbError, Lane, Tx};

/// Longest byte string that is stored by one statement (`lo_from_bytea`): beyond it chunked writes cost less memory, here
/// and at the server, and fresh memory is not free.
const ONE_STATEMENT_MAX: u64 = 1 << 20;

/// What to expect of a body, and what to compute while it arrives; MD5 and the length always are.
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
    /// The object that these bytes may replace, or may be equal to.
    pub replaces: Option<(BucketName, ObjectKey)>,
}

/// Bytes received, not yet visible.
pub struct Staged {
    size: u64,
    digests: Digests,
    place: Place,
}

enum Place {
    /// In memory, with the share of the budget that they take.
    Memory {
        pieces: Vec<Bytes>,
        /// Longer than `inline_max`, and the key had an object of this size and MD5.
        may_be_same: bool,
        _permit: Option<Permit>,
    },
    /// In a large object of an open transaction.
    Transaction { tx: Box<Tx>, loid: Oid },
}

impl Staged {
    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Their digests.
    #[must_use]
    pub fn digests(&self) -> &Digests {
        &self.digests
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
        let is_large = options.length.is_none_or(|length| length > ONE_STATEMENT_MAX);
        let hashing = Hashing::new(&self.hashers, Digester::new(&options.checksums), is_large);
        let (idle_timeout, pressure) = (self.options.body_idle_timeout, self.pressure(options.length));
        let mut incoming = Incoming::new(body, hashing, options.length, options.max_length, idle_timeout, pressure);
        let (place, size, mut digests) = if options.length.is_some_and(|length| length > self.options.buffer_max) {
            let _permit = self.uploads.take(self.streaming_bytes()).await?;
            let place = self.stream(&mut incoming, Vec::new()).await?;
            (place, incoming.received(), incoming.finish().await?)
        } else {
            self.buffer(incoming, &options).await?
        };
        digests.sha256 = options.signed_sha256.or(digests.sha256);
        Ok(Staged { size, digests, place })
    }

    /// Whether others wait for what a body of such a length holds while it arrives.
    fn pressure(&self, length: Option<u64>) -> Pressure {
        let StorageOptions { inline_max, buffer_max, .. } = *self.options;
        let short = length.is_some_and(|length| length <= inline_max);
        let memory = if short { self.short_uploads.clone() } else { self.uploads.clone() };
        let writes = length.is_none_or(|length| length > buffer_max);
        let db = self.db.clone();
        Box::new(move || memory.is_wanted() || (writes && db.writers_queue()))
    }

    /// Receives a body whole, unless it turns out to be longer than `buffer_max`. A large one is then written while the
    /// rest of it is hashed; where that fails, or the key may have these bytes already, publishing sees to it.
    async fn buffer(&self, mut incoming: Incoming, options: &StageOptions) -> Result<(Place, u64, Digests)> {
        let StorageOptions { inline_max, buffer_max, .. } = *self.options;
        let short = options.length.is_some_and(|length| length <= inline_max);
        let budget = if short { &self.short_uploads } else { &self.uploads };
        // Whoever may come to stream has the share for that from the beginning: two that wait for each other's would
        // wait for ever.
        let share = options.length.unwrap_or_else(|| self.streaming_bytes().max(buffer_max));
        let permit = budget.take(share).await?;
        let (mut pieces, begun) = (Pieces::default(), Instant::now());
        let first = FIRST_BYTES.min(buffer_max);
        let (more, live) = futures::join!(incoming.receive(&mut pieces, first), self.live(short, options));
        let (mut more, mut early) = (more?, None);
        if let Some(length) = options.length.filter(|length| more && *length > early_write::LEAST_BYTES)
            && live.as_ref().is_none_or(|live| live.size != length)
            && let Some(place) = self.early_writes.admit(begun.elapsed())
        {
            early = self.write_early(&mut incoming, &mut pieces, place).await?;
        }
        if more && early.is_none() {
            more = incoming.receive(&mut pieces, buffer_max).await?;
        }
        let pieces = incoming.take(pieces)?;
        if more && early.is_none() {
            let place = self.stream(&mut incoming, pieces).await?;
            return Ok((place, incoming.received(), incoming.finish().await?));
        }
        let size = incoming.received();
        let same_size = live.filter(|live| live.size == size);
        if size <= inline_max || same_size.is_some() {
            let digests = incoming.finish().await?;
            let may_be_same = same_size.is_some_and(|live| live.etag == hex::encode(digests.md5));
            return Ok((Place::Memory { pieces, may_be_same, _permit: Some(permit) }, size, digests));
        }
        incoming.seal()?;
        let hurry = incoming.hurry();
        let written = match early {
            Some(writer) => {
                hurry();
                writer.finish().await
            }
            None => self.write_pieces(&pieces, size, hurry).await,
        };
        let digests = incoming.finish().await?;
        let place = match written {
            Ok((tx, loid)) => Place::Transaction { tx: Box::new(tx), loid },
            Err(e) if matches!(e.kind(), ErrorKind::Unavailable | ErrorKind::Busy) => {
                tracing::warn!(error = %e, "a body could not be written, it will be tried again");
                Place::Memory { pieces, may_be_same: false, _permit: Some(permit) }
            }
            Err(e) => return Err(e),
        };
        Ok((place, size, digests))
    }

    /// The object that a body may be equal to; `None` where there is none, or nobody needs to know.
    async fn live(&self, short: bool, options: &StageOptions) -> Option<ObjectInfo> {
        let (bucket, key) = options.replaces.clone().filter(|_| !short)?;
        match self.locates.locate(Wanted { bucket, key, with_content: false }).await {
            Ok(Found::Object(row)) => Some(row.info),
            // An error will come again when the body is written, and be told then.
            _ => None,
        }
    }

    /// Publishes staged bytes as an object.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchBucket`], [`ErrorKind::PreconditionFailed`], [`ErrorKind::NoSuchKey`] (If-Match on a key
    /// without object), and those of the database.
    pub async fn publish_object(&self, staged: Staged, object: PublishObject) -> Result<Published> {
        let (storage, object) = (self.clone(), Arc::new(object));
        detached(async move {
            let (size, etag) = (staged.size, hex::encode(staged.digests.md5));
            let written = storage.publish_staged_object(staged, &object, &etag).await?;
            Ok(Published { etag, size, written })
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

    async fn publish_staged_object(&self, staged: Staged, object: &Arc<PublishObject>, etag: &str) -> Result<Written> {
        let (size, mut digests) = (staged.size, staged.digests);
        match staged.place {
            Place::Memory { pieces, may_be_same, _permit } => {
                if may_be_same {
                    let sha256 = sha256_of(&pieces, digests.sha256).await?;
                    if let Some(published) = self.publish_same_content(size, &sha256, object, etag).await? {
                        return Ok(published);
                    }
                    digests.sha256 = Some(sha256);
                }
                if size <= ONE_STATEMENT_MAX {
                    return self.store_settled(&pieces, size, &digests, Target::Object { object, etag }).await;
                }
                let (tx, loid) = self.write_pieces(&pieces, size, || ()).await?;
                self.publish_large(tx, LargeContent { content: new_id(), loid, size, digests }, object, etag).await
            }
            Place::Transaction { tx, loid } => {
                self.publish_large(*tx, LargeContent { content: new_id(), loid, size, digests }, object, etag).await
            }
        }
    }

    async fn publish_staged_part(&self, staged: Staged, part: &PublishPart) -> Result<OffsetDateTime> {
        let (size, digests) = (staged.size, staged.digests);
        let (tx, loid) = match staged.place {
            Place::Memory { pieces, _permit, .. } if size <= ONE_STATEMENT_MAX => {
                let stored = self.store_settled(&pieces, size, &digests, Target::Part(part)).await?;
                return Ok(stored.last_modified);
            }
            Place::Memory { pieces, _permit, .. } => self.write_pieces(&pieces, size, || ()).await?,
            Place::Transaction { tx, loid } => (*tx, loid),
        };
        let guard = self.reads.begin().await?;
        let large = LargeContent { content: new_id(), loid, size, digests };
        let last_modified = uploads::publish_large_part(&tx, &large, part).await?;
        self.commit_settled(tx, large.content, &guard).await?;
        Ok(last_modified)
    }

    async fn publish_large(&self, tx: Tx, large: LargeContent, object: &PublishObject, etag: &str) -> Result<Written> {
        let guard = self.reads.begin().await?;
        let written = objects::publish_large(&tx, &large, object, etag).await?;
        self.commit_settled(tx, large.content, &guard).await?;
        Ok(written)
    }

    /// Compare and skip: where the key has these bytes already, they are not sent again. Small ones are compared by the
    /// storing statement itself, which saves the round trip.
    async fn publish_same_content(
        &self,
        size: u64,
        sha256: &[u8; 32],
        object: &PublishObject,
        etag: &str,
    ) -> Result<Option<Written>> {
        let guard = self.reads.begin().await?;
        let Some(content) = objects::same_content(&self.db, &object.bucket, &object.key, size, sha256).await? else {
            return Ok(None);
        };
        let tx = self.db.begin("put_same_content", Lane::Short).await?;
        let write = new_id();
        let existing = ExistingContent { write, content, size, etag, parts_count: None };
        match objects::publish(&tx, &existing, object).await {
            Ok(written) => {
                self.commit_with_receipt(tx, write, &guard).await?;
                Ok(Some(written))
            }
            // Replaced and reaped since we looked: its bytes have to be stored after all.
            Err(e) if is_content_gone(&e) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Writes bytes at hand to a large object of a new transaction. `nearly` is called when all of many are on their way.
    async fn write_pieces(&self, pieces: &[Bytes], size: u64, nearly: impl FnOnce()) -> Result<(Tx, Oid)> {
        if size <= ONE_STATEMENT_MAX {
            let tx = self.db.begin("write_large_object", Lane::Short).await?;
            let loid = content::create_from(&tx, pieces).await?;
            return Ok((tx, loid));
        }
        let chunk = usize::try_from(self.options.write_chunk).unwrap_or(usize::MAX);
        let mut writer = LargeObjectWriter::begin(self, Lane::Short, chunk).await?;
        for piece in pieces {
            writer.push(piece.clone()).await?;
        }
        nearly();
        writer.finish().await
    }

    /// Memory that a body takes while it is streamed, bytes.
    fn streaming_bytes(&self) -> u64 {
        self.options.write_chunk * (WRITES_IN_FLIGHT as u64 + 1) + MAX_PENDING_BYTES as u64
    }

    /// Writes a body to a large object of a new transaction as it arrives, after the pieces that already have. The caller
    /// holds a share of the memory.
    async fn stream(&self, incoming: &mut Incoming, pieces: Vec<Bytes>) -> Result<Place> {
        let chunk = usize::try_from(self.options.write_chunk).unwrap_or(usize::MAX);
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

/// Runs work that must not stop half-way when the caller goes away.
pub(super) async fn detached<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    tokio::spawn(work).await.unwrap_or_else(|e| Err(StorageError::new(ErrorKind::Internal, e)))
}

/// The SHA-256 of bytes, unless it is known: computed on a thread where that may take long.
async fn sha256_of(pieces: &[Bytes], known: Option<[u8; 32]>) -> Result<[u8; 32]> {
    if let Some(sha256) = known {
        return Ok(sha256);
    }
    let pieces = pieces.to_vec();
    let hashed = tokio::task::spawn_blocking(move || digest::sha256(&pieces)).await;
    hashed.map_err(|e| StorageError::new(ErrorKind::Internal, e))
}

/// Whether a statement failed because the content that it was to refer to has been reaped (the foreign key).
pub(super) fn is_content_gone(error: &DbError) -> bool {
    error.sqlstate() == Some(&tokio_postgres::error::SqlState::FOREIGN_KEY_VIOLATION)
}
