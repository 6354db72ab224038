//! Memory for XML documents: a parsed one takes up to some forty times as much as its text, so that few may be read at once.
//!
//! A share is asked for when the document is first read, which is after the signature has been verified wherever that can be,
//! and held until the request is answered. Invariant: all documents being read or worked on are together no longer than
//! [`TOTAL_BYTES`], save that one may be longer if it is alone.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Text of documents at once: forty deletions of 1000 keys, or three completions of 10,000 parts.
const TOTAL_BYTES: u64 = 4 << 20;
/// The least that counts, and the unit of shares.
const UNIT_BYTES: u64 = 1 << 10;
/// Longest wait for a share; then the client is told to slow down.
const WAIT: Duration = Duration::from_secs(10);

/// What all documents share.
pub(super) struct DocumentMemory(Arc<Semaphore>);

impl DocumentMemory {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(units(TOTAL_BYTES) as usize)))
    }

    /// A document of a length wants its share; of an unknown length, all.
    pub(super) fn ask(&self, length: Option<u64>) -> Turn {
        let (shared, wanted) = (Arc::clone(&self.0), units(length.unwrap_or(TOTAL_BYTES)));
        Turn::Waiting(Box::pin(async move {
            tokio::time::timeout(WAIT, shared.acquire_many_owned(wanted)).await.ok()?.ok()
        }))
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.min(TOTAL_BYTES).div_ceil(UNIT_BYTES).max(1)).unwrap_or(u32::MAX)
}

/// A document's share, or its wait for one.
pub(super) enum Turn {
    Waiting(Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>),
    Held(#[allow(dead_code, reason = "given back when dropped")] OwnedSemaphorePermit),
    Refused,
}

impl Turn {
    /// Whether there is a share.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if let Self::Waiting(share) = self {
            *self = ready!(share.as_mut().poll(cx)).map_or(Self::Refused, Self::Held);
        }
        Poll::Ready(matches!(self, Self::Held(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn documents_take_turns_and_are_refused_in_the_end() {
        let memory = DocumentMemory::new();
        let (mut large, mut small) = (memory.ask(None), memory.ask(Some(100)));
        assert!(std::future::poll_fn(|cx| large.poll(cx)).await);
        assert!(!std::future::poll_fn(|cx| small.poll(cx)).await, "it waited in vain");
        drop(large);
        let mut next = memory.ask(Some(u64::MAX));
        assert!(std::future::poll_fn(|cx| next.poll(cx)).await, "one that is longer than all may come alone");
    }
}
