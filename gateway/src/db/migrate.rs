//! Schema migrations: append-only files, applied by refinery inside one transaction of ours.
//!
//! The transaction first takes an advisory lock, so that of several gateways that start at once one migrates and the
//! others find the work done. A schema that knows a migration which this binary does not is newer than the binary: it
//! is refused, as is one whose history differs. All pending migrations commit together or not at all.

use refinery_core::error::Kind;
use refinery_core::traits::r#async::{AsyncMigrate, AsyncQuery, AsyncTransaction};
use refinery_core::{Migration, Runner};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::failpoints;

mod embedded {
    refinery::embed_migrations!("migrations");
}

const HISTORY_TABLE: &str = "lobgate.schema_history";
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('lobgate.migrations', 0))";
const CREATE_SCHEMA: &str = "DO $$ BEGIN \
    IF NOT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'lobgate') THEN CREATE SCHEMA lobgate; END IF; END $$";

/// Why the schema is not as this binary needs it.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The schema was migrated by a newer binary.
    #[error(
        "the schema is at version {found}, but this lobgate knows versions up to {known} only: \
         run the newer lobgate that migrated it"
    )]
    Newer {
        /// Version of the newest migration applied.
        found: i64,
        /// Version of the newest migration known.
        known: i64,
    },
    /// The schema's history is not the one of this product.
    #[error(
        "migration {0} of the schema is not the one this lobgate has: restore the schema, or run the lobgate that made it"
    )]
    Divergent(String),
    /// The database failed.
    #[error("migrating the schema failed: {0}")]
    Database(String),
}

/// Versions of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationState {
    /// Applied migrations, as `V1__buckets`, oldest first.
    pub applied: Vec<String>,
    /// Those this binary would apply.
    pub pending: Vec<String>,
}

/// Brings the schema to the version of this binary. Returns the migrations applied.
///
/// # Errors
/// [`MigrateError`]; nothing has changed then.
pub async fn migrate(client: &mut Client) -> Result<Vec<String>, MigrateError> {
    client
        .batch_execute(&format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; SET LOCAL client_min_messages = warning; {LOCK}; {CREATE_SCHEMA}"
        ))
        .await
        .map_err(|e| database(&e))?;
    let outcome = runner().run_async(&mut OpenTransaction(client)).await;
    let end = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch_execute(end).await;
    let report = outcome.map_err(|e| explain(e.kind()))?;
    ended.map_err(|e| database(&e))?;
    Ok(report.applied_migrations().iter().map(ToString::to_string).collect())
}

/// What is applied and what is pending; changes nothing.
///
/// # Errors
/// [`MigrateError::Newer`], [`MigrateError::Database`].
pub async fn migration_state(client: &mut Client) -> Result<MigrationState, MigrateError> {
    let exists = client
        .simple_query(&format!("SELECT 1 WHERE to_regclass('{HISTORY_TABLE}') IS NOT NULL"))
        .await
        .map_err(|e| database(&e))?
        .iter()
        .any(|m| matches!(m, SimpleQueryMessage::Row(_)));
    let applied = if exists {
        runner().get_applied_migrations_async(&mut OpenTransaction(client)).await.map_err(|e| explain(e.kind()))?
    } else {
        Vec::new()
    };
    let known = newest_known();
    if let Some(newer) = applied.iter().find(|m| i64::from(m.version()) > known) {
        return Err(MigrateError::Newer { found: i64::from(newer.version()), known });
    }
    let newest = applied.iter().map(|m| i64::from(m.version())).max().unwrap_or(0);
    let pending =
        runner().get_migrations().iter().filter(|m| i64::from(m.version()) > newest).map(ToString::to_string).collect();
    Ok(MigrationState { applied: applied.iter().map(ToString::to_string).collect(), pending })
}

fn runner() -> Runner {
    let mut runner = embedded::migrations::runner().set_grouped(true).set_abort_divergent(true).set_abort_missing(true);
    runner.set_migration_table_name(HISTORY_TABLE);
    runner
}

