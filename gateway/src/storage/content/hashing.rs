//! Digests beside the path of the bytes, not on it.
//!
//! MD5 alone takes longer per byte than the network (about 1.6 ms per MiB), so a body is hashed in jobs on the blocking
//! threads while the next pieces arrive or are written. Several bodies hashed together take about as long as one
//! ([`super::md5_lanes`]), so jobs wait for company: a thread begins once half of the bodies under way have a job that
//! waits, or as soon as somebody cannot go on without the digest. A lone body is hashed at once. With so many large bodies
//! under way that no processor idles, nothing is gained by being early: their jobs wait until the lanes are full or one
//! of them is nearly written. A job that waits grows by what its body brings meanwhile. Short bodies are hashed in place.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::spawn_blocking;

use super::digest::{Digester, Digests};
use super::md5_lanes::LANES;
use crate::storage::error::{ErrorKind, Result, StorageError};
use crate::storage::processors;

/// Bytes that are worth a job: what hashes in less is not worth the switch to another thread.
const JOB_BYTES: usize = 256 << 10;
/// Bytes of a streamed body that are not hashed yet, at most; whoever brings more waits.
pub(in crate::storage) const MAX_PENDING_BYTES: usize = 1 << 20;

/// The threads that hash, and what waits for them. Cheap to clone.
#[derive(Clone)]
pub(in crate::storage) struct Hashers(Arc<Inner>);

struct Inner {
    queue: Mutex<Queue>,
    max_threads: usize,
    /// So many bodies under way leave no processor idle.
    busy: usize,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    threads: usize,
    /// Bodies long enough for jobs, from their first job to their last.
    bodies: usize,
    last_job: u64,
}

struct Job {
    id: u64,
    digester: Box<Digester>,
    pieces: Vec<Bytes>,
    is_large: bool,
    is_demanded: bool,
    done: oneshot::Sender<Box<Digester>>,
}

impl Queue {
    /// Whether enough has come together, or somebody cannot wait.
    fn is_due(&self, busy: usize) -> bool {
        let patient = self.bodies >= busy && self.waiting.iter().all(|job| job.is_large);
        let enough = if patient { LANES } else { self.bodies.div_ceil(2).min(LANES) };
        self.waiting.front().is_some_and(|job| job.is_demanded || self.waiting.len() >= enough)
    }
}

impl Hashers {
    /// Half as many threads as there are processors: the database needs them too, and lanes count for more.
    pub(in crate::storage) fn new() -> Self {
        let (max_threads, busy) = ((processors() / 2).max(1), processors().max(2));
        Self(Arc::new(Inner { queue: Mutex::default(), max_threads, busy }))
    }

    fn start(&self, digester: Box<Digester>, pieces: Vec<Bytes>, is_large: bool) -> Waiting {
        let (done, answer) = oneshot::channel();
        let mut queue = self.queue();
        queue.last_job += 1;
        let id = queue.last_job;
        queue.waiting.push_back(Job { id, digester, pieces, is_large, is_demanded: false, done });
        self.begin_if_due(queue);
        Waiting { id, answer }
    }

    /// Adds to a job that has not begun; false where it has.
    fn extend(&self, id: u64, pieces: &mut Vec<Bytes>) -> bool {
        let mut queue = self.queue();
        let Some(job) = queue.waiting.iter_mut().find(|job| job.id == id) else { return false };
        job.pieces.append(pieces);
        true
    }

    /// Somebody waits for this job: it comes before those that nobody waits for, and takes along what is there.
    fn demand(&self, id: u64) {
        let mut queue = self.queue();
        let Some(at) = queue.waiting.iter().position(|job| job.id == id) else { return };
        if let Some(mut job) = queue.waiting.remove(at) {
            job.is_demanded = true;
            let before = queue.waiting.iter().take_while(|other| other.is_demanded).count();
            queue.waiting.insert(before, job);
        }
        self.begin_if_due(queue);
    }

