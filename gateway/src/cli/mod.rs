//! The command line: which commands there are, and what they tell their caller.
//!
//! Every command takes the same settings flags; with no command, lobgate serves. Each lives in its own file and
//! returns an [`Outcome`]. Errors are one line on standard error; results go to standard output.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed |
//! | 2 | wrong usage or configuration |
//! | 3 | done, and problems were found (`verify`, `sweep report`, `bench limit`, `drill`) |
//!
//! Invariant: no command ends the process itself; every guard is dropped before the exit code is returned.

mod bench;
mod check_config;
pub mod database;
mod drill;
mod gc;
mod group;
mod iam;
mod key;
mod migrate;
mod output;
mod policy;
mod progress;
mod reporting;
mod serve;
mod signals;
mod sweep;
mod user;
mod verify;
mod workplace;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::config::{Config, ConfigError, ConfigFlags};
use crate::failpoints;

/// How long background work may take to end once a command is done.
const WIND_DOWN: Duration = Duration::from_secs(5);

/// An S3 endpoint whose only store is a PostgreSQL server
#[derive(Debug, Parser)]
#[command(name = "lobgate", version, after_help = "Example:\n  lobgate serve --data-dir ./lobgate-data")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    flags: ConfigFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve S3 requests (what lobgate does without a command)
    #[command(after_help = serve::EXAMPLE)]
    Serve,
    /// Check the configuration and print the settings in effect
    #[command(after_help = check_config::EXAMPLE)]
    CheckConfig,
    /// Show or update the database schema
    #[command(after_help = migrate::EXAMPLE)]
    Migrate(migrate::Args),
    /// Find large objects that no row owns, and remove those a report names
    #[command(after_help = sweep::EXAMPLE)]
    Sweep(sweep::Args),
    /// Read every stored byte and compare it with its digest
    #[command(after_help = verify::EXAMPLE)]
    Verify(verify::Args),
    /// Show or run the removal of deleted content
    #[command(after_help = gc::EXAMPLE)]
    Gc(gc::Args),
    /// Create, list and delete users
    #[command(after_help = user::EXAMPLE)]
    User(user::Args),
    /// Create, list, disable and delete access keys of users
    #[command(after_help = key::EXAMPLE)]
    Key(key::Args),
    /// Put users into groups
    #[command(after_help = group::EXAMPLE)]
    Group(group::Args),
    /// Say what users and groups may do
    #[command(after_help = policy::EXAMPLE)]
    Policy(policy::Args),
    /// Measure what the database server can do, without touching anything that is stored
    #[command(after_help = bench::EXAMPLE)]
    Bench(bench::Args),
    /// Break things on purpose in a scratch database under load, and check that nothing acknowledged is lost
    #[command(after_help = drill::EXAMPLE)]
    Drill(drill::Args),
}

/// An argument that cannot be meant, found before anything was done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct WrongUsage(String);

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is fine.
    Done,
    /// It did its work and found something that needs looking at.
    ProblemsFound,
}

/// Reads the command line, runs the command and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed terminal is no reason for another exit code.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let _armed = failpoints::arm();
    match execute(cli) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::ProblemsFound) => ExitCode::from(3),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "lobgate: {error:#}");
            let wrong_usage = error.is::<ConfigError>() || error.is::<WrongUsage>();
            ExitCode::from(if wrong_usage { 2 } else { 1 })
        }
    }
}

fn execute(cli: Cli) -> anyhow::Result<Outcome> {
    let config = Config::load(&cli.flags)?;
    let command = cli.command.unwrap_or(Command::Serve);
    if matches!(command, Command::CheckConfig) {
        return check_config::run(&config);
    }
    crate::telemetry::init(&config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Serve => serve::run(config).await,
            Command::CheckConfig => check_config::run(&config),
            Command::Migrate(args) => migrate::run(args, &config).await,
            Command::Sweep(args) => sweep::run(args, &config).await,
            Command::Verify(args) => verify::run(args, &config).await,
            Command::Gc(args) => gc::run(args, &config).await,
            Command::User(args) => user::run(args, &config).await,
            Command::Key(args) => key::run(args, &config).await,
            Command::Group(args) => group::run(args, &config).await,
            Command::Policy(args) => policy::run(args, &config).await,
            Command::Bench(args) => bench::run(args, &config).await,
            Command::Drill(args) => drill::run(args, &config).await,
        }
    });
    runtime.shutdown_timeout(WIND_DOWN);
    outcome
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_are_taken_before_and_after_the_command() {
        for line in [
            vec!["lobgate", "--listen", "127.0.0.1:0"],
            vec!["lobgate", "serve", "--listen", "127.0.0.1:0"],
            vec!["lobgate", "--listen", "127.0.0.1:0", "check-config"],
        ] {
            let cli = Cli::try_parse_from(line).expect("valid");
            assert_eq!(cli.flags.listen.as_deref(), Some("127.0.0.1:0"));
        }
    }

    #[test]
    fn every_help_is_short_and_has_an_example() {
        for command in Cli::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example") && help.lines().count() < 40, "{help}");
        }
    }
}
