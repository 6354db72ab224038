//! `lobgate drill`: things are broken on purpose, on the operator's own server, to see what the gateway makes of it.
//!
//! [`run`] makes a scratch database as `bench` does, starts gateways on it (`arena`), sets clients to work (`client`), lets a
//! drill break something (`backends`, `crash`, `outage`), and looks at what is left (`audit`). Each client knows what it was
//! told (`ledger`), bodies prove themselves (`body`), so every answer and every byte is checked. `record` and `verdict` make
//! the report.
//!
//! To add a drill: a file with `Args` (whose doc comment is the help) and `inflict`, which gives a [`Course`]; a variant of
//! [`Command`] and an arm in `inflict` below.
//!
//! This layer stands at the side, like `bench`, whose scratch, reports and gateways it uses; nothing imports it but `cli`.
//! Invariant: nothing outside the scratch database is broken, save a private server that this very command runs.

mod arena;
mod audit;
mod backends;
mod body;
mod client;
mod crash;
mod detour;
mod ledger;
mod outage;
mod proxy;
mod record;
mod sender;
mod verdict;

use std::time::{Duration, Instant};

use clap::Subcommand;
use tokio_util::sync::CancellationToken;

use crate::bench::limit::gateway::on_database;
use crate::bench::report::Report;
use crate::bench::scratch::Scratch;
use crate::bench::{facts, sessions};
use crate::config::Config;
use crate::db::{self, ServerFacts, Target};
use crate::embedded::EmbeddedCluster;
use crate::startup;

use arena::Arena;
use proxy::Proxy;
use record::{Record, Times};
use verdict::Findings;

/// Load before the faults and after them: a part of their time, within bounds.
const CALM_PART: u32 = 3;
const CALM: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// What can be broken.
#[derive(Debug, Clone, Subcommand)]
#[allow(missing_docs, reason = "the help of a command stands at its arguments")]
pub enum Command {
    Backends(backends::Args),
    Crash(crash::Args),
    Outage(outage::Args),
}

/// What all drills take.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Clients at work at the same time
    #[arg(long, global = true, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=i64::from(client::CLIENTS_MAX)))]
    pub clients: u16,
    /// Gateways that they use
    #[arg(long, global = true, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub gateways: u8,
}

/// The server to drill on.
#[derive(Debug)]
pub struct Server<'a> {
    /// URL of its database; may hold a password.
    pub url: &'a str,
    /// It, where this process runs it and nobody else uses it.
    pub own: Option<&'a EmbeddedCluster>,
}

/// What a drill did.
struct Course {
    /// The first fault.
    began: Instant,
    /// The end of the last.
    over: Instant,
    /// How many there were.
    faults: u64,
    /// Adds what only this drill can tell.
    tell: Tell,
}

/// Adds to a report what a drill has seen.
type Tell = Box<dyn FnOnce(&Record, &mut Report) + Send>;

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Self::Backends(_) => "backends",
            Self::Crash(_) => "crash",
            Self::Outage(_) => "outage",
        }
    }

    fn title(&self) -> (&'static str, &'static str) {
        match self {
            Self::Backends(_) => {
                ("Sessions terminated", "What do clients see when the server ends every session, and is anything lost?")
            }
            Self::Crash(_) => ("Crashes", "What survives kill -9, and how soon is it back?"),
            Self::Outage(_) => ("An outage", "What do clients see without a database, and how soon is it over?"),
        }
    }

    fn calm(&self) -> Duration {
        let faults = match self {
            Self::Backends(args) => args.seconds,
            Self::Outage(args) => args.seconds,
            Self::Crash(args) => Duration::from_secs(3) * args.rounds,
        };
        (faults / CALM_PART).clamp(CALM.0, CALM.1)
    }

    async fn inflict(
        &self,
        arena: &mut Arena<'_>,
        server: &Server<'_>,
        proxy: Option<&Proxy>,
    ) -> anyhow::Result<Course> {
        match (self, proxy) {
            (Self::Backends(args), _) => backends::inflict(args, arena).await,
            (Self::Crash(args), _) => crash::inflict(args, arena, server.own).await,
            (Self::Outage(args), Some(proxy)) => outage::inflict(args, arena, proxy).await,
            (Self::Outage(_), None) => anyhow::bail!("an outage needs a relay"),
        }
    }

    /// Looks at the arguments and the database's URL, before anything is started for them.
    ///
    /// # Errors
    /// One sentence that says what can't be meant.
    pub fn check(&self, url: Option<&str>) -> anyhow::Result<()> {
        match (self, url) {
            (Self::Outage(_), Some(url)) => detour::origin(url).map(drop),
            _ => Ok(()),
        }
    }
}

