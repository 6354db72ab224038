//! Statements on `instance`.

use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::db::{Db, DbError, Statement};

static REGISTER: Statement = Statement {
    name: "register_instance",
    sql: "-- register_instance
INSERT INTO lobgate.instance (id, host, version) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET heartbeat = clock_timestamp() RETURNING pg_current_snapshot()::text",
    types: &[Type::UUID, Type::TEXT, Type::TEXT],
};

// An instance that was taken for dead is entered again: what its running reads located may be gone by then, which they
// find out by themselves; the bound protects whatever is not.
static RENEW: Statement = Statement {
    name: "renew_instance",
    sql: "-- renew_instance
INSERT INTO lobgate.instance (id, snapshot, host, version) VALUES ($1, $2::text::pg_snapshot, $3, $4)
ON CONFLICT (id) DO UPDATE SET heartbeat = clock_timestamp(), snapshot = excluded.snapshot
RETURNING pg_current_snapshot()::text",
    types: &[Type::UUID, Type::TEXT, Type::TEXT, Type::TEXT],
};

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
}

/// Enters an instance; returns a snapshot that is older than everything it will read.
pub(crate) async fn register(db: &Db, who: &Identity) -> Result<String, DbError> {
    let rows = db.write(&REGISTER, &[&who.id, &who.host, &who.version]).await?;
    Ok(rows.first().map(|row| row.get(0)).unwrap_or_default())
}

/// Publishes the bound of an instance's reads; returns a fresh snapshot.
pub(crate) async fn renew(db: &Db, who: &Identity, bound: &str) -> Result<String, DbError> {
    let rows = db.write(&RENEW, &[&who.id, &bound, &who.host, &who.version]).await?;
    Ok(rows.first().map(|row| row.get(0)).unwrap_or_default())
}

/// Takes an instance off the list; it must not read any more.
pub(crate) async fn deregister(db: &Db, who: &Identity) -> Result<(), DbError> {
    db.write(&DEREGISTER, &[&who.id]).await.map(drop)
}
