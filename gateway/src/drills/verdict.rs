//! What a drill comes to: the figures of its record and its audit in a report, and the sentences that decide the exit code.
//!
//! Invariant: whatever was lost, wrong, resurrected, unreadable, leaked or found by verify is a shortfall; slowness never is.

use crate::bench::measure::per_second;
use crate::bench::report::{Cell, Report, Table, Unit};

use super::Course;
use super::audit::{Inside, Keys};
use super::ledger::Breach;
use super::record::{Record, Times, plot};

/// Places that a sentence names.
const SHOWN: usize = 5;

/// All that is known at the end.
pub(super) struct Findings<'a> {
    pub(super) record: &'a Record,
    pub(super) keys: &'a Keys,
    pub(super) inside: &'a Inside,
    pub(super) times: &'a Times,
    /// WAL written from the first operation to the last.
    pub(super) wal: u64,
}

impl Findings<'_> {
    /// Writes the report.
    pub(super) fn report(&self, report: &mut Report, course: Course) {
        report.tables.push(self.summary(course.faults));
        report.tables.push(self.record.operations());
        let phases = self.record.phases(self.times);
        report.plots.push(plot(&phases));
        report.tables.push(phases);
        (course.tell)(self.record, report);
        report.tables.push(self.wal_table());
        self.judge(report, course.faults);
    }

    fn breaches(&self, kind: Breach) -> Vec<&str> {
        let all = self.record.breaches.iter().chain(&self.keys.breaches);
        all.filter(|(breach, _)| *breach == kind).map(|(_, place)| place.as_str()).collect()
    }

    fn summary(&self, faults: u64) -> Table {
        let columns =
            ["faults", "acknowledged", "keys", "lost", "wrong", "resurrected", "unreadable", "leaked", "problems"];
        let labels = ["faults", "writes acknowledged", "keys read back", "lost", "wrong", "resurrected", "unreadable"];
        let labels = labels.into_iter().chain(["leaked large objects", "problems found by verify"]);
        let columns: Vec<_> = columns.into_iter().zip(labels).map(|(key, label)| (key, label, Unit::None)).collect();
        let mut table = Table::new("verdict", "Verdict", &columns);
        let count = |kind| self.breaches(kind).len() as u64;
        let figures = [
            faults,
            self.record.acknowledged(),
            self.keys.read,
            count(Breach::Lost),
            count(Breach::Wrong),
            count(Breach::Resurrected),
            self.keys.unreadable.len() as u64,
            self.inside.leaked,
            self.problems().len() as u64,
        ];
        table.row(figures.map(Cell::from));
        table
    }

    fn wal_table(&self) -> Table {
        let columns = [
            ("stored_bytes", "bytes stored", Unit::Bytes),
            ("wal_bytes", "WAL of the server", Unit::Bytes),
            ("wal_per_byte", "WAL per stored byte", Unit::None),
        ];
        let mut table = Table::new("wal", "Write-ahead log, all of this server's while the drill ran", &columns);
        let ratio = Cell::number(self.wal) / Cell::number(self.record.stored);
        table.row([Cell::from(self.record.stored), Cell::from(self.wal), Cell::from(ratio)]);
        table
    }

    /// What is wrong inside the store.
    fn problems(&self) -> Vec<String> {
        let mut problems = self.inside.verified.findings.clone();
        if self.inside.dangling > 0 {
            problems.push(format!("{} rows name large objects that do not exist", self.inside.dangling));
        }
        if self.inside.waiting > 0 {
            problems.push(format!("{} removed contents were not destroyed in time", self.inside.waiting));
        }
        problems
    }

    fn judge(&self, report: &mut Report, faults: u64) {
        let mut shortfalls = Vec::new();
        for kind in [Breach::Lost, Breach::Wrong, Breach::Resurrected] {
            shortfalls.extend(sentence(kind.word(), &self.breaches(kind)));
        }
        let unreadable: Vec<&str> = self.keys.unreadable.iter().map(String::as_str).collect();
        shortfalls.extend(sentence("unreadable", &unreadable));
        if self.inside.leaked > 0 {
            shortfalls.push(format!("leaked: {} large objects that no row owns", self.inside.leaked));
        }
        let problems = self.problems();
        shortfalls.extend(sentence("found by verify", &problems.iter().map(String::as_str).collect::<Vec<_>>()));
        let acknowledged = self.record.acknowledged();
        if acknowledged == 0 {
            shortfalls.push("no write was acknowledged: nothing was put to the test".to_owned());
        }
        if shortfalls.is_empty() {
            report.finding(format!(
                "{acknowledged} writes were acknowledged under {faults} faults, and every one of them is there: nothing is \
                 lost, wrong, resurrected or leaked."
            ));
        }
        for (status, count) in &self.record.unexpected {
            report.finding(format!("{count} requests were answered with {status}, which this load does not expect."));
        }
        report.findings.extend(shortfalls.iter().cloned());
        report.shortfalls.extend(shortfalls);
    }
}

/// How fast the load was, for the facts.
pub(super) fn pace(record: &Record, times: &Times) -> String {
    let whole = times.load.end.saturating_duration_since(times.load.start);
    format!("{:.0} operations per second", per_second(record.events.len() as u64, whole))
}

fn sentence(what: &str, places: &[&str]) -> Option<String> {
    let named = places.iter().take(SHOWN).copied().collect::<Vec<_>>().join("; ");
    let more = places.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    (!places.is_empty()).then(|| format!("{what}: {} ({named}{rest})", places.len()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn judged(record: &Record, keys: &Keys, inside: &Inside) -> Report {
        let (began, mut report) = (Instant::now(), Report::new("crash", "T", "Q"));
        let second = began..began + Duration::from_secs(1);
        let times = Times { load: second.clone(), faults: second };
        let course = Course { began, over: began, faults: 3, tell: Box::new(|_, _| {}) };
        Findings { record, keys, inside, times: &times, wal: 0 }.report(&mut report, course);
        report
    }

    #[test]
    fn whatever_is_missing_is_a_shortfall_and_says_where() {
        let record = Record { breaches: vec![(Breach::Lost, "k1 is absent".to_owned())], ..Record::default() };
        let keys = Keys {
            read: 4,
            unreadable: vec!["k9".to_owned()],
            breaches: (0..7).map(|at| (Breach::Wrong, format!("w{at}"))).collect(),
        };
        let inside = Inside { leaked: 2, ..Inside::default() };
        let report = judged(&record, &keys, &inside);
        let told = report.shortfalls.join("\n");
        for part in ["lost: 1 (k1 is absent)", "w4; and 2 more", "unreadable: 1 (k9)", "leaked: 2", "no write was"] {
            assert!(told.contains(part), "{part} in {told}");
        }
        let row = &report.tables[0].rows[0];
        assert_eq!(
            [&row["lost"], &row["wrong"], &row["faults"]],
            [&Cell::from(1.0), &Cell::from(7.0), &Cell::from(3.0)]
        );
    }
}
