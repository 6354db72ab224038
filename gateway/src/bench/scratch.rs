//! A place on the user's server to measure in, which leaves nothing behind.
//!
//! Where the role may create databases, that is a database of its own, `lobgate_bench_` and eight digits: **dropping a
//! database gives back the space of its `pg_largeobject`, which deleting large objects never does.** Elsewhere it is a
//! schema of that name in the database that was named; there the large objects share `pg_largeobject` with everybody's,
//! and what they filled stays allocated to it, free for new ones.
//!
//! Either way the commands see a schema in their search path with one table, `object`, the companion table. Rule for
//! them: **the transaction that creates a large object inserts its oid into `object`, and the one that unlinks it deletes
//! the row.** So the table names every large object there is, and removal finds all of them.
//!
//! A run holds an advisory lock, of the same number as the name, from before the scratch exists until after it is gone.
//! `pg_locks` shows it from every database of the server. So a scratch whose lock nobody holds belongs to a run that was
//! killed; the next run removes it (a schema: the next run on that database). Invariant: nothing outside names of our form, owned by this role, is ever removed.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::db::{ServerFacts, Target};

use super::sessions::{self, Sessions};

/// How every scratch is named; the number is that of its lock.
const PREFIX: &str = "lobgate_bench_";
/// First half of the advisory lock's key, the same for all runs: "lobb".
const LOCK_CLASS: i32 = 0x6c6f_6262;
/// Large objects unlinked in one transaction: each takes a slot of the server's lock table.
const UNLINK_BATCH: i64 = 200;
/// Longest wait for a killed run's sessions to end, milliseconds.
const END_WAIT: i64 = 10_000;
/// A `pg_largeobject` beyond this is not vacuumed for our sake: it is mostly not ours.
const VACUUM_MAX: i64 = 4 << 30;
/// How long a database that others are at work in is tried to be dropped, and the pause between two tries.
const DROP_PATIENCE: Duration = Duration::from_secs(60);
const DROP_PAUSE: Duration = Duration::from_millis(200);

/// The companion table. Short bodies may lie in the row, uncompressed: the data cannot be compressed anyway.
const TABLE: &str = "CREATE TABLE object (
    key text COLLATE \"C\" PRIMARY KEY,
    loid oid,
    inline bytea,
    size bigint NOT NULL,
    sha256 bytea,
    committed_at timestamptz NOT NULL DEFAULT now(),
    CHECK (num_nonnulls(loid, inline) = 1)
);
ALTER TABLE object ALTER COLUMN inline SET STORAGE EXTERNAL";

/// Names of dead scratches among `$1`, whose numbers are `$2`; `$3` is the class of the lock.
const UNLOCKED: &str = "SELECT c.name FROM unnest($1::text[], $2::oid[]) AS c (name, number)
WHERE NOT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 2
                  AND l.classid = $3::oid AND l.objid = c.number)";

/// Which of the two ways was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A database of its own.
    Database,
    /// A schema in the named database, and why.
    Schema {
        /// What stood against a database.
        because: String,
    },
}

/// A scratch that exists until [`Scratch::remove`].
pub(crate) struct Scratch {
    name: String,
    place: Place,
    /// To the database that was named.
    home: Target,
    /// To the database to measure in.
    target: Target,
    facts: ServerFacts,
    /// Holds the lock.
    guard: Client,
}

impl Scratch {
    /// Removes what killed runs left and makes a scratch.
    ///
    /// # Errors
    /// One sentence: the role may make neither a database nor a schema, or a statement failed.
    pub(crate) async fn create(home: &Target, facts: &ServerFacts) -> anyhow::Result<Self> {
        let guard = sessions::connect(home, facts, PREFIX.trim_end_matches('_')).await?;
        remove_stale(&guard).await?;
        let (number, _) = uuid::Uuid::new_v4().as_u64_pair();
        let number = u32::try_from(number >> 32).unwrap_or(0);
        let name = name_of(number);
        // Held before anything of that name exists: who sees the name sees the lock.
        let lock = "SELECT pg_advisory_lock($1, $2)";
        guard.execute(lock, &[&LOCK_CLASS, &number.cast_signed()]).await?;
        let because = match create_database(&guard, home, facts, &name).await {
            Ok(target) => {
                return Ok(Self {
                    name,
                    place: Place::Database,
                    home: home.clone(),
                    target,
                    facts: facts.clone(),
                    guard,
                });
            }
            Err(because) => format!("{because:#}"),
        };
        let made = guard.batch_execute(&schema_with_table(&name)).await;
        made.with_context(|| {
            format!(
                "there is no place to measure in: the role can create neither a database ({because}) nor a schema; \
                 ALTER ROLE … CREATEDB, or GRANT CREATE ON DATABASE … TO …"
            )
        })?;
        let place = Place::Schema { because };
        Ok(Self { name, place, home: home.clone(), target: home.clone(), facts: facts.clone(), guard })
    }

