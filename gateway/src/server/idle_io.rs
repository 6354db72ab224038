//! A connection that gives up on a peer which reads nothing, or next to nothing.
//!
//! A download holds content and memory for as long as its client takes, and its terms are those of `patience`. The clock
//! runs only while a write waits, so an idle keep-alive connection is not touched by it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::patience::{Patience, Terms};

/// A stream with a limit on how long a write may wait.
pub(super) struct WriteTimeout<S> {
    inner: S,
    patience: Patience,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(inner: S, terms: Terms) -> Self {
        Self { inner, patience: Patience::new(terms) }
    }

    /// `taken` tells how many bytes of an outcome the peer has taken.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
        taken: fn(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(outcome) = outcome {
            self.patience.moved(outcome.as_ref().map_or(0, taken));
            return Poll::Ready(outcome);
        }
        ready!(self.patience.poll_waited(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.watch(cx, outcome, |count| *count)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.watch(cx, outcome, |count| *count)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, outcome, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, outcome, |()| 0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = WriteTimeout::new(near, Terms { idle: Duration::from_millis(30), rate: 0 });
        assert!(near.write_all(b"1234").await.is_ok());
        let stuck = near.write_all(b"5").await.map_err(|e| e.kind());
        assert_eq!(stuck, Err(io::ErrorKind::TimedOut));
        let mut read = [0; 4];
        assert!(far.read_exact(&mut read).await.is_ok());
        assert!(near.write_all(b"6").await.is_ok());
    }
}
