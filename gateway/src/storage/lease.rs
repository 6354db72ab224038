//! The lease: this instance's entry in `instance`, renewed while it lives, and with it the bound of its reads.
//!
//! Register before the first read, renew several times per lease, deregister after the last read. Whoever reads
//! contents does it under a lease, `lobgate verify` as well as a gateway.
//!
//! On a standby nothing can be entered, so nothing holds the primary's reaper back: a long read there may be cut off when
//! the destruction of its object is replayed. It gets an error, never wrong bytes. "Renewing" then only asks whether the
//! server has been promoted, and registers when it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    on_standby: Arc<AtomicBool>,
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
        let sent = Instant::now();
        let on_standby = db.facts().standby;
        let snapshot = if on_standby { String::new() } else { enter(db, &who).await? };
        let reads = Arc::new(RunningReads::new(snapshot, lease, sent));
        Ok(Self { db: db.clone(), who, reads, on_standby: Arc::new(AtomicBool::new(on_standby)) })
    }

    /// Whether the server was a standby when it was last asked: nothing can be written, nothing collected.
    #[must_use]
    pub fn is_on_standby(&self) -> bool {
        self.on_standby.load(Ordering::Relaxed)
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
        if self.is_on_standby() {
            return self.renew_on_standby(sent).await;
        }
        let bound = self.reads.bound();
        let snapshot = instances::renew(&self.db, &self.who, &bound).await?;
        self.reads.renewed(snapshot, sent);
        Ok(())
    }

    async fn renew_on_standby(&self, sent: Instant) -> Result<()> {
        if instances::is_standby(&self.db).await? {
            self.reads.renewed(String::new(), sent);
            return Ok(());
        }
        let snapshot = enter(&self.db, &self.who).await?;
        self.reads.renewed(snapshot, sent);
        self.on_standby.store(false, Ordering::Relaxed);
        tracing::info!("the standby has been promoted: writes are accepted");
        Ok(())
    }

    /// Ends the lease. No read may run any more.
    ///
    /// # Errors
    /// Those of the database; the entry then runs out by itself.
    pub async fn end(self) -> Result<()> {
        if self.is_on_standby() {
            return Ok(());
        }
        Ok(instances::deregister(&self.db, &self.who).await?)
    }
}

async fn enter(db: &Db, who: &Identity) -> Result<String> {
    let adopted = instances::adopt_removed(db).await?;
    if adopted > 0 {
        tracing::info!(adopted, "removals of another cluster entered anew: this database was restored");
    }
    Ok(instances::register(db, who).await?)
}