/// Breaks things on the server behind a URL, until `stop` is cancelled.
///
/// # Errors
/// One sentence: the database is not fit, a gateway did not serve, or it was stopped. The scratch is removed in any case, or
/// the sentence, or the report's last shortfall, says that it could not be.
pub async fn run(
    command: &Command,
    options: &Options,
    config: &Config,
    server: &Server<'_>,
    stop: &CancellationToken,
) -> anyhow::Result<Report> {
    let target = Target::parse(server.url)?;
    let timeout = config.database.connect_timeout;
    let facts = db::probe(&target, startup::pooler(config), db::Standbys::Refused, timeout).await?;
    anyhow::ensure!(
        !facts.pooled,
        "a transaction pooler stands before the database, and its sessions are not the gateways': name the server itself in --database-url"
    );
    let scratch = Scratch::create(&target, &facts).await?;
    // Dropped where it is stopped: clients and gateways end, and what they had under way rolls back.
    let drilled = stop.run_until_cancelled(rehearse(command, options, config, server, &scratch, &facts)).await;
    let removed = scratch.remove().await;
    match (drilled, removed) {
        (Some(report), Ok(())) => report,
        (None, Ok(())) => Err(anyhow::anyhow!("stopped before the end; nothing is left on the server")),
        (Some(Ok(mut report)), Err(left)) => {
            report.shortfalls.push(format!("{left:#}"));
            Ok(report)
        }
        (None, Err(left)) => Err(left),
        (Some(Err(error)), Err(left)) => Err(error.context(format!("{left:#}"))),
    }
}

async fn rehearse(
    command: &Command,
    options: &Options,
    config: &Config,
    server: &Server<'_>,
    scratch: &Scratch,
    facts: &ServerFacts,
) -> anyhow::Result<Report> {
    let started = Instant::now();
    let url = on_database(server.url, scratch.database()?);
    let (mut proxy, mut through) = (None, url.clone());
    if matches!(command, Command::Outage(_)) {
        let origin = detour::origin(&url)?;
        let relay = Proxy::start(origin.upstream.clone()).await?;
        through = detour::by_way_of(&url, &origin, relay.port());
        proxy = Some(relay);
    }
    let mut arena = Arena::new(
        arena::settings(config, matches!(command, Command::Crash(_))),
        scratch,
        (url, through),
        usize::from(options.gateways),
    );
    let outcome = drill(command, options, server, &mut arena, proxy.as_ref()).await;
    arena.progress.finish();
    let mut report = outcome?;
    report.seconds = started.elapsed().as_secs_f64();
    let session = sessions::connect(&Target::parse(&arena.url)?, facts, "lobgate_drill").await?;
    report.facts.extend(facts::gather(&session).await?);
    report.fact("scratch", arena.scratch.describe());
    Ok(report)
}

/// Load, faults, load, and a look at what is left.
async fn drill(
    command: &Command,
    options: &Options,
    server: &Server<'_>,
    arena: &mut Arena<'_>,
    proxy: Option<&Proxy>,
) -> anyhow::Result<Report> {
    let calm = command.calm();
    arena.expect(calm * 2);
    arena.progress.doing("starting the gateways");
    arena.start().await?;
    arena.create_bucket().await?;
    let wal = arena.wal_written().await?;
    let begun = Instant::now();
    let load = arena.load(options.clients);
    arena.progress.doing("load before the faults");
    arena.pass(calm).await;
    let course = command.inflict(arena, server, proxy).await?;
    arena.progress.doing("load after the faults");
    arena.pass(calm).await;
    let end = Instant::now();
    let (record, ledgers) = load.finish().await?;
    let wal = arena.wal_written().await?.saturating_sub(wal);
    arena.progress.doing("reading everything back");
    let keys = audit::read_back(arena, ledgers).await;
    arena.progress.doing("looking at the store from within");
    let inside = audit::look_inside(arena).await?;
    let (title, question) = command.title();
    let mut report = Report::new(command.name(), title, question);
    for sentence in arena.describe() {
        report.method(sentence);
    }
    let times = Times { load: begun..end, faults: course.began..course.over };
    report.fact("load", format!("{} clients, {}", options.clients, verdict::pace(&record, &times)));
    Findings { record: &record, keys: &keys, inside: &inside, times: &times, wal }.report(&mut report, course);
    Ok(report)
}

/// A number of seconds, as an argument.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.5..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write a number of seconds from 0.5 to 3600".to_owned())
}
