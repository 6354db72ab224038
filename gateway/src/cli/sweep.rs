//! `lobgate sweep`: large objects that no row owns, in two steps: report, then purge what the report named.
//!
//! Invariant: `purge` touches nothing that isn't in the report or that has been claimed since.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use indicatif::HumanBytes;

use crate::config::Config;
use crate::gc::sweep::{self, SweepReport};
use crate::startup::Schema;

use super::progress::Bar;
use super::workplace::Workplace;
use super::{Outcome, output};

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
    // A report that cannot be read is said before the database is touched.
    let named = match &args.action {
        Action::Purge { report } => Some(sweep::load(report)?),
        Action::Report { .. } => None,
    };
    let workplace = Workplace::open(config, Schema::Require).await?;
    let outcome = match (&args.action, named) {
        (Action::Report { output }, _) => report(&workplace, output).await,
        (Action::Purge { .. }, Some(named)) => purge(&workplace, &named).await,
        (Action::Purge { .. }, None) => Ok(Outcome::Done),
    };
    workplace.leave().await;
    outcome
}

async fn report(workplace: &Workplace, path: &Path) -> anyhow::Result<Outcome> {
    let bar = Bar::count("large objects without a row");
    let report = sweep::report(&workplace.storage, &bar).await;
    bar.finish();
    let report = report?;
    sweep::save(&report, path)?;
    tell(&report, path)?;
    Ok(if report.orphans.is_empty() { Outcome::Done } else { Outcome::ProblemsFound })
}

fn tell(report: &SweepReport, path: &Path) -> anyhow::Result<()> {
    let bytes = report.orphans.iter().filter_map(|o| o.size).sum();
    let purgeable = report.orphans.iter().filter(|o| o.purgeable).count();
    output::line(&format!("orphans: {} ({}), {purgeable} of them purgeable", report.orphans.len(), HumanBytes(bytes)))?;
    if !report.referred_elsewhere.is_empty() {
        output::line(&format!("left alone, other tables refer to them: {}", report.referred_elsewhere.len()))?;
    }
    for column in &report.unreadable_columns {
        output::line(&format!("could not look into {column}, which may refer to large objects"))?;
    }
    output::line(&format!("report: {}", path.display()))?;
    Ok(())
}

async fn purge(workplace: &Workplace, named: &SweepReport) -> anyhow::Result<Outcome> {
    let bar = Bar::items("purging", named.orphans.iter().filter(|o| o.purgeable).count() as u64);
    let purged = sweep::purge(&workplace.storage, named, &bar).await;
    bar.finish();
    output::line(&format!("purged: {}", purged?))?;
    Ok(Outcome::Done)
}
