//! `drill backends`: every session of the gateways is terminated at the server, again and again.
//!
//! It is what an operator's `pg_terminate_backend`, a failing pooler or an administrator's restart of sessions does: the
//! server rolls back what was under way, and the answer to a COMMIT may be lost with its session. An ordinary role may end
//! the sessions of its own role; the drill ends those on its scratch database.
//! Invariant: no session outside the scratch database is touched.

use std::time::{Duration, Instant};

use crate::bench::report::{Cell, Table, Unit};

use super::arena::Arena;
use super::{Course, seconds};

/// Between two blows: some requests get through, others don't.
const PAUSE_MS: std::ops::Range<u64> = 100..500;

/// Sessions of this role on this database, this one left out.
const TERMINATE: &str = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND backend_type = 'client backend'
      AND pid <> pg_backend_pid()";

/// Terminate all of the gateways' sessions at the server, again and again under load
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate drill backends --seconds 30 --clients 16")]
pub struct Args {
    /// How long sessions are terminated
    #[arg(long, value_name = "N", default_value = "10", value_parser = seconds)]
    pub(super) seconds: Duration,
}

pub(super) async fn inflict(args: &Args, arena: &Arena<'_>) -> anyhow::Result<Course> {
    arena.expect(args.seconds);
    arena.progress.doing("terminating sessions");
    let began = Instant::now();
    let (mut blows, mut ended) = (0_u64, 0_u64);
    while began.elapsed() < args.seconds {
        let session = arena.session().await?;
        ended += u64::try_from(session.query_one(TERMINATE, &[]).await?.get::<_, i64>(0))?;
        blows += 1;
        drop(session);
        arena.pass(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
    }
    let over = Instant::now();
    let tell = move |record: &super::record::Record, report: &mut crate::bench::report::Report| {
        let columns = [
            ("blows", "times", Unit::None),
            ("sessions", "sessions ended", Unit::None),
            ("recovered_ms", "first success after the last", Unit::Milliseconds),
        ];
        let mut table = Table::new("faults", "Sessions terminated", &columns);
        let recovered = super::record::figure(record.first_success_after(over).map(|done| done - over));
        table.row([Cell::from(blows), Cell::from(ended), recovered]);
        report.tables.push(table);
    };
    Ok(Course { began, over, faults: ended, tell: Box::new(tell) })
}
