//! `lobgate migrate`: shows which schema the database has, or brings it up to date.
//!
//! `serve` brings it up to date by itself; this is for operators who do it apart. Invariant: `status` changes nothing.

use clap::Subcommand;

use crate::config::Config;
use crate::db::{self, Target};

use super::{Outcome, database, output};

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
    let outcome = match args.action {
        Action::Status => status(config, &handle.url).await,
        Action::Up => up(config, &handle.url).await,
    };
    handle.release().await;
    outcome.map(|()| Outcome::Done)
}

async fn status(config: &Config, url: &str) -> anyhow::Result<()> {
    let mut client = Target::parse(url)?.connect(config.database.connect_timeout).await?;
    let state = db::migration_state(&mut client).await?;
    for (label, migrations) in [("applied", &state.applied), ("pending", &state.pending)] {
        for migration in migrations {
            output::line(&format!("{label}: {migration}"))?;
        }
    }
    output::line(if state.pending.is_empty() {
        "the schema is up to date"
    } else {
        "lobgate migrate up applies what is pending"
    })?;
    Ok(())
}

async fn up(config: &Config, url: &str) -> anyhow::Result<()> {
    let target = Target::parse(url)?;
    // The probe says what the server lacks in better words than a failing migration would.
    db::probe(&target, db::Pooler::Auto, db::Standbys::Refused, config.database.connect_timeout).await?;
    let mut client = target.connect(config.database.connect_timeout).await?;
    let applied = db::migrate(&mut client).await?;
    for migration in &applied {
        output::line(&format!("applied: {migration}"))?;
    }
    output::line("the schema is up to date")?;
    Ok(())
}
