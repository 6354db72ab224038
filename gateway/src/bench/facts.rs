//! What decides the figures and is no result: the server's version and settings, the way to it, the client's build.

use std::collections::BTreeMap;

use tokio_postgres::Client;

/// Settings that speed or durability depend on, those that the server knows.
const SETTINGS: &str = "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY ($1)";
const NAMES: &[&str] = &[
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
    "wal_level",
    "wal_compression",
    "default_toast_compression",
    "data_checksums",
    "block_size",
];

const TRANSPORT: &str = "SELECT CASE WHEN inet_server_addr() IS NULL THEN 'unix'
    WHEN (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) THEN 'tcp, TLS' ELSE 'tcp' END";

/// The facts of a session's server, and of this program.
///
/// # Errors
/// A statement failed.
pub(crate) async fn gather(client: &Client) -> anyhow::Result<BTreeMap<String, String>> {
    let mut facts: BTreeMap<String, String> =
        client.query(SETTINGS, &[&NAMES]).await?.iter().map(|row| (row.get(0), row.get(1))).collect();
    facts.insert("transport".to_owned(), client.query_one(TRANSPORT, &[]).await?.get(0));
    facts.extend(client_facts());
    Ok(facts)
}

/// The facts of this program and its machine alone.
#[must_use]
pub(super) fn client_facts() -> BTreeMap<String, String> {
    let cores = std::thread::available_parallelism().map_or_else(|_| "unknown".to_owned(), |n| n.to_string());
    let build = if cfg!(debug_assertions) { "debug: slower than what is shipped" } else { "release" };
    BTreeMap::from([("client_cores".to_owned(), cores), ("client_build".to_owned(), build.to_owned())])
}
