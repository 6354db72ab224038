//! `lobgate drill`: breaks something on purpose and shows what came of it.
//!
//! Exit code 3 says that something acknowledged was lost, or that bytes are wrong or leaked. Without `--database-url` the
//! private server of `--data-dir` is drilled on, and made where there is none; only that one is ever killed.

use tokio_util::sync::CancellationToken;

use crate::bench::report::Report;
use crate::config::Config;
use crate::drills::{self, Command, Options, Server};

use super::reporting::{Shown, until_signalled};
use super::{Outcome, WrongUsage, database};

pub(super) const EXAMPLE: &str = "Examples:
  lobgate drill backends --seconds 30 --database-url postgres://lobgate:password@db.example.org/lobgate
  lobgate drill crash --rounds 5 --data-dir ./drill-data
  lobgate drill outage --html outage.html";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    shown: Shown,
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let url = config.database_url.as_ref().map(|url| url.expose().as_str());
    let checked = args.command.check(url).and_then(|()| args.shown.prepare());
    checked.map_err(|error| WrongUsage(format!("{error:#}")))?;
    let stop = CancellationToken::new();
    let report = until_signalled("drill", drill(&args, config, &stop), &stop).await?;
    args.shown.show(&report)?;
    Ok(args.shown.outcome(&report))
}

async fn drill(args: &Args, config: &Config, stop: &CancellationToken) -> anyhow::Result<Report> {
    let database = database::resolve_or_create(config).await?;
    let drilled = {
        let sole = database.sole();
        let server = Server { url: &database.url, own: sole.as_ref().map(|(cluster, _)| *cluster) };
        drills::run(&args.command, &args.options, config, &server, stop).await
    };
    database.release().await;
    drilled
}
