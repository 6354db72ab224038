//! Digests beside the path of the bytes, not on it.
//!
//! MD5 alone takes longer per byte than the network (about 1.6 ms per MiB), so a body is hashed in jobs on the blocking
//! threads while the next pieces arrive or are written. The jobs of one body follow each other. Those of different bodies
//! queue for few threads, and a thread that becomes free takes as many as its lanes hold: together they take about as long
//! as one. A thread is taken only when there are bytes to hash, so slow bodies hold none. Short bodies are hashed in place.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::spawn_blocking;

use super::digest::{Digester, Digests};
use super::md5_lanes::LANES;
use crate::storage::error::{ErrorKind, Result, StorageError};

/// Bytes that are worth a job: what hashes in less is not worth the switch to another thread.
const JOB_BYTES: usize = 256 << 10;
/// Bytes that wait for their job at most; whoever brings more waits too.
pub(in crate::storage) const MAX_PENDING_BYTES: usize = 1 << 20;

/// The threads that hash, and what waits for them. Cheap to clone.
#[derive(Clone)]
pub(in crate::storage) struct Hashers(Arc<Inner>);

struct Inner {
    queue: Mutex<Queue>,
    max_threads: usize,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    threads: usize,
}

struct Job {
    digester: Box<Digester>,
    pieces: Vec<Bytes>,
    done: oneshot::Sender<Box<Digester>>,
}

impl Hashers {
    /// Half as many threads as there are processors: the database needs them too, and lanes count for more.
    pub(in crate::storage) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Inner { queue: Mutex::default(), max_threads: (processors / 2).max(1) }))
    }

    fn start(&self, digester: Box<Digester>, pieces: Vec<Bytes>) -> oneshot::Receiver<Box<Digester>> {
        let (done, receiver) = oneshot::channel();
        let mut queue = self.queue();
        queue.waiting.push_back(Job { digester, pieces, done });
        if queue.threads < self.0.max_threads {
            queue.threads += 1;
            let thread = Thread { hashers: self.clone(), given_back: false };
            spawn_blocking(move || thread.work());
        }
        receiver
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread's place among the threads.
struct Thread {
    hashers: Hashers,
    given_back: bool,
}

impl Thread {
    fn work(mut self) {
        while let Some(mut jobs) = self.next_jobs() {
            let mut parts: Vec<_> = jobs.iter_mut().map(|job| (&mut *job.digester, job.pieces.as_slice())).collect();
            Digester::update_all(&mut parts);
            for Job { digester, done, .. } in jobs {
                // Whoever brought the body may have gone.
                let _ = done.send(digester);
            }
        }
    }

    /// What waits, as much as there are lanes; the place is given back where nothing does.
    fn next_jobs(&mut self) -> Option<Vec<Job>> {
        let mut queue = self.hashers.queue();
        if queue.waiting.is_empty() {
            queue.threads -= 1;
            self.given_back = true;
            return None;
        }
        let count = queue.waiting.len().min(LANES);
        Some(queue.waiting.drain(..count).collect())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if !self.given_back {
            // A defect in a digest, or the runtime stops: whoever waits hears of it instead of waiting on.
            let mut queue = self.hashers.queue();
            queue.threads -= 1;
            queue.waiting.clear();
        }
    }
}

/// A body being hashed.
pub(in crate::storage) struct Hashing {
    hashers: Hashers,
    worker: Worker,
    pending: Vec<Bytes>,
    pending_bytes: usize,
}

enum Worker {
    Idle(Box<Digester>),
    Busy(oneshot::Receiver<Box<Digester>>),
    /// A job did not come back; its error has been told.
    Gone,
}

impl Hashing {
    pub(in crate::storage) fn new(hashers: &Hashers, digester: Digester) -> Self {
        let worker = Worker::Idle(Box::new(digester));
        Self { hashers: hashers.clone(), worker, pending: Vec::new(), pending_bytes: 0 }
    }

    /// Takes the next bytes; waits where hashing is far behind.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where a job did not come back.
    pub(in crate::storage) async fn push(&mut self, piece: Bytes) -> Result<()> {
        self.pending_bytes += piece.len();
        self.pending.push(piece);
        if self.pending_bytes < JOB_BYTES {
            return Ok(());
        }
        if let Worker::Busy(job) = &mut self.worker
            && self.pending_bytes < MAX_PENDING_BYTES
        {
            match job.try_recv() {
                Ok(digester) => self.worker = Worker::Idle(digester),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Closed) => {}
            }
        }
        let digester = self.idle().await?;
        self.start(digester);
        Ok(())
    }

    /// The digests of all bytes taken.
    ///
    /// # Errors
    /// As [`Hashing::push`].
    pub(in crate::storage) async fn finish(mut self) -> Result<Digests> {
        let mut digester = self.idle().await?;
        if self.pending_bytes >= JOB_BYTES {
            self.start(digester);
            digester = self.idle().await?;
        }
        self.pending.iter().for_each(|piece| digester.update(piece));
        Ok(digester.finish())
    }

    async fn idle(&mut self) -> Result<Box<Digester>> {
        let lost = || StorageError::new(ErrorKind::Internal, "a body could not be hashed");
        match std::mem::replace(&mut self.worker, Worker::Gone) {
            Worker::Idle(digester) => Ok(digester),
            Worker::Busy(job) => job.await.map_err(|_| lost()),
            Worker::Gone => Err(lost()),
        }
    }

    fn start(&mut self, digester: Box<Digester>) {
        self.pending_bytes = 0;
        self.worker = Worker::Busy(self.hashers.start(digester, std::mem::take(&mut self.pending)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::types::ChecksumAlgorithm;

    #[tokio::test]
    async fn digests_are_those_of_the_bytes_in_their_order_however_many_bodies_there_are() {
        let hashers = Hashers::new();
        let body = |seed: u32| -> Vec<u8> {
            (0..(1 << 20) + 17 + seed * 70_001).map(|i| u8::try_from((i * 7 + seed) % 251).unwrap_or(0)).collect()
        };
        let hashed = (0..20_u32).map(|seed| {
            let (bytes, hashers) = (body(seed), hashers.clone());
            tokio::spawn(async move {
                let mut hashing = Hashing::new(&hashers, Digester::new(&ChecksumAlgorithm::ALL));
                let piece = [1000, 64 << 10, 300 << 10, 5 << 20][seed as usize % 4];
                for piece in bytes.chunks(piece) {
                    hashing.push(Bytes::copy_from_slice(piece)).await.expect("taken");
                }
                hashing.finish().await.expect("hashed")
            })
        });
        for (seed, digests) in (0..).zip(futures::future::join_all(hashed).await) {
            let mut whole = Digester::new(&ChecksumAlgorithm::ALL);
            whole.update(&body(seed));
            assert_eq!(digests.expect("no panic"), whole.finish(), "body {seed}");
        }
        assert_eq!(hashers.queue().threads, 0, "threads are given back");
    }
}
