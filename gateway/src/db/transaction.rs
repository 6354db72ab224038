//! A transaction that owns its connection and has a name.
//!
//! A transaction that is dropped is rolled back, and its connection goes back to the pool only after the server has said
//! so. When the answer to COMMIT is lost, [`Tx::commit`] says so ([`DbErrorKind::Indeterminate`]) and no more: the status
//! of a transaction id proves nothing, since ids whose WAL a crash swallowed are given out again. Whoever needs to know
//! looks for something the transaction wrote.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::{Db, DbError, DbErrorKind, Statement};
use crate::failpoints;

/// A connection that does not finish its ROLLBACK in this time is closed instead.
const ROLLBACK_TIMEOUT: Duration = Duration::from_secs(10);

/// A transaction under way, READ COMMITTED.
pub struct Tx {
    /// Present until the transaction has ended.
    client: Option<Object>,
    db: Db,
    name: &'static str,
}

impl Tx {
    pub(super) async fn begin(client: Object, db: Db, name: &'static str) -> Result<Self, DbError> {
        // The guard stands before BEGIN is sent: a caller that goes away meanwhile leaves no open transaction behind.
        let tx = Self { client: Some(client), db, name };
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED; {}", tx.db.facts().transaction_settings());
        tx.connection()?.batch_execute(&begin).await.map_err(DbError::from_driver)?;
        Ok(tx)
    }

    /// Runs a statement. Several may be under way at once: they are sent in the order in which they are first polled.
    ///
    /// # Errors
    /// [`DbError`]; the transaction can then only be dropped.
    pub async fn run(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        failpoints::reach_statement("before", statement.name);
        let outcome = statement.run(self.connection()?, self.db.facts().pooled, params).await;
        failpoints::reach_statement("after", statement.name);
        outcome
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
    /// [`DbErrorKind::Indeterminate`] where the answer was lost; any other kind means that the transaction did not happen.
    pub async fn commit(mut self) -> Result<(), DbError> {
        failpoints::reach_statement("before_commit", self.name);
        match self.connection()?.batch_execute("COMMIT").await {
            Ok(()) => {
                failpoints::reach_statement("after_commit", self.name);
                self.client = None;
                Ok(())
            }
            Err(e) => {
                // Whatever state the connection is in, nobody should get it next.
                if let Some(client) = self.client.take() {
                    drop(Object::take(client));
                }
                let error = DbError::from_driver(e).of_write();
                tracing::warn!(transaction = self.name, %error, "COMMIT failed");
                Err(error)
            }
        }
    }

    fn connection(&self) -> Result<&Object, DbError> {
        self.client.as_ref().ok_or_else(|| DbError::of_kind(DbErrorKind::Driver, "the transaction has ended already"))
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
