//! Plots as SVG text, for the HTML report and for files.
//!
//! A logarithmic axis is drawn as a linear one over logarithms, so that one kind of chart does for all, and its ticks are
//! chosen here: powers of two where bytes are counted, 1-2-5 steps elsewhere. Nothing is fetched: fonts are the viewer's.
//! Invariant: a plot without a single point gives a frame with its title, never an error.

use std::fmt::Display;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::config::format_size;

use super::report::{Axis, Plot, Series, Shape, Unit};

/// Pixels of a plot.
const SIZE: (u32, u32) = (860, 420);
/// Whatever the viewer has.
const FONT: &str = "sans-serif";
/// Colours that people with any colour vision tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
];
const GREY: RGBColor = RGBColor(110, 110, 110);
/// Most names of categories that stand beside each other; those of more are turned.
const LEVEL_NAMES: usize = 7;
/// Pixels below the axis: for a line of labels and what they mean, and for turned names.
const BELOW: u32 = 46;
const BELOW_TURNED: u32 = 136;
/// Most ticks on an axis.
const TICKS: usize = 12;
/// Most bars that bear their figures: those of more run into each other.
const LABELLED_BARS: usize = 12;

/// The plot as an SVG document.
///
/// # Errors
/// The drawing library refused: a defect.
pub fn svg(plot: &Plot) -> anyhow::Result<String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        draw(plot, &root).map_err(|error| anyhow::anyhow!("the plot {} cannot be drawn: {error}", plot.id))?;
    }
    Ok(text)
}

type Failed = Box<dyn std::error::Error>;

fn draw(plot: &Plot, root: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Failed> {
    root.fill(&WHITE)?;
    let x = match &plot.shape {
        Shape::Lines => {
            Scale::over(&plot.x, plot.series.iter().flat_map(|s| s.points.iter().map(|p| p[0]))).at_points(plot)
        }
        Shape::Bars { categories } => Scale::of_categories(categories),
    };
    let y = Scale::over(&plot.y, plot.series.iter().flat_map(|s| s.points.iter().map(|p| p[1])));
    let margin = legend(plot, root)?;
    let turned = matches!(&plot.shape, Shape::Bars { categories } if categories.len() > LEVEL_NAMES);
    let mut chart = ChartBuilder::on(root)
        .caption(&plot.title, (FONT, 18))
        .margin(12)
        .margin_right(margin)
        .x_label_area_size(if turned { BELOW_TURNED } else { BELOW })
        .y_label_area_size(70)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(225, 225, 225))
        .axis_style(GREY)
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .x_desc(described(&plot.x))
        .y_desc(described(&plot.y))
        .x_labels(TICKS)
        .y_labels(TICKS)
        .x_label_formatter(&|value| if turned { String::new() } else { x.label(*value) })
        .y_label_formatter(&|value| y.label(*value))
        .draw()?;
    if turned {
        // The library would turn them about their middles, half into the chart.
        let style = TextStyle::from((FONT, 13)).transform(FontTransform::Rotate90);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        for tick in &x.ticks {
            let (left, top) = chart.backend_coord(&(*tick, y.low));
            root.draw(&Text::new(x.label(*tick), (left, top + 8), style.clone()))?;
        }
    }
    for (number, series) in plot.series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        match &plot.shape {
            Shape::Lines => {
                let points: Vec<_> = series.points.iter().map(|p| (x.place(p[0]), y.place(p[1]))).collect();
                let dots = points.iter().map(|at| Circle::new(*at, 3, colour.filled()));
                chart.draw_series(dots)?;
                chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
            }
            Shape::Bars { .. } => {
                let bars = bars(series, number, plot.series.len(), &y);
                chart.draw_series(bars.iter().map(|corners| Rectangle::new(*corners, colour.filled())))?;
            }
        }
    }
    let count: usize = plot.series.iter().map(|series| series.points.len()).sum();
    if matches!(plot.shape, Shape::Bars { .. }) && count <= LABELLED_BARS {
        let style = TextStyle::from((FONT, 11)).color(&GREY).pos(Pos::new(HPos::Center, VPos::Bottom));
        for (number, series) in plot.series.iter().enumerate() {
            for (corners, point) in bars(series, number, plot.series.len(), &y).iter().zip(&series.points) {
                let top = (f64::midpoint(corners[0].0, corners[1].0), corners[1].1);
                chart.draw_series([Text::new(y.label(point[1]), top, style.clone())])?;
            }
        }
    }
    root.present()?;
    Ok(())
}

