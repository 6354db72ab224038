//! `lobgate migrate`: shows which schema the database has, or brings it up to date.
//!
//! `serve` brings it up to date by itself; this is for operators who do it apart. Invariant: `status` changes nothing.

use clap::Subcommand;

use crate::config::Config;

use super::{Outcome, database};

pub(super) const EXAMPLE: &str =
    "Example:\n  lobgate migrate status --database-url postgres://lobgate:password@db.example.org/lobgate";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Action {
    /// Show the schema version of the database and of this lobgate
    Status,
    /// Bring the schema up to date
    Up,
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let handle = match args.action {
        Action::Status => database::resolve(config).await?,
        Action::Up => database::resolve_or_create(config).await?,
    };
    handle.release().await;
    anyhow::bail!("migrate is not built yet")
}
