//! `bench limit`: how near the gateway comes to the database beneath it, and how far it is ahead of others.
//!
//! The HTTP path of a gateway (this binary, started as a process on the scratch database) is set against the driver's bare
//! calls on the same server and against other endpoints, in turns. A row is a question, a bar is the ratio that is
//! promised for it. `rows` names them; each group has a file. `load` sends requests, `connection`, `http` and `presign` are
//! what it sends with, `bars` judges.
//! `drills` has its gateways and requests from here too.
//! Invariant: an endpoint that gives wrong bytes or refuses a request has no figure.

mod bars;
pub(crate) mod connection;
mod constant;
pub(crate) mod endpoint;
mod fill;
pub(crate) mod gateway;
mod growth;
pub(crate) mod http;
mod large_get;
mod large_put;
mod list;
mod load;
pub(crate) mod presign;
mod process;
mod rows;
mod small;
mod stage;

use std::path::PathBuf;

use crate::config::{format_size, parse_size};

use super::lab::Lab;
use super::report::Report;

use endpoint::Peer;
use stage::Stage;

/// Smallest size of the large objects: above any that lies inline.
const LARGE_MIN: u64 = 2 << 20;

/// The HTTP path against bare driver calls and against other endpoints: ratios, and whether they reach their bars
///
/// Starts this gateway on a scratch database and measures it, the bare server and each --peer in turns. Ends with exit code
/// 3 if a bar is missed. Bars refer to peers named s3s-fs and garage and to a static server named nginx; those that were not
/// given are not measured.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  lobgate bench limit --only get-4k,put-4k,list
  lobgate bench limit --peer garage=http://127.0.0.1:3900,GK…,SECRET,garage --rounds 3")]
pub struct Args {
    /// Another S3 endpoint
    #[arg(long = "peer", value_name = "NAME=URL,ACCESS,SECRET[,REGION]", value_parser = Peer::parse)]
    peers: Vec<Peer>,
    /// A server of files; they are written into --static-dir
    #[arg(long = "static", value_name = "NAME=URL", value_parser = parse_static, requires = "static_dir")]
    statics: Vec<(String, String)>,
    /// The directory that it shows
    #[arg(long, value_name = "DIR", requires = "statics")]
    static_dir: Option<PathBuf>,
    /// Only these rows, or those that begin with such a word
    #[arg(long, value_name = "ROW,…", value_delimiter = ',', value_parser = parse_word)]
    only: Vec<String>,
    /// How long each measurement takes
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Size of the large objects
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    large: u64,
    /// Size of the object that is stored in one stream
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    huge: u64,
    /// Keys in the bucket that is listed
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    rows: u32,
    /// Objects that growth is measured up to
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    objects: u32,
    /// Parts of the upload that is completed
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    parts: u16,
    /// Uploads, and downloads, at once while memory is measured
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=500))]
    streams: u16,
    /// Size of each of them
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    stream_size: u64,
    /// Everything small and short, in one round, to see that it works: no bar is judged by it
    #[arg(long)]
    pub(super) quick: bool,
}

fn parse_static(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, url)| !name.is_empty() && url.starts_with("http://"));
    parts.map(|(name, url)| (name.to_owned(), url.to_owned())).ok_or_else(|| "write NAME=http://HOST:PORT".to_owned())
}

/// A word, without the blanks around it.
fn parse_word(text: &str) -> Result<String, String> {
    let word = text.trim();
    if word.is_empty() { Err("a row is expected, get-4k for example".into()) } else { Ok(word.to_owned()) }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "write a number of seconds from 0.05 to 3600".to_owned())
}

impl Args {
    /// See [`super::Command::check`].
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.settled().map(drop)
    }

    /// With `--quick`, whatever is larger made small.
    fn settled(&self) -> anyhow::Result<Self> {
        let mut args = self.clone();
        if args.quick {
            args.seconds = args.seconds.min(0.2);
            args.large = args.large.min(4 << 20);
            args.huge = args.huge.min(20 << 20);
            (args.rows, args.objects) = (args.rows.min(5000), args.objects.min(20_000));
            (args.parts, args.streams) = (args.parts.min(50), args.streams.min(4));
            args.stream_size = args.stream_size.min(24 << 20);
        }
        anyhow::ensure!(args.large >= LARGE_MIN, "--large must be at least {}", format_size(LARGE_MIN));
        anyhow::ensure!((1..=1 << 40).contains(&args.huge), "--huge must be from 1 byte to 1TiB");
        anyhow::ensure!(args.large <= 1 << 30, "--large must be at most 1GiB");
        anyhow::ensure!(args.stream_size > 0, "--stream-size must not be 0");
        rows::check(&args.only)?;
        Ok(args)
    }
}

pub(super) async fn measure(args: &Args, lab: &Lab<'_>) -> anyhow::Result<Report> {
    let args = args.settled()?;
    lab.scratch.database()?;
    let durable = durable(lab).await?;
    let stage = Stage::set(&args, lab).await?;
    let lines = rows::measure(&stage).await;
    let left = stage.strike().await;
    let mut report = Report::new(
        "limit",
        "The limit",
        "How near does the gateway come to the database beneath it, and how far is it ahead of others?",
    );
    bars::report(&mut report, &lines);
    if args.quick {
        report.shortfalls.retain(|shortfall| shortfall.contains(" failed: ") || shortfall.starts_with("no bar"));
    }
    if let Err(error) = durable {
        report.findings.insert(0, format!("NOT DURABLE: {error}"));
        report.shortfalls.insert(0, error.to_string());
    }
    for sentence in left {
        report.finding(sentence);
    }
    rows::explain(&mut report, &args, lab);
    if args.quick {
        report.finding("--quick: everything was small and short; the figures say little, and no bar is judged by them");
    }
    Ok(report)
}

/// What was written is on the disk when it is answered, or why not.
async fn durable(lab: &Lab<'_>) -> anyhow::Result<anyhow::Result<()>> {
    let client = lab.connect().await?;
    let row = client.query_one("SELECT current_setting('fsync'), current_setting('synchronous_commit')", &[]).await?;
    let (fsync, commit): (String, String) = (row.get(0), row.get(1));
    let on = fsync == "on" && commit != "off";
    Ok(if on {
        Ok(())
    } else {
        Err(anyhow::anyhow!(
            "the server runs with fsync {fsync} and synchronous_commit {commit}: no figure of a write counts"
        ))
    })
}
