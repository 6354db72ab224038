//! `lobgate sweep`: large objects that no row owns, in two steps: report, then purge what the report named.
//!
//! Invariant: `purge` touches nothing that isn't in the report or that has been claimed since.

use std::path::PathBuf;

use clap::Subcommand;

use crate::config::Config;

use super::{Outcome, database};

pub(super) const EXAMPLE: &str =
    "Example:\n  lobgate sweep report --output orphans.json\n  lobgate sweep purge --report orphans.json";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Find large objects that no row owns and write them to a report
    Report {
        /// File the report is written to
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Remove what a report names and is still unclaimed
    Purge {
        /// Report made by `sweep report`
        #[arg(long, value_name = "FILE")]
        report: PathBuf,
    },
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let (Action::Report { output: _file } | Action::Purge { report: _file }) = args.action;
    let handle = database::resolve(config).await?;
    handle.release().await;
    anyhow::bail!("sweep is not built yet")
}
