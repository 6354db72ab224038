//! A report on a terminal: the question, tables, what they say, and the facts behind them.
//!
//! Invariant: every figure here is in the report; nothing is computed while it is shown.

use comfy_table::{CellAlignment, ContentArrangement, Table as Grid, presets};

use super::plot::{figure, size};
use super::report::{Cell, Column, Report, Table, Unit};

/// The report as text for people.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = format!("{}\n{}\n", report.title, report.question);
    for table in &report.tables {
        out.push_str(&format!("\n{}\n{}\n", table.title, grid(table)));
    }
    if !report.findings.is_empty() {
        out.push('\n');
    }
    for finding in &report.findings {
        out.push_str(&format!("=> {finding}\n"));
    }
    out.push('\n');
    for sentence in &report.method {
        out.push_str(&format!("-- {sentence}\n"));
    }
    for (name, value) in &report.facts {
        out.push_str(&format!("{name}: {value}\n"));
    }
    out.push_str(&format!("measured in {:.1} s by lobgate {}", report.seconds, report.lobgate));
    out
}

fn grid(table: &Table) -> Grid {
    let mut grid = Grid::new();
    // As wide as it needs to be: a table that is cut can't be read, one that is wrapped by the terminal can.
    grid.load_style(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    grid.set_header(table.columns.iter().map(heading));
    for row in &table.rows {
        grid.add_row(table.columns.iter().map(|column| shown(column, row.get(&column.key))));
    }
    for (at, column) in table.columns.iter().enumerate() {
        let numbers = table.rows.iter().any(|row| matches!(row.get(&column.key), Some(Cell::Number(_))));
        if let (true, Some(right)) = (numbers, grid.column_mut(at)) {
            right.set_cell_alignment(CellAlignment::Right);
        }
    }
    grid
}

/// The heading of a column, with its unit.
pub(super) fn heading(column: &Column) -> String {
    let symbol = column.unit.symbol();
    if symbol.is_empty() { column.label.clone() } else { format!("{}, {symbol}", column.label) }
}

/// A cell as people read it.
pub(super) fn shown(column: &Column, cell: Option<&Cell>) -> String {
    match (cell, column.unit) {
        (Some(Cell::Number(bytes)), Unit::Bytes) => size(*bytes),
        (Some(Cell::Number(number)), _) => figure(*number),
        (Some(Cell::Text(text)), _) => text.clone(),
        (Some(Cell::Nothing(())) | None, _) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_readable() {
        let mut report = Report::new("curves", "Curves", "How fast is it?");
        let columns =
            [("size", "size", Unit::Bytes), ("put", "put", Unit::MegabytesPerSecond), ("w", "way", Unit::None)];
        let mut table = Table::new("t", "By size", &columns);
        table.row([Cell::from(65536_u64), Cell::from(123.456), Cell::from("inline")]);
        table.row([Cell::from(1_u64)]);
        report.tables.push(table);
        report.finding("It is fast.");
        report.fact("fsync", "on");
        let shown = text(&report);
        for part in ["How fast is it?", "64 KiB", "123", "put, MB/s", "inline", "=> It is fast.", "fsync: on"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
    }
}
