//! `lobgate bench`: runs a measurement and shows its report.
//!
//! Results go to standard output as tables or, with `--json`, as JSON; `--html` and `--svg` write files besides. The first
//! signal ends the measurement and cleans up; a second one ends at once, and the next bench cleans up.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, raise};
use tokio_util::sync::CancellationToken;

use crate::bench::report::Report;
use crate::bench::{self, Command, Options, plot};
use crate::config::Config;

use super::reporting::{Shown, until_signalled, write};
use super::{Outcome, WrongUsage, database, serve};

pub(super) const EXAMPLE: &str = "Examples:
  lobgate bench curves --html curves.html
  lobgate bench readers --json --database-url postgres://lobgate:password@db.example.org/lobgate";

/// Time for an orderly end once the bench is gone.
const ORDERLY: Duration = Duration::from_secs(20);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    shown: Shown,
    /// Write the plots to this directory as well, as NAME-PLOT.svg
    #[arg(long, global = true, value_name = "DIR")]
    svg: Option<PathBuf>,
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    if matches!(args.command, Command::Gateway) {
        end_with_stdin();
        return serve::run(config.clone()).await;
    }
    let checked = args.command.check().and_then(|()| prepare(&args));
    checked.map_err(|error| WrongUsage(format!("{error:#}")))?;
    let stop = CancellationToken::new();
    let report = until_signalled("bench", measure(&args, config, &stop), &stop).await?;
    show(&args, &report)?;
    Ok(args.shown.outcome(&report))
}

/// Stops this process when the one that holds the other end of its stdin ends, however it does.
fn end_with_stdin() {
    std::thread::spawn(|| {
        // An end that can't be read is one too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = raise(Signal::SIGTERM);
        std::thread::sleep(ORDERLY);
        let _ = raise(Signal::SIGKILL);
    });
}

async fn measure(args: &Args, config: &Config, stop: &CancellationToken) -> anyhow::Result<Report> {
    let database = database::resolve_or_create(config).await?;
    let measured = bench::run(&args.command, &args.options, config, &database.url, stop).await;
    database.release().await;
    measured
}

/// Sees that the files can be written, before anything is measured.
fn prepare(args: &Args) -> anyhow::Result<()> {
    args.shown.prepare()?;
    if let Some(directory) = &args.svg {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("--svg: the directory {} cannot be made", directory.display()))?;
    }
    Ok(())
}

fn show(args: &Args, report: &Report) -> anyhow::Result<()> {
    args.shown.show(report)?;
    if let Some(directory) = &args.svg {
        for drawn in &report.plots {
            write(&directory.join(format!("{}-{}.svg", report.name, drawn.id)), &plot::svg(drawn)?)?;
        }
    }
    Ok(())
}
