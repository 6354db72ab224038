//! Time, and what is made of it: samples, percentiles, medians of rounds, megabytes per second.
//!
//! A figure is the median of its rounds; percentiles are taken over all operations of all rounds. Time is the monotonic
//! clock's around the awaited operation, nothing taken off. A megabyte is 10^6 bytes.
//! Invariant: percentiles are values that were measured (nearest rank), never interpolated.

use std::time::{Duration, Instant};

/// Awaits something and says how long it took.
pub(crate) async fn timed<T>(operation: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    let outcome = operation.await;
    (outcome, started.elapsed())
}

/// How long operations took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    /// Notes an operation.
    pub(crate) fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    /// A single operation.
    pub(crate) fn of(took: Duration) -> Self {
        Self(vec![took])
    }

    /// Takes over what another worker noted.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Operations noted.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The time of all of them.
    #[must_use]
    pub(crate) fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    /// The time that `percent` of the operations did not exceed, in milliseconds.
    #[must_use]
    pub(crate) fn percentile(&self, percent: u32) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let percent = usize::try_from(percent.min(100)).unwrap_or(100);
        let rank = (sorted.len() * percent).div_ceil(100).max(1);
        sorted.get(rank - 1).map(|took| milliseconds(*took))
    }

    /// The median, in milliseconds.
    #[must_use]
    pub(crate) fn p50(&self) -> Option<f64> {
        self.percentile(50)
    }

    /// The 99th percentile, in milliseconds.
    #[must_use]
    pub(crate) fn p99(&self) -> Option<f64> {
        self.percentile(99)
    }
}

/// An operation measured over several rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    /// Every operation of every round.
    pub(crate) operations: Samples,
    speeds: Vec<f64>,
}

impl Series {
    /// Adds a round in which operations, one after another, moved `bytes`.
    pub(crate) fn round(&mut self, bytes: u64, operations: Samples) {
        self.speeds.push(megabytes_per_second(bytes, operations.total()));
        self.operations.extend(operations);
    }

    /// Adds a round of concurrent operations that moved `bytes` in `elapsed`.
    pub(crate) fn concurrent_round(&mut self, bytes: u64, elapsed: Duration, operations: Samples) {
        self.speeds.push(megabytes_per_second(bytes, elapsed));
        self.operations.extend(operations);
    }

    /// Megabytes per second: the median of the rounds.
    #[must_use]
    pub(crate) fn speed(&self) -> Option<f64> {
        median(&self.speeds)
    }
}

/// The median; of an even number of figures, the lower of the two in the middle.
#[must_use]
pub(crate) fn median(figures: &[f64]) -> Option<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied()
}

/// Megabytes per second.
#[must_use]
pub(crate) fn megabytes_per_second(bytes: u64, elapsed: Duration) -> f64 {
    per_second(bytes, elapsed) / 1e6
}

/// How many in a second.
#[must_use]
pub(crate) fn per_second(count: u64, elapsed: Duration) -> f64 {
    // Exact up to 2^53.
    #[allow(clippy::cast_precision_loss)]
    let count = count as f64;
    count / elapsed.as_secs_f64()
}

/// A duration in milliseconds.
#[must_use]
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(milliseconds: impl IntoIterator<Item = u64>) -> Samples {
        Samples(milliseconds.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let hundred = samples((1..=100).rev());
        assert_eq!(hundred.p50(), Some(50.0));
        assert_eq!(hundred.p99(), Some(99.0));
        assert_eq!(hundred.percentile(100), Some(100.0));
        assert_eq!(hundred.percentile(0), Some(1.0));
        assert_eq!(samples([7]).p99(), Some(7.0));
        assert_eq!(samples([1, 2]).p50(), Some(1.0));
        assert_eq!(samples([1, 2]).p99(), Some(2.0));
        assert_eq!(samples([]).p50(), None);
    }

    #[test]
    fn a_figure_is_the_median_of_its_rounds() {
        let mut series = Series::default();
        for took in [1000, 100, 500] {
            series.round(1_000_000, samples([took / 2, took / 2]));
        }
        assert_eq!(series.speed(), Some(2.0));
        assert_eq!(series.operations.len(), 6);
        assert_eq!(median(&[3.0, 1.0, 4.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_concurrent_round_counts_the_time_of_all_together() {
        let mut series = Series::default();
        series.concurrent_round(10_000_000, Duration::from_secs(2), samples([2000, 2000]));
        assert_eq!(series.speed(), Some(5.0));
    }
}
