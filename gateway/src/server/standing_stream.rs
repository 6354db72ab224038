//! The body of an answer on HTTP/2, taken back from a client that stands still.
//!
//! On HTTP/1 a client that does not read blocks the connection, and [`super::idle_io`] sees it. On HTTP/2 it may let the
//! window of one stream run out and keep the connection alive: the body is not asked for any more, so it cannot notice by
//! itself. A watcher task holds the client to the terms of `patience`; when they are used up the body goes, and with it
//! the request's place, its memory and what it keeps from being reclaimed. A client that goes on afterwards gets the stream
//! reset. The clock runs only between a piece that was handed out and the demand for the next.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use s3s::{Body, StdError};
use tokio::sync::OwnedSemaphorePermit;

use super::patience::{Patience, Terms};

/// A body that may be taken back.
pub(super) struct StandingStream(Arc<Mutex<Option<Held>>>);

struct Held {
    body: Body,
    patience: Patience,
    /// Bytes of the piece that the client has to take before it asks again; `None` while it waits for us.
    handed: Option<usize>,
    watcher: Option<Waker>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl StandingStream {
    /// Watches over a body. Has to be called within the runtime.
    pub(super) fn new(body: Body, permit: Option<OwnedSemaphorePermit>, terms: Terms) -> Self {
        let held = Held { body, patience: Patience::new(terms), handed: Some(0), watcher: None, _permit: permit };
        let shared = Arc::new(Mutex::new(Some(held)));
        let watched = Arc::clone(&shared);
        tokio::spawn(poll_fn(move |cx| poll_given_up(&watched, cx)));
        Self(shared)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let mut shared = self.lock();
        let Some(held) = shared.as_mut() else { return Poll::Ready(Some(Err("the client stood still".into()))) };
        if let Some(bytes) = held.handed.take() {
            held.patience.moved(bytes);
        }
        let next = Pin::new(&mut held.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &next {
            held.handed = Some(frame.data_ref().map_or(0, Bytes::len));
            if let Some(watcher) = held.watcher.take() {
                watcher.wake();
            }
        }
        next
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.lock().as_ref().is_some_and(|held| held.body.is_end_stream())
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.lock().as_ref().map_or_else(SizeHint::default, |held| held.body.size_hint())
    }
}

impl Drop for StandingStream {
    fn drop(&mut self) {
        let held = self.lock().take();
        if let Some(watcher) = held.and_then(|mut held| held.watcher.take()) {
            watcher.wake();
        }
    }
}

/// Ready when the body is gone: sent, given up by its client, or taken back.
fn poll_given_up(shared: &Mutex<Option<Held>>, cx: &mut Context<'_>) -> Poll<()> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(held) = shared.as_mut() else { return Poll::Ready(()) };
    held.watcher = Some(cx.waker().clone());
    if held.handed.is_none() || held.patience.poll_waited(cx).is_pending() {
        return Poll::Pending;
    }
    tracing::debug!("a client lets a stream stand still");
    *shared = None;
    Poll::Ready(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use std::time::Duration;

    const TERMS: Terms = Terms { idle: Duration::from_secs(60), rate: 0 };

    fn standing() -> StandingStream {
        let pieces = stream::iter((0..3).map(|_| Ok::<_, std::io::Error>(Bytes::from_static(b"piece"))));
        StandingStream::new(Body::from(s3s::dto::StreamingBlob::wrap(pieces)), None, TERMS)
    }

    async fn next(stream: &StandingStream) -> Option<bool> {
        poll_fn(|cx| stream.poll_frame(cx)).await.map(|frame| frame.is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_taken_back_from_who_lets_it_stand() {
        let stream = standing();
        assert_eq!(next(&stream).await, Some(true));
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert_eq!(next(&stream).await, Some(true), "in time");
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(next(&stream).await, Some(false), "too late");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_asks_for_is_taken_back() {
        let stream = standing();
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(next(&stream).await, Some(false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_waited_for_is_not() {
        let never = stream::pending::<std::io::Result<Bytes>>();
        let stream = StandingStream::new(Body::from(s3s::dto::StreamingBlob::wrap(never)), None, TERMS);
        let waited = tokio::time::timeout(Duration::from_secs(3600), next(&stream)).await;
        assert!(waited.is_err() && stream.lock().is_some());
    }
}
