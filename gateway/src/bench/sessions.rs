//! Sessions of a bench: set up as the product's own, outside its pools, one for each worker.
//!
//! The bare side of every measurement speaks `tokio-postgres` directly, with prepared statements, so that what is
//! measured is the server and the driver.
//! Invariant: every session's settings are those of the gateway's sessions, but for a statement timeout: a slow statement is
//! a result here, no error.

use std::time::Duration;

use tokio_postgres::Client;

use crate::db::{ServerFacts, Target};

/// Longest time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens sessions on a scratch. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sessions {
    target: Target,
    facts: ServerFacts,
    /// Schema in their search path, and their `application_name`.
    name: String,
}

impl Sessions {
    pub(super) fn new(target: Target, facts: ServerFacts, name: String) -> Self {
        Self { target, facts, name }
    }

    /// Opens one.
    ///
    /// # Errors
    /// The server does not take another connection.
    pub(super) async fn open(&self) -> anyhow::Result<Client> {
        let client = connect(&self.target, &self.facts, &self.name).await?;
        let path = format!("SET search_path = {}", self.name);
        client.batch_execute(&path).await?;
        Ok(client)
    }

    /// Opens as many as workers need, or as many as the server takes, at least one.
    ///
    /// # Errors
    /// As [`Sessions::open`].
    pub(super) async fn open_many(&self, count: usize) -> anyhow::Result<Vec<Client>> {
        let mut clients = vec![self.open().await?];
        while clients.len() < count {
            match self.open().await {
                Ok(client) => clients.push(client),
                Err(error) => {
                    tracing::warn!(connections = clients.len(), error = format!("{error:#}"), "no more connections");
                    break;
                }
            }
        }
        Ok(clients)
    }
}

/// Opens a session with the gateway's settings, under an application name that says whose it is.
pub(super) async fn connect(target: &Target, facts: &ServerFacts, name: &str) -> anyhow::Result<Client> {
    let client = target.connect(CONNECT_TIMEOUT).await?;
    let settings = format!("{} SET application_name = '{name}'", facts.session_settings(Duration::ZERO));
    client.batch_execute(&settings).await?;
    Ok(client)
}
