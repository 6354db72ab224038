//! `verify`: is everything that the tables promise really there?
//!
//! First the rows are compared with each other and with the large objects that exist, by set queries; then every
//! content is read and its length and MD5 compared with its row. It runs beside gateways: it holds a lease like one,
//! so that nothing it has yet to read is reaped, and what was removed before it came and is reaped meanwhile counts as
//! gone, not as damage. It changes nothing.

use futures::StreamExt;
use serde::Serialize;
use uuid::Uuid;

use super::sweep::{self, Progress};
use crate::storage::Storage;
use crate::storage::maintenance::{ContentCheck, ScannedContent};

/// Contents fetched from the index at once.
const PAGE: u32 = 500;
/// Contents read at once.
const READERS: usize = 4;

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyReport {
    /// Contents read.
    pub contents: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Contents that were reaped before they could be read.
    pub gone: u64,
    /// Large objects of this role that nothing refers to.
    pub orphans: u64,
    /// Large objects of other roles that nothing this role can see refers to.
    pub foreign: u64,
    /// What is wrong, as sentences.
    pub findings: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Verifies everything.
///
/// # Errors
/// Those of the database; damage is no error but a finding.
pub async fn verify(storage: &Storage, progress: &dyn Progress) -> anyhow::Result<VerifyReport> {
    let mut report = VerifyReport { findings: storage.contradictions().await?, ..VerifyReport::default() };
    count_orphans(storage, &mut report).await?;
    let mut after = Uuid::nil();
    loop {
        let page = storage.scan_contents(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(report) };
        after = last.id;
        let mut checks = futures::stream::iter(page)
            .map(|scanned| async move {
                let outcome = storage.check_content(&scanned, |bytes| progress.advance(bytes)).await;
                (scanned, outcome)
            })
            .buffer_unordered(READERS);
        while let Some((scanned, outcome)) = checks.next().await {
            record(storage, &mut report, &scanned, outcome?).await?;
        }
    }
}

async fn record(
    storage: &Storage,
    report: &mut VerifyReport,
    scanned: &ScannedContent,
    outcome: ContentCheck,
) -> anyhow::Result<()> {
    match outcome {
        ContentCheck::Gone => report.gone += 1,
        ContentCheck::Damaged(how) => {
            let objects = storage.objects_of(scanned.id).await?;
            let of = if objects.is_empty() { "no object".to_owned() } else { objects.join(", ") };
            report.findings.push(format!("content {} of {of} is damaged: {how}", scanned.id));
        }
        ContentCheck::Sound => {}
    }
    report.contents += 1;
    if scanned.md5.is_some() {
        report.bytes += scanned.size;
    }
    Ok(())
}

/// Large objects without a row are no damage, but somebody should know: `sweep` tells which.
async fn count_orphans(storage: &Storage, report: &mut VerifyReport) -> anyhow::Result<()> {
    let orphans = sweep::report(storage, &sweep::Silent).await?.orphans;
    report.orphans = orphans.iter().filter(|o| o.purgeable).count() as u64;
    report.foreign = orphans.len() as u64 - report.orphans;
    if report.orphans > 0 {
        report.findings.push(format!("{} large objects have no row: lobgate sweep report names them", report.orphans));
    }
    Ok(())
}
