//! A transaction that owns its connection, has a name, and knows at the end whether it happened.
//!
//! BEGIN asks for the transaction's id. When COMMIT's answer is lost, another connection asks `pg_xact_status` for that
//! id until the server knows: so commit is either done, or known not to have happened, or reported as indeterminate
//! only while the database cannot be reached at all. A transaction that is dropped is rolled back, and its connection
//! goes back to the pool only after the server has said so.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, SimpleQueryMessage};

use super::{Db, DbError, DbErrorKind, Statement};

/// How long a lost COMMIT is asked about.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two questions.
const SETTLE_INTERVAL: Duration = Duration::from_millis(100);
/// A connection that does not finish its ROLLBACK in this time is closed instead.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(10);

static XACT_STATUS: Statement = Statement {
    name: "xact_status",
    sql: "-- xact_status\nSELECT pg_xact_status($1::text::xid8)",
    types: &[Type::TEXT],
};

/// A transaction under way, READ COMMITTED.
pub struct Tx {
    /// Present until the transaction has ended.
    client: Option<Object>,
    db: Db,
    name: &'static str,
    xid: String,
}

impl Tx {
    pub(super) async fn begin(client: Object, db: Db, name: &'static str) -> Result<Self, DbError> {
        // The guard stands before BEGIN is sent: a caller that goes away meanwhile leaves no open transaction behind.
        let mut tx = Self { client: Some(client), db, name, xid: String::new() };
        let settings = tx.db.facts().transaction_settings();
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED; {settings} SELECT pg_current_xact_id()::text");
        let messages = tx.connection()?.simple_query(&begin).await.map_err(DbError::from_driver)?;
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message
                && let Some(xid) = row.get(0)
            {
                xid.clone_into(&mut tx.xid);
            }
        }
        Ok(tx)
    }

    /// Runs a statement. Several may be under way at once: they are sent in the order in which they are first polled.
    ///
    /// # Errors
    /// [`DbError`]; the transaction can then only be dropped.
    pub async fn run(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        statement.run(self.connection()?, self.db.facts().pooled, params).await
    }

    /// Runs a statement whose text is not known before: of tables of others.
    ///
    /// # Errors
    /// As [`Tx::run`].
    pub async fn run_text(&self, sql: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, DbError> {
        self.connection()?.query_typed(sql, params).await.map_err(DbError::from_driver)
    }

    /// Commits. `Ok` means: durable.
    ///
    /// # Errors
    /// [`DbErrorKind::Indeterminate`] where the answer was lost and the database could not be asked; any other kind
    /// means that the transaction did not happen.
    pub async fn commit(mut self) -> Result<(), DbError> {
        let client = self.connection()?;
        let error = match client.simple_query("COMMIT").await {
            Ok(_) => {
                self.client = None;
                return Ok(());
            }
            Err(e) => DbError::from_driver(e).of_write(),
        };
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
        if !error.is_indeterminate() {
            return Err(error);
        }
        tracing::warn!(transaction = self.name, xid = self.xid, %error, "the answer to COMMIT was lost, asking for its status");
        self.settle().await
    }

    async fn settle(&self) -> Result<(), DbError> {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let status = self.db.read(&XACT_STATUS, &[&self.xid]).await;
            match status.as_deref().map(|rows| rows.first().and_then(|r| r.get::<_, Option<&str>>(0))) {
                Ok(Some("committed")) => return Ok(()),
                Ok(Some("aborted")) => {
                    return Err(DbError::determinate(DbErrorKind::Rejected, "the transaction was rolled back"));
                }
                // "in progress": the server has not noticed yet that the connection is gone. Ok(None): so old that its
                // status is no longer kept, which cannot be within the time we ask.
                Ok(_) | Err(_) if Instant::now() < deadline => tokio::time::sleep(SETTLE_INTERVAL).await,
                _ => {
                    return Err(DbError::determinate(
                        DbErrorKind::Indeterminate,
                        format!("whether transaction {} committed could not be established", self.xid),
                    ));
                }
            }
        }
    }

    fn connection(&self) -> Result<&Object, DbError> {
        self.client
            .as_ref()
            .ok_or_else(|| DbError::determinate(DbErrorKind::Driver, "the transaction has ended already"))
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let name = self.name;
        // Outside a runtime (a test's end) the connection is dropped, which rolls back as well.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            drop(Object::take(client));
            return;
        };
        runtime.spawn(async move {
            let rollback = tokio::time::timeout(ROLLBACK_TIMEOUT, client.batch_execute("ROLLBACK")).await;
            if !matches!(rollback, Ok(Ok(()))) {
                tracing::debug!(transaction = name, "closing a connection that did not roll back in time");
                drop(Object::take(client));
            }
        });
    }
}
