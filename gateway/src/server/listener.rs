//! Connections: accepted up to a cap, served over HTTP/1.1 and HTTP/2, with TLS where there is a certificate, drained on
//! shutdown.
//!
//! The permit for a connection is taken before the connection is accepted: what exceeds the cap waits in the kernel's
//! queue and costs nothing here. On shutdown the socket closes first, then every connection finishes the request it is
//! serving; what is left after the grace period is dropped, and with it whatever it had not committed.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Connected;

use super::edge::Edge;
use super::idle_io::WriteTimeout;
use super::patience::Terms;
use super::tls::Tls;

/// Wait after a failed accept: usually no file descriptors, which only time brings back.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Read buffer of an HTTP/1 connection, bytes: bodies arrive in chunks up to this.
const HTTP1_BUFFER_BYTES: usize = 256 << 10;
const MAX_HEADERS: usize = 128;
const MAX_HEADER_BYTES: u32 = 32 << 10;
const HTTP2_STREAMS: u32 = 128;
const HTTP2_STREAM_WINDOW_BYTES: u32 = 1 << 20;
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(20);
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits on connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) max_connections: usize,
    pub(crate) header_read_timeout: Duration,
    pub(crate) write_terms: Terms,
    pub(crate) shutdown_grace: Duration,
}

/// Serves until the token is cancelled and the connections are drained.
pub(crate) async fn run(
    listener: TcpListener,
    tls: Option<Tls>,
    edge: Edge,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) {
    let connections = Connections {
        http: Arc::new(http_builder(limits.header_read_timeout)),
        edge,
        tls,
        handshake_timeout: limits.header_read_timeout,
        tasks: TaskTracker::new(),
        give_up: CancellationToken::new(),
        write_terms: limits.write_terms,
    };
    let graceful = GracefulShutdown::new();
    let permits = Arc::new(Semaphore::new(limits.max_connections.clamp(1, Semaphore::MAX_PERMITS)));
    while let Some((socket, address, permit)) = next(&listener, &permits, &shutdown).await {
        connections.serve(socket, address, &graceful, permit);
    }
    drop(listener);
    connections.drain(graceful, limits.shutdown_grace).await;
}

type Permit = tokio::sync::OwnedSemaphorePermit;

/// The next connection and its permit; `None` on shutdown.
async fn next(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, IpAddr, Permit)> {
    let accept = async {
        let permit = Arc::clone(permits).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((socket, peer)) => return Some((socket, peer.ip(), permit)),
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => None,
        accepted = accept => accepted,
    }
}

pub(super) fn http_builder(header_read_timeout: Duration) -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(header_read_timeout)
        .max_buf_size(HTTP1_BUFFER_BYTES)
        .max_headers(MAX_HEADERS);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    http
}

struct Connections {
    http: Arc<Builder<TokioExecutor>>,
    edge: Edge,
    tls: Option<Tls>,
    handshake_timeout: Duration,
    tasks: TaskTracker,
    /// Cancelled when the grace period is over.
    give_up: CancellationToken,
    write_terms: Terms,
}

impl Connections {
    fn serve(&self, socket: TcpStream, address: IpAddr, graceful: &GracefulShutdown, permit: Permit) {
        let edge = self.edge.of(Connected { address, tls: self.tls.is_some() });
        let (http, give_up) = (Arc::clone(&self.http), self.give_up.clone());
        let (watcher, write_terms) = (graceful.watcher(), self.write_terms);
        let (tls, handshake_timeout) = (self.tls.as_ref().map(Tls::acceptor), self.handshake_timeout);
        self.tasks.spawn(async move {
            let _permit = permit;
            if let Err(error) = socket.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY cannot be set");
            }
            let socket = WriteTimeout::new(socket, write_terms);
            let serve = async {
                let served = match tls {
                    None => watcher.watch(http.serve_connection(TokioIo::new(socket), edge).into_owned()).await,
                    Some(acceptor) => {
                        let Ok(shaken) = tokio::time::timeout(handshake_timeout, acceptor.accept(socket)).await else {
                            return tracing::debug!("a TLS handshake takes too long");
                        };
                        match shaken {
                            Ok(stream) => {
                                watcher.watch(http.serve_connection(TokioIo::new(stream), edge).into_owned()).await
                            }
                            Err(error) => return tracing::debug!(%error, "a TLS handshake fails"),
                        }
                    }
                };
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection ends");
                }
            };
            tokio::select! {
                () = serve => {}
                () = give_up.cancelled() => tracing::warn!("a connection outlives the grace period and is dropped"),
            }
        });
    }

    async fn drain(self, graceful: GracefulShutdown, grace: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
            self.give_up.cancel();
        }
        self.tasks.wait().await;
    }
}
