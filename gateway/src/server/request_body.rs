//! The body of a request, with limits on silence and trickles (`patience`) and a way to read on after the answer is known.
//!
//! A client that is still sending when it is refused would see a reset connection instead of the reason. So the edge
//! keeps a handle on the body and, before it sends an error, reads on for a bounded time and amount. A body of which
//! nothing was asked (`Expect: 100-continue`) is left alone: that client waits and has sent nothing.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use s3s::{S3Error, StdError};
use tokio::sync::Semaphore;

use crate::protocol::error::{self, BodyIdle};

use super::document::Document;
use super::document_memory::{DocumentMemory, Turn};
use super::final_chunk::{FinalChunkMissing, Tail};
use super::form_fields::FormFields;
use super::patience::{Patience, Terms};
use super::sub_resources::Level;

/// Most bytes read on behalf of an answer.
const DRAIN_BYTES: u64 = 8 << 20;
/// Bodies read on behalf of answers at once.
const DRAINS: usize = 128;
/// Longest time spent on it.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// A body that fails with [`BodyIdle`] when patience with its client ends. Clones share it.
#[derive(Clone)]
pub(super) struct RequestBody(Arc<Mutex<Shared>>);

struct Shared {
    incoming: Incoming,
    patience: Patience,
    polled: bool,
    /// There never was a byte to read.
    empty: bool,
    ended: bool,
    /// Of a body that has to end with a final chunk.
    tail: Option<Tail>,
    /// Of a request that carries an XML document.
    document: Option<Document>,
    /// Of an upload by a form.
    form: Option<FormFields>,
    /// Its share of the memory for documents.
    turn: Option<Turn>,
    /// Why there was no more of it, where that was not its end.
    failure: Option<Failure>,
}

/// What goes wrong with a body on its way.
#[derive(Clone, Copy)]
enum Failure {
    Broken,
    Idle,
}

impl RequestBody {
    pub(super) fn new(
        incoming: Incoming,
        request: &Parts,
        level: Level,
        terms: Terms,
        documents: &DocumentMemory,
    ) -> Self {
        let ended = incoming.is_end_stream();
        let document = Document::of(request, level);
        let turn = document.as_ref().filter(|_| !ended).map(|_| documents.ask(incoming.size_hint().exact()));
        Self(Arc::new(Mutex::new(Shared {
            incoming,
            patience: Patience::new(terms),
            polled: false,
            empty: ended,
            ended,
            tail: Tail::of(&request.headers),
            document,
            form: request.extensions.get().cloned().map(|extras| FormFields::new(extras, &request.headers)),
            turn,
            failure: None,
        })))
    }

    fn with<R>(&self, act: impl FnOnce(&mut Shared) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the client was asked to go on: hyper sends `100 Continue` when a body that is not empty is read.
    pub(super) fn was_asked_for(&self) -> bool {
        self.with(|s| s.polled && !s.empty)
    }

    /// Why the body, an XML document, was refused.
    pub(super) fn refused_document(&self) -> Option<S3Error> {
        self.with(|s| s.document.as_mut().and_then(Document::take_refusal))
    }

    /// What the client is told of a body that broke off, where nobody found a better word than "internal error".
    pub(super) fn failure(&self) -> Option<S3Error> {
        self.with(|s| s.failure).map(|failure| match failure {
            Failure::Broken => error::incomplete_body(),
            Failure::Idle => error::request_timeout(),
        })
    }

    /// Reads on, so that the client comes to read its answer. `expects_continue`: it waits to be asked for the body.
    pub(super) async fn drain(mut self, expects_continue: bool) {
        // Each of those that are drained fills buffers; who comes when there are many sees the connection end.
        static PLACES: Semaphore = Semaphore::const_new(DRAINS);
        let Ok(_place) = PLACES.try_acquire() else { return };
        let nothing_to_do = self.with(|s| s.ended || (expects_continue && !s.polled));
        if nothing_to_do {
            return;
        }
        let read_on = async {
            let mut seen = 0_u64;
            while seen < DRAIN_BYTES {
                match self.frame().await {
                    Some(Ok(frame)) => seen += frame.data_ref().map_or(0, |data| data.len() as u64),
                    Some(Err(_)) | None => return,
                }
            }
        };
        let _ = tokio::time::timeout(DRAIN_TIME, read_on).await;
    }
}

impl Shared {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        self.polled = true;
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(turn) = &mut self.turn
            && !ready!(turn.poll(cx))
        {
            self.ended = true;
            let refused = self.document.as_mut().map(|document| document.refuse(error::slow_down()));
            return Poll::Ready(refused.map(|refused| Err(StdError::from(refused))));
        }
        if let Poll::Ready(next) = Pin::new(&mut self.incoming).poll_frame(cx) {
            let arrived = next.as_ref().and_then(|next| next.as_ref().ok()).and_then(Frame::data_ref);
            self.patience.moved(arrived.map_or(0, Bytes::len));
            self.ended = !matches!(next, Some(Ok(_)));
            if matches!(next, Some(Err(_))) {
                self.failure = Some(Failure::Broken);
            }
            if let Some(document) = &mut self.document {
                let mut looked = match &next {
                    Some(Ok(frame)) => document.push(frame.data_ref().map_or(&[], |data| data)),
                    _ => Ok(()),
                };
                // Whoever reads may stop at the last frame.
                if next.is_none() || (looked.is_ok() && self.incoming.is_end_stream()) {
                    looked = document.end();
                }
                if let Err(refused) = looked {
                    return Poll::Ready(Some(Err(Box::new(refused))));
                }
            }
            if let (Some(form), Some(Ok(frame))) = (&mut self.form, &next) {
                form.push(frame.data_ref().map_or(&[], |data| data));
            }
            match (&next, &mut self.tail) {
                (Some(Ok(frame)), Some(tail)) => tail.push(frame.data_ref().map_or(&[], |data| data)),
                (None, Some(tail)) if !tail.is_final_chunk() => {
                    return Poll::Ready(Some(Err(Box::new(FinalChunkMissing))));
                }
                _ => {}
            }
            return Poll::Ready(next.map(|frame| frame.map_err(StdError::from)));
        }
        ready!(self.patience.poll_waited(cx));
        self.ended = true;
        self.failure = Some(Failure::Idle);
        Poll::Ready(Some(Err(Box::new(BodyIdle))))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        self.with(|shared| shared.poll(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|shared| shared.ended || shared.incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|shared| shared.incoming.size_hint())
    }
}
