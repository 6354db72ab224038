//! `lobgate verify`: reads every stored byte and compares it with its recorded size and digest.
//!
//! Invariant: it only reads; what it finds goes to the report and into exit code 3.

use std::path::PathBuf;

use crate::config::Config;

use super::{Outcome, database};

pub(super) const EXAMPLE: &str = "Example:\n  lobgate verify --report damage.json";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Write findings to this file as well
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let Args { report: _report } = args;
    let handle = database::resolve(config).await?;
    handle.release().await;
    anyhow::bail!("verify is not built yet")
}
