//! What clients note down while things break, and the figures that are made of it.
//!
//! An operation is *done* when it was answered as S3 has it (a failed condition and a 404 are answers), *refused* with 503,
//! *unanswered* where its connection broke or a 500 left open what became of it, and *unreachable* where no gateway took
//! the connection, so that nothing was sent. Times are those of operations that were done.
//! Invariant: an operation counts as one during the faults if any of its time lies between the first and the last.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use crate::bench::measure::{Samples, milliseconds, per_second};
use crate::bench::report::{Axis, Cell, Plot, Shape, Table, Unit};

use super::ledger::Breach;

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Get,
    Put,
    Delete,
    Conditional,
    Multipart,
}

/// How an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// It was answered, and nothing was written.
    Answered,
    /// A write was acknowledged.
    Acknowledged,
    /// 503: it did not happen.
    Refused,
    /// Nobody knows.
    Unanswered,
    /// Nothing was sent.
    Unreachable,
}

/// An operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) kind: Kind,
    pub(super) how: How,
    pub(super) at: Instant,
    pub(super) took: Duration,
}

/// All that clients noted.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) events: Vec<Event>,
    /// Promises that were broken, and where.
    pub(super) breaches: Vec<(Breach, String)>,
    /// Bytes whose storing was acknowledged, parts of uploads included.
    pub(super) stored: u64,
    /// Statuses that no operation should have been answered with, and how often.
    pub(super) unexpected: BTreeMap<u16, u64>,
}

/// The course of a drill.
#[derive(Debug, Clone)]
pub(super) struct Times {
    /// From the first operation to the last.
    pub(super) load: Range<Instant>,
    /// From the first fault to the end of the last.
    pub(super) faults: Range<Instant>,
}

/// When an operation was under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    During,
    After,
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [Self::Put, Self::Get, Self::Conditional, Self::Delete, Self::Multipart];

    fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Conditional => "conditional PUT",
            Self::Multipart => "multipart upload",
        }
    }
}

impl Times {
    fn phase(&self, event: &Event) -> Phase {
        if event.at >= self.faults.end {
            Phase::After
        } else if event.at + event.took < self.faults.start {
            Phase::Before
        } else {
            Phase::During
        }
    }

    fn length(&self, phase: Phase) -> Duration {
        let (from, to) = match phase {
            Phase::Before => (self.load.start, self.faults.start),
            Phase::During => (self.faults.start, self.faults.end),
            Phase::After => (self.faults.end, self.load.end),
        };
        to.saturating_duration_since(from)
    }
}

impl How {
    /// Whether the gateway did what it was asked for.
    pub(super) fn is_done(self) -> bool {
        matches!(self, Self::Answered | Self::Acknowledged)
    }
}

impl Record {
    /// Takes over what another client noted.
    pub(super) fn extend(&mut self, other: Self) {
        self.events.extend(other.events);
        self.breaches.extend(other.breaches);
        self.stored += other.stored;
        for (status, count) in other.unexpected {
            *self.unexpected.entry(status).or_default() += count;
        }
    }

