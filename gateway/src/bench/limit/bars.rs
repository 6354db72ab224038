//! Bars and whether they were met: sides measured in turns, a ratio of medians, a verdict.
//!
//! A bar whose other side was not given is not measured and fails nobody; one of which a side failed is failed, so that a
//! wrong answer never passes for a fast one. Invariant: whatever is measured without a bar is shown all the same.

use futures::future::BoxFuture;

use super::super::lab::Lab;
use super::super::measure::median;
use super::super::plot::figure;
use super::super::report::{Axis, Cell, Plot, Report, Series, Shape, Table, Unit};

/// The gateway under test.
pub(super) const OURS: &str = "lobgate";
/// All sides that are the database alone: the best of them counts.
pub(super) const BARE: &str = "bare";
/// A figure that is no measurement.
pub(super) const LIMIT: &str = "limit";

/// What a ratio, ours to theirs, has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// Rates: more is better.
    AtLeast(f64),
    /// Times and memory: less is better.
    AtMost(f64),
}

/// What figures count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    PerSecond,
    MegabytesPerSecond,
    Milliseconds,
    Mebibytes,
}

/// A side of a comparison: its name, and how it is measured once.
pub(super) struct Side<'a> {
    name: String,
    run: Box<dyn Fn() -> BoxFuture<'a, anyhow::Result<f64>> + Send + Sync + 'a>,
}

impl<'a> Side<'a> {
    pub(super) fn new<F>(name: &str, run: impl Fn() -> F + Send + Sync + 'a) -> Self
    where
        F: Future<Output = anyhow::Result<f64>> + Send + 'a,
    {
        Self { name: name.to_owned(), run: Box::new(move || Box::pin(run())) }
    }

    /// A side that can't be measured, and why.
    pub(super) fn failed(name: &str, error: &anyhow::Error) -> Self {
        let text = format!("{error:#}");
        Self::new(name, move || {
            let text = text.clone();
            async move { Err(anyhow::anyhow!(text)) }
        })
    }
}

/// What the sides of a row gave.
pub(super) struct Standing {
    row: &'static str,
    measure: Measure,
    sides: Vec<(String, Result<f64, String>)>,
}

/// Measures all sides in turns; each round begins with another one. A side that failed is not asked again.
pub(super) async fn in_turns(lab: &Lab<'_>, row: &'static str, measure: Measure, sides: Vec<Side<'_>>) -> Standing {
    let mut taken: Vec<Result<Vec<f64>, String>> = sides.iter().map(|_| Ok(Vec::new())).collect();
    lab.progress.expect(lab.rounds as usize * sides.len());
    for round in 0..lab.rounds as usize {
        for turn in 0..sides.len() {
            let number = (turn + round) % sides.len();
            let side = &sides[number];
            lab.progress.doing(format!("{row}: {}", side.name));
            if let Ok(figures) = &mut taken[number] {
                match (side.run)().await {
                    Ok(figure) => figures.push(figure),
                    Err(error) => taken[number] = Err(format!("{error:#}")),
                }
            }
            lab.progress.step();
        }
    }
    let figure = |taken: Result<Vec<f64>, String>| median(&taken?).ok_or_else(|| "nothing was measured".to_owned());
    let sides = sides.into_iter().map(|side| side.name).zip(taken.into_iter().map(figure)).collect();
    Standing { row, measure, sides }
}

impl Standing {
    /// Figures that are there already; the first is ours.
    pub(super) fn of(row: &'static str, measure: Measure, sides: Vec<(&str, anyhow::Result<f64>)>) -> Self {
        let named = |(name, figure): (&str, anyhow::Result<f64>)| {
            (name.to_owned(), figure.map_err(|error| format!("{error:#}")))
        };
        Self { row, measure, sides: sides.into_iter().map(named).collect() }
    }

    /// A line for every bar, and one for every side without.
    pub(super) fn lines(&self, bars: &[(&str, Bound)]) -> Vec<Line> {
        let mut lines = Vec::new();
        for (against, bound) in bars {
            lines.push(self.line(against, self.theirs(against), Some(*bound)));
        }
        for (name, figure) in self.sides.iter().filter(|(name, _)| name != OURS) {
            if !bars.iter().any(|(against, _)| against == name) {
                lines.push(self.line(name, Some(figure.clone()), None));
            }
        }
        lines
    }

