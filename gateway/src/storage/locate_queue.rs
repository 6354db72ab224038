//! Locate queries that come at the same time go to the server together.
//!
//! Finding an object costs the server a few microseconds; a statement of its own costs it, and this process, several times
//! that in protocol, system calls and task switches. So while a few locate queries are under way, further ones wait for
//! one of them to come back, and then travel as one statement. Nobody waits while the server is idle, and a server that
//! is slow to answer (cold pages) is asked more questions at once rather than longer ones.
//!
//! A caller that goes away takes nobody with it: whatever waits is handed to a task of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::error::{ErrorKind, Result, StorageError};
use super::index::locate::{self, Found, Wanted};
use crate::db::Db;

/// Statements under way that others wait for.
const STATEMENTS: usize = 4;
/// Objects that one statement finds at most.
const MAX_BATCH: usize = 32;
/// A statement that takes longer than this is not worth waiting for.
const PATIENCE: Duration = Duration::from_millis(2);

/// The queue. Cheap to clone.
#[derive(Clone)]
pub(super) struct LocateQueue(Arc<Inner>);

struct Inner {
    db: Db,
    state: Mutex<State>,
}

struct State {
    waiting: VecDeque<Waiting>,
    running: usize,
    last_sent: Instant,
}

struct Waiting {
    wanted: Wanted,
    reply: oneshot::Sender<Result<Found>>,
}

/// A statement that may be sent; when it is given back, what waits meanwhile goes next.
struct Turn(LocateQueue);

impl LocateQueue {
    pub(super) fn new(db: Db) -> Self {
        let state = State { waiting: VecDeque::new(), running: 0, last_sent: Instant::now() };
        Self(Arc::new(Inner { db, state: Mutex::new(state) }))
    }

    /// Finds an object.
    ///
    /// # Errors
    /// Those of the database.
    pub(super) async fn locate(&self, wanted: Wanted) -> Result<Found> {
        let queued = {
            let mut state = self.state();
            if state.running < STATEMENTS || state.last_sent.elapsed() > PATIENCE {
                state.running += 1;
                state.last_sent = Instant::now();
                Err(wanted)
            } else {
                let (reply, answer) = oneshot::channel();
                state.waiting.push_back(Waiting { wanted, reply });
                Ok(answer)
            }
        };
        match queued {
            Err(wanted) => {
                let _turn = Turn(self.clone());
                let found = locate::locate(&self.0.db, &[&wanted]).await?.pop();
                found.ok_or_else(|| ErrorKind::Internal.into())
            }
            Ok(answer) => answer.await.unwrap_or_else(|e| Err(StorageError::new(ErrorKind::Internal, e))),
        }
    }

    /// Sends what waits, until nothing does.
    async fn work(self, turn: Turn) {
        loop {
            let batch: Vec<_> = {
                let mut state = self.state();
                state.last_sent = Instant::now();
                let count = state.waiting.len().min(MAX_BATCH);
                state.waiting.drain(..count).collect()
            };
            if batch.is_empty() {
                break;
            }
            self.answer(batch).await;
        }
        drop(turn);
    }

    async fn answer(&self, batch: Vec<Waiting>) {
        let wanted: Vec<_> = batch.iter().map(|w| &w.wanted).collect();
        match locate::locate(&self.0.db, &wanted).await.map_err(StorageError::from) {
            Ok(found) => {
                for (waiting, found) in batch.into_iter().zip(found) {
                    // Whoever asked may have gone.
                    let _ = waiting.reply.send(Ok(found));
                }
            }
            Err(error) => {
                let (kind, text) = (error.kind(), error.to_string());
                for waiting in batch {
                    let _ = waiting.reply.send(Err(StorageError::new(kind, text.clone())));
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let waits = {
            let mut state = self.0.state();
            if state.waiting.is_empty() {
                state.running -= 1;
                false
            } else {
                true
            }
        };
        // The turn goes on, in a task of its own.
        if waits {
            let queue = self.0.clone();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(queue.clone().work(Turn(queue)));
            }
        }
    }
}