    fn begin_if_due(&self, mut queue: MutexGuard<'_, Queue>) {
        if queue.is_due(self.0.busy) && queue.threads < self.0.max_threads {
            queue.threads += 1;
            // A thread that cannot begin gives its place back, under the lock.
            drop(queue);
            let thread = Thread { hashers: self.clone(), given_back: false };
            spawn_blocking(move || thread.work());
        }
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

    /// What waits, as much as there are lanes; the place is given back where nothing is due.
    fn next_jobs(&mut self) -> Option<Vec<Job>> {
        let mut queue = self.hashers.queue();
        if !queue.is_due(self.hashers.0.busy) {
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
    /// Bytes in the job that was started last.
    job_bytes: usize,
    is_counted: bool,
    is_large: bool,
}

enum Worker {
    Idle(Box<Digester>),
    Busy(Waiting),
    /// A job did not come back; its error has been told.
    Gone,
}

/// A job that is to come back.
struct Waiting {
    id: u64,
    answer: oneshot::Receiver<Box<Digester>>,
}

impl Hashing {
    /// A large body takes long to be written: there is time to wait for company, until [`Hashing::hurry`].
    pub(in crate::storage) fn new(hashers: &Hashers, digester: Digester, is_large: bool) -> Self {
        Self {
            hashers: hashers.clone(),
            worker: Worker::Idle(Box::new(digester)),
            pending: Vec::new(),
            pending_bytes: 0,
            job_bytes: 0,
            is_counted: false,
            is_large,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] where a job did not come back.
    pub(in crate::storage) fn push(&mut self, piece: Bytes) -> Result<()> {
        self.pending_bytes += piece.len();
        self.pending.push(piece);
        if self.pending_bytes >= JOB_BYTES { self.hand_over() } else { Ok(()) }
    }

    /// Waits where hashing is far behind, for a body of which nobody else keeps the bytes.
    ///
    /// # Errors
    /// As [`Hashing::push`].
    pub(in crate::storage) async fn catch_up(&mut self) -> Result<()> {
        while self.pending_bytes + self.job_bytes > MAX_PENDING_BYTES {
            let digester = self.idle().await?;
            self.worker = Worker::Idle(digester);
            if self.pending_bytes >= JOB_BYTES {
                self.hand_over()?;
            }
        }
        Ok(())
    }

    /// No more bytes will come: what there is may be hashed while the caller does something else.
    ///
    /// # Errors
    /// As [`Hashing::push`].
    pub(in crate::storage) fn seal(&mut self) -> Result<()> {
        if self.pending_bytes + self.job_bytes >= JOB_BYTES { self.hand_over() } else { Ok(()) }
    }

    /// What to call when the digests will be needed soon: waiting for company ends then.
    pub(in crate::storage) fn hurry(&self) -> impl FnOnce() + Send + use<> {
        let (hashers, job) =
            (self.hashers.clone(), if let Worker::Busy(job) = &self.worker { Some(job.id) } else { None });
        move || job.into_iter().for_each(|id| hashers.demand(id))
    }

    /// The digests of all bytes taken.
    ///
    /// # Errors
    /// As [`Hashing::push`].
    pub(in crate::storage) async fn finish(mut self) -> Result<Digests> {
        let mut digester = self.idle().await?;
        if self.pending_bytes >= JOB_BYTES {
            self.worker = Worker::Idle(digester);
            self.hand_over()?;
            digester = self.idle().await?;
        }
        self.pending.iter().for_each(|piece| digester.update(piece));
        Ok(digester.finish())
    }

    /// Makes what is pending a job, or part of the one that waits. Where that is being hashed, it stays.
    fn hand_over(&mut self) -> Result<()> {
        if let Worker::Busy(job) = &mut self.worker {
            if self.hashers.extend(job.id, &mut self.pending) {
                self.job_bytes += std::mem::take(&mut self.pending_bytes);
                return Ok(());
            }
            match job.answer.try_recv() {
                Ok(digester) => self.worker = Worker::Idle(digester),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Closed) => return Err(lost()),
            }
        }
        if !self.is_counted {
            self.is_counted = true;
            self.hashers.queue().bodies += 1;
        }
        match std::mem::replace(&mut self.worker, Worker::Gone) {
            Worker::Idle(digester) => {
                self.job_bytes = std::mem::take(&mut self.pending_bytes);
                self.worker =
                    Worker::Busy(self.hashers.start(digester, std::mem::take(&mut self.pending), self.is_large));
                Ok(())
            }
            Worker::Busy(_) | Worker::Gone => Err(lost()),
        }
    }

    /// Waits for the job under way.
    async fn idle(&mut self) -> Result<Box<Digester>> {
        match std::mem::replace(&mut self.worker, Worker::Gone) {
            Worker::Idle(digester) => Ok(digester),
            Worker::Busy(mut job) => {
                let digester = match job.answer.try_recv() {
                    Ok(digester) => digester,
                    Err(TryRecvError::Empty) => {
                        self.hashers.demand(job.id);
                        job.answer.await.map_err(|_| lost())?
                    }
                    Err(TryRecvError::Closed) => return Err(lost()),
                };
                self.job_bytes = 0;
                Ok(digester)
            }
            Worker::Gone => Err(lost()),
        }
    }
}

impl Drop for Hashing {
    fn drop(&mut self) {
        if self.is_counted {
            let mut queue = self.hashers.queue();
            queue.bodies -= 1;
            if let Worker::Busy(job) = &self.worker {
                queue.waiting.retain(|waiting| waiting.id != job.id);
            }
            // Half of fewer may be there already.
            self.hashers.begin_if_due(queue);
        }
    }
}

fn lost() -> StorageError {
    StorageError::new(ErrorKind::Internal, "a body could not be hashed")
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
                let mut hashing = Hashing::new(&hashers, Digester::new(&ChecksumAlgorithm::ALL), seed % 3 > 0);
                let piece = [1000, 64 << 10, 300 << 10, 5 << 20][seed as usize % 4];
                for piece in bytes.chunks(piece) {
                    hashing.push(Bytes::copy_from_slice(piece)).expect("taken");
                    if seed % 2 == 0 {
                        hashing.catch_up().await.expect("not far behind");
                    }
                }
                hashing.finish().await.expect("hashed")
            })
        });
        for (seed, digests) in (0..).zip(futures::future::join_all(hashed).await) {
            let mut whole = Digester::new(&ChecksumAlgorithm::ALL);
            whole.update(&body(seed));
            assert_eq!(digests.expect("no panic"), whole.finish(), "body {seed}");
        }
        let queue = hashers.queue();
        assert_eq!((queue.bodies, queue.waiting.len()), (0, 0), "nothing is left behind");
    }
}
