//! The lease: this instance's entry in `instance`, renewed while it lives, and with it the bound of its reads.
//!
//! Register before the first read, renew several times per lease, deregister after the last read. Whoever reads
//! contents does it under a lease, `lobgate verify` as well as a gateway.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::error::Result;
use super::index::instances::{self, Identity};
use super::running_reads::RunningReads;
use crate::db::Db;

/// An entry in `instance`.
#[derive(Clone)]
pub struct Lease {
    db: Db,
    who: Identity,
    reads: Arc<RunningReads>,
}

impl Lease {
    /// Registers this process. `lease` is how long an entry is believed without renewal.
    ///
    /// # Errors
    /// Those of the database.
    pub async fn register(db: &Db, lease: Duration) -> Result<Self> {
        let host = nix::unistd::gethostname().map(|h| h.to_string_lossy().into_owned()).unwrap_or_default();
        let who = Identity {
            id: Uuid::now_v7(),
            host: format!("{host}:{}", std::process::id()),
            version: env!("CARGO_PKG_VERSION"),
            lease,
        };
        let adopted = instances::adopt_removed(db).await?;
        if adopted > 0 {
            tracing::info!(adopted, "removals of another cluster entered anew: this database was restored");
        }
        let sent = Instant::now();
        let snapshot = instances::register(db, &who).await?;
        let reads = Arc::new(RunningReads::new(snapshot, lease, sent));
        Ok(Self { db: db.clone(), who, reads })
    }

    /// The reads under this lease.
    #[must_use]
    pub fn reads(&self) -> Arc<RunningReads> {
        Arc::clone(&self.reads)
    }

    /// Renews the lease and publishes the bound of the running reads.
    ///
    /// # Errors
    /// Those of the database; the lease then goes on running out.
    pub async fn renew(&self) -> Result<()> {
        let sent = Instant::now();
        let bound = self.reads.bound();
        let snapshot = instances::renew(&self.db, &self.who, &bound).await?;
        self.reads.renewed(snapshot, sent);
        Ok(())
    }

    /// Ends the lease. No read may run any more.
    ///
    /// # Errors
    /// Those of the database; the entry then runs out by itself.
    pub async fn end(self) -> Result<()> {
        Ok(instances::deregister(&self.db, &self.who).await?)
    }
}
