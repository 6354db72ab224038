//! `lobgate bench`: what this PostgreSQL server can do, measured by its user on the user's own machines.
//!
//! [`run`] makes a scratch, lets a command measure in it, removes it however that ended, and returns a [`Report`], which
//! `table`, `html` and `plot` show. One file per command: its arguments, and a `measure` that takes a `Lab` and gives a
//! report. `bare` has the operations they share, `measure` what is made of times, `noise` the bytes.
//!
//! To add a command: a file with `Args` (whose doc comment is the help) and `measure`, a variant of [`Command`], an arm in
//! `Command::measure`. One that drives something else than the database (endpoints, say) needs no scratch: it gets its
//! place in [`run`] before the scratch is made, and has reports, samples, rounds and progress all the same.
//!
//! This layer stands at the side, like `cli`: it may import what it measures, and nothing imports it but `cli` and `drills`.
//! `limit` alone has a gateway: the product's tables that it measures are in its scratch database.
//! Invariant: no command touches a table or a large object of the product.

mod anatomy;
mod bare;
mod chunks;
mod churn;
mod curves;
pub(crate) mod facts;
pub mod html;
pub(crate) mod lab;
pub(crate) mod limit;
mod list;
mod local_files;
pub(crate) mod measure;
mod noise;
pub mod plot;
mod pool;
mod readers;
pub mod report;
mod reput;
pub(crate) mod scratch;
pub(crate) mod sessions;
pub mod table;

use std::time::Instant;

use clap::Subcommand;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::db::{self, Target};
use crate::startup;

use lab::{Lab, Progress};
use report::Report;
use scratch::Scratch;

/// The questions that can be asked.
#[derive(Debug, Clone, Subcommand)]
#[allow(missing_docs, reason = "the help of a command stands at its arguments")]
pub enum Command {
    Curves(curves::Args),
    Chunks(chunks::Args),
    Anatomy(anatomy::Args),
    Reput(reput::Args),
    Readers(readers::Args),
    Churn(churn::Args),
    List(list::Args),
    Limit(Box<limit::Args>),
    /// Serves for `limit`, as long as that holds the other end of stdin; no measurement.
    #[command(hide = true)]
    Gateway,
}

impl Command {
    /// Rounds where their number isn't given.
    fn rounds(&self) -> u32 {
        match self {
            Self::Limit(args) if args.quick => 1,
            Self::Limit(_) => 5,
            _ => 3,
        }
    }

    /// Looks at the arguments alone, before anything is started for them.
    ///
    /// # Errors
    /// One sentence that names the argument and what it may be.
    pub fn check(&self) -> anyhow::Result<()> {
        match self {
            Self::Curves(args) => args.check(),
            Self::Chunks(args) => args.check(),
            Self::Anatomy(args) => args.check(),
            Self::Reput(args) => args.check(),
            Self::Readers(args) => args.check(),
            Self::Churn(args) => args.check(),
            Self::Limit(args) => args.check(),
            Self::List(_) | Self::Gateway => Ok(()),
        }
    }

    async fn measure(&self, lab: &Lab<'_>) -> anyhow::Result<Report> {
        match self {
            Self::Curves(args) => curves::measure(args, lab).await,
            Self::Chunks(args) => chunks::measure(args, lab).await,
            Self::Anatomy(args) => anatomy::measure(args, lab).await,
            Self::Reput(args) => reput::measure(args, lab).await,
            Self::Readers(args) => readers::measure(args, lab).await,
            Self::Churn(args) => churn::measure(args, lab).await,
            Self::List(args) => list::measure(args, lab).await,
            Self::Limit(args) => limit::measure(args, lab).await,
            Self::Gateway => anyhow::bail!("it measures nothing"),
        }
    }
}

/// What all commands take.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// How often everything is measured; the figures are medians. 5 times for limit, else 3 if not given
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
}

/// Measures on the database behind a URL, until `stop` is cancelled.
///
/// # Errors
/// One sentence: the database is not fit, a statement failed, or it was stopped. The scratch is removed in any case, or
/// the sentence, or the report's last shortfall, says that it could not be.
pub async fn run(
    command: &Command,
    options: &Options,
    config: &Config,
    url: &str,
    stop: &CancellationToken,
) -> anyhow::Result<Report> {
    let target = Target::parse(url)?;
    let facts =
        db::probe(&target, startup::pooler(config), db::Standbys::Refused, config.database.connect_timeout).await?;
    anyhow::ensure!(
        !facts.pooled,
        "a transaction pooler stands before the database, and would be measured along with it: name the server itself in --database-url"
    );
    let scratch = Scratch::create(&target, &facts).await?;
    let lab = Lab {
        config,
        rounds: options.rounds.unwrap_or_else(|| command.rounds()),
        progress: Progress::new(),
        url,
        scratch: &scratch,
        sessions: scratch.sessions(),
    };
    // Dropped where it is stopped: its sessions close, and what they had under way rolls back.
    let measured = stop.run_until_cancelled(take(command, &lab)).await;
    lab.progress.finish();
    let removed = scratch.remove().await;
    match (measured, removed) {
        (Some(report), Ok(())) => report,
        (None, Ok(())) => Err(anyhow::anyhow!("stopped before the end; nothing is left on the server")),
        // What was measured may have taken hours.
        (Some(Ok(mut report)), Err(left)) => {
            report.shortfalls.push(format!("{left:#}"));
            Ok(report)
        }
        (None, Err(left)) => Err(left),
        // The first failure explains the second, but a rest on the server must not go unsaid.
        (Some(Err(error)), Err(left)) => Err(error.context(format!("{left:#}"))),
    }
}

async fn take(command: &Command, lab: &Lab<'_>) -> anyhow::Result<Report> {
    let started = Instant::now();
    let mut report = command.measure(lab).await?;
    report.seconds = started.elapsed().as_secs_f64();
    report.facts.extend(facts::gather(&lab.connect().await?).await?);
    report.fact("scratch", lab.scratch.describe());
    Ok(report)
}