    /// How to open sessions that see the companion table.
    #[must_use]
    pub(crate) fn sessions(&self) -> Sessions {
        Sessions::new(self.target.clone(), self.facts.clone(), self.name.clone())
    }

    /// Name of the database of its own.
    ///
    /// # Errors
    /// One sentence: it is a schema.
    pub(crate) fn database(&self) -> anyhow::Result<&str> {
        match &self.place {
            Place::Database => Ok(&self.name),
            Place::Schema { because } => anyhow::bail!(
                "a gateway needs a database of its own to be measured in, and the role can't create one ({because}): \
                 ALTER ROLE … CREATEDB"
            ),
        }
    }

    /// Where it is, for reports.
    #[must_use]
    pub(crate) fn describe(&self) -> String {
        match &self.place {
            Place::Database => format!("database {}, dropped at the end: all its space is given back", self.name),
            Place::Schema { because } => format!(
                "schema {} in the given database ({because}), dropped at the end: the space of its large objects stays \
                 in pg_largeobject, free for new ones",
                self.name
            ),
        }
    }

    /// Lets new large objects use the space of unlinked ones, so that a long run does not grow without need, and says
    /// whether it did. It does nothing where the role does not own the database, or where `pg_largeobject` is large with
    /// other people's objects.
    ///
    /// # Errors
    /// A statement failed.
    pub(crate) async fn reclaim(&self, client: &Client) -> anyhow::Result<bool> {
        let may = "SELECT pg_has_role(datdba, 'USAGE') AND pg_relation_size('pg_largeobject') <= $1 \
                   FROM pg_database WHERE datname = current_database()";
        let may: bool = client.query_one(may, &[&VACUUM_MAX]).await?.get(0);
        if may {
            client.batch_execute("VACUUM (TRUNCATE off) pg_largeobject").await?;
        }
        Ok(may)
    }

    /// Removes the scratch with everything in it.
    ///
    /// # Errors
    /// It could not be removed; the next run will.
    pub(crate) async fn remove(self) -> anyhow::Result<()> {
        // The server may have been restarted meanwhile.
        let client = if self.guard.is_closed() {
            sessions::connect(&self.home, &self.facts, PREFIX.trim_end_matches('_')).await?
        } else {
            self.guard
        };
        let removed = match self.place {
            Place::Database => drop_database(&client, &self.name).await,
            Place::Schema { .. } => drop_schema(&client, &self.name).await,
        };
        removed.with_context(|| format!("{} could not be removed now; the next lobgate bench removes it", self.name))
    }
}

/// Makes the database and its schema, or says in half a sentence why not.
async fn create_database(guard: &Client, home: &Target, facts: &ServerFacts, name: &str) -> anyhow::Result<Target> {
    let may = "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user";
    if !guard.query_one(may, &[]).await?.get::<_, bool>(0) {
        anyhow::bail!("the role has no CREATEDB");
    }
    // Keys sort by COLLATE "C" anyway, and that locale exists everywhere.
    let create = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'");
    guard.batch_execute(&create).await?;
    let target = home.on_database(name);
    let prepared = async {
        let client = sessions::connect(&target, facts, name).await?;
        client.batch_execute(&schema_with_table(name)).await?;
        anyhow::Ok(())
    };
    if let Err(error) = prepared.await {
        // Some servers let a role into one database only.
        drop_database(guard, name).await?;
        return Err(error);
    }
    Ok(target)
}

fn schema_with_table(name: &str) -> String {
    // One message is one transaction: the schema never exists without its table.
    format!("CREATE SCHEMA {name}; SET LOCAL search_path = {name}; {TABLE}")
}

/// Removes the scratches of runs that are no more. What can't be removed is said, and is no reason not to measure.
async fn remove_stale(client: &Client) -> anyhow::Result<()> {
    let databases = "SELECT datname::text FROM pg_database WHERE pg_has_role(datdba, 'USAGE')";
    for name in unlocked(client, databases).await? {
        told(&name, drop_database(client, &name).await);
    }
    let schemas = "SELECT nspname::text FROM pg_namespace WHERE pg_has_role(nspowner, 'USAGE')";
    for name in unlocked(client, schemas).await? {
        told(&name, drop_schema(client, &name).await);
    }
    Ok(())
}

