//! What a bench command found, as plain data: the one thing that all renderers (terminal, JSON, HTML, SVG) read.
//!
//! Its JSON form is what `--json` prints and what scripts may rely on: fields are added, never renamed or given another
//! meaning without a new [`FORMAT`]. Rows of a table are objects keyed by [`Column::key`], numbers are in the unit that the
//! column names, and a cell without a figure is `null`.
//! Invariant: a report holds no secret: the command line is written down without passwords.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Version of the JSON form.
pub const FORMAT: u32 = 1;

/// The flags whose values hold passwords.
const SECRET_FLAGS: [&str; 2] = ["--database-url", "--peer"];

/// The result of one bench command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of this form.
    pub format: u32,
    /// Version of lobgate that measured.
    pub lobgate: String,
    /// The command: `curves`, `chunks`, …
    pub name: String,
    /// A heading.
    pub title: String,
    /// What was to be found out.
    pub question: String,
    /// How it was called, passwords left out.
    pub command_line: String,
    /// When it began, RFC 3339, UTC.
    pub taken_at: String,
    /// How long it took.
    pub seconds: f64,
    /// The server, the client and the scratch space: whatever decides the figures and is no result.
    pub facts: BTreeMap<String, String>,
    /// How it was measured, sentence by sentence.
    pub method: Vec<String>,
    /// What the figures say, sentence by sentence.
    pub findings: Vec<String>,
    /// What fell short of what is promised, sentence by sentence; it decides the exit code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortfalls: Vec<String>,
    /// The figures.
    pub tables: Vec<Table>,
    /// The figures to look at.
    pub plots: Vec<Plot>,
}

/// Figures in rows and columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Name within the report, for scripts and file names.
    pub id: String,
    /// A heading.
    pub title: String,
    /// The columns in the order they are shown.
    pub columns: Vec<Column>,
    /// The rows: values by column key.
    pub rows: Vec<BTreeMap<String, Cell>>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Key in every row.
    pub key: String,
    /// Heading.
    pub label: String,
    /// Unit of its numbers.
    pub unit: Unit,
}

/// A value in a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A figure.
    Number(f64),
    /// A word.
    Text(String),
    /// Nothing was measured here.
    Nothing(()),
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// No number, or one without unit.
    #[serde(rename = "")]
    None,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Millions of bytes in a second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// In a second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Parts of a hundred.
    #[serde(rename = "%")]
    Percent,
}

/// Curves or bars, with a sentence that says what they mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Name within the report; `--svg` names its file after it.
    pub id: String,
    /// A heading.
    pub title: String,
    /// What it means, in a sentence.
    pub meaning: String,
    /// Lines over a number, or bars over names.
    pub shape: Shape,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How the series of a plot are drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Points joined by lines.
    Lines,
    /// Groups of bars: a point's `x` is the index of its category.
    Bars {
        /// Names of the groups.
        categories: Vec<String>,
    },
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// In which unit.
    pub unit: Unit,
    /// Whether equal distances mean equal factors.
    pub log: bool,
}

/// One curve, or one bar of every group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// `[x, y]`, in the units of the axes.
    pub points: Vec<[f64; 2]>,
}

impl Report {
    /// An empty report on a question.
    #[must_use]
    pub fn new(name: &str, title: &str, question: &str) -> Self {
        Self {
            format: FORMAT,
            lobgate: env!("CARGO_PKG_VERSION").to_owned(),
            name: name.to_owned(),
            title: title.to_owned(),
            question: question.to_owned(),
            command_line: command_line(std::env::args()),
            taken_at: OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default(),
            seconds: 0.0,
            facts: BTreeMap::new(),
            method: Vec::new(),
            findings: Vec::new(),
            shortfalls: Vec::new(),
            tables: Vec::new(),
            plots: Vec::new(),
        }
    }

    /// Adds a sentence on how it was measured.
    pub fn method(&mut self, sentence: impl Into<String>) {
        self.method.push(sentence.into());
    }

    /// Adds a sentence on what the figures say.
    pub fn finding(&mut self, sentence: impl Into<String>) {
        self.findings.push(sentence.into());
    }

    /// Adds a fact.
    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.insert(name.to_owned(), value.into());
    }
}

impl Table {
    /// An empty table; a column is `(key, label, unit)`.
    #[must_use]
    pub fn new(id: &str, title: &str, columns: &[(&str, &str, Unit)]) -> Self {
        let column = |(key, label, unit): &(&str, &str, Unit)| Column {
            key: (*key).to_owned(),
            label: (*label).to_owned(),
            unit: *unit,
        };
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row, one cell per column; cells that are missing are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut given = cells.into_iter();
        let row = self.columns.iter().map(|c| (c.key.clone(), given.next().unwrap_or(Cell::Nothing(())))).collect();
        self.rows.push(row);
    }

