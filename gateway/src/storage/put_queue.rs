//! Small objects that are stored at the same time share a statement and its COMMIT ([`BatchQueue`]).
//!
//! A batch is stored whole or not at all. Only what cannot fail for a reason of its own travels in one: no conditions,
//! no locks, keys all different. Should the server reject a batch all the same (a deadlock, a key that somebody else holds for
//! longer than a moment, a row that is not sound), each is stored by a statement of its own and waits, fails or succeeds by
//! itself. Where the answer to a batch is lost, each of its writers asks for itself whether it happened (`settle.rs`).

use std::sync::Arc;
use std::time::Duration;

use super::PublishObject;
use super::batch_queue::{Batch, BatchQueue};
use super::error::{ErrorKind, StorageError};
use super::index::puts::{self, Bytestring, SmallPut};
use super::version_types::Written;
use crate::db::{Db, DbError, DbErrorKind};

/// Bytes in one statement.
const MAX_BATCH_BYTES: usize = 512 << 10;

/// The queue of small puts. Cheap to clone.
#[derive(Clone)]
pub(super) struct PutQueue(BatchQueue<Puts>);

struct Puts(Db);

impl PutQueue {
    pub(super) fn new(db: Db) -> Self {
        Self(BatchQueue::new(Puts(db)))
    }

    /// Stores a byte string inline and publishes it as an object without conditions.
    ///
    /// # Errors
    /// Those of the database; the write may have happened where [`DbError::is_indeterminate`].
    pub(super) async fn put(
        &self,
        bytes: &Bytestring<'_>,
        object: &Arc<PublishObject>,
        etag: &str,
    ) -> Result<Written, DbError> {
        let put = SmallPut {
            content: bytes.content,
            pieces: bytes.pieces.to_vec(),
            digests: bytes.digests.clone(),
            object: Arc::clone(object),
            etag: etag.to_owned(),
        };
        self.0.ask(put).await.unwrap_or_else(|| Err(DbError::unanswered()))
    }
}

impl Batch for Puts {
    type Question = SmallPut;
    type Answer = Result<Written, DbError>;

    const MAX_BATCH: usize = 32;
    const PATIENCE: Duration = Duration::from_millis(10);

    fn may_join(batch: &[SmallPut], next: &SmallPut) -> bool {
        let bytes: usize = batch.iter().chain([next]).map(SmallPut::len).sum();
        batch.is_empty()
            || (bytes <= MAX_BATCH_BYTES
                && batch.iter().all(|put| put.object.bucket == next.object.bucket && put.object.key != next.object.key))
    }

    async fn ask(&self, put: &SmallPut) -> Self::Answer {
        let bytes = Bytestring { content: put.content, pieces: &put.pieces, large: false, digests: &put.digests };
        puts::put(&self.0, &bytes, &put.object, &put.etag).await
    }

    async fn ask_all(&self, batch: &[SmallPut]) -> Option<Vec<Self::Answer>> {
        match puts::put_many(&self.0, batch).await {
            Ok(written) => Some(written.into_iter().map(Ok).collect()),
            Err(error) if error.kind() == DbErrorKind::Rejected && !is_bucket_gone(&error) => {
                tracing::debug!(%error, puts = batch.len(), "a batch of small objects was rejected, storing them one by one");
                None
            }
            Err(error) => Some(batch.iter().map(|_| Err(error.clone())).collect()),
        }
    }
}

/// The one rejection that all of a batch share.
fn is_bucket_gone(error: &DbError) -> bool {
    StorageError::from(error.clone()).kind() == ErrorKind::NoSuchBucket
}
