//! The start-up probe: is this a server we can keep promises on?
//!
//! One connection looks at version, encoding, rights and settings, and tries a large object in a transaction that is
//! rolled back. Every shortcoming is one sentence that names the mend. A second connection tells whether a transaction
//! pooler stands in between: two sessions that take turns on one server process, or a session that changes its server
//! process, are pooled.

use std::time::Duration;

use tokio_postgres::{Client, SimpleQueryMessage};

use super::connect::{ConnectError, Target};

/// Oldest supported server: `pg_current_snapshot`, `default_toast_compression` (PostgreSQL 14 release notes).
const MIN_SERVER_VERSION: u32 = 14_00_00;

/// What the probe found; it decides how sessions are set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// As `server_version_num`, e.g. 150018.
    pub version: u32,
    /// As `server_version`.
    pub version_text: String,
    /// Whether a transaction pooler stands in between: no session state, no named statements.
    pub pooled: bool,
    /// Whether the server can compress with lz4.
    pub lz4: bool,
    /// `fsync` of the server.
    pub fsync: bool,
    /// Whether it is a standby: nothing can be written.
    pub standby: bool,
}

/// Whether a transaction pooler is in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooler {
    /// Find out.
    Auto,
    /// There is none.
    None,
    /// There is one.
    Transaction,
}

/// Whether a standby will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standbys {
    /// Only a server that can be written to.
    Refused,
    /// For reading.
    Allowed,
}

/// Why the server cannot be used. Each is one sentence with its mend.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A query of the probe failed.
    #[error("the database refused a question of the start-up probe: {0}")]
    Query(String),
    /// Something is missing on the server.
    #[error("{0}")]
    Unfit(String),
}

impl ServerFacts {
    /// Settings of a session that is ours alone. A timeout of zero is none.
    ///
    /// Plans are made once per connection and never compiled: every statement of ours reaches its rows through an index
    /// whatever the values, and takes less time than planning it for them or compiling it would.
    #[must_use]
    pub fn session_settings(&self, statement_timeout: Duration) -> String {
        let lz4 = if self.lz4 { "SET default_toast_compression = 'lz4';" } else { "" };
        format!(
            "SET application_name = 'lobgate'; SET statement_timeout = {}; SET synchronous_commit = on; \
             SET default_transaction_isolation = 'read committed'; SET bytea_output = 'hex'; \
             SET plan_cache_mode = force_generic_plan; SET jit = off; SET client_min_messages = warning; {lz4}",
            statement_timeout.as_millis()
        )
    }

    /// Settings to make in every transaction, because the session is not ours.
    pub(super) fn transaction_settings(&self) -> &'static str {
        match (self.pooled, self.lz4) {
            (false, _) => "",
            (true, true) => "SET LOCAL default_toast_compression = 'lz4';",
            (true, false) => "",
        }
    }
}

