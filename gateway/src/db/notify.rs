//! A connection that listens: it is told when another transaction that said `NOTIFY` has committed.
//!
//! It stands outside the pools, since what arrives is for this connection alone. It needs a session of its own, so it
//! works neither behind a transaction pooler nor on a standby. Invariant: whatever commits after [`Listener::open`] has
//! returned is announced, or the listener ends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client};

use super::{ConnectError, DbError, Target};

/// Words that are remembered until they are asked for; more are as good as all.
const WORDS: usize = 1000;

/// What was announced since it was last asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Something that was not named, or too much.
    pub anything: bool,
    /// The words that were said.
    pub words: HashSet<String>,
}

impl Announced {
    fn note(&mut self, word: &str) {
        self.anything |= word.is_empty() || self.words.len() >= WORDS;
        if self.anything {
            self.words.clear();
        } else {
            self.words.insert(word.to_owned());
        }
    }
}

/// Somebody who listens on one channel.
pub struct Listener {
    client: Client,
    told: mpsc::Receiver<()>,
    announced: Arc<Mutex<Announced>>,
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
        // One that is not yet read stands for all that follow.
        let (tell, told) = mpsc::channel(1);
        let announced = Arc::new(Mutex::new(Announced::default()));
        let noted = Arc::clone(&announced);
        tokio::spawn(async move {
            let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(notification) = message {
                    noted.lock().unwrap_or_else(PoisonError::into_inner).note(notification.payload());
                    let _ = tell.try_send(());
                }
            }
        });
        client.batch_execute(&format!("LISTEN {channel}")).await.map_err(refused)?;
        Ok(Self { client, told, announced })
    }

    /// Waits until something is announced; `None` when the connection has ended.
    pub async fn changed(&mut self) -> Option<Announced> {
        self.told.recv().await?;
        Some(std::mem::take(&mut *self.announced.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Whether the server answers within a time: everything announced before has then arrived.
    pub async fn answers_within(&self, timeout: Duration) -> bool {
        matches!(tokio::time::timeout(timeout, self.client.batch_execute("")).await, Ok(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_words_are_anything() {
        let mut announced = Announced::default();
        (0..WORDS).for_each(|n| announced.note(&n.to_string()));
        assert!(!announced.anything && announced.words.len() == WORDS);
        announced.note("one more");
        assert_eq!(announced, Announced { anything: true, words: HashSet::new() });
        let mut unnamed = Announced::default();
        unnamed.note("");
        assert!(unnamed.anything);
    }
}
