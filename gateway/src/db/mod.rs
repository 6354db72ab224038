//! The connection to PostgreSQL: pools, statements, transactions with names, outcomes, migrations.
//!
//! Everything above speaks to the server through [`Db`] and [`Tx`] only, so that pool waits, statement modes, retries
//! and the question "did it happen?" are answered in one place. Two pools are a bulkhead: short work (locating,
//! reading windows, publishing) runs on one, long streamed uploads on the other, and neither can starve the other.
//!
//! This layer knows SQL's transport, never its meaning: no statement of the product stands here, save the probe's.

mod connect;
mod error;
mod migrate;
mod notify;
mod probe;
mod statement;
mod transaction;

use std::time::Duration;

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Object, Pool, QueueMode, RecyclingMethod, Runtime};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::failpoints;

pub use connect::{ConnectError, Place, Target};
pub use error::{DbError, DbErrorKind};
pub use migrate::{MigrateError, MigrationState, migrate, migration_state};
pub use notify::Listener;
pub use probe::{Pooler, ProbeError, ServerFacts, Standbys, probe};
pub use statement::{Segments, Statement};
pub use transaction::Tx;

/// How often a statement that is known not to have happened is sent again.
const MAX_ATTEMPTS: u32 = 4;

/// What is added to `statement_timeout` before an answer is given up: the server's own word comes first if it can.
const ANSWER_MARGIN: Duration = Duration::from_secs(5);

/// What a [`Db`] needs to know of its pools.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Connections for short work.
    pub size: usize,
    /// Connections for streamed uploads.
    pub writer_size: usize,
    /// Longest wait for a free connection.
    pub wait_timeout: Duration,
    /// Longest time to establish one.
    pub connect_timeout: Duration,
    /// `statement_timeout` of every connection.
    pub statement_timeout: Duration,
    /// Connections older than this are replaced: the driver's buffers never shrink.
    pub max_age: Duration,
}

/// Which pool a transaction runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Short transactions, during which no client is waited for.
    Short,
    /// Transactions that last as long as a client's upload.
    Writer,
    /// The lease alone: however busy the others are, it is renewed in time.
    Lease,
    /// Collection and maintenance, one thing at a time: uploads that hold every writer do not hold it up.
    Background,
}

/// A database with its pools. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    short: Pool,
    writers: Pool,
    lease: Pool,
    background: Pool,
    /// Longest wait for the answer to a single statement.
    answer_timeout: Duration,
    facts: ServerFacts,
}

impl Db {
    /// Opens the pools; no connection is made yet.
    ///
    /// # Errors
    /// [`ConnectError`] where the TLS settings of the URL cannot be used.
    pub fn new(target: &Target, facts: ServerFacts, options: &PoolOptions) -> Result<Self, ConnectError> {
        Ok(Self {
            short: pool(target, &facts, options, options.size)?,
            writers: pool(target, &facts, options, options.writer_size)?,
            lease: pool(target, &facts, options, 1)?,
            background: pool(target, &facts, options, 1)?,
            answer_timeout: options.statement_timeout + ANSWER_MARGIN,
            facts,
        })
    }

    /// What the probe found.
    #[must_use]
    pub fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    /// Runs a statement that may be repeated without harm, again where the connection failed or the server restarts.
    ///
    /// # Errors
    /// [`DbError`] after the last attempt.
    pub async fn read(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        self.read_mapped(statement, params, |row| row).await
    }

    /// As [`Db::read`] for answers of many rows: each becomes a value as it arrives.
    ///
    /// # Errors
    /// As [`Db::read`].
    pub async fn read_mapped<T: Send>(
        &self,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
        map: fn(Row) -> T,
    ) -> Result<Vec<T>, DbError> {
        let mut attempt = 1;
        loop {
            match self.once(Lane::Short, statement, params, map).await {
                Err(e) if e.is_transient() && attempt < MAX_ATTEMPTS => pause(&e, statement.name, attempt).await,
                outcome => return outcome,
            }
            attempt += 1;
        }
    }

