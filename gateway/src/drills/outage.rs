//! `drill outage`: the database cannot be reached for a while, then it is back.
//!
//! The gateways reach it through a relay of ours, which is shut: connections are cut, new ones refused. The server itself
//! is left alone, and so is whoever else uses it. What is looked for: requests are refused (503) soon instead of piling up,
//! and the first success comes soon after the database is back.

use std::time::{Duration, Instant};

use crate::bench::measure::milliseconds;
use crate::bench::report::{Cell, Report, Table, Unit};

use super::arena::Arena;
use super::proxy::Proxy;
use super::record::{Record, figure};
use super::{Course, seconds};

/// Cut the gateways off from the database for a while, then let them reach it again
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate drill outage --seconds 60 --json")]
pub struct Args {
    /// How long the database cannot be reached
    #[arg(long, value_name = "N", default_value = "10", value_parser = seconds)]
    pub(super) seconds: Duration,
}

pub(super) async fn inflict(args: &Args, arena: &Arena<'_>, proxy: &Proxy) -> anyhow::Result<Course> {
    arena.expect(args.seconds);
    arena.progress.doing("no database");
    let began = Instant::now();
    proxy.shut();
    arena.pass(args.seconds).await;
    proxy.reopen();
    let over = Instant::now();
    let tell = move |record: &Record, report: &mut Report| {
        let columns = [
            ("seconds", "seconds", Unit::None),
            ("refused", "begun in it and refused (503)", Unit::None),
            ("refusal_p50_ms", "refused after, p50", Unit::Milliseconds),
            ("refusal_p99_ms", "p99", Unit::Milliseconds),
            ("refusal_longest_ms", "longest", Unit::Milliseconds),
            ("recovered_ms", "first success after it", Unit::Milliseconds),
        ];
        let mut table = Table::new("faults", "Without a database", &columns);
        let refusals = record.refusals(&(began..over));
        let recovered = record.first_success_after(over).map(|done| done - over);
        table.row([
            Cell::from((over - began).as_secs_f64()),
            Cell::from(refusals.len() as u64),
            Cell::from(refusals.p50()),
            Cell::from(refusals.p99()),
            Cell::from(refusals.percentile(100)),
            figure(recovered),
        ]);
        report.tables.push(table);
        if let (Some(refused), Some(back)) = (refusals.p99(), recovered) {
            report.finding(format!(
                "Without a database 99 of 100 refusals came within {refused:.0} ms; {:.0} ms after it was back the first \
                 request succeeded.",
                milliseconds(back)
            ));
        }
    };
    Ok(Course { began, over, faults: 1, tell: Box::new(tell) })
}