/// Names the series beside the chart, where they hide nothing; gives the room that takes.
fn legend(plot: &Plot, root: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<u32, Failed> {
    if plot.series.len() < 2 {
        return Ok(24);
    }
    let longest = plot.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    let room = 46 + 7 * u32::try_from(longest).unwrap_or(0).min(40);
    let left = i32::try_from(SIZE.0 - room)? + 14;
    for ((number, series), row) in plot.series.iter().enumerate().zip(0_i32..) {
        let (top, colour) = (50 + 20 * row, COLOURS[number % COLOURS.len()]);
        root.draw(&Rectangle::new([(left, top), (left + 12, top + 12)], colour.filled()))?;
        root.draw(&Text::new(series.name.clone(), (left + 18, top), (FONT, 13)))?;
    }
    Ok(room)
}

/// Corners of a series' bars: the groups stand around whole numbers, four fifths of the way to the next one wide.
fn bars(series: &Series, number: usize, of: usize, y: &Scale) -> Vec<[(f64, f64); 2]> {
    // A handful of series.
    #[allow(clippy::cast_precision_loss)]
    let (number, of) = (number as f64, of.max(1) as f64);
    let width = 0.8 / of;
    let bar = |point: &[f64; 2]| {
        let left = point[0] - 0.4 + number * width;
        [(left, y.low), (left + width * 0.94, y.place(point[1]))]
    };
    series.points.iter().map(bar).collect()
}

/// An axis as it is drawn: its ends, its ticks, and what stands beside them.
#[derive(Clone)]
struct Scale {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
    log: bool,
    bytes: bool,
    names: Vec<String>,
}

impl Scale {
    fn over(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let usable = values.filter(|value| value.is_finite() && (!axis.log || *value > 0.0));
        let (mut least, mut most) = usable.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if least > most {
            (least, most) = (1.0, 10.0);
        }
        let bytes = axis.unit == Unit::Bytes;
        let (low, high, ticks) = match (axis.log, bytes) {
            (true, true) => powers_of_two(least, most),
            (true, false) => decades(least, most),
            (false, _) => steps(most, bytes),
        };
        Self { low, high, ticks, log: axis.log, bytes, names: Vec::new() }
    }

    /// Puts the ticks of a logarithmic axis where it was measured, if that is in few places.
    fn at_points(mut self, plot: &Plot) -> Self {
        let places = plot.series.iter().flat_map(|s| s.points.iter().map(|p| p[0])).filter(|x| *x > 0.0);
        let mut places: Vec<f64> = places.map(f64::log10).filter(|x| x.is_finite()).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        if self.log && (1..=TICKS).contains(&places.len()) {
            self.ticks = places;
        }
        self
    }

    fn of_categories(names: &[String]) -> Self {
        // A handful of names.
        #[allow(clippy::cast_precision_loss)]
        let count = names.len() as f64;
        let ticks = (0_u32..).zip(names).map(|(at, _)| f64::from(at)).collect();
        Self { low: -0.5, high: count - 0.5, ticks, log: false, bytes: false, names: names.to_vec() }
    }

    /// Where a value is drawn.
    fn place(&self, value: f64) -> f64 {
        if self.log { value.max(f64::MIN_POSITIVE).log10().clamp(self.low, self.high) } else { value }
    }

    /// What stands beside a tick.
    fn label(&self, place: f64) -> String {
        if !self.names.is_empty() {
            let named = (0_u32..).zip(&self.names).find(|(at, _)| (f64::from(*at) - place).abs() < 0.01);
            return named.map(|(_, name)| name.clone()).unwrap_or_default();
        }
        let value = if self.log { 10_f64.powf(place) } else { place };
        if self.bytes { size(value) } else { figure(value) }
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        let share = (place - self.low) / (self.high - self.low);
        let pixels = share * f64::from(limit.1 - limit.0);
        // Saturates, and is not a number's zero: nothing else is wanted of odd values.
        #[allow(clippy::cast_possible_truncation)]
        let offset = pixels.round() as i32;
        limit.0.saturating_add(offset)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// Sizes in steps of four, or of two where few are spanned; half a step of room at both ends.
fn powers_of_two(least: f64, most: f64) -> (f64, f64, Vec<f64>) {
    let (first, last) = (least.log2().floor(), most.log2().ceil());
    let step = ((last - first) / 10.0).ceil().max(1.0);
    let mut ticks = Vec::new();
    let mut at = first;
    while at <= last {
        ticks.push(at * 2_f64.log10());
        at += step;
    }
    ((first - 0.3) * 2_f64.log10(), (last + 0.3) * 2_f64.log10(), ticks)
}

/// 1, 2, 5, 10, 20, … or 1, 10, 100, … where many decades are spanned.
fn decades(least: f64, most: f64) -> (f64, f64, Vec<f64>) {
    let (low, high) = (least.log10() - 0.1, most.log10() + 0.15);
    let marks: &[f64] = if high - low > 3.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut ticks = Vec::new();
    let mut decade = low.floor();
    while decade <= high {
        ticks.extend(marks.iter().map(|mark| decade + mark.log10()).filter(|at| (low..=high).contains(at)));
        decade += 1.0;
    }
    (low, high, ticks)
}

/// Round steps from zero.
fn steps(most: f64, bytes: bool) -> (f64, f64, Vec<f64>) {
    let top = if most > 0.0 { most * 1.12 } else { 1.0 };
    let raw = top / 6.0;
    let magnitude = if bytes { 2_f64.powf(raw.log2().floor()) } else { 10_f64.powf(raw.log10().floor()) };
    let factors: &[f64] = if bytes { &[1.0, 2.0] } else { &[1.0, 2.0, 5.0, 10.0] };
    let step = factors.iter().map(|factor| factor * magnitude).find(|step| *step >= raw).unwrap_or(raw);
    let mut ticks = Vec::new();
    let mut at = 0.0;
    while at <= top {
        ticks.push(at);
        at += step;
    }
    (0.0, top, ticks)
}

fn described(axis: &Axis) -> String {
    let symbol = axis.unit.symbol();
    if symbol.is_empty() { axis.label.clone() } else { format!("{} ({symbol})", axis.label) }
}

/// Bytes as people write them.
pub(super) fn size(bytes: f64) -> String {
    // Not negative, and below 2^53.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = bytes.max(0.0).round() as u64;
    let exact = format_size(whole);
    match whole {
        0 => "0".to_owned(),
        _ if whole < 1024 || exact.find(|c: char| !c.is_ascii_digit()).is_some_and(|digits| digits < 5) => {
            spaced(&exact)
        }
        _ if whole < 1 << 20 => format!("{} KiB", figure(bytes / 1024.0)),
        _ if whole < 1 << 30 => format!("{} MiB", figure(bytes / f64::from(1 << 20))),
        _ => format!("{} GiB", figure(bytes / f64::from(1 << 30))),
    }
}

fn spaced(text: &str) -> String {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    format!("{number} {unit}")
}

/// A number with three significant digits, and none that say nothing.
pub(super) fn figure(value: f64) -> String {
    let grouped = |decimals: usize| -> String { trimmed(&format!("{value:.decimals$}")) };
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v >= 1000.0 => thousands(value),
        v if v >= 100.0 => grouped(0),
        v if v >= 10.0 => grouped(1),
        v if v >= 1.0 => grouped(2),
        v if v >= 0.1 => grouped(3),
        _ => grouped(4),
    }
}

fn trimmed(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
}

fn thousands(value: impl Display) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(shape: Shape, log: bool, points: Vec<[f64; 2]>) -> Plot {
        let axis = |label: &str, unit| Axis { label: label.to_owned(), unit, log };
        Plot {
            id: "p".into(),
            title: "Title & more".into(),
            meaning: "M.".into(),
            shape,
            x: axis("size", Unit::Bytes),
            y: axis("speed", Unit::MegabytesPerSecond),
            series: vec![Series { name: "one".into(), points }, Series { name: "two".into(), points: vec![] }],
        }
    }

    #[test]
    fn plots_have_title_units_and_series() {
        let drawn = svg(&plot(Shape::Lines, true, vec![[4096.0, 3.0], [1_048_576.0, 300.0]])).unwrap();
        for text in ["Title &amp; more", "4 KiB", "MB/s", "one", "two", "polyline"] {
            assert!(drawn.contains(text), "{text} in {drawn}");
        }
        assert!(!drawn.contains("http://") || drawn.matches("http://").count() == 1, "only the SVG name space");
    }

    #[test]
    fn a_plot_without_points_or_with_odd_ones_is_drawn() {
        let bars = || Shape::Bars { categories: vec!["a".into(), "b".into()] };
        for points in [vec![], vec![[0.0, 0.0]], vec![[1.0, f64::NAN]], vec![[1.0, -3.0]], vec![[5.0, 5.0]]] {
            for log in [true, false] {
                svg(&plot(Shape::Lines, log, points.clone())).unwrap();
                svg(&plot(bars(), log, points.clone())).unwrap();
            }
        }
        svg(&plot(Shape::Bars { categories: vec![] }, false, vec![])).unwrap();
    }

    #[test]
    fn figures_have_three_digits() {
        let shown = |value| figure(value);
        assert_eq!(shown(0.0), "0");
        assert_eq!(shown(0.01234), "0.0123");
        assert_eq!(shown(1.0), "1");
        assert_eq!(shown(12.34), "12.3");
        assert_eq!(shown(250.0), "250");
        assert_eq!(shown(1_234_567.0), "1,234,567");
        assert_eq!(shown(-1234.0), "-1,234");
        assert_eq!(size(65536.0), "64 KiB");
        assert_eq!(size(1_500_000.0), "1.43 MiB");
        assert_eq!(size(7.0), "7 B");
        assert_eq!(size(1_500.0), "1500 B");
        assert_eq!(size(236_716_032.0), "226 MiB");
        assert_eq!(size(1_073_741_824.0), "1 GiB");
    }
}
