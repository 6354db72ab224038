//! Applies the lifecycle rules of buckets: once after each midnight (UTC), when days end, and when rules change.
//!
//! A gateway claims a bucket in the database and renews the claim with every page, so that each is gone through by one
//! gateway and is taken over from one that died. Everything in a run is judged by the moment it began. Only keys that rules
//! speak of are looked at, and work is paced like the reaper's: it rests as long as it worked. A run that fails begins
//! anew when its claim has run out; what it had done is done.

use std::time::Duration;

use time::OffsetDateTime;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::pace::Pace;
use super::trouble::Trouble;
use crate::storage::expiry::{CurrentVersion, Expired, LifecycleRun, PastVersion};
use crate::storage::lifecycle::{Action, Lifecycle};
use crate::storage::{ErrorKind, Lease, ListUploads, Result, Storage, Upload, UploadEntry};

/// Versions or uploads looked at together, and deleted together.
const PAGE: u32 = 500;
/// How long a bucket is claimed for between two pages.
const CLAIM: Duration = Duration::from_secs(60);

/// Looks for buckets whose rules are due, until told to stop.
pub(super) async fn keep(storage: Storage, lease: Lease, interval: Duration, shutdown: CancellationToken) {
    let mut trouble = Trouble::with("applying lifecycle rules");
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            _ = ticks.tick() => {}
        }
        if lease.is_on_standby() {
            continue;
        }
        tokio::select! {
            // Between two statements: the claim runs out, and another gateway goes on.
            () = shutdown.cancelled() => return,
            outcome = apply_all(&storage) => match outcome {
                Ok(()) => trouble.ends(),
                Err(error) => trouble.begins(&error),
            }
        }
    }
}

/// Applies the rules of every bucket that is due.
async fn apply_all(storage: &Storage) -> Result<()> {
    while let Some(run) = storage.claim_lifecycle(CLAIM).await? {
        match serde_json::from_str(&run.document) {
            Ok(lifecycle) => apply(storage, &run, &lifecycle).await?,
            Err(error) => {
                tracing::error!(bucket = %run.bucket, %error, "lifecycle rules cannot be read, and nothing expires by them");
                storage.finish_lifecycle(&run).await?;
            }
        }
    }
    Ok(())
}

/// What a run did.
#[derive(Default)]
struct Counts {
    seen: u64,
    current: u64,
    past: u64,
    markers: u64,
    uploads: u64,
}

async fn apply(storage: &Storage, run: &LifecycleRun, lifecycle: &Lifecycle) -> Result<()> {
    let mut applying = Applying { storage, run, lifecycle, counts: Counts::default() };
    let outcome = applying.all().await;
    let Counts { seen, current, past, markers, uploads } = applying.counts;
    for (action, count) in
        [("current_version", current), ("noncurrent_version", past), ("delete_marker", markers), ("upload", uploads)]
    {
        metrics::counter!("lobgate_lifecycle_expired_total", "action" => action).increment(count);
    }
    let bucket = &run.bucket;
    match outcome {
        Ok(true) => {
            storage.finish_lifecycle(run).await?;
            tracing::info!(%bucket, seen, current, past, markers, uploads, "lifecycle rules applied");
            Ok(())
        }
        Ok(false) => {
            tracing::info!(%bucket, seen, current, past, markers, uploads, "lifecycle rules were changed while they were applied");
            Ok(())
        }
        // The bucket was deleted, and its run with it.
        Err(error) if matches!(error.kind(), ErrorKind::NoSuchBucket) => Ok(()),
        Err(error) => Err(error),
    }
}

struct Applying<'a> {
    storage: &'a Storage,
    run: &'a LifecycleRun,
    lifecycle: &'a Lifecycle,
    counts: Counts,
}

