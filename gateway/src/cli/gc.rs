//! `lobgate gc`: how much removed content waits for its readers, and one round of reclaiming it.
//!
//! Running gateways do this by themselves. Invariant: `status` changes nothing.

use clap::Subcommand;

use crate::config::Config;

use super::{Outcome, database};

pub(super) const EXAMPLE: &str = "Example:\n  lobgate gc status --data-dir ./lobgate-data";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Action {
    /// Show what waits to be reclaimed
    Status,
    /// Reclaim what no reader needs any more
    Run,
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let (Action::Status | Action::Run) = args.action;
    let handle = database::resolve(config).await?;
    handle.release().await;
    anyhow::bail!("gc is not built yet")
}
