//! Locate queries that come at the same time are one statement ([`BatchQueue`]).

use std::time::Duration;

use super::batch_queue::{Batch, BatchQueue};
use super::error::{ErrorKind, Result, StorageError};
use super::index::locate::{self, Found, Wanted};
use crate::db::Db;

/// The queue of locate queries. Cheap to clone.
#[derive(Clone)]
pub(super) struct LocateQueue(BatchQueue<Locates>);

struct Locates(Db);

impl LocateQueue {
    pub(super) fn new(db: Db) -> Self {
        Self(BatchQueue::new(Locates(db)))
    }

    /// Finds an object.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn locate(&self, wanted: Wanted) -> Result<Found> {
        self.0.ask(wanted).await.unwrap_or_else(|| Err(ErrorKind::Internal.into()))
    }
}

impl Batch for Locates {
    type Question = Wanted;
    type Answer = Result<Found>;

    const MAX_BATCH: usize = 32;
    const PATIENCE: Duration = Duration::from_millis(2);

    async fn ask(&self, wanted: &Wanted) -> Result<Found> {
        let found = locate::locate(&self.0, std::slice::from_ref(wanted)).await?.pop();
        found.ok_or_else(|| ErrorKind::Internal.into())
    }

    async fn ask_all(&self, batch: &[Wanted]) -> Option<Vec<Result<Found>>> {
        Some(match locate::locate(&self.0, batch).await.map_err(StorageError::from) {
            Ok(found) => found.into_iter().map(Ok).collect(),
            Err(error) => {
                let (kind, text) = (error.kind(), error.to_string());
                batch.iter().map(|_| Err(StorageError::new(kind, text.clone()))).collect()
            }
        })
    }
}