    /// The numbers of two columns as the points of a series; rows that lack one are left out.
    #[must_use]
    pub fn series(&self, name: &str, x: &str, y: &str) -> Series {
        let number = |row: &BTreeMap<String, Cell>, key: &str| match row.get(key) {
            Some(Cell::Number(value)) => Some(*value),
            _ => None,
        };
        let points = self.rows.iter().filter_map(|row| Some([number(row, x)?, number(row, y)?])).collect();
        Series { name: name.to_owned(), points }
    }

    /// The numbers of a column as bars, one for every row.
    #[must_use]
    pub fn bars(&self, name: &str, y: &str) -> Series {
        let mut points = Vec::new();
        let mut at = 0.0;
        for row in &self.rows {
            if let Some(Cell::Number(value)) = row.get(y) {
                points.push([at, *value]);
            }
            at += 1.0;
        }
        Series { name: name.to_owned(), points }
    }

    /// The words of a column, as the names of groups of bars.
    #[must_use]
    pub fn names(&self, key: &str) -> Vec<String> {
        let text = |row: &BTreeMap<String, Cell>| match row.get(key) {
            Some(Cell::Text(text)) => text.clone(),
            Some(Cell::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        self.rows.iter().map(text).collect()
    }
}

impl Series {
    /// The point with the greatest `y`.
    #[must_use]
    pub fn highest(&self) -> Option<[f64; 2]> {
        self.points.iter().copied().max_by(|a, b| a[1].total_cmp(&b[1]))
    }
}

impl Axis {
    /// An axis of equal distances.
    #[must_use]
    pub fn linear(label: &str, unit: Unit) -> Self {
        Self { label: label.to_owned(), unit, log: false }
    }

    /// An axis of equal factors, for what spans decades.
    #[must_use]
    pub fn log(label: &str, unit: Unit) -> Self {
        Self { label: label.to_owned(), unit, log: true }
    }
}

impl Unit {
    /// The unit as it stands on axes and in headings.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::None | Self::Bytes => "",
            Self::MegabytesPerSecond => "MB/s",
            Self::Milliseconds => "ms",
            Self::PerSecond => "1/s",
            Self::Percent => "%",
        }
    }
}

impl Cell {
    /// A whole number as figures are kept: exact up to 2^53, more bytes than a server holds.
    #[must_use]
    pub fn number(whole: u64) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let number = whole as f64;
        number
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        // JSON has no word for an infinite speed.
        if number.is_finite() { Self::Number(number) } else { Self::Nothing(()) }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(Self::number(number))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing(()), Into::into)
    }
}

/// The arguments as one line: the program by its name, the database's URL left out.
fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec!["lobgate".to_owned()];
    let mut hide = false;
    for argument in arguments.skip(1) {
        let with_value = |flag: &&&str| argument.starts_with(&format!("{flag}="));
        if std::mem::replace(&mut hide, SECRET_FLAGS.contains(&argument.as_str())) {
            words.push("***".to_owned());
        } else if let Some(flag) = SECRET_FLAGS.iter().find(with_value) {
            words.push(format!("{flag}=***"));
        } else {
            words.push(argument);
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_shown_without_the_url() {
        let line = |words: &[&str]| command_line(words.iter().map(|word| (*word).to_owned()));
        let hidden = line(&["/opt/lobgate", "bench", "--database-url", "postgres://u:hunter2@h/d", "curves"]);
        assert_eq!(hidden, "lobgate bench --database-url *** curves");
        assert_eq!(line(&["x", "--peer", "a=http://h,AK,hunter2", "--peer=b,x"]), "lobgate --peer *** --peer=***");
        assert_eq!(line(&["x", "--database-url=postgres://u:p@h/d", "y"]), "lobgate --database-url=*** y");
    }

    #[test]
    fn a_report_survives_json() {
        let mut report = Report::new("curves", "Curves", "How fast?");
        let mut table =
            Table::new("t", "T", &[("size", "size", Unit::Bytes), ("speed", "put", Unit::MegabytesPerSecond)]);
        table.row([Cell::from(4096_u64), Cell::from(12.5)]);
        table.row([Cell::from(8192_u64), Cell::from(f64::INFINITY)]);
        report.plots.push(Plot {
            id: "p".into(),
            title: "P".into(),
            meaning: "M.".into(),
            shape: Shape::Bars { categories: vec!["a".into()] },
            x: Axis::log("size", Unit::Bytes),
            y: Axis::linear("speed", Unit::MegabytesPerSecond),
            series: vec![table.series("put", "size", "speed")],
        });
        report.tables.push(table);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
        assert!(text.contains(r#"{"size":4096.0,"speed":12.5}"#), "{text}");
        assert!(text.contains(r#""speed":null"#), "{text}");
        assert_eq!(report.plots[0].series[0].points, [[4096.0, 12.5]]);
    }
}