    /// The figure of a side; of several bare ones the best.
    fn theirs(&self, against: &str) -> Option<Result<f64, String>> {
        let of_kind = |name: &str| name == against || (against == BARE && name.starts_with("bare "));
        let found: Vec<_> = self.sides.iter().filter(|(name, _)| of_kind(name)).map(|(_, figure)| figure).collect();
        let figures: Vec<f64> = found.iter().filter_map(|figure| figure.as_ref().ok().copied()).collect();
        let best = match self.measure {
            Measure::PerSecond | Measure::MegabytesPerSecond => figures.into_iter().reduce(f64::max),
            Measure::Milliseconds | Measure::Mebibytes => figures.into_iter().reduce(f64::min),
        };
        // One way that failed must not pass for the others being best.
        let failed = found.iter().find(|figure| figure.is_err()).map(|figure| (*figure).clone());
        failed.or(best.map(Ok))
    }

    fn line(&self, against: &str, theirs: Option<Result<f64, String>>, bound: Option<Bound>) -> Line {
        let ours = self.sides.iter().find(|(name, _)| name == OURS).map(|(_, figure)| figure.clone());
        let mut failure = None;
        let mut figure = |side: &str, taken: Option<Result<f64, String>>| match taken {
            Some(Ok(figure)) => Some(figure),
            Some(Err(error)) => {
                failure.get_or_insert_with(|| format!("{side}: {error}"));
                None
            }
            None => None,
        };
        let (ours, theirs) = (figure(OURS, ours), figure(against, theirs));
        Line { row: self.row, measure: self.measure, ours, against: against.to_owned(), theirs, bound, failure }
    }
}

/// A comparison in the report.
pub(super) struct Line {
    row: &'static str,
    measure: Measure,
    ours: Option<f64>,
    against: String,
    theirs: Option<f64>,
    bound: Option<Bound>,
    failure: Option<String>,
}

impl Line {
    /// A row that could not be measured at all.
    pub(super) fn failed(row: &'static str, error: &anyhow::Error) -> Self {
        let failure = Some(format!("{error:#}"));
        let against = "-".to_owned();
        Self { row, measure: Measure::PerSecond, ours: None, against, theirs: None, bound: None, failure }
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.theirs?)
    }

    fn verdict(&self) -> &'static str {
        match (&self.failure, self.bound, self.ratio()) {
            (Some(_), _, _) => "failed",
            (None, _, None) => "not measured",
            (None, None, Some(_)) => "shown",
            (None, Some(bound), Some(ratio)) if bound.holds(ratio) => "ok",
            (None, Some(_), Some(_)) => "short",
        }
    }

    /// What is wrong, in a sentence.
    fn shortfall(&self) -> Option<String> {
        let (row, against) = (self.row, &self.against);
        if let Some(failure) = &self.failure {
            return Some(format!("{row} failed: {failure}"));
        }
        let (bound, ratio) = (self.bound?, self.ratio()?);
        let (ours, theirs, unit) = (figure(self.ours?), figure(self.theirs?), self.measure.unit());
        let wanted = bound.shown();
        (!bound.holds(ratio)).then(|| {
            format!("{row} is {}x of {against} ({ours} against {theirs} {unit}), the bar is {wanted}", figure(ratio))
        })
    }
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
        }
    }

    /// How much of the bar a ratio reaches; from 1 on it holds.
    fn reached(self, ratio: f64) -> f64 {
        match self {
            Self::AtLeast(least) => ratio / least,
            Self::AtMost(most) => most / ratio,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::AtLeast(least) => format!("at least {}x", figure(least)),
            Self::AtMost(most) => format!("at most {}x", figure(most)),
        }
    }
}

impl Measure {
    fn unit(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::MegabytesPerSecond => "MB/s",
            Self::Milliseconds => "ms",
            Self::Mebibytes => "MiB",
        }
    }
}

const COLUMNS: [(&str, &str, Unit); 8] = [
    ("row", "row", Unit::None),
    ("ours", "lobgate", Unit::None),
    ("unit", "unit", Unit::None),
    ("against", "against", Unit::None),
    ("theirs", "theirs", Unit::None),
    ("ratio", "ratio", Unit::None),
    ("bar", "bar", Unit::None),
    ("verdict", "verdict", Unit::None),
];