/// Examines the server behind a URL.
///
/// # Errors
/// [`ProbeError`] says what is missing and how to mend it.
pub async fn probe(
    target: &Target,
    pooler: Pooler,
    standbys: Standbys,
    timeout: Duration,
) -> Result<ServerFacts, ProbeError> {
    let client = target.connect(timeout).await?;
    let version_text = one(&client, "SHOW server_version").await?;
    let version: u32 = one(&client, "SHOW server_version_num").await?.parse().unwrap_or(0);
    if version < MIN_SERVER_VERSION {
        return Err(ProbeError::Unfit(format!(
            "the server runs PostgreSQL {version_text}, but lobgate needs version 14 or later: upgrade the server"
        )));
    }
    let encoding = one(&client, "SHOW server_encoding").await?;
    if encoding != "UTF8" {
        return Err(ProbeError::Unfit(format!(
            "the database has encoding {encoding}, but object keys need UTF8: create it with \
             CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )));
    }
    let standby = one(&client, "SELECT pg_is_in_recovery()").await? == "t";
    if standby && standbys == Standbys::Refused {
        return Err(ProbeError::Unfit(
            "the server is a standby and accepts no writes: name the primary in database_url, or list all hosts and \
             add target_session_attrs=read-write, or set database.allow_standby for a gateway that only reads"
                .into(),
        ));
    }
    if !standby && one(&client, "SHOW transaction_read_only").await? == "on" {
        return Err(ProbeError::Unfit(
            "transactions on this database are read-only: ALTER ROLE or ALTER DATABASE … SET default_transaction_read_only = off".into(),
        ));
    }
    let lz4 = one(
        &client,
        "SELECT count(*) FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)",
    )
    .await?
        == "1";
    let fsync = one(&client, "SHOW fsync").await? == "on";
    let pooled = match pooler {
        Pooler::None => false,
        Pooler::Transaction => true,
        Pooler::Auto => is_pooled(&client, target, timeout).await?,
    };
    if pooled && matches!(one(&client, "SHOW synchronous_commit").await?.as_str(), "off" | "local") {
        return Err(ProbeError::Unfit(
            "synchronous_commit is off for this role behind the pooler, so an acknowledged write could be lost: \
             ALTER ROLE … SET synchronous_commit = on"
                .into(),
        ));
    }
    let isolation = one(&client, "SHOW default_transaction_isolation").await?;
    if pooled && isolation != "read committed" {
        return Err(ProbeError::Unfit(format!(
            "transactions of this role begin as {isolation} behind the pooler, but lobgate's functions need each of \
             their statements to see what was committed before it: \
             ALTER ROLE … SET default_transaction_isolation = 'read committed'"
        )));
    }
    if !standby {
        check_rights(&client).await?;
    }
    Ok(ServerFacts { version, version_text, pooled, lz4, fsync, standby })
}

async fn check_rights(client: &Client) -> Result<(), ProbeError> {
    let rights = "SELECT CASE \
            WHEN n.oid IS NULL AND has_database_privilege(current_database(), 'CREATE') THEN 'ok' \
            WHEN n.oid IS NULL THEN 'no_create' \
            WHEN pg_has_role(n.nspowner, 'USAGE') THEN 'ok' ELSE 'foreign' END \
        FROM (SELECT 1) one LEFT JOIN pg_namespace n ON n.nspname = 'lobgate'";
    match one(client, rights).await?.as_str() {
        "ok" => {}
        "no_create" => {
            return Err(ProbeError::Unfit(
                "the role may not create the schema lobgate: GRANT CREATE ON DATABASE … TO …, or as an administrator \
                 CREATE SCHEMA lobgate AUTHORIZATION …"
                    .into(),
            ));
        }
        _ => {
            return Err(ProbeError::Unfit(
                "the schema lobgate belongs to another role: connect as its owner, or GRANT that role to this one"
                    .into(),
            ));
        }
    }
    let large_object = "BEGIN; SELECT lo_unlink(lo_from_bytea(0, '\\x00')); ROLLBACK";
    client.batch_execute(large_object).await.map_err(|e| {
        let why = e.as_db_error().map_or_else(|| e.to_string(), |db| db.message().to_owned());
        ProbeError::Unfit(format!(
            "the server did not let this role create and unlink a large object ({why}): use a server with large \
             objects (stock PostgreSQL has them), and a role that may execute lo_from_bytea and lo_unlink"
        ))
    })
}

async fn is_pooled(first: &Client, target: &Target, timeout: Duration) -> Result<bool, ProbeError> {
    let second = target.connect(timeout).await?;
    let mut pids = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        pids[0].push(one(first, "SELECT pg_backend_pid()").await?);
        pids[1].push(one(&second, "SELECT pg_backend_pid()").await?);
    }
    let steady = pids.iter().all(|p| p.iter().all(|pid| *pid == p[0]));
    Ok(!steady || pids[0][0] == pids[1][0])
}

async fn one(client: &Client, sql: &str) -> Result<String, ProbeError> {
    let messages =
        client.simple_query(sql).await.map_err(|e| ProbeError::Query(super::DbError::from_driver(e).to_string()))?;
    let value = messages.iter().find_map(|m| match m {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    value.ok_or_else(|| ProbeError::Query(format!("no answer to {sql}")))
}
