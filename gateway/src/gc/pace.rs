//! Background work is slowed by its own cost: it rests as long as it worked.

use std::time::Duration;

use tokio::time::Instant;

/// Longest rest, so that one slow round does not stall the next ones for long.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// A piece of work being timed.
pub(super) struct Pace(Instant);

impl Pace {
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    pub(super) async fn rest(self) {
        tokio::time::sleep(self.0.elapsed().min(LONGEST_REST)).await;
    }
}
