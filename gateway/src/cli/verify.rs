//! `lobgate verify`: reads every stored byte and compares it with its recorded size and digest.
//!
//! Invariant: it only reads; what it finds goes to the report and into exit code 3.

use std::path::PathBuf;

use anyhow::Context;

use indicatif::HumanBytes;

use crate::config::Config;
use crate::gc::verify::{self, VerifyReport};
use crate::startup::Schema;

use super::progress::Bar;
use super::workplace::Workplace;
use super::{Outcome, output};

pub(super) const EXAMPLE: &str = "Example:\n  lobgate verify --report damage.json";

/// Findings shown on the terminal; the report has them all.
const SHOWN: usize = 20;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Write findings to this file as well, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let workplace = Workplace::open(config, Schema::Require).await?;
    let outcome = examine(&workplace, args.report).await;
    workplace.leave().await;
    outcome
}

async fn examine(workplace: &Workplace, path: Option<PathBuf>) -> anyhow::Result<Outcome> {
    let (_, bytes) = workplace.storage.content_totals().await?;
    let bar = Bar::bytes("verifying", bytes);
    let report = verify::verify(&workplace.storage, &bar).await;
    bar.finish();
    let report = report?;
    if let Some(path) = path {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(&path, text).with_context(|| format!("the report cannot be written to {}", path.display()))?;
    }
    tell(&report)?;
    Ok(if report.is_clean() { Outcome::Done } else { Outcome::ProblemsFound })
}

fn tell(report: &VerifyReport) -> anyhow::Result<()> {
    output::line(&format!("contents read: {} ({})", report.contents, HumanBytes(report.bytes)))?;
    if report.gone > 0 {
        output::line(&format!("removed meanwhile: {}", report.gone))?;
    }
    if report.foreign > 0 {
        output::line(&format!(
            "large objects of other roles without a row: {} (lobgate sweep report names them)",
            report.foreign
        ))?;
    }
    for finding in report.findings.iter().take(SHOWN) {
        output::line(&format!("problem: {finding}"))?;
    }
    if report.findings.len() > SHOWN {
        output::line(&format!("… and {} more: --report FILE has them all", report.findings.len() - SHOWN))?;
    }
    output::line(&format!("problems: {}", report.findings.len()))?;
    Ok(())
}
