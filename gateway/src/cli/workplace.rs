//! The engine as a command uses it: on the database of the configuration, under a lease of its own.
//!
//! Invariant: the lease is renewed as long as the workplace is open, so that nothing the command reads is reaped.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::gc;
use crate::startup::{self, Schema};
use crate::storage::{Lease, Storage};

use super::database::{self, DatabaseHandle};

/// An open engine.
pub(super) struct Workplace {
    pub(super) storage: Storage,
    lease: Lease,
    renewing: JoinHandle<()>,
    stop: CancellationToken,
    database: DatabaseHandle,
}

impl Workplace {
    pub(super) async fn open(config: &Config, schema: Schema) -> anyhow::Result<Self> {
        let database = database::resolve(config).await?;
        let db = startup::open_database(config, &database.url, schema).await?;
        let lease = Lease::register(&db, config.gc.lease).await?;
        let storage = Storage::new(db, startup::storage_options(config), lease.reads());
        let stop = CancellationToken::new();
        let renewing = tokio::spawn(gc::keep_lease(lease.clone(), config.gc.interval, stop.clone()));
        Ok(Self { storage, lease, renewing, stop, database })
    }

    /// Publishes the newest bound of this command's reads.
    pub(super) async fn renew(&self) -> anyhow::Result<()> {
        self.lease.renew().await?;
        // The second renewal publishes the snapshot that the first one fetched.
        Ok(self.lease.renew().await?)
    }

    /// Ends the lease and gives the database back.
    pub(super) async fn leave(self) {
        self.stop.cancel();
        let _ = self.renewing.await;
        if let Err(error) = self.lease.end().await {
            tracing::debug!(%error, "the lease runs out by itself");
        }
        drop(self.storage);
        self.database.release().await;
    }
}
