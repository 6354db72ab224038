//! Sessions that workers take turns on: for the one question that is about pools, who waits for whom.
//!
//! Invariant: first come, first served.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A fixed number of sessions that workers take turns on, first come, first served. Cheap to clone.
pub(super) struct Pool<T> {
    idle: Arc<Mutex<Vec<T>>>,
    turns: Arc<Semaphore>,
}

/// A session taken from a [`Pool`]; it goes back when dropped.
pub(super) struct Pooled<T> {
    session: Option<T>,
    pool: Pool<T>,
    // Dropped after the session is back.
    _turn: OwnedSemaphorePermit,
}

impl<T> Pool<T> {
    /// A pool of sessions.
    #[must_use]
    pub(super) fn new(sessions: Vec<T>) -> Self {
        let turns = Arc::new(Semaphore::new(sessions.len()));
        Self { idle: Arc::new(Mutex::new(sessions)), turns }
    }

    /// Waits for a session.
    ///
    /// # Errors
    /// Never while the pool exists.
    pub(super) async fn take(&self) -> anyhow::Result<Pooled<T>> {
        let turn = Arc::clone(&self.turns).acquire_owned().await?;
        let session = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(Pooled { session, pool: self.clone(), _turn: turn })
    }
}

impl<T> Pooled<T> {
    /// The session.
    ///
    /// # Errors
    /// Never: a turn is a session.
    pub(super) fn session(&self) -> anyhow::Result<&T> {
        self.session.as_ref().context("a turn without a session")
    }
}

impl<T> Drop for Pooled<T> {
    fn drop(&mut self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.session.take());
    }
}

impl<T> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Self { idle: Arc::clone(&self.idle), turns: Arc::clone(&self.turns) }
    }
}
