//! The rows: which there are, how each is measured, and how that is told.

use crate::config::{StorageConfig, format_size};

use super::super::lab::Lab;
use super::super::report::Report;
use super::bars::Line;
use super::stage::Stage;
use super::{Args, constant, growth, large_get, large_put, list, process, small};

const MIB: u64 = 1 << 20;

/// All rows, in the order in which they are measured: those with a second gateway first, while the pools of the other are
/// small.
const ROWS: [&str; 26] = [
    "get-large",
    "get-large-x8",
    "get-4k",
    "put-4k",
    "get-cached-large",
    "get-cached-1m",
    "put-1m",
    "put-1m-x8",
    "put-8m",
    "put-8m-x8",
    "put-huge",
    "list-page",
    "list-delimiter",
    "list-whole",
    "list-1000",
    "list-20-prefixes",
    "delete-1000",
    "delete-large",
    "copy-large",
    "complete",
    "growth-get",
    "growth-put",
    "growth-list",
    "memory",
    "start",
    "start-first",
];

/// Whether a row was asked for.
fn wanted(only: &[String], row: &str) -> bool {
    only.is_empty() || only.iter().any(|word| row == word || row.starts_with(&format!("{word}-")))
}

/// Refuses words that name no row.
pub(super) fn check(only: &[String]) -> anyhow::Result<()> {
    for word in only {
        let known = ROWS.iter().any(|row| wanted(std::slice::from_ref(word), row));
        anyhow::ensure!(known, "--only {word}: there is no such row; there are {}", ROWS.join(", "));
    }
    Ok(())
}

/// Measures what was asked for. A row that can't be measured is failed; the others go on.
pub(super) async fn measure(stage: &Stage<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in ROWS {
        if wanted(&stage.args.only, row) {
            lines.extend(one(stage, row).await.unwrap_or_else(|error| vec![Line::failed(row, &error)]));
        }
    }
    lines
}

async fn one(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    // Rows that share their objects are measured with the first of them that is wanted.
    let first = |rows: &[&str]| rows.iter().find(|of| wanted(&stage.args.only, of)) == Some(&row);
    match row {
        "get-4k" => small::get(stage, row).await,
        "put-4k" => small::put(stage, row).await,
        "get-large" => large_get::uncached(stage, row, 1).await,
        "get-large-x8" => large_get::uncached(stage, row, 8).await,
        "get-cached-large" => large_get::cached(stage, row, true).await,
        "get-cached-1m" => large_get::cached(stage, row, false).await,
        "put-1m" => large_put::put(stage, row, MIB, 1).await,
        "put-1m-x8" => large_put::put(stage, row, MIB, 8).await,
        "put-8m" => large_put::put(stage, row, 8 * MIB, 1).await,
        "put-8m-x8" => large_put::put(stage, row, 8 * MIB, 8).await,
        "put-huge" => large_put::put(stage, row, stage.args.huge, 1).await,
        "list-page" => list::pages(stage, row).await,
        "list-delimiter" => list::roll_up(stage, row).await,
        "list-whole" => list::whole(stage, row).await,
        "list-1000" => list::small(stage, row, false).await,
        "list-20-prefixes" => list::small(stage, row, true).await,
        "delete-1000" => constant::delete_thousand(stage, row).await,
        "delete-large" => constant::delete_large(stage, row).await,
        "copy-large" => constant::copy(stage, row).await,
        "complete" => constant::complete(stage, row).await,
        _ if growth::ROWS.contains(&row) && first(&growth::ROWS) => growth::growth(stage).await,
        "memory" => process::memory(stage, row).await,
        _ if process::STARTS.contains(&row) && first(&process::STARTS) => process::starts(stage).await,
        _ => Ok(Vec::new()),
    }
}