fn told(name: &str, removed: anyhow::Result<()>) {
    match removed {
        Ok(()) => tracing::info!(name, "removed what a bench that was killed had left"),
        Err(error) => tracing::warn!(name, error = format!("{error:#}"), "what a killed bench left cannot be removed"),
    }
}

/// Names of our form among those that a query gives, whose lock nobody holds.
async fn unlocked(client: &Client, query: &str) -> anyhow::Result<Vec<String>> {
    let rows = client.query(query, &[]).await?;
    let (names, numbers): (Vec<String>, Vec<u32>) =
        rows.iter().map(|row| row.get(0)).filter_map(|name: String| number_of(&name).map(|n| (name, n))).unzip();
    if names.is_empty() {
        return Ok(names);
    }
    let class = LOCK_CLASS.cast_unsigned();
    let dead = client.query(UNLOCKED, &[&names, &numbers, &class]).await?;
    Ok(dead.iter().map(|row| row.get(0)).collect())
}

async fn drop_database(client: &Client, name: &str) -> anyhow::Result<()> {
    let statement = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
    let begun = Instant::now();
    loop {
        let Err(error) = client.batch_execute(&statement).await else { return Ok(()) };
        // Autovacuum is at work in it, which not every role may end. It ends by itself, for it is asked to.
        let busy = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::OBJECT_IN_USE].iter().any(|s| error.code() == Some(s));
        if !busy || begun.elapsed() > DROP_PATIENCE {
            return Err(error.into());
        }
        tokio::time::sleep(DROP_PAUSE).await;
    }
}

/// Unlinks what the table names and drops the schema once it names nothing.
async fn drop_schema(client: &Client, name: &str) -> anyhow::Result<()> {
    // What a dead run still had under way ends here: its sessions bear the name.
    let end = "SELECT count(pg_terminate_backend(pid, $2)) FROM pg_stat_activity \
               WHERE application_name = $1 AND usename = current_user AND pid <> pg_backend_pid()";
    client.execute(end, &[&name, &END_WAIT]).await?;
    let unlink = format!(
        "WITH gone AS (DELETE FROM {name}.object WHERE key IN
             (SELECT key FROM {name}.object WHERE loid IS NOT NULL LIMIT {UNLINK_BATCH}) RETURNING loid)
         SELECT count(lo_unlink(m.oid)) FROM gone JOIN pg_largeobject_metadata m ON m.oid = gone.loid"
    );
    // The lock waits for every transaction that inserted an oid and keeps later ones out: they find the table gone
    // and roll back with their large object.
    let finish = format!(
        "BEGIN; LOCK TABLE {name}.object IN ACCESS EXCLUSIVE MODE;
         DO $$ BEGIN IF EXISTS (SELECT FROM {name}.object WHERE loid IS NOT NULL) THEN
             RAISE EXCEPTION 'large objects were added meanwhile'; END IF; END $$;
         DROP SCHEMA {name} CASCADE; COMMIT"
    );
    loop {
        while client.query_one(&unlink, &[]).await?.get::<_, i64>(0) > 0 {}
        match client.batch_execute(&finish).await {
            Ok(()) => return Ok(()),
            Err(error) => {
                client.batch_execute("ROLLBACK").await?;
                let added = error.code() == Some(&SqlState::RAISE_EXCEPTION);
                if !added {
                    return Err(error.into());
                }
            }
        }
    }
}

fn name_of(number: u32) -> String {
    format!("{PREFIX}{number:08x}")
}

/// The number in a name of our form.
fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(PREFIX)?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    (name_of(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_its_number_are_one() {
        for number in [0, 1, 0xab_cdef, u32::MAX] {
            assert_eq!(number_of(&name_of(number)), Some(number));
        }
        assert_eq!(name_of(0xa1), "lobgate_bench_000000a1");
    }

    #[test]
    fn other_names_are_not_ours() {
        for name in [
            "lobgate",
            "lobgate_bench_",
            "lobgate_bench_1",
            "lobgate_bench_0000000g",
            "lobgate_bench_000000A1",
            "lobgate_bench_+00000a1",
            "lobgate_bench_000000a1x",
            "my_lobgate_bench_000000a1",
        ] {
            assert_eq!(number_of(name), None, "{name}");
        }
    }
}
