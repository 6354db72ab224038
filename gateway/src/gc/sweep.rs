//! The orphan sweep: large objects without a row, in two steps.
//!
//! lobgate never makes one: a large object and its row are committed together. They come from other applications, from
//! older schemes, from a restore gone wrong. So finding and destroying are apart: the report names each with its owner
//! and size, an operator looks at it, and the purge destroys only what the report named, in the database that the
//! report was made in, if it still has no row and no column of another application refers to it (as contrib/vacuumlo
//! looks for references). Large objects of roles that this one is no member of are reported, never purged.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio_postgres::types::Oid;

use crate::storage::Storage;
use crate::storage::maintenance::ReferringColumn;

/// Large objects looked at, and unlinked, per transaction: each unlinked one takes a slot of the lock table.
const BATCH: u32 = 200;

/// What the first step found.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepReport {
    /// Database that was looked at.
    pub database: String,
    /// `pg_control_system()` of its cluster: a report fits this cluster only.
    pub system_identifier: String,
    /// When, RFC 3339.
    pub made_at: String,
    /// Columns of other applications that could not be looked into: what they refer to is not known.
    pub unreadable_columns: Vec<String>,
    /// Large objects that nothing refers to.
    pub orphans: Vec<Orphan>,
    /// Large objects without a row that another application refers to; they are not ours to judge.
    pub referred_elsewhere: Vec<Oid>,
}

/// A large object that nothing refers to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orphan {
    /// Its oid.
    pub oid: Oid,
    /// Role that owns it.
    pub owner: String,
    /// Bytes; none where this role may not read it.
    pub size: Option<u64>,
    /// Whether a purge by this role would unlink it.
    pub purgeable: bool,
}

/// The first step: finds and reports; changes nothing.
///
/// # Errors
/// Those of the database.
pub async fn report(storage: &Storage, progress: &dyn Progress) -> anyhow::Result<SweepReport> {
    let (database, system_identifier) = storage.database_identity().await?;
    let columns = storage.referring_columns().await?;
    let mut report = SweepReport {
        database,
        system_identifier,
        made_at: OffsetDateTime::now_utc().format(&Rfc3339)?,
        unreadable_columns: columns.iter().filter(|c| !c.readable).map(column_name).collect(),
        orphans: Vec::new(),
        referred_elsewhere: Vec::new(),
    };
    let mut after = 0;
    loop {
        let found = storage.unclaimed_large_objects(after, BATCH).await?;
        let Some(last) = found.last() else { return Ok(report) };
        after = last.oid;
        let oids: Vec<_> = found.iter().map(|u| u.oid).collect();
        let readable: Vec<_> = found.iter().filter(|u| u.ours).map(|u| u.oid).collect();
        let (referred, sizes) = storage.examine(&columns, &oids, &readable).await?;
        let size_of = |oid: Oid| readable.iter().position(|o| *o == oid).and_then(|i| sizes.get(i).copied());
        for unclaimed in found {
            progress.advance(1);
            if referred.contains(&unclaimed.oid) {
                report.referred_elsewhere.push(unclaimed.oid);
                continue;
            }
            report.orphans.push(Orphan {
                oid: unclaimed.oid,
                owner: unclaimed.owner,
                size: size_of(unclaimed.oid),
                purgeable: unclaimed.ours,
            });
        }
    }
}

/// The second step: unlinks what the report named and is still unclaimed. Returns how many.
///
/// # Errors
/// A report of another database, columns that cannot be looked into, and those of the database.
pub async fn purge(storage: &Storage, report: &SweepReport, progress: &dyn Progress) -> anyhow::Result<u64> {
    let (database, system_identifier) = storage.database_identity().await?;
    ensure!(
        (&database, &system_identifier) == (&report.database, &report.system_identifier),
        "the report was made of database {} in cluster {}, this is {database} in {system_identifier}: make a new report",
        report.database,
        report.system_identifier,
    );
    let columns = storage.referring_columns().await?;
    if let Some(column) = columns.iter().find(|c| !c.readable) {
        bail!(
            "{} may refer to large objects and this role may not read it: GRANT SELECT on it, or sweep as a role that may",
            column_name(column)
        );
    }
    let oids: Vec<_> = report.orphans.iter().filter(|o| o.purgeable).map(|o| o.oid).collect();
    let mut purged = 0;
    for batch in oids.chunks(BATCH as usize) {
        purged += storage.unlink_unclaimed(&columns, batch).await?;
        progress.advance(batch.len() as u64);
    }
    Ok(purged)
}

/// Writes a report.
///
/// # Errors
/// The file cannot be written.
pub fn save(report: &SweepReport, path: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(report)?;
    std::fs::write(path, text + "\n").with_context(|| format!("the report cannot be written to {}", path.display()))
}

/// Reads a report back.
///
/// # Errors
/// The file cannot be read, or is no report.
pub fn load(path: &Path) -> anyhow::Result<SweepReport> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("the report {} cannot be read", path.display()))?;
    parse(&text, path)
}

/// Reads the text of a report that lies at `path`.
pub(crate) fn parse(text: &str, path: &Path) -> anyhow::Result<SweepReport> {
    serde_json::from_str(text).with_context(|| format!("{} is not a report of lobgate sweep report", path.display()))
}

/// Told of work done.
pub trait Progress: Sync {
    /// So much more was done.
    fn advance(&self, amount: u64);
}

/// Nobody looks.
pub struct Silent;

impl Progress for Silent {
    fn advance(&self, _: u64) {}
}

fn column_name(column: &ReferringColumn) -> String {
    format!("{}.{}", column.relation, column.attribute)
}