/// How it was measured: what goes for all, and what goes for the rows that were asked for.
pub(super) fn explain(report: &mut Report, args: &Args, lab: &Lab<'_>) {
    report.method(format!(
        "{} of {} s for every side, in turns, each round begun by another side; figures are medians of rounds, ratios are \
         lobgate's figure divided by the other's.",
        lab.rounds_text(),
        args.seconds
    ));
    report.method(
        "The gateway is this binary as a process of its own on the scratch database, reached over loopback. Requests are \
         presigned before they are sent, over kept-alive connections with TCP_NODELAY on two threads; what is under way \
         when the time is up is waited for and counts. Every status has to be 2xx, every length the expected one; the \
         bytes of an object are compared before its row is measured. No two bodies that are stored are equal.",
    );
    report.method(
        "Bare sides are tokio-postgres on the same database with the gateway's session settings, statements prepared, as \
         many connections as the gateway's clients have, or as the server takes, as many statements under way.",
    );
    for (rows, text) in methods(args, &lab.config.storage) {
        if rows.iter().any(|row| wanted(&args.only, row)) {
            report.method(text);
        }
    }
}

/// How single rows were measured.
fn methods(args: &Args, storage: &StorageConfig) -> Vec<(&'static [&'static str], String)> {
    vec![
        (&["get-4k"], format!("get-4k, bare: {}.", one_line(small::LOCATE))),
        (
            &["put-4k"],
            format!(
                "put-4k, bare, in two tables without triggers, checks or foreign keys: {}.",
                one_line(small::INSERT)
            ),
        ),
        (
            &["get-large", "get-large-x8"],
            format!(
                "get-large: objects of {}; bare: SELECT lo_get(oid, offset, {}) one after another on one connection; on \
                 several, the best of 1, 2, 4 and 8 connections. The gateway keeps no block in memory where this version \
                 can do without.",
                format_size(args.large),
                format_size(storage.read_window)
            ),
        ),
        (
            &["put-1m", "put-1m-x8", "put-8m", "put-8m-x8", "put-huge"],
            format!(
                "put-1m and longer: the best of lo_from_bytea in a CTE with the row's insert, lo_create and lowrite of {} \
                 chunks (three under way) with the insert in one transaction, the same with lo_put where the body is \
                 longer than a statement, and bytea in the row. After every turn what was stored is removed and its room \
                 freed by VACUUM.",
                format_size(storage.write_chunk)
            ),
        ),
        (
            &["list-page", "list-delimiter"],
            format!(
                "list-page, list-delimiter: one connection, {} keys below {} prefixes; bare, for both, pages of 1000 rows: \
                 {}. Bare loose scan, the same common prefixes: {}.",
                args.rows,
                list::PREFIXES,
                one_line(list::SCAN),
                one_line(list::LOOSE_SCAN)
            ),
        ),
        (
            &["delete-1000", "delete-large", "copy-large", "complete"],
            "delete-*, copy-large, complete: the same request on large contents (lobgate) and on small ones, one at a time; \
             delete-1000: contents of 256 KiB against 4 KiB; complete: all parts are one object, the first by \
             UploadPartCopy, the others as rows by SQL."
                .to_owned(),
        ),
        (
            &growth::ROWS,
            format!(
                "growth-*: {} objects against the few that were there first, 8 connections, keys in random order; few and \
                 many can't be measured in turns.",
                args.objects
            ),
        ),
        (
            &["memory"],
            format!(
                "memory: VmHWM of a gateway with {0} uploads and {0} downloads of {1} at once, those that are told to slow \
                 down sent again; the limit is 200 MiB and the cache that is set.",
                args.streams,
                format_size(args.stream_size)
            ),
        ),
        (&process::STARTS, "start: until serve with a private server has said where it listens.".to_owned()),
    ]
}

fn one_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_name_or_by_their_first_words() {
        let only = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert!(wanted(&[], "get-4k"));
        assert!(wanted(&only(&["get"]), "get-4k") && !wanted(&only(&["get"]), "put-4k"));
        assert!(wanted(&only(&["start"]), "start-first") && !wanted(&only(&["start-first"]), "start"));
        assert!(check(&only(&["list", "put-1m-x8"])).is_ok());
        assert!(check(&only(&["lst"])).unwrap_err().to_string().contains("there is no such row"));
    }
}