impl Applying<'_> {
    /// Everything; false where the claim was lost on the way. Past versions go before delete markers are looked at, so that
    /// a key of which nothing but a marker is left loses it in the same run.
    async fn all(&mut self) -> Result<bool> {
        for prefix in self.lifecycle.prefixes(Action::NoncurrentExpiration) {
            if !self.past(prefix).await? {
                return Ok(false);
            }
        }
        for prefix in self.lifecycle.prefixes(Action::Expiration) {
            if !self.current(prefix).await? {
                return Ok(false);
            }
        }
        for prefix in self.lifecycle.prefixes(Action::AbortUpload) {
            if !self.uploads(prefix).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the work on a page: rests, and renews the claim.
    async fn page_done(&mut self, pace: Pace, length: usize) -> Result<bool> {
        self.counts.seen += length as u64;
        pace.rest().await;
        self.storage.renew_lifecycle(self.run, CLAIM).await
    }

    async fn past(&mut self, prefix: &str) -> Result<bool> {
        let mut row = Succession::default();
        let mut last: Option<(String, i64)> = None;
        loop {
            let pace = Pace::begin();
            let after = last.as_ref().map(|(key, place)| (key.as_str(), *place));
            let page = self.storage.past_versions(self.run, prefix, after, PAGE).await?;
            let expired: Vec<_> = page
                .iter()
                .filter_map(|version| {
                    let (since, newer) = row.next(version);
                    let (now, candidate) = (self.run.started_at, version.candidate());
                    let keep = self.lifecycle.drops_noncurrent(&candidate, since?, newer, now)?;
                    Some(Expired { key: &version.key, place: version.place, tags: &version.tags, keep })
                })
                .collect();
            if !expired.is_empty() {
                self.counts.past += self.storage.expire_versions(self.run, &expired).await?;
            }
            last = page.last().map(|version| (version.key.clone(), version.place));
            if !self.page_done(pace, page.len()).await? {
                return Ok(false);
            }
            if page.len() < PAGE as usize {
                return Ok(true);
            }
        }
    }

    async fn current(&mut self, prefix: &str) -> Result<bool> {
        let mut last: Option<String> = None;
        loop {
            let pace = Pace::begin();
            let page = self.storage.current_versions(self.run, prefix, last.as_deref(), PAGE).await?;
            let markers: Vec<_> = page.iter().filter(|v| self.drops_marker(v)).map(CurrentVersion::as_marker).collect();
            if !markers.is_empty() {
                self.counts.markers += self.storage.expire_versions(self.run, &markers).await?;
            }
            let expired: Vec<_> = page.iter().filter(|version| self.expires(version)).cloned().collect();
            if !expired.is_empty() {
                self.counts.current += self.storage.expire_current(self.run, &expired).await?;
            }
            last = page.last().map(|version| version.key.clone());
            if !self.page_done(pace, page.len()).await? {
                return Ok(false);
            }
            if page.len() < PAGE as usize {
                return Ok(true);
            }
        }
    }

    fn drops_marker(&self, version: &CurrentVersion) -> bool {
        version.is_alone && self.lifecycle.drops_marker(&version.candidate(), self.run.started_at)
    }

    fn expires(&self, version: &CurrentVersion) -> bool {
        self.lifecycle.expires(&version.candidate()).is_some_and(|(at, _)| at <= self.run.started_at)
    }

    async fn uploads(&mut self, prefix: &str) -> Result<bool> {
        let mut query = ListUploads { prefix: prefix.to_owned(), max_entries: PAGE, ..ListUploads::default() };
        loop {
            let pace = Pace::begin();
            let page = self.storage.list_uploads(&self.run.bucket, query.clone()).await?;
            for entry in &page.entries {
                let UploadEntry::Upload(upload) = entry else { continue };
                self.abort_if_due(upload).await?;
                query.key_marker = Some(upload.key.clone());
                query.upload_id_marker = Some(upload.id);
            }
            if !self.page_done(pace, page.entries.len()).await? {
                return Ok(false);
            }
            if !page.truncated {
                return Ok(true);
            }
        }
    }

    async fn abort_if_due(&mut self, upload: &Upload) -> Result<()> {
        let due = self.lifecycle.aborts_upload(&upload.key, upload.initiated_at);
        if due.is_none_or(|(at, _)| at > self.run.started_at) {
            return Ok(());
        }
        match self.storage.abort_listed_upload(&self.run.bucket, upload).await {
            Ok(()) => self.counts.uploads += 1,
            // It was completed or aborted meanwhile.
            Err(error) if matches!(error.kind(), ErrorKind::NoSuchUpload) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Follows past versions from the newest to the oldest of each key, over the ends of pages.
#[derive(Default)]
struct Succession {
    key: String,
    /// Versions of this key met so far.
    newer: u64,
    /// When the one before was published: since then the next one is past.
    successor: Option<OffsetDateTime>,
}

impl Succession {
    /// Since when a version is past, and how many past versions of its key are newer.
    fn next(&mut self, version: &PastVersion) -> (Option<OffsetDateTime>, u64) {
        if self.key != version.key {
            *self = Self { key: version.key.clone(), newer: 0, successor: version.latest_since };
        }
        let since = self.successor.replace(version.last_modified);
        let newer = self.newer;
        self.newer += 1;
        (since, newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::version_types::Tags;
    use time::macros::datetime;

    #[test]
    fn a_version_is_past_since_the_next_one() {
        let version = |key: &str, day: u8, latest: u8| PastVersion {
            key: key.to_owned(),
            place: 0,
            is_delete_marker: false,
            size: 0,
            tags: Tags::new(),
            last_modified: datetime!(2026-01-01 00:00 UTC).replace_day(day).unwrap_or(OffsetDateTime::UNIX_EPOCH),
            latest_since: datetime!(2026-01-01 00:00 UTC).replace_day(latest).ok(),
        };
        let mut row = Succession::default();
        let mut next = |key, day, latest| {
            let (since, newer) = row.next(&version(key, day, latest));
            (since.map(OffsetDateTime::day), newer)
        };
        assert_eq!(next("a", 8, 9), (Some(9), 0));
        assert_eq!(next("a", 5, 9), (Some(8), 1));
        assert_eq!(next("b", 3, 4), (Some(4), 0));
        assert_eq!(next("b", 1, 4), (Some(3), 1));
    }
}
