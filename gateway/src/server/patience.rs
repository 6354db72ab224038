//! How long a client is waited for.
//!
//! One that sends or takes nothing for the idle timeout is given up; so is one that keeps itself alive byte by byte, since a
//! byte buys no more time than it takes at the least rate. Whoever is faster always has the whole timeout before it. The
//! clock runs only while the client is waited for, never while it waits for us.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// What a client gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Longest silence, and all the time that can be saved up.
    pub(super) idle: Duration,
    /// Least rate in the long run, bytes per second; 0 for none.
    pub(super) rate: u64,
}

/// Patience with one client.
pub(super) struct Patience {
    terms: Terms,
    left: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Patience {
    pub(super) fn new(terms: Terms) -> Self {
        Self { terms, left: terms.idle, waiting: None }
    }

    /// The client is being waited for; ready when that has taken too long.
    pub(super) fn poll_waited(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let left = self.left;
        let (_, end) = self.waiting.get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(left))));
        end.as_mut().poll(cx)
    }

    /// The client sent or took so many bytes, and is not waited for any more.
    pub(super) fn moved(&mut self, bytes: usize) {
        if let Some((since, _)) = self.waiting.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
        // Exact far beyond what a piece can hold.
        #[allow(clippy::cast_precision_loss)]
        let earned = match self.terms.rate {
            0 => self.terms.idle,
            rate => Duration::try_from_secs_f64(bytes as f64 / rate as f64).unwrap_or(self.terms.idle),
        };
        self.left = self.left.saturating_add(earned).min(self.terms.idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms { idle: Duration::from_secs(60), rate: 1024 };

    /// Seconds until a client is given up that moves so many bytes every second; `None` if it isn't within an hour.
    async fn given_up_after(terms: Terms, bytes: usize) -> Option<u64> {
        let mut patience = Patience::new(terms);
        for second in 0..3600 {
            let waited = std::future::poll_fn(|cx| patience.poll_waited(cx));
            if tokio::time::timeout(Duration::from_secs(1), waited).await.is_ok() {
                return Some(second);
            }
            if bytes > 0 {
                patience.moved(bytes);
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn silence_and_trickles_are_given_up_and_a_steady_flow_is_not() {
        assert_eq!(given_up_after(TERMS, 0).await, Some(59));
        let trickle = given_up_after(TERMS, 1).await.expect("given up");
        assert!((58..62).contains(&trickle), "{trickle}");
        let half = given_up_after(TERMS, 512).await.expect("given up");
        assert!((115..125).contains(&half), "{half}");
        assert_eq!(given_up_after(TERMS, 1100).await, None);
        assert_eq!(given_up_after(Terms { rate: 0, ..TERMS }, 1).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nobody_waits_does_not_count() {
        let mut patience = Patience::new(TERMS);
        patience.moved(1);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let waited = std::future::poll_fn(|cx| patience.poll_waited(cx));
        assert!(tokio::time::timeout(Duration::from_secs(59), waited).await.is_err());
    }
}
