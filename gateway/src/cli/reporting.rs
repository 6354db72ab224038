//! What commands that end in a report share: how it is shown, and how they are stopped.
//!
//! A report goes to standard output as tables or, with `--json`, as JSON; `--html` writes a page besides. The first signal
//! asks the work to stop and clean up; a second one ends at once, and the next such command cleans up.
//! Invariant: a report is shown before any file is written, whatever happens to the files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use crate::bench::report::Report;
use crate::bench::{html, table};

use super::signals::StopSignals;
use super::{Outcome, output};

/// How a report is shown.
#[derive(Debug, clap::Args)]
pub(super) struct Shown {
    /// Print the report as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Write the report with its plots to this HTML file as well
    #[arg(long, global = true, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Shown {
    /// Sees that the file can be written, before anything is done.
    pub(super) fn prepare(&self) -> anyhow::Result<()> {
        let Some(path) = &self.html else { return Ok(()) };
        let there = path.exists();
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        opened.with_context(|| format!("--html {} cannot be written", path.display()))?;
        if !there {
            // A command that is stopped leaves no empty report.
            let _ = std::fs::remove_file(path);
        }
        Ok(())
    }

    /// Shows a report.
    pub(super) fn show(&self, report: &Report) -> anyhow::Result<()> {
        let text = if self.json { serde_json::to_string_pretty(report)? } else { table::text(report) };
        output::line(&text)?;
        match &self.html {
            Some(path) => write(path, &html::page(report)?),
            None => Ok(()),
        }
    }

    /// What a report's shortfalls come to; told on standard error where no table tells them.
    pub(super) fn outcome(&self, report: &Report) -> Outcome {
        for shortfall in report.shortfalls.iter().filter(|_| self.json) {
            tracing::error!("{shortfall}");
        }
        if report.shortfalls.is_empty() { Outcome::Done } else { Outcome::ProblemsFound }
    }
}

/// Writes a file of a report.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// Works until the end, or until a signal cancels `stop` and the work has cleaned up.
pub(super) async fn until_signalled<T>(
    command: &str,
    work: impl Future<Output = anyhow::Result<T>>,
    stop: &CancellationToken,
) -> anyhow::Result<T> {
    let mut signals = StopSignals::install()?;
    let mut working = std::pin::pin!(work);
    loop {
        tokio::select! {
            ended = &mut working => return ended,
            signal = signals.next() => {
                if stop.is_cancelled() {
                    anyhow::bail!("stopped at once by a second signal ({signal}); the next lobgate {command} cleans up");
                }
                tracing::info!(signal, "cleaning up; a second signal stops at once");
                stop.cancel();
            }
        }
    }
}
