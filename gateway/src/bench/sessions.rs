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
/// Connections that are left to others: a gateway beside, with pools of the usual size, must not be refused one.
const LEFT_TO_OTHERS: i64 = 26;

/// Opens sessions on a scratch. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Sessions {
    target: Target,
    facts: ServerFacts,
    /// Schema in their search path, and their `application_name`.
    name: String,
}

impl Sessions {
    pub(crate) fn new(target: Target, facts: ServerFacts, name: String) -> Self {
        Self { target, facts, name }
    }

    /// Opens one.
    ///
    /// # Errors
    /// The server does not take another connection.
    pub(crate) async fn open(&self) -> anyhow::Result<Client> {
        let client = connect(&self.target, &self.facts, &self.name).await?;
        let path = format!("SET search_path = {}", self.name);
        client.batch_execute(&path).await?;
        Ok(client)
    }

    /// Opens as many as workers need, or as many as the server can spare, at least one.
    ///
    /// # Errors
    /// As [`Sessions::open`].
    pub(crate) async fn open_many(&self, count: usize) -> anyhow::Result<Vec<Client>> {
        let mut clients = vec![self.open().await?];
        let free: i64 = clients[0]
            .query_one(
                "SELECT current_setting('max_connections')::bigint
                      - current_setting('superuser_reserved_connections')::bigint - count(*)
                 FROM pg_stat_activity WHERE backend_type = 'client backend'",
                &[],
            )
            .await?
            .get(0);
        let spare = usize::try_from(free - LEFT_TO_OTHERS).unwrap_or(0);
        if spare + 1 < count {
            tracing::warn!(connections = spare + 1, wanted = count, "the server can spare no more connections");
        }
        while clients.len() < count.min(spare + 1) {
            clients.push(self.open().await?);
        }
        Ok(clients)
    }
}

/// Opens a session with the gateway's settings, under an application name that says whose it is.
pub(crate) async fn connect(target: &Target, facts: &ServerFacts, name: &str) -> anyhow::Result<Client> {
    let client = target.connect(CONNECT_TIMEOUT).await?;
    let settings = format!("{} SET application_name = '{name}'", facts.session_settings(Duration::ZERO));
    client.batch_execute(&settings).await?;
    Ok(client)
}
