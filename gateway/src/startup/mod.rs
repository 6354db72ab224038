//! From configuration to a database that is fit: parsed, probed, migrated, pooled.
//!
//! `serve` and every command that works on the database come through here, so that each says the same sentence about
//! the same shortcoming.

use anyhow::Context;

use crate::config::{Config, Pooler as ConfiguredPooler};
use crate::db::{self, Db, PoolOptions, Pooler, ServerFacts, Standbys, Target};
use crate::storage::StorageOptions;

/// Whether the schema may be changed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// Pending migrations are applied.
    Migrate,
    /// The schema has to be as this binary needs it.
    Require,
}

/// Opens the database behind a URL.
///
/// # Errors
/// One sentence that says what is wrong with the URL, the server or the schema, and the mend.
pub async fn open_database(config: &Config, url: &str, schema: Schema) -> anyhow::Result<Db> {
    let target = Target::parse(url)?;
    let facts = db::probe(&target, pooler(config), standbys(config), config.database.connect_timeout).await?;
    tell(&facts);
    let mut client = target.connect(config.database.connect_timeout).await?;
    match schema {
        Schema::Migrate if !facts.standby => {
            for migration in db::migrate(&mut client).await? {
                tracing::info!(migration, "schema migrated");
            }
        }
        Schema::Migrate | Schema::Require => {
            let state = db::migration_state(&mut client).await?;
            if !state.pending.is_empty() {
                let place = if facts.standby { " on the primary" } else { "" };
                anyhow::bail!("the schema lacks {}: run lobgate migrate up{place}", state.pending.join(", "));
            }
        }
    }
    Db::new(&target, facts, &pool_options(config)).context("the database pools cannot be opened")
}

/// What the engine may use.
#[must_use]
pub fn storage_options(config: &Config) -> StorageOptions {
    let storage = &config.storage;
    StorageOptions {
        inline_max: storage.inline_max,
        buffer_max: storage.buffer_max,
        write_chunk: storage.write_chunk,
        read_window: storage.read_window,
        read_ahead: storage.read_ahead,
        upload_memory: storage.upload_memory,
        download_memory: storage.download_memory,
        memory_wait: config.database.pool_wait_timeout,
        body_idle_timeout: config.server.body_idle_timeout,
    }
}

fn pool_options(config: &Config) -> PoolOptions {
    let database = &config.database;
    PoolOptions {
        size: database.pool_size,
        writer_size: database.writer_pool_size,
        wait_timeout: database.pool_wait_timeout,
        connect_timeout: database.connect_timeout,
        statement_timeout: database.statement_timeout,
        max_age: database.max_connection_age,
    }
}

/// Whether the configuration knows of a pooler.
#[must_use]
pub fn pooler(config: &Config) -> Pooler {
    match config.database.pooler {
        ConfiguredPooler::Auto => Pooler::Auto,
        ConfiguredPooler::None => Pooler::None,
        ConfiguredPooler::Transaction => Pooler::Transaction,
    }
}

fn standbys(config: &Config) -> Standbys {
    if config.database.allow_standby { Standbys::Allowed } else { Standbys::Refused }
}

fn tell(facts: &ServerFacts) {
    tracing::info!(version = facts.version_text, pooled = facts.pooled, lz4 = facts.lz4, "connected to PostgreSQL");
    if facts.standby {
        tracing::info!(
            "this server is a standby: objects are read and listed, writes are refused until it is promoted"
        );
    }
    if !facts.fsync {
        tracing::warn!(
            "fsync is off on this server: a crash of its machine may lose acknowledged writes; set fsync = on"
        );
    }
    if !facts.lz4 {
        tracing::info!("this server cannot compress with lz4; large objects are written faster where it can");
    }
    if facts.pooled && facts.lz4 {
        tracing::info!(
            "behind a transaction pooler only streamed writes use lz4; ALTER ROLE … SET default_toast_compression = 'lz4' lets all"
        );
    }
}