    /// Writes that were acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        count(&self.events, |event| event.how == How::Acknowledged)
    }

    /// When the first operation was done after an instant, whenever it was begun.
    pub(super) fn first_success_after(&self, instant: Instant) -> Option<Instant> {
        let done = self.events.iter().filter(|event| event.how.is_done()).map(|event| event.at + event.took);
        done.filter(|done| *done >= instant).min()
    }

    /// From an instant until the first operation begun after it was done: not one whose answer was on its way already.
    pub(super) fn first_success_begun_after(&self, instant: Instant) -> Option<Duration> {
        let begun = self.events.iter().filter(|event| event.how.is_done() && event.at >= instant);
        begun.map(|event| event.at + event.took - instant).min()
    }

    /// How long refusals took that began in a while.
    pub(super) fn refusals(&self, time: &Range<Instant>) -> Samples {
        let mut samples = Samples::default();
        for event in self.events.iter().filter(|event| event.how == How::Refused && time.contains(&event.at)) {
            samples.push(event.took);
        }
        samples
    }

    /// Operations by kind.
    pub(super) fn operations(&self) -> Table {
        let none = Unit::None;
        let mut table = Table::new(
            "operations",
            "Operations",
            &[
                ("operation", "operation", none),
                ("sent", "sent", none),
                ("done", "done", none),
                ("acknowledged", "writes acknowledged", none),
                ("refused", "refused (503)", none),
                ("unanswered", "unanswered", none),
                ("unreachable", "unreachable", none),
            ],
        );
        for kind in Kind::ALL {
            let of = |how: fn(How) -> bool| Cell::from(count(&self.events, |e| e.kind == kind && how(e.how)));
            table.row([
                Cell::from(kind.word()),
                of(|how| how != How::Unreachable),
                of(How::is_done),
                of(|how| how == How::Acknowledged),
                of(|how| how == How::Refused),
                of(|how| how == How::Unanswered),
                of(|how| how == How::Unreachable),
            ]);
        }
        table
    }

    /// Times before, during and after.
    pub(super) fn phases(&self, course: &Times) -> Table {
        let (none, ms) = (Unit::None, Unit::Milliseconds);
        let mut table = Table::new(
            "phases",
            "Before, during and after the faults",
            &[
                ("phase", "faults", none),
                ("seconds", "seconds", none),
                ("done", "done", none),
                ("done_per_second", "done", Unit::PerSecond),
                ("p50_ms", "p50", ms),
                ("p99_ms", "p99", ms),
                ("longest_ms", "longest", ms),
                ("refused", "refused (503)", none),
                ("unanswered", "unanswered", none),
                ("unreachable", "unreachable", none),
            ],
        );
        for (name, phase) in [("before", Phase::Before), ("during", Phase::During), ("after", Phase::After)] {
            let within = |event: &&Event| course.phase(event) == phase;
            let mut times = Samples::default();
            for event in self.events.iter().filter(within).filter(|event| event.how.is_done()) {
                times.push(event.took);
            }
            let length = course.length(phase);
            let of = |how: How| Cell::from(count(&self.events, |e| e.how == how && course.phase(e) == phase));
            table.row([
                Cell::from(name),
                Cell::from(length.as_secs_f64()),
                Cell::from(times.len() as u64),
                Cell::from(per_second(times.len() as u64, length)),
                Cell::from(times.p50()),
                Cell::from(times.p99()),
                Cell::from(times.percentile(100)),
                of(How::Refused),
                of(How::Unanswered),
                of(How::Unreachable),
            ]);
        }
        table
    }
}

/// The times of the phases as bars.
pub(super) fn plot(phases: &Table) -> Plot {
    Plot {
        id: "phases".to_owned(),
        title: "Time of operations that were done".to_owned(),
        meaning: "Whoever was answered while things broke waited this long.".to_owned(),
        shape: Shape::Bars { categories: phases.names("phase") },
        x: Axis::linear("faults", Unit::None),
        y: Axis::log("time", Unit::Milliseconds),
        series: vec![phases.bars("p50", "p50_ms"), phases.bars("p99", "p99_ms")],
    }
}

/// A duration as a figure in milliseconds.
pub(super) fn figure(duration: Option<Duration>) -> Cell {
    Cell::from(duration.map(milliseconds))
}

fn count(events: &[Event], which: impl Fn(&Event) -> bool) -> u64 {
    events.iter().filter(|event| which(event)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(begun: Instant, milliseconds: u64) -> Instant {
        begun + Duration::from_millis(milliseconds)
    }

    #[test]
    fn whatever_touches_the_faults_counts_as_during_them() {
        let begun = Instant::now();
        let event =
            |from, took, how| Event { kind: Kind::Put, how, at: at(begun, from), took: Duration::from_millis(took) };
        let events = vec![
            event(0, 10, How::Acknowledged),
            event(90, 5, How::Answered),
            event(95, 60, How::Answered),
            event(120, 3, How::Refused),
            event(130, 900, How::Unanswered),
            event(210, 7, How::Acknowledged),
        ];
        let record = Record { events, ..Record::default() };
        assert_eq!(record.acknowledged(), 2);
        assert_eq!(record.first_success_after(at(begun, 160)), Some(at(begun, 217)));
        assert_eq!(record.first_success_begun_after(at(begun, 100)), Some(Duration::from_millis(117)));
        assert_eq!(record.refusals(&(at(begun, 100)..at(begun, 200))).p50(), Some(3.0));
        let course = Times { load: begun..at(begun, 300), faults: at(begun, 100)..at(begun, 200) };
        let table = record.phases(&course);
        let figures = |key: &str| table.rows.iter().map(|row| row[key].clone()).collect::<Vec<_>>();
        assert_eq!(figures("done"), [2.0, 1.0, 1.0].map(Cell::from));
        assert_eq!(figures("p99_ms"), [10.0, 60.0, 7.0].map(Cell::from));
        assert_eq!(figures("refused"), [0.0, 1.0, 0.0].map(Cell::from));
        assert_eq!(record.operations().rows[0]["sent"], Cell::from(6.0));
        assert_eq!(plot(&table).series[1].points.len(), 3);
    }
}
