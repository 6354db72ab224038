//! What a command measures with: sessions on the scratch, random bytes, rounds, a progress bar.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio_postgres::Client;

use crate::config::Config;

use super::noise::Noise;
use super::scratch::Scratch;
use super::sessions::Sessions;

/// The means of a running command.
pub(super) struct Lab<'a> {
    /// Settings of the gateway: chunks, windows and pools are measured as they are set.
    pub(super) config: &'a Config,
    /// How often everything is repeated.
    pub(super) rounds: u32,
    /// How far the command is.
    pub(super) progress: Progress,
    /// URL of the database that was named; may hold a password.
    pub(super) url: &'a str,
    /// The scratch.
    pub(super) scratch: &'a Scratch,
    pub(super) sessions: Sessions,
}

impl Lab<'_> {
    /// The number of rounds, in words for reports.
    pub(super) fn rounds_text(&self) -> String {
        if self.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", self.rounds) }
    }

    /// Opens a session that sees the companion table of the scratch.
    ///
    /// # Errors
    /// The server does not take another connection.
    pub(super) async fn connect(&self) -> anyhow::Result<Client> {
        self.sessions.open().await
    }

    /// Opens a session for each of `count` workers, or as many as the server takes.
    ///
    /// # Errors
    /// As [`Lab::connect`].
    pub(super) async fn connect_many(&self, count: usize) -> anyhow::Result<Vec<Client>> {
        self.sessions.open_many(count).await
    }

    /// A source of random bytes.
    #[must_use]
    pub(super) fn noise(&self) -> Noise {
        Noise::new()
    }

    /// Lets new large objects use the room of unlinked ones, and says whether it did. See [`Scratch::reclaim`].
    ///
    /// # Errors
    /// A statement failed.
    pub(super) async fn reclaim(&self, client: &Client) -> anyhow::Result<bool> {
        self.scratch.reclaim(client).await
    }
}

/// A bar on standard error, where that is a terminal.
#[derive(Debug, Clone)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new() -> Self {
        // Without a step to come it would show 100 %.
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent}% {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Announces that many more steps.
    pub(crate) fn expect(&self, steps: usize) {
        self.0.inc_length(u64::try_from(steps).unwrap_or(0));
    }

    /// Says what is being measured now.
    pub(crate) fn doing(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// A step is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
