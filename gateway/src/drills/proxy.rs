//! A TCP relay between the gateways and their server, which can be shut: open connections are cut, new ones refused.
//!
//! A refused connection is taken and closed at once; to a client of PostgreSQL that is the same as nobody listening.
//! Invariant: bytes are passed as they are, so TLS and every method of authentication work through it, and dropping the
//! proxy closes the listener and every connection.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Upstream {
    /// A host and its port.
    Tcp(String, u16),
    /// A socket.
    Unix(PathBuf),
}

/// A relay.
pub(super) struct Proxy {
    port: u16,
    shut: watch::Sender<bool>,
    _relaying: JoinSet<()>,
}

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

impl Proxy {
    /// Listens on a free port of the loopback.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn start(upstream: Upstream) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (shut, gate) = watch::channel(false);
        let mut relaying = JoinSet::new();
        relaying.spawn(accept(listener, Arc::new(upstream), gate));
        Ok(Self { port, shut, _relaying: relaying })
    }

    /// The port of `127.0.0.1` that it listens on.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Cuts every connection and refuses new ones.
    pub(super) fn shut(&self) {
        self.shut.send_replace(true);
    }

    /// Lets connections through again.
    pub(super) fn reopen(&self) {
        self.shut.send_replace(false);
    }
}

async fn accept(listener: TcpListener, upstream: Arc<Upstream>, gate: watch::Receiver<bool>) {
    // Aborted with this task.
    let mut relays = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                if !*gate.borrow() {
                    relays.spawn(relay(client, Arc::clone(&upstream), gate.clone()));
                }
            }
            Some(_) = relays.join_next() => {}
        }
    }
}

async fn relay(mut client: TcpStream, upstream: Arc<Upstream>, mut gate: watch::Receiver<bool>) {
    let connected = async {
        client.set_nodelay(true)?;
        let mut server = upstream.connect().await?;
        copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        // Whichever side ended it, the other one sees the end.
        _ = connected => {}
        _ = gate.wait_for(|shut| *shut) => {}
    }
}

impl Upstream {
    async fn connect(&self) -> io::Result<Box<dyn Wire>> {
        match self {
            Self::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
            Self::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A server that answers every byte with itself.
    async fn echo() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        Upstream::Tcp("127.0.0.1".to_owned(), port)
    }

    async fn answers(stream: &mut TcpStream) -> bool {
        let mut answer = [0];
        stream.write_all(b"x").await.is_ok() && stream.read_exact(&mut answer).await.is_ok() && answer == *b"x"
    }

    #[tokio::test]
    async fn connections_are_cut_refused_and_let_through_again() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let open = async || TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
        let mut stream = open().await;
        assert!(answers(&mut stream).await);
        proxy.shut();
        assert!(!answers(&mut stream).await, "cut");
        assert!(!answers(&mut open().await).await, "refused");
        proxy.reopen();
        assert!(answers(&mut open().await).await);
        assert!(!answers(&mut stream).await, "what was cut stays so");
    }
}
