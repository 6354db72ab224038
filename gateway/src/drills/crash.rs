//! `drill crash`: the gateways are killed with SIGKILL under load and started again, and so is the server, if it is ours.
//!
//! Ours is the private server of `--data-dir`, as long as this command runs it and nobody else uses it: then its postmaster
//! is killed as well, and the supervisor that keeps it running starts it again and waits for its recovery. Another server
//! is never touched, and the report says so.
//!
//! How long a recovery takes is decided by the WAL since the last checkpoint, and that by WAL per stored byte: so both are
//! measured.

use std::time::{Duration, Instant};

use crate::bench::report::{Cell, Report, Table, Unit};
use crate::embedded::EmbeddedCluster;

use super::Course;
use super::arena::Arena;
use super::record::{Record, figure};

/// Load before each crash.
const LOAD: Duration = Duration::from_secs(1);
/// Load between the crash of the gateways and that of the server.
const BETWEEN: Duration = Duration::from_millis(500);

/// What a recovery would have to read now.
const TO_REPLAY: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn)::bigint FROM pg_control_checkpoint()";

/// Kill the gateways, and a private server, under load and start them again
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate drill crash --rounds 10 --data-dir ./drill-data")]
pub struct Args {
    /// How often everything is killed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
}

/// One round.
struct Round {
    gateways_killed: u64,
    /// All of them were dead.
    killed_at: Instant,
    gateways_ready: Duration,
    server: Option<ServerCrash>,
}

struct ServerCrash {
    killed_at: Instant,
    /// WAL that had to be replayed, where the role may know.
    to_replay: Option<u64>,
    ready: Duration,
}

impl ServerCrash {
    /// From the kill until something succeeded again. Sessions may outlive their postmaster for a moment, and what they
    /// still answer is no recovery.
    fn recovered(&self, record: &Record) -> Option<Duration> {
        Some(record.first_success_after(self.killed_at + self.ready)? - self.killed_at)
    }
}

pub(super) async fn inflict(
    args: &Args,
    arena: &mut Arena<'_>,
    cluster: Option<&EmbeddedCluster>,
) -> anyhow::Result<Course> {
    let rounds = args.rounds;
    arena.expect(LOAD * rounds + cluster.map_or(Duration::ZERO, |_| BETWEEN * rounds));
    let began = Instant::now();
    let mut done = Vec::new();
    for round in 1..=rounds {
        arena.progress.doing(format!("round {round} of {rounds}"));
        arena.pass(LOAD).await;
        let gateways_killed = arena.kill().await?;
        let killed_at = Instant::now();
        let gateways_ready = arena.start().await?;
        let mut server = None;
        if let Some(cluster) = cluster {
            arena.pass(BETWEEN).await;
            server = Some(crash_server(arena, cluster).await?);
        }
        done.push(Round { gateways_killed, killed_at, gateways_ready, server });
    }
    let over = Instant::now();
    let servers = done.iter().filter(|round| round.server.is_some()).count() as u64;
    let faults = servers + done.iter().map(|round| round.gateways_killed).sum::<u64>();
    let tell = move |record: &Record, report: &mut Report| {
        report.tables.push(table(&done, record));
        if servers == 0 {
            report.finding("Only gateways were killed: a server that isn't this command's own is never touched.");
        }
    };
    Ok(Course { began, over, faults, tell: Box::new(tell) })
}

/// Kills the server and waits until it takes sessions again.
async fn crash_server(arena: &Arena<'_>, cluster: &EmbeddedCluster) -> anyhow::Result<ServerCrash> {
    let session = arena.session().await?;
    let to_replay = session.query_one(TO_REPLAY, &[]).await.ok().map(|row| row.get::<_, i64>(0));
    let killed_at = Instant::now();
    cluster.crash().await?;
    arena.session().await?;
    let to_replay = to_replay.and_then(|bytes| u64::try_from(bytes).ok());
    Ok(ServerCrash { killed_at, to_replay, ready: killed_at.elapsed() })
}

fn table(rounds: &[Round], record: &Record) -> Table {
    let (none, ms) = (Unit::None, Unit::Milliseconds);
    let mut table = Table::new(
        "faults",
        "Killed and started again",
        &[
            ("round", "round", none),
            ("gateways", "gateways killed", none),
            ("gateways_ready_ms", "all ready after", ms),
            ("success_ms", "first success after", ms),
            ("servers", "servers killed", none),
            ("replayed_bytes", "WAL to replay", Unit::Bytes),
            ("server_ready_ms", "ready after", ms),
            ("server_success_ms", "first success after", ms),
        ],
    );
    for (round, number) in rounds.iter().zip(1_u64..) {
        let server = round.server.as_ref();
        table.row([
            Cell::from(number),
            Cell::from(round.gateways_killed),
            figure(Some(round.gateways_ready)),
            figure(record.first_success_begun_after(round.killed_at)),
            Cell::from(u64::from(server.is_some())),
            Cell::from(server.and_then(|crash| crash.to_replay)),
            figure(server.map(|crash| crash.ready)),
            figure(server.and_then(|crash| crash.recovered(record))),
        ]);
    }
    table
}