fn newest_known() -> i64 {
    runner().get_migrations().iter().map(|m| i64::from(m.version())).max().unwrap_or(0)
}

fn explain(kind: &Kind) -> MigrateError {
    match kind {
        Kind::MissingVersion(m) => MigrateError::Newer { found: i64::from(m.version()), known: newest_known() },
        Kind::DivergentVersion(m, _) => MigrateError::Divergent(m.to_string()),
        Kind::Connection(what, e) => match e.downcast_ref::<tokio_postgres::Error>() {
            Some(e) => database(e),
            None => MigrateError::Database(format!("{what}: {e}")),
        },
        other => MigrateError::Database(other.to_string()),
    }
}

fn database(error: &tokio_postgres::Error) -> MigrateError {
    MigrateError::Database(match error.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        None => error.to_string(),
    })
}

/// Lets refinery work inside the transaction that holds the lock: it neither begins nor commits, and sends no named
/// statements, so that a pooler may stand in between.
struct OpenTransaction<'a>(&'a Client);

impl AsyncTransaction for OpenTransaction<'_> {
    type Error = tokio_postgres::Error;

    async fn execute<'a, T: Iterator<Item = &'a str> + Send + 'a>(
        &'a mut self,
        queries: T,
    ) -> Result<usize, Self::Error> {
        let mut count = 0;
        for query in queries {
            failpoints::reach("mid_migration");
            self.0.batch_execute(query).await?;
            count += 1;
        }
        Ok(count)
    }
}

impl AsyncQuery<Vec<Migration>> for OpenTransaction<'_> {
    async fn query(&mut self, query: &str) -> Result<Vec<Migration>, Self::Error> {
        let messages = self.0.simple_query(query).await?;
        let rows = messages.into_iter().filter_map(|m| match m {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(rows
            .filter_map(|row| {
                let version = row.get(0)?.parse().ok()?;
                let applied_on = OffsetDateTime::parse(row.get(2)?, &Rfc3339).ok()?;
                Some(Migration::applied(version, row.get(1)?.to_owned(), applied_on, row.get(3)?.parse().ok()?))
            })
            .collect())
    }
}

impl AsyncMigrate for OpenTransaction<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checksums of what was released. A gateway refuses a schema whose history has others: a line here is never edited,
    /// and a migration that is released gets one.
    const RELEASED: [(&str, u64); 16] = [
        ("V1__buckets", 7_440_309_367_645_176_282),
        ("V2__contents", 18_189_113_454_525_856_876),
        ("V3__objects", 11_630_659_002_647_123_075),
        ("V4__uploads", 16_067_732_076_799_244_633),
        ("V5__removal", 14_583_915_446_523_208_111),
        ("V6__listing", 15_709_169_857_689_404_125),
        ("V7__reaping", 12_951_371_069_167_297_907),
        ("V8__cheaper_writes", 18_243_124_682_977_786_344),
        ("V9__batched_puts", 15_168_558_608_130_135_072),
        ("V10__locks_of_batches", 10_060_552_191_651_522_396),
        ("V11__versions", 9_405_900_016_168_402_205),
        ("V12__bucket_settings", 3_794_078_223_877_987_051),
        ("V13__users", 3_981_337_013_442_498_651),
        ("V14__lifecycle", 2_452_267_798_943_323_127),
        ("V15__renaming", 10_602_329_100_387_186_515),
        ("V16__rechecks", 6_346_458_940_458_229_958),
    ];

    #[test]
    fn released_migrations_are_what_they_were() {
        let runner = runner();
        let known: Vec<(String, u64)> = runner.get_migrations().iter().map(|m| (m.to_string(), m.checksum())).collect();
        let released: Vec<(String, u64)> = RELEASED.iter().map(|(name, sum)| ((*name).to_owned(), *sum)).collect();
        assert_eq!(known, released);
    }
}
