//! The end of a drill: is everything there that was acknowledged, and nothing else?
//!
//! Every key is read through the gateways and judged by its ledger. Then the store is looked at from within, as
//! `lobgate verify` does, once the reaper has destroyed what was removed: every stored byte against its digest, the tables
//! against each other, and the large objects of the database against the rows that own them. The scratch database has no
//! others, so one without a row has leaked.
//! Invariant: it runs after the faults; whatever does not answer now is a finding and no excuse.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use crate::gc::verify::{VerifyReport, verify};
use crate::gc::{self, sweep};
use crate::startup::{self, Schema};
use crate::storage::{Lease, Storage};

use super::arena::Arena;
use super::body::recognise;
use super::client::{described, name};
use super::ledger::{Breach, Ledger, Seen};
use super::sender::{Answer, Ask, Sender};

/// Keys read at once.
const READERS: usize = 8;
/// How long one key is tried to be read, and the pause between two tries.
const READ_PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
/// How long the reaper may take beyond a lease.
const REAP_PATIENCE: Duration = Duration::from_secs(120);

/// Removed contents that are not destroyed yet, save the fences of writes that did not happen: they stay for a day.
const WAITING: &str = "SELECT count(*) FROM lobgate.removed r WHERE NOT EXISTS
    (SELECT FROM lobgate.content c WHERE c.id = r.content_id AND c.created_at = '-infinity')";

/// Large objects without a row, and rows without their large object.
const LEAKED: &str = "SELECT
    (SELECT count(*) FROM pg_largeobject_metadata m WHERE NOT EXISTS (SELECT FROM lobgate.content c WHERE c.loid = m.oid)),
    (SELECT count(*) FROM lobgate.content c WHERE c.loid IS NOT NULL
        AND NOT EXISTS (SELECT FROM pg_largeobject_metadata m WHERE m.oid = c.loid))";

/// What the store looks like from within.
#[derive(Debug, Default)]
pub(super) struct Inside {
    /// Large objects that no row owns.
    pub(super) leaked: u64,
    /// Rows whose large object is gone.
    pub(super) dangling: u64,
    /// Removed contents that the reaper left.
    pub(super) waiting: u64,
    /// What `verify` read and found.
    pub(super) verified: VerifyReport,
}

/// What became of the keys.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Keys that were read.
    pub(super) read: u64,
    /// Keys that no gateway could be brought to read.
    pub(super) unreadable: Vec<String>,
    /// Promises that were broken, and where.
    pub(super) breaches: Vec<(Breach, String)>,
}

/// Reads every key and judges what is there.
///
/// # Errors
/// None of the keys: what can't be read is in the result.
pub(super) async fn read_back(arena: &Arena<'_>, ledgers: Vec<Ledger>) -> Keys {
    let senders: Vec<_> = (0..READERS).map(|_| Sender::new(&arena.doors)).collect();
    let idle = Arc::new(Mutex::new(senders));
    let gateways = arena.doors.count();
    let mut keys = Keys::default();
    let mut reading = futures::stream::iter(ledgers.into_iter().enumerate())
        .map(|(at, mut ledger)| {
            let idle = Arc::clone(&idle);
            let doors = arena.doors.clone();
            async move {
                let taken = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let mut sender = taken.unwrap_or_else(|| Sender::new(&doors));
                let seen = insist(&mut sender, ledger.key(), at % gateways, gateways).await;
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
                (ledger.key(), seen.map(|seen| (seen, ledger.judge(seen))))
            }
        })
        .buffer_unordered(READERS);
    while let Some((key, judged)) = reading.next().await {
        match judged {
            None => keys.unreadable.push(name(key)),
            Some((_, Ok(()))) => keys.read += 1,
            Some((seen, Err(breach))) => {
                keys.read += 1;
                keys.breaches.push((breach, format!("{} is {} at the end", name(key), described(seen))));
            }
        }
    }
    keys
}

/// Reads a key until an answer comes, from one gateway after the other.
async fn insist(sender: &mut Sender, key: u32, first: usize, gateways: usize) -> Option<Seen> {
    let (key, begun, mut which) = (name(key), Instant::now(), first);
    loop {
        match sender.ask(which, &Ask { method: "GET", key: &key, ..Ask::default() }).await {
            Answer::Reply { status: 200, body } => return Some(recognise(&body).map_or(Seen::Garbage, Seen::Body)),
            Answer::Reply { status: 404, .. } => return Some(Seen::Nothing),
            _ if begun.elapsed() > READ_PATIENCE => return None,
            _ => {}
        }
        which = (which + 1) % gateways;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks at the store from within, once the reaper is done.
///
/// # Errors
/// Those of the database.
pub(super) async fn look_inside(arena: &Arena<'_>) -> anyhow::Result<Inside> {
    let session = arena.session().await?;
    let begun = Instant::now();
    let mut inside = Inside::default();
    loop {
        inside.waiting = u64::try_from(session.query_one(WAITING, &[]).await?.get::<_, i64>(0))?;
        if inside.waiting == 0 || begun.elapsed() > arena.config.gc.lease + REAP_PATIENCE {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let row = session.query_one(LEAKED, &[]).await?;
    inside.leaked = u64::try_from(row.get::<_, i64>(0))?;
    inside.dangling = u64::try_from(row.get::<_, i64>(1))?;
    inside.verified = examine(arena).await?;
    Ok(inside)
}

/// The examination of `lobgate verify`, under a lease of its own.
async fn examine(arena: &Arena<'_>) -> anyhow::Result<VerifyReport> {
    let config = &arena.config;
    let db = startup::open_database(config, &arena.url, Schema::Require).await?;
    let lease = Lease::register(&db, config.gc.lease).await?;
    let storage = Storage::new(db, startup::storage_options(config), lease.reads());
    let stop = CancellationToken::new();
    // Dropped with this function, wherever it ends.
    let _stopped = stop.clone().drop_guard();
    let renewing = tokio::spawn(gc::keep_lease(lease.clone(), config.gc.interval, stop.clone()));
    let verified = verify(&storage, &sweep::Silent).await;
    stop.cancel();
    if let (Ok(()), Err(error)) = (renewing.await, lease.end().await) {
        tracing::debug!(%error, "the lease runs out by itself");
    }
    verified
}