/// Puts the lines into a report: table, plots, and what falls short.
pub(super) fn report(report: &mut Report, lines: &[Line]) {
    let mut table = Table::new("bars", "Ratios and bars", &COLUMNS);
    for line in lines {
        table.row([
            Cell::from(line.row),
            line.ours.into(),
            line.measure.unit().into(),
            line.against.as_str().into(),
            line.theirs.into(),
            line.ratio().into(),
            line.bound.map(Bound::shown).into(),
            line.verdict().into(),
        ]);
        report.shortfalls.extend(line.shortfall());
    }
    // A side without a bar that failed, or one with several, is told once.
    report.shortfalls.dedup();
    report.tables.push(table);
    let count = |verdict: &str| lines.iter().filter(|line| line.verdict() == verdict).count();
    let failed_bars = lines.iter().filter(|line| line.bound.is_some() && line.failure.is_some()).count();
    let (met, missed, open) = (count("ok"), count("short") + failed_bars, count("not measured"));
    report.finding(format!("{met} bars met, {missed} missed, {open} not measured"));
    if met + missed == 0 && open > 0 {
        report.shortfalls.push("no bar was measured, since no other side was given".to_owned());
    }
    let unmeasured: Vec<_> = lines.iter().filter(|line| line.verdict() == "not measured").collect();
    if !unmeasured.is_empty() {
        let named: Vec<_> = unmeasured.iter().map(|line| format!("{} against {}", line.row, line.against)).collect();
        report.finding(format!("not measured, since the other side was not given: {}", named.join(", ")));
    }
    for shortfall in report.shortfalls.clone() {
        report.finding(format!("short: {shortfall}"));
    }
    let mut names: Vec<&str> = lines.iter().filter(|l| l.bound.is_some()).map(|line| line.against.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    report.plots.extend(names.into_iter().filter_map(|name| plot(name, lines)));
}

/// How far the ratios to one side are beyond their bars. Rates have to be above and times below them, and bars lie from 0.6
/// to 30: what a plot can show is how much of each was reached.
fn plot(against: &str, lines: &[Line]) -> Option<Plot> {
    let (mut categories, mut reached, mut at) = (Vec::new(), Vec::new(), 0.0);
    for line in lines.iter().filter(|line| line.against == against) {
        let (Some(bound), Some(ratio)) = (line.bound, line.ratio()) else { continue };
        categories.push(line.row.to_owned());
        reached.push([at, bound.reached(ratio)]);
        at += 1.0;
    }
    if categories.is_empty() {
        return None;
    }
    Some(Plot {
        id: against.replace(' ', "-"),
        title: format!("lobgate against {against}: how much of its bar each row reaches"),
        meaning: "How much of its bar each row reaches, from 1 on met: the ratio divided by a bar that it has to reach, or a \
                  bar that it must not exceed divided by the ratio."
            .into(),
        shape: Shape::Bars { categories },
        x: Axis::linear("row", Unit::None),
        y: Axis::linear("of the bar", Unit::None),
        series: vec![Series { name: "of the bar".into(), points: reached }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing() -> Standing {
        let sides = vec![
            (OURS, Ok(60.0)),
            ("bare one statement", Ok(80.0)),
            ("bare chunks", Ok(100.0)),
            ("garage", Ok(2.0)),
            ("other", Ok(30.0)),
        ];
        Standing::of("get", Measure::PerSecond, sides)
    }

    #[test]
    fn bars_are_met_missed_or_not_measured() {
        let bars = [
            ("garage", Bound::AtLeast(20.0)),
            (BARE, Bound::AtLeast(0.7)),
            ("nginx", Bound::AtLeast(0.5)),
            ("other", Bound::AtMost(1.5)),
        ];
        let lines = standing().lines(&bars);
        let verdicts: Vec<_> = lines.iter().map(|line| (line.against.as_str(), line.verdict())).collect();
        assert_eq!(verdicts[..4], [("garage", "ok"), ("bare", "short"), ("nginx", "not measured"), ("other", "short")]);
        assert_eq!(verdicts[4..], [("bare one statement", "shown"), ("bare chunks", "shown")]);
        let text = lines[1].shortfall().unwrap();
        assert!(text.contains("get is 0.6x of bare (60 against 100 1/s), the bar is at least 0.7x"), "{text}");
        let mut shown = Report::new("limit", "", "");
        report(&mut shown, &lines);
        assert_eq!(shown.shortfalls.len(), 2);
        assert_eq!(shown.plots.len(), 3);
    }

    #[test]
    fn a_side_that_fails_fails_its_bar() {
        let wrong = || Err(anyhow::anyhow!("answered with 403"));
        let ours = Standing::of("put", Measure::PerSecond, vec![(OURS, wrong()), ("garage", Ok(1.0))]);
        let lines = ours.lines(&[("garage", Bound::AtLeast(1.0))]);
        assert_eq!(lines[0].verdict(), "failed");
        let theirs = Standing::of("put", Measure::PerSecond, vec![(OURS, Ok(1.0)), ("garage", wrong())]);
        let lines = theirs.lines(&[("garage", Bound::AtLeast(1.0))]);
        assert!(lines[0].shortfall().unwrap().contains("put failed: garage: answered with 403"));
        let bare =
            Standing::of("put", Measure::PerSecond, vec![(OURS, Ok(1.0)), ("bare a", Ok(1.0)), ("bare b", wrong())]);
        assert_eq!(bare.lines(&[(BARE, Bound::AtLeast(1.0))])[0].verdict(), "failed");
    }
}
