//! The database of a command that works beside the gateway, or without it.
//!
//! With `database_url` set, that is it. Otherwise the private server of `data_dir`: joined where a gateway runs it,
//! run for the duration where none does. Invariant: a [`DatabaseHandle`] must outlive all connections; call
//! [`DatabaseHandle::release`] when they are closed, so that a server run for this command stops in order.

use crate::config::Config;
use crate::embedded::{AttachedCluster, EmbeddedCluster, EmbeddedError, EmbeddedOptions, HeldOff};

/// A database that can be connected to.
#[derive(Debug)]
pub struct DatabaseHandle {
    /// URL for tokio-postgres; may hold a password, so never log it.
    pub url: String,
    guard: Option<AttachedCluster>,
}

/// The database of `config`, which must exist.
///
/// # Errors
/// There is no data in `data_dir`, or its server can't be used.
pub async fn resolve(config: &Config) -> Result<DatabaseHandle, EmbeddedError> {
    let options = EmbeddedOptions { create: false, ..EmbeddedOptions::from(config) };
    open(config, &options).await
}

/// The database of `config`; a private one is made where there is none yet.
///
/// # Errors
/// The private server can't be made or used.
pub async fn resolve_or_create(config: &Config) -> Result<DatabaseHandle, EmbeddedError> {
    open(config, &EmbeddedOptions::from(config)).await
}

async fn open(config: &Config, options: &EmbeddedOptions) -> Result<DatabaseHandle, EmbeddedError> {
    if let Some(url) = &config.database_url {
        return Ok(DatabaseHandle { url: url.expose().clone(), guard: None });
    }
    let attached = EmbeddedCluster::attach_or_start(&config.data_dir, options).await?;
    Ok(DatabaseHandle { url: attached.url().to_owned(), guard: Some(attached) })
}

impl DatabaseHandle {
    /// The private server, where this command runs it and no other uses it.
    #[must_use]
    pub fn sole(&self) -> Option<(&EmbeddedCluster, HeldOff)> {
        self.guard.as_ref()?.sole()
    }

    /// Gives the database back; stops a server that was run for this command.
    pub async fn release(self) {
        if let Some(attached) = self.guard {
            attached.stop().await;
        }
    }
}
