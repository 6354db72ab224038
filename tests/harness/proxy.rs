//! A TCP proxy in front of PostgreSQL that can stall a direction, cut every connection, or lose the answer to a statement.

use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::cluster::{Cluster, url_at};

/// A proxy; dropping it closes the listener and every connection.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: watch::Sender<State>,
    accepting: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Default)]
struct State {
    /// Connections of an earlier generation are cut.
    generation: u64,
    refuse: bool,
    stall_requests: bool,
    stall_answers: bool,
    /// After these bytes have been passed to the server, its answer is dropped together with the connection. Once.
    lose_answer_to: Option<Arc<[u8]>>,
    /// These bytes never reach the server, which keeps its end of the connection and so does not notice; the client's
    /// end is closed, and no new connection is let through. Once.
    swallow: Option<Arc<[u8]>>,
}

impl Proxy {
    /// Starts a proxy to the cluster's TCP port.
    pub(crate) async fn start(cluster: &Cluster) -> Self {
        let target = format!("{}:{}", cluster.host, cluster.port);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind the proxy");
        let port = listener.local_addr().expect("its address").port();
        let (state, watcher) = watch::channel(State::default());
        let sender = state.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let refused = watcher.borrow().refuse;
                if !refused && let Ok(server) = TcpStream::connect(&target).await {
                    tokio::spawn(relay(client, server, watcher.clone(), sender.clone()));
                }
            }
        });
        Self { port, state, accepting }
    }

    /// The database's URL through the proxy.
    pub(crate) fn url(&self, database: &str) -> String {
        url_at("127.0.0.1", self.port, database)
    }

    /// Cuts every open connection; new ones are let through.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Cuts every open connection and refuses new ones until [`Proxy::restore`].
    pub(crate) fn refuse(&self) {
        self.state.send_modify(|state| {
            state.refuse = true;
            state.generation += 1;
        });
    }

    /// Lets nothing through any more, in the chosen directions, without closing anything.
    pub(crate) fn stall(&self, requests: bool, answers: bool) {
        self.state.send_modify(|state| {
            state.stall_requests = requests;
            state.stall_answers = answers;
        });
    }

    /// Back to passing everything.
    pub(crate) fn restore(&self) {
        self.state.send_modify(|state| {
            state.refuse = false;
            state.stall_requests = false;
            state.stall_answers = false;
        });
    }

    /// The next time a client sends `statement`, the server gets it and the client never hears what came of it.
    pub(crate) fn lose_answer_to(&self, statement: &str) {
        self.state.send_modify(|state| state.lose_answer_to = Some(statement.as_bytes().into()));
    }

    /// The next time a client sends `statement`, its connection breaks and the server neither gets the statement nor
    /// notices; new connections are refused until [`Proxy::restore`].
    pub(crate) fn swallow(&self, statement: &str) {
        self.state.send_modify(|state| state.swallow = Some(statement.as_bytes().into()));
    }

    /// True once the loss that was ordered has happened.
    pub(crate) fn has_lost(&self) -> bool {
        let state = self.state.borrow();
        state.lose_answer_to.is_none() && state.swallow.is_none()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn relay(client: TcpStream, server: TcpStream, watcher: watch::Receiver<State>, state: watch::Sender<State>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let mut cut = watcher.clone();
    let born = cut.borrow().generation;
    let unnoticed = tokio::select! {
        unnoticed = requests(client_read, server_write, watcher.clone(), state) => unnoticed,
        () = answers(server_read, client_write, watcher) => None,
        _ = cut.wait_for(|now| now.generation != born) => None,
    };
    if unnoticed.is_some() {
        let _ = cut.wait_for(|now| now.generation != born).await;
    }
}

/// Returns the server's end of the connection if the server shall not notice that the client's is gone.
async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut watcher: watch::Receiver<State>,
    state: watch::Sender<State>,
) -> Option<OwnedWriteHalf> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else {
            return None;
        };
        if watcher.wait_for(|now| !now.stall_requests).await.is_err() {
            return None;
        }
        let holds = |wanted: Option<Arc<[u8]>>| {
            wanted.is_some_and(|text| buffer[..count].windows(text.len()).any(|window| window == &text[..]))
        };
        let swallowed = holds(state.borrow().swallow.clone());
        if swallowed && state.send_if_modified(|now| now.swallow.take().is_some()) {
            state.send_modify(|now| now.refuse = true);
            return Some(to);
        }
        let found = holds(state.borrow().lose_answer_to.clone());
        if to.write_all(&buffer[..count]).await.is_err() {
            return None;
        }
        if found && state.send_if_modified(|now| now.lose_answer_to.take().is_some()) {
            // The server reads what it was sent, sees the end of the stream, and has done the statement by then.
            let _ = to.shutdown().await;
            return None;
        }
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut watcher: watch::Receiver<State>) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else {
            return;
        };
        if watcher.wait_for(|now| !now.stall_answers).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
