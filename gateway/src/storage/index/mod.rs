//! The companion tables: the only home of SQL on them, and of how their rows become values.
//!
//! The tables are the authority for existence, size and listing. What has to be decided atomically is a function of
//! the schema (migrations); here are the statements that call them.

pub(super) mod bucket_settings;
pub(super) mod buckets;
pub(super) mod contents;
pub(super) mod instances;
pub(super) mod inventory;
pub(super) mod lifecycle;
pub(super) mod listing;
pub(super) mod locate;
pub(super) mod objects;
pub(super) mod puts;
pub(super) mod removal;
pub(super) mod renaming;
pub(super) mod uploads;
pub(super) mod users;
pub(super) mod version_listing;
pub(super) mod versions;

use time::OffsetDateTime;
use tokio_postgres::Row;
use tokio_postgres::types::Json;

use super::types::{Attributes, Checksum, ChecksumAlgorithm, ChecksumType};
use super::version_types::{VersionId, VersionSettings, Written};

/// Attributes as the column stores them: NULL where there are none.
fn attributes_column(attributes: &Attributes) -> Option<Json<&Attributes>> {
    (*attributes != Attributes::default()).then_some(Json(attributes))
}

/// Settings of a version as the publishing functions take them: NULL where there are none.
fn settings_column(settings: &VersionSettings) -> Option<Json<&VersionSettings>> {
    (*settings != VersionSettings::default()).then_some(Json(settings))
}

/// A version's name as the schema gives it (`lobgate.version_name`).
fn version_of(row: &Row, column: &str) -> Option<VersionId> {
    row.get::<_, Option<&str>>(column).and_then(VersionId::parse)
}

fn attributes_of(row: &Row, column: &str) -> Attributes {
    row.get::<_, Option<Json<Attributes>>>(column).map(|json| json.0).unwrap_or_default()
}

/// The columns `checksum_algorithm`, `checksum_type` and `checksum`.
fn checksum_columns(checksum: Option<&Checksum>) -> (Option<&'static str>, Option<&'static str>, Option<&[u8]>) {
    match checksum {
        Some(c) => (Some(c.algorithm.as_str()), Some(c.kind.as_str()), Some(&c.value)),
        None => (None, None, None),
    }
}

fn checksum_kind_of(row: &Row) -> Option<(ChecksumAlgorithm, ChecksumType)> {
    let algorithm = ChecksumAlgorithm::parse(row.get::<_, Option<&str>>("checksum_algorithm")?)?;
    let kind = ChecksumType::parse(row.get::<_, Option<&str>>("checksum_type")?)?;
    Some((algorithm, kind))
}

fn checksum_of(row: &Row) -> Option<Checksum> {
    let (algorithm, kind) = checksum_kind_of(row)?;
    Some(Checksum { algorithm, kind, value: row.get::<_, Option<Vec<u8>>>("checksum")? })
}

/// Sizes are never negative in the index (CHECK constraints).
fn size_of(row: &Row, column: &str) -> u64 {
    u64::try_from(row.get::<_, i64>(column)).unwrap_or(0)
}

/// A size or offset as PostgreSQL's bigint; what does not fit lies beyond every object.
fn bigint(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A part number or part count as PostgreSQL's integer.
fn integer(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

fn unsigned(n: i32) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

/// What a statement that publishes an object returned.
fn written(rows: &[Row]) -> Written {
    rows.first().map_or(Written { last_modified: OffsetDateTime::UNIX_EPOCH, version: None }, written_of)
}

fn written_of(row: &Row) -> Written {
    Written { last_modified: row.get("last_modified"), version: version_of(row, "version") }
}

/// What a statement that publishes a part returned.
fn last_modified(rows: &[Row]) -> OffsetDateTime {
    rows.first().map_or(OffsetDateTime::UNIX_EPOCH, |row| row.get("last_modified"))
}
