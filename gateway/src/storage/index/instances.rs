//! Statements on `instance`.

use std::time::Duration;

use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::db::{Db, DbError, Lane, Statement};

static REGISTER: Statement = Statement {
    name: "register_instance",
    sql: "-- register_instance
INSERT INTO lobgate.instance (id, host, version, lease) VALUES ($1, $2, $3, make_interval(secs => $4))
ON CONFLICT (id) DO UPDATE SET heartbeat = clock_timestamp() RETURNING pg_current_snapshot()::text",
    types: &[Type::UUID, Type::TEXT, Type::TEXT, Type::FLOAT8],
};

// An instance that was taken for dead is entered again: what its running reads located may be gone by then, which they
// find out by themselves; the bound protects whatever is not.
static RENEW: Statement = Statement {
    name: "renew_instance",
    sql: "-- renew_instance
INSERT INTO lobgate.instance (id, snapshot, host, version, lease)
VALUES ($1, $2::text::pg_snapshot, $3, $4, make_interval(secs => $5))
ON CONFLICT (id) DO UPDATE SET heartbeat = clock_timestamp(), snapshot = excluded.snapshot
RETURNING pg_current_snapshot()::text",
    types: &[Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT, Type::FLOAT8],
};

static IS_STANDBY: Statement =
    Statement { name: "is_standby", sql: "-- is_standby\nSELECT pg_is_in_recovery()", types: &[] };

static ADOPT_REMOVED: Statement =
    Statement { name: "adopt_removed", sql: "-- adopt_removed\nSELECT lobgate.adopt_removed()", types: &[] };

static DEREGISTER: Statement = Statement {
    name: "deregister_instance",
    sql: "-- deregister_instance
DELETE FROM lobgate.instance WHERE id = $1",
    types: &[Type::UUID],
};

/// Who registers.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Chosen by the instance.
    pub id: Uuid,
    /// For an operator's eye.
    pub host: String,
    /// Of lobgate.
    pub version: &'static str,
    /// How long it may be silent.
    pub(crate) lease: Duration,
}

/// Enters an instance; returns a snapshot that is older than everything it will read.
pub(crate) async fn register(db: &Db, who: &Identity) -> Result<String, DbError> {
    let rows = db.write(&REGISTER, &[&who.id, &who.host, &who.version, &who.lease.as_secs_f64()]).await?;
    Ok(rows.first().map(|row| row.get(0)).unwrap_or_default())
}

/// Publishes the bound of an instance's reads; returns a fresh snapshot.
pub(crate) async fn renew(db: &Db, who: &Identity, bound: &str) -> Result<String, DbError> {
    let rows =
        db.write_in(Lane::Lease, &RENEW, &[&who.id, &bound, &who.host, &who.version, &who.lease.as_secs_f64()]).await?;
    Ok(rows.first().map(|row| row.get(0)).unwrap_or_default())
}

/// Whether the server is a standby.
pub(crate) async fn is_standby(db: &Db) -> Result<bool, DbError> {
    Ok(db.read(&IS_STANDBY, &[]).await?.first().is_some_and(|row| row.get(0)))
}

/// Enters removals anew that come from another cluster. Returns how many.
pub(crate) async fn adopt_removed(db: &Db) -> Result<u64, DbError> {
    let rows = db.write(&ADOPT_REMOVED, &[]).await?;
    Ok(rows.first().map_or(0, |row| u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)))
}

/// Takes an instance off the list; it must not read any more.
pub(crate) async fn deregister(db: &Db, who: &Identity) -> Result<(), DbError> {
    db.write(&DEREGISTER, &[&who.id]).await.map(drop)
}