    /// Runs a single statement that changes something, in a transaction of its own; again only where it is known that
    /// it did not happen.
    ///
    /// # Errors
    /// [`DbError`]; with [`DbErrorKind::Indeterminate`] the statement may have been committed.
    pub async fn write(&self, statement: &Statement, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, DbError> {
        self.write_in(Lane::Short, statement, params).await
    }

    /// As [`Db::write`], in a lane.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub async fn write_in(
        &self,
        lane: Lane,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, DbError> {
        let mut attempt = 1;
        loop {
            match self.once(lane, statement, params, |row| row).await.map_err(DbError::of_write) {
                Err(e) if e.is_transient() && !e.is_indeterminate() && attempt < MAX_ATTEMPTS => {
                    pause(&e, statement.name, attempt).await;
                }
                outcome => return outcome,
            }
            attempt += 1;
        }
    }

    /// Begins a transaction; the name is for logs.
    ///
    /// # Errors
    /// [`DbError`] where no connection can be had or BEGIN fails.
    pub async fn begin(&self, name: &'static str, lane: Lane) -> Result<Tx, DbError> {
        let mut attempt = 1;
        loop {
            let client = self.connection(lane).await?;
            match Tx::begin(client, self.clone(), name).await {
                Err(e) if e.is_transient() && attempt < MAX_ATTEMPTS => pause(&e, name, attempt).await,
                outcome => return outcome,
            }
            attempt += 1;
        }
    }

    /// Runs a command that cannot run in a transaction block and may take long (VACUUM), in the background.
    ///
    /// # Errors
    /// [`DbError`] of the command.
    pub async fn maintain(&self, command: &str) -> Result<(), DbError> {
        let client = self.connection(Lane::Background).await?;
        if !self.facts.pooled {
            client.batch_execute("SET statement_timeout = 0").await.map_err(DbError::from_driver)?;
        }
        let outcome = client.batch_execute(command).await.map_err(DbError::from_driver);
        if !self.facts.pooled {
            // The connection's own setting comes back with a new connection.
            drop(Object::take(client));
        }
        outcome
    }

    /// Connections in use and open, of the short pool and of the writers, for metrics.
    #[must_use]
    pub fn pool_status(&self) -> [(&'static str, deadpool_postgres::Status); 2] {
        [("short", self.short.status()), ("writer", self.writers.status())]
    }

    /// Whether somebody waits for a connection for short work.
    #[must_use]
    pub fn short_work_queues(&self) -> bool {
        self.short.status().waiting > 0
    }

    /// Whether somebody waits for a writer's connection.
    #[must_use]
    pub fn writers_queue(&self) -> bool {
        self.writers.status().waiting > 0
    }

    async fn once<T>(
        &self,
        lane: Lane,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
        map: fn(Row) -> T,
    ) -> Result<Vec<T>, DbError> {
        let client = self.connection(lane).await?;
        failpoints::reach_statement("before", statement.name);
        let rows = statement.run_mapped(&client, self.facts.pooled, params, map);
        if let Ok(outcome) = tokio::time::timeout(self.answer_timeout, rows).await {
            failpoints::reach_statement("after", statement.name);
            return outcome;
        }
        // The server's own timeout did not speak: it hangs, or the network does. The connection is of no more use.
        drop(Object::take(client));
        Err(DbError::of_kind(DbErrorKind::Lost, "the server did not answer in time"))
    }

    async fn connection(&self, lane: Lane) -> Result<Object, DbError> {
        let pool = match lane {
            Lane::Short => &self.short,
            Lane::Writer => &self.writers,
            Lane::Lease => &self.lease,
            Lane::Background => &self.background,
        };
        // The one place where connections are taken.
        #[allow(clippy::disallowed_methods)]
        pool.get().await.map_err(DbError::from_pool)
    }
}

async fn pause(error: &DbError, statement: &'static str, attempt: u32) {
    tracing::warn!(statement, attempt, %error, "statement failed, trying again");
    tokio::time::sleep(Duration::from_millis(20 << (2 * attempt))).await;
}

fn pool(target: &Target, facts: &ServerFacts, options: &PoolOptions, size: usize) -> Result<Pool, ConnectError> {
    let mut config = target.config();
    config.connect_timeout(options.connect_timeout);
    let manager =
        Manager::from_config(config, target.tls()?, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let settings = (!facts.pooled).then(|| facts.session_settings(options.statement_timeout));
    let max_age = options.max_age;
    Pool::builder(manager)
        .max_size(size)
        // The connection used last: its backend's caches are warm, and those that are not needed stay idle.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(options.wait_timeout))
        .create_timeout(Some(options.connect_timeout))
        .recycle_timeout(Some(options.connect_timeout))
        .post_create(Hook::async_fn(move |client, _| {
            let settings = settings.clone();
            Box::pin(async move {
                match settings {
                    Some(sql) => client.batch_execute(&sql).await.map_err(HookError::Backend),
                    None => Ok(()),
                }
            })
        }))
        .pre_recycle(Hook::sync_fn(move |_, metrics| {
            if metrics.age() > max_age { Err(HookError::message("connection reached its age")) } else { Ok(()) }
        }))
        .build()
        .map_err(|e| ConnectError::Pool(e.to_string()))
}
