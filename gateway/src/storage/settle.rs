//! Was it stored? The answer for a write whose reply was lost.
//!
//! The id of the content that a write stores was chosen here, before anything was sent, and `content.id` is unique. So
//! another transaction that inserts the same id settles the question: it waits for a transaction still under way; if that
//! committed, the insert conflicts and the write happened; otherwise the id is now taken by an empty content, a fence, for a day, and the
//! write, should it still arrive, fails. A write that stores no content (a copy, a repeated upload of the same bytes)
//! leaves a receipt in its place. A read guard is held from before the write until the question is settled, so that the
//! content cannot have been replaced and reaped in between.
//!
//! Transaction ids would not do: after a crash those whose WAL was lost are given out again, and then the status of
//! somebody else's transaction would be taken for ours.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;

use super::content::digest::Digests;
use super::error::{ErrorKind, Result, StorageError};
use super::index::puts::Bytestring;
use super::index::{contents, puts, uploads, versions};
use super::types::WriteConditions;
use super::version_types::Written;
use super::{PublishObject, PublishPart, ReadGuard, Storage, new_id};
use crate::db::{DbError, Lane, Tx};

/// How long the database is asked.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two questions.
const INTERVAL: Duration = Duration::from_millis(200);
/// How often a write that is known not to have happened is sent again.
const MAX_ATTEMPTS: u32 = 3;

/// What a byte string is stored as.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// An object with its ETag.
    Object { object: &'a Arc<PublishObject>, etag: &'a str },
    /// A part of an upload.
    Part(&'a PublishPart),
}

/// Whether nothing that the object asks for can be refused.
fn may_share_a_statement(object: &PublishObject) -> bool {
    object.conditions == WriteConditions::default() && !object.settings.has_lock()
}

impl Storage {
    /// Stores a short byte string by one statement, until that is known to have happened or to have failed.
    pub(super) async fn store_settled(
        &self,
        pieces: &[Bytes],
        size: u64,
        digests: &Digests,
        target: Target<'_>,
    ) -> Result<Written> {
        let large = size > self.options.inline_max;
        let guard = self.reads.begin().await?;
        let mut attempt = 1;
        loop {
            let content = new_id();
            let bytes = Bytestring { content, pieces, large, digests };
            let outcome = match target {
                Target::Object { object, etag } if !large && may_share_a_statement(object) => {
                    self.puts.put(&bytes, object, etag).await
                }
                Target::Object { object, etag } => puts::put(&self.db, &bytes, object, etag).await,
                Target::Part(part) => {
                    let stored = uploads::put_part(&self.db, &bytes, part).await;
                    stored.map(|last_modified| Written { last_modified, version: None })
                }
            };
            let error = match outcome {
                Err(e) if e.is_indeterminate() => e,
                outcome => return Ok(outcome?),
            };
            tracing::warn!(%content, %error, "the answer to a write was lost, asking whether it happened");
            if self.happened(content, &guard).await? {
                return self.written(content, target).await;
            }
            if attempt == MAX_ATTEMPTS {
                return Err(StorageError::new(ErrorKind::Unavailable, error));
            }
            attempt += 1;
        }
    }

    /// What the answer that was lost said.
    async fn written(&self, write: Uuid, target: Target<'_>) -> Result<Written> {
        match target {
            Target::Object { object, .. } => Ok(versions::written(&self.db, &object.bucket, write).await?),
            Target::Part(_) => Ok(Written { last_modified: OffsetDateTime::now_utc(), version: None }),
        }
    }

    /// Commits a transaction that inserted the content (or receipt) of this id. The guard is one taken before it.
    pub(super) async fn commit_settled(&self, tx: Tx, content: Uuid, guard: &ReadGuard) -> Result<()> {
        let error = match tx.commit().await {
            Err(e) if e.is_indeterminate() => e,
            outcome => return Ok(outcome?),
        };
        tracing::warn!(%content, %error, "the answer to COMMIT was lost, asking whether it happened");
        if self.happened(content, guard).await? {
            Ok(())
        } else {
            Err(StorageError::new(ErrorKind::Unavailable, error))
        }
    }

    /// Commits a transaction that stores no content of its own: by a receipt under the id of the write.
    pub(super) async fn commit_with_receipt(&self, tx: Tx, write: Uuid, guard: &ReadGuard) -> Result<()> {
        contents::leave_receipt(&tx, write).await?;
        self.commit_settled(tx, write, guard).await
    }

    async fn happened(&self, content: Uuid, guard: &ReadGuard) -> Result<bool> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.ask(content).await {
                Ok(true) => return Ok(true),
                // It may have happened, been replaced and reaped while the reaper did not know of us.
                Ok(false) => {
                    return match guard.check() {
                        Ok(()) => Ok(false),
                        Err(e) => Err(StorageError::new(ErrorKind::Indeterminate, e)),
                    };
                }
                Err(e) if Instant::now() < deadline => {
                    tracing::debug!(error = %e, "the database cannot be asked yet");
                    tokio::time::sleep(INTERVAL).await;
                }
                Err(e) => return Err(StorageError::new(ErrorKind::Indeterminate, e)),
            }
        }
    }

    async fn ask(&self, content: Uuid) -> std::result::Result<bool, DbError> {
        let tx = self.db.begin("settle", Lane::Short).await?;
        let happened = contents::fence(&tx, content).await?;
        tx.commit().await?;
        Ok(happened)
    }
}
