//! Statements on `removed`, and on uploads nobody finishes.

use std::time::Duration;

use tokio_postgres::types::Type;

use super::{bigint, integer, size_of};
use crate::db::{Db, DbError, Lane, Statement};

static REAP: Statement = Statement {
    name: "reap",
    sql: "-- reap
SELECT seen, reaped, bytes, pages
FROM lobgate.reap($1 /* batch */, $2 /* max_pages */)",
    types: &[Type::INT4, Type::INT8],
};

// A large object of terabytes takes its time to destroy; a gateway that is frozen between two statements must not keep the
// reaper's lock from the others.
static TIMEOUTS: Statement = Statement {
    name: "timeouts_of_the_reaper",
    sql: "-- timeouts_of_the_reaper
SELECT set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '10s', true)",
    types: &[],
};

static EXPIRE_UPLOADS: Statement = Statement {
    name: "expire_uploads",
    sql: "-- expire_uploads
SELECT lobgate.expire_uploads(make_interval(secs => $1) /* age */, $2 /* batch */)",
    types: &[Type::FLOAT8, Type::INT4],
};

static STATUS: Statement = Statement {
    name: "removal_status",
    sql: "-- removal_status
SELECT count(*) AS entries, count(DISTINCT r.content_id) AS contents,
       coalesce((SELECT sum(c.size)::bigint FROM lobgate.content c
                 WHERE c.id IN (SELECT content_id FROM lobgate.removed) AND num_nonnulls(c.loid, c.inline) = 1), 0) AS bytes,
       coalesce(extract(epoch FROM clock_timestamp() - min(r.removed_at)), 0)::float8 AS oldest_seconds,
       (SELECT count(*) FROM lobgate.instance) AS instances
FROM lobgate.removed r",
    types: &[],
};

/// What a round of the reaper did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Entries of `removed` that were settled.
    pub seen: u64,
    /// Contents destroyed.
    pub contents: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pages of large objects freed.
    pub pages: u64,
}

/// What waits for the reaper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemovalStatus {
    /// Entries of `removed`.
    pub entries: u64,
    /// Different contents among them.
    pub contents: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Age of the oldest entry, in seconds.
    pub oldest_seconds: f64,
    /// Instances whose reads are waited for.
    pub instances: u64,
}

/// One round of the reaper; `None` where another one is at work.
pub(crate) async fn reap(db: &Db, batch: u32, max_pages: u64) -> Result<Option<Reaped>, DbError> {
    let tx = db.begin("reap", Lane::Background).await?;
    tx.run(&TIMEOUTS, &[]).await?;
    let rows = tx.run(&REAP, &[&integer(batch), &bigint(max_pages)]).await?;
    tx.commit().await?;
    Ok(rows.first().map(|row| Reaped {
        seen: size_of(row, "seen"),
        contents: size_of(row, "reaped"),
        bytes: size_of(row, "bytes"),
        pages: size_of(row, "pages"),
    }))
}

/// Aborts uploads without activity for `age`. Returns how many.
pub(crate) async fn expire_uploads(db: &Db, age: Duration, batch: u32) -> Result<u64, DbError> {
    let rows = db.write(&EXPIRE_UPLOADS, &[&age.as_secs_f64(), &integer(batch)]).await?;
    Ok(rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

/// What waits.
pub(crate) async fn status(db: &Db) -> Result<Option<RemovalStatus>, DbError> {
    Ok(db.read(&STATUS, &[]).await?.first().map(|row| RemovalStatus {
        entries: size_of(row, "entries"),
        contents: size_of(row, "contents"),
        bytes: size_of(row, "bytes"),
        oldest_seconds: row.get("oldest_seconds"),
        instances: size_of(row, "instances"),
    }))
}
