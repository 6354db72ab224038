//! Digests beside the path of the bytes, not on it.
//!
//! MD5 alone takes longer per byte than the network or the database (about 1.6 ms per MiB), so a body is hashed in jobs
//! on the blocking threads while the next pieces arrive or are written. The jobs of one body follow each other; a thread
//! is taken only when there are bytes to hash, so slow bodies hold none. Short bodies are hashed in place.

use bytes::Bytes;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use super::digest::{Digester, Digests};

/// Bytes that are worth a job: what hashes in less is not worth the switch to another thread.
const JOB_BYTES: usize = 256 << 10;
/// Bytes that wait for their job at most; whoever brings more waits too.
pub(in crate::storage) const MAX_PENDING_BYTES: usize = 1 << 20;

/// A body being hashed.
pub(in crate::storage) struct Hashing {
    worker: Worker,
    pending: Vec<Bytes>,
    pending_bytes: usize,
}

enum Worker {
    Idle(Box<Digester>),
    Busy(JoinHandle<Box<Digester>>),
    /// A job panicked; its error has been told.
    Gone,
}

impl Hashing {
    pub(in crate::storage) fn new(digester: Digester) -> Self {
        Self { worker: Worker::Idle(Box::new(digester)), pending: Vec::new(), pending_bytes: 0 }
    }

    /// Takes the next bytes; waits where hashing is far behind.
    ///
    /// # Errors
    /// [`JoinError`] where a job panicked or the runtime stops.
    pub(in crate::storage) async fn push(&mut self, piece: Bytes) -> Result<(), JoinError> {
        self.pending_bytes += piece.len();
        self.pending.push(piece);
        if self.pending_bytes < JOB_BYTES {
            return Ok(());
        }
        if let Worker::Busy(job) = &self.worker
            && !job.is_finished()
            && self.pending_bytes < MAX_PENDING_BYTES
        {
            return Ok(());
        }
        let digester = self.idle().await?;
        self.start(digester);
        Ok(())
    }

    /// The digests of all bytes taken.
    ///
    /// # Errors
    /// As [`Hashing::push`].
    pub(in crate::storage) async fn finish(mut self) -> Result<Digests, JoinError> {
        let mut digester = self.idle().await?;
        if self.pending_bytes >= JOB_BYTES {
            self.start(digester);
            digester = self.idle().await?;
        }
        hash(&mut digester, &self.pending);
        Ok(digester.finish())
    }

    async fn idle(&mut self) -> Result<Box<Digester>, JoinError> {
        match std::mem::replace(&mut self.worker, Worker::Gone) {
            Worker::Idle(digester) => Ok(digester),
            Worker::Busy(job) => job.await,
            // Nobody goes on after an error.
            Worker::Gone => Ok(Box::new(Digester::new(&[], false))),
        }
    }

    fn start(&mut self, mut digester: Box<Digester>) {
        let pieces = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        self.worker = Worker::Busy(spawn_blocking(move || {
            hash(&mut digester, &pieces);
            digester
        }));
    }
}

fn hash(digester: &mut Digester, pieces: &[Bytes]) {
    for piece in pieces {
        digester.update(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::types::ChecksumAlgorithm;

    #[tokio::test]
    async fn digests_are_those_of_the_bytes_in_their_order() {
        let bytes: Vec<u8> = (0..(3 << 20) + 17).map(|i: u32| u8::try_from(i * 7 % 251).unwrap_or(0)).collect();
        for piece in [1000, 64 << 10, 300 << 10, 5 << 20] {
            let mut whole = Digester::new(&ChecksumAlgorithm::ALL, true);
            whole.update(&bytes);
            let mut hashing = Hashing::new(Digester::new(&ChecksumAlgorithm::ALL, true));
            for piece in bytes.chunks(piece) {
                assert!(hashing.push(Bytes::copy_from_slice(piece)).await.is_ok());
            }
            assert_eq!(hashing.finish().await.ok(), Some(whole.finish()), "pieces of {piece}");
        }
    }
}
