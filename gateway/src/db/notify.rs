//! A connection that listens: it is told when another transaction that said `NOTIFY` has committed.
//!
//! It stands outside the pools, since what arrives is for this connection alone. It needs a session of its own, so it
//! works neither behind a transaction pooler nor on a standby. Invariant: whatever commits after [`Listener::open`] has
//! returned is announced, or the listener ends.

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client};

use super::{ConnectError, DbError, Target};

/// Somebody who listens on one channel.
pub struct Listener {
    client: Client,
    told: mpsc::Receiver<()>,
}

impl Listener {
    /// Connects and listens. The channel's name is a plain identifier.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses `LISTEN`.
    pub async fn open(target: &Target, channel: &'static str, timeout: Duration) -> Result<Self, ConnectError> {
        let mut config = target.config();
        config.connect_timeout(timeout);
        let refused = |error| ConnectError::Server(DbError::from_driver(error).to_string());
        let (client, mut connection) = config.connect(target.tls()?).await.map_err(refused)?;
        // One word that is not yet read stands for all that follow.
        let (tell, told) = mpsc::channel(1);
        tokio::spawn(async move {
            let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
            while let Some(Ok(message)) = messages.next().await {
                if matches!(message, AsyncMessage::Notification(_)) {
                    let _ = tell.try_send(());
                }
            }
        });
        client.batch_execute(&format!("LISTEN {channel}")).await.map_err(refused)?;
        Ok(Self { client, told })
    }

    /// Waits until something is announced; false when the connection has ended.
    pub async fn changed(&mut self) -> bool {
        self.told.recv().await.is_some()
    }

    /// Whether the server answers within a time: everything announced before has then arrived.
    pub async fn answers_within(&self, timeout: Duration) -> bool {
        matches!(tokio::time::timeout(timeout, self.client.batch_execute("")).await, Ok(Ok(())))
    }
}
