//! The body of an answer, which carries the request's place in the gateway until the last byte is out.
//!
//! The permit that admits a request is given back when its answer has been sent or given up, not when it was computed; and
//! that is the moment when the access log and the metrics know how many bytes went out and how long it took.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Frame, SizeHint};
use s3s::{Body, StdError};
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::OperationSlot;

use super::standing_stream::StandingStream;

/// What the access log says of a request.
pub(super) struct Exchange {
    pub(super) request_id: String,
    pub(super) method: Method,
    /// Without the query, which may hold a signature.
    pub(super) path: String,
    pub(super) operation: OperationSlot,
    pub(super) status: StatusCode,
    pub(super) started: Instant,
}

/// The bytes, with the request's place; that is absent where it was refused one.
pub(super) enum Content {
    /// They go when the connection takes them, or goes.
    Plain { body: Body, _permit: Option<OwnedSemaphorePermit> },
    /// They may be taken back.
    Watched(StandingStream),
}

/// A body that reports when it is done.
pub(crate) struct ResponseBody {
    content: Content,
    exchange: Exchange,
    sent: u64,
    failed: bool,
}

impl ResponseBody {
    pub(super) fn new(content: Content, exchange: Exchange) -> Self {
        Self { content, exchange, sent: 0, failed: false }
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let next = match &mut self.content {
            Content::Plain { body, .. } => Pin::new(body).poll_frame(cx),
            Content::Watched(stream) => stream.poll_frame(cx),
        };
        match &next {
            Poll::Ready(Some(Ok(frame))) => self.sent += frame.data_ref().map_or(0, |data| data.len() as u64),
            Poll::Ready(Some(Err(_))) => self.failed = true,
            Poll::Ready(None) | Poll::Pending => {}
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Plain { body, .. } => body.is_end_stream(),
            Content::Watched(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Plain { body, .. } => body.size_hint(),
            Content::Watched(stream) => stream.size_hint(),
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        let exchange = &self.exchange;
        let elapsed = exchange.started.elapsed();
        let operation = exchange.operation.name().unwrap_or("Refused").to_owned();
        let status = exchange.status.as_u16();
        // One line a request is an operator's choice: filter `info,lobgate::access=debug` shows them.
        tracing::debug!(
            target: "lobgate::access",
            request_id = %exchange.request_id,
            method = %exchange.method,
            path = %exchange.path,
            operation = %operation,
            status,
            bytes = self.sent,
            cut_off = self.failed,
            ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            "request"
        );
        metrics::counter!("lobgate_requests_total", "operation" => operation.clone(), "status" => status.to_string())
            .increment(1);
        metrics::counter!("lobgate_response_bytes_total", "operation" => operation.clone()).increment(self.sent);
        metrics::histogram!("lobgate_request_duration_seconds", "operation" => operation).record(elapsed.as_secs_f64());
    }
}
