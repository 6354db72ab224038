//! `lobgate bench`: runs a measurement and shows its report.
//!
//! Results go to standard output as tables or, with `--json`, as JSON; `--html` and `--svg` write files besides. The first
//! signal ends the measurement and cleans up; a second one ends at once, and the next bench cleans up.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, raise};
use tokio_util::sync::CancellationToken;

use crate::bench::report::Report;
use crate::bench::{self, Command, Options, html, plot, table};
use crate::config::Config;

use super::signals::StopSignals;
use super::{Outcome, WrongUsage, database, output, serve};

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
    /// Print the report as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Write the report with its plots to this HTML file as well
    #[arg(long, global = true, value_name = "FILE")]
    html: Option<PathBuf>,
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
    let mut signals = StopSignals::install()?;
    let stop = CancellationToken::new();
    let mut measuring = std::pin::pin!(measure(&args, config, &stop));
    let report = loop {
        tokio::select! {
            ended = &mut measuring => break ended?,
            signal = signals.next() => {
                if stop.is_cancelled() {
                    anyhow::bail!("stopped at once by a second signal ({signal}); the next lobgate bench cleans up");
                }
                tracing::info!(signal, "cleaning up; a second signal stops at once");
                stop.cancel();
            }
        }
    };
    show(&args, &report)?;
    // The table says it too.
    for shortfall in report.shortfalls.iter().filter(|_| args.json) {
        tracing::error!("{shortfall}");
    }
    Ok(if report.shortfalls.is_empty() { Outcome::Done } else { Outcome::ProblemsFound })
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
    if let Some(path) = &args.html {
        let there = path.exists();
        let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
        opened.with_context(|| format!("--html {} cannot be written", path.display()))?;
        if !there {
            // A bench that is stopped leaves no empty report.
            let _ = std::fs::remove_file(path);
        }
    }
    if let Some(directory) = &args.svg {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("--svg: the directory {} cannot be made", directory.display()))?;
    }
    Ok(())
}

fn show(args: &Args, report: &Report) -> anyhow::Result<()> {
    // First, whatever happens to the files.
    let text = if args.json { serde_json::to_string_pretty(report)? } else { table::text(report) };
    output::line(&text)?;
    if let Some(path) = &args.html {
        write(path, &html::page(report)?)?;
    }
    if let Some(directory) = &args.svg {
        for drawn in &report.plots {
            write(&directory.join(format!("{}-{}.svg", report.name, drawn.id)), &plot::svg(drawn)?)?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
