//! `bench churn`: where the space goes when objects come and go.
//!
//! A large object is `ceil(size / 2048)` rows of `pg_largeobject`. Unlinking makes them dead, VACUUM makes their room free,
//! new large objects fill it; the file itself does not shrink. The companion table says how many rows are alive, the
//! server's statistics how many are dead, the relation's size how much of what was written needed new room.

use tokio_postgres::Client;

use crate::config::{format_size, parse_size};

use super::bare::Bare;
use super::lab::Lab;
use super::measure::{Samples, Series, milliseconds, timed};
use super::report::{Axis, Cell, Plot, Report, Shape, Table, Unit};

const LIVE: &str = "SELECT coalesce(sum(ceil(size / 2048.0)), 0)::bigint, coalesce(sum(size), 0)::bigint FROM object";
const DEAD: &str = "SELECT n_dead_tup FROM pg_stat_all_tables WHERE relid = 'pg_largeobject'::regclass";
const SIZES: &str = "SELECT pg_relation_size('pg_largeobject'), pg_indexes_size('pg_largeobject')";
/// Makes the session's statistics visible at once; the function came with version 15.
const FLUSH: &str = "SELECT pg_stat_force_next_flush()";
const HAS_FLUSH: &str = "SELECT EXISTS (SELECT FROM pg_proc WHERE proname = 'pg_stat_force_next_flush')";

/// Putting and deleting over and over: is space reused, and is it given back?
///
/// In every cycle --objects objects of --size are put and those of the cycle before are deleted, then pg_largeobject is
/// vacuumed (not with --no-vacuum: then it is left to autovacuum). At last everything is deleted. Shows pages alive, dead and
/// reused and the size of the relation after each cycle: space is reused, and never returned to the file system.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate bench churn --cycles 20 --size 16MiB")]
pub struct Args {
    /// How many times objects are replaced
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    cycles: u32,
    /// Objects put in each cycle
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    objects: u32,
    /// Size of each, up to 1GiB
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    size: u64,
    /// Leave vacuuming to the server
    #[arg(long)]
    no_vacuum: bool,
}

/// The state of the store after a cycle.
struct State {
    live_pages: u64,
    live_bytes: u64,
    dead_pages: u64,
    relation: u64,
    indexes: u64,
}

impl Args {
    /// See [`super::Command::check`].
    pub(super) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!((1..=1 << 30).contains(&self.size), "--size must be from 1 byte to 1GiB");
        Ok(())
    }
}

pub(super) async fn measure(args: &Args, lab: &Lab<'_>) -> anyhow::Result<Report> {
    let bare = Bare::new(lab.connect().await?).await?;
    let mut noise = lab.noise();
    let flush: bool = bare.client.query_one(HAS_FLUSH, &[]).await?.get(0);
    let mut table = table();
    let mut before = state(&bare.client, flush).await?.relation;
    let first = before;
    let mut growths = Vec::new();
    let mut speed = Series::default();
    let mut previous: Vec<String> = Vec::new();
    let mut vacuumed = !args.no_vacuum;
    lab.progress.expect(args.cycles as usize + 1);
    // The last cycle puts nothing.
    for cycle in 1..=args.cycles + 1 {
        let count = if cycle <= args.cycles { args.objects } else { 0 };
        lab.progress.doing(if count > 0 { format!("cycle {cycle}") } else { "all deleted".to_owned() });
        let keys: Vec<String> = (0..count).map(|number| format!("churn-{cycle}-{number}")).collect();
        let mut puts = Samples::default();
        for key in &keys {
            let body = noise.body(args.size);
            let (done, took) = timed(bare.put(key, &body, lab.config.storage.write_chunk, None)).await;
            done?;
            puts.push(took);
        }
        let (deleted, delete) = timed(bare.delete(&previous)).await;
        deleted?;
        // Before VACUUM: what the deletion left.
        let dead = state(&bare.client, flush).await?.dead_pages;
        if !args.no_vacuum {
            vacuumed &= lab.reclaim(&bare.client).await?;
        }
        let after = state(&bare.client, flush).await?;
        let growth = after.relation.saturating_sub(before);
        growths.push(growth);
        before = after.relation;
        let written = args.size.div_ceil(2048) * u64::from(count);
        let fresh = growths.iter().copied().max().filter(|most| *most > 0);
        // The most that a cycle ever needed is what it needs with nothing to reuse.
        let reused = (count > 0).then(|| fresh.map_or(written, |most| part(written, most - growth, most)));
        let put = (count > 0).then(|| {
            let mut round = Series::default();
            round.round(args.size * u64::from(count), puts.clone());
            round.speed()
        });
        table.row([
            if count > 0 { Cell::from(cycle.to_string()) } else { Cell::from("all deleted") },
            written.into(),
            after.live_pages.into(),
            dead.into(),
            reused.into(),
            after.live_bytes.into(),
            after.relation.into(),
            after.indexes.into(),
            put.flatten().into(),
            (cycle > 1).then(|| milliseconds(delete)).into(),
        ]);
        if count > 0 {
            speed.round(args.size * u64::from(count), puts);
        }
        previous = keys;
        lab.progress.step();
    }
    Ok(report(args, table, first, &speed, vacuumed))
}

async fn state(client: &Client, flush: bool) -> anyhow::Result<State> {
    if flush {
        client.query(FLUSH, &[]).await?;
    }
    let live = client.query_one(LIVE, &[]).await?;
    let sizes = client.query_one(SIZES, &[]).await?;
    let dead: i64 = client.query_one(DEAD, &[]).await?.get(0);
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(State {
        live_pages: count(live.get(0)),
        live_bytes: count(live.get(1)),
        dead_pages: count(dead),
        relation: count(sizes.get(0)),
        indexes: count(sizes.get(1)),
    })
}

/// `whole * part / of`, without overflow.
fn part(whole: u64, part: u64, of: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(part) / u128::from(of.max(1))).unwrap_or(whole)
}

fn table() -> Table {
    let columns = [
        ("cycle", "cycle", Unit::None),
        ("written_pages", "pages written", Unit::None),
        ("live_pages", "alive", Unit::None),
        ("dead_pages", "dead before vacuum", Unit::None),
        ("reused_pages", "in reused room", Unit::None),
        ("live_bytes", "live bytes", Unit::Bytes),
        ("relation_bytes", "pg_largeobject", Unit::Bytes),
        ("index_bytes", "its index", Unit::Bytes),
        ("put_mb_s", "put", Unit::MegabytesPerSecond),
        ("delete_ms", "delete", Unit::Milliseconds),
    ];
    Table::new("cycles", "After each cycle", &columns)
}

fn report(args: &Args, table: Table, first: u64, speed: &Series, vacuumed: bool) -> Report {
    let mut report =
        Report::new("churn", "Objects come and go", "Is the space of deleted objects reused, and given back?");
    report.method(format!(
        "{} cycles: put {} objects of {}, delete those of the cycle before, {}. A page is a row of at most 2048 bytes.",
        args.cycles,
        args.objects,
        format_size(args.size),
        match (args.no_vacuum, vacuumed) {
            (true, _) => "leave vacuuming to the server",
            (false, true) => "VACUUM (TRUNCATE off) pg_largeobject, as the gateway's reaper does",
            (false, false) => "no vacuum: the role does not own the database, or pg_largeobject is large",
        }
    ));
    report.method(
        "Pages in reused room: by how much less the relation grew than in the cycle that made it grow most. Dead pages are the server's \
         own estimate. --rounds has no meaning here.",
    );
    let sizes = table.bars("pg_largeobject", "relation_bytes").points;
    if let (Some([_, last]), Some([_, most])) = (sizes.last(), sizes.iter().max_by(|a, b| a[1].total_cmp(&b[1]))) {
        let size = super::plot::size;
        let (before, most, last) = (size(Cell::number(first)), size(*most), size(*last));
        let grew = if before == most {
            format!("pg_largeobject had {before} before, most of it free, and did not grow")
        } else {
            format!("pg_largeobject grew from {before} to {most}, and kept {last} after everything was deleted")
        };
        let pages = |key| table.series("", "cycle", key).points.iter().map(|point| point[1]).sum::<f64>();
        let written = pages("written_pages");
        let reused = if written > 0.0 { 100.0 * pages("reused_pages") / written } else { 0.0 };
        report.finding(format!(
            "{grew}: {reused:.0} % of what was written went into room that deleted objects had left; none was returned to the \
             file system (only VACUUM FULL, pg_repack, or dropping the database do that)"
        ));
    }
    if let Some(speed) = speed.speed() {
        report.finding(format!("put: {speed:.0} MB/s, median of the cycles"));
    }
    let categories = table.names("cycle");
    let bars = |name, key| table.bars(name, key);
    report.plots.push(Plot {
        id: "size".into(),
        title: "Size of pg_largeobject after each cycle".into(),
        meaning: "The file grows until it holds what is alive and what dies within a cycle, then it stays; deleting everything \
                  does not make it smaller."
            .into(),
        shape: Shape::Bars { categories: categories.clone() },
        x: Axis::linear("cycle", Unit::None),
        y: Axis::linear("size", Unit::Bytes),
        series: vec![bars("live bytes", "live_bytes"), bars("pg_largeobject", "relation_bytes")],
    });
    report.plots.push(Plot {
        id: "pages".into(),
        title: "Pages after each cycle".into(),
        meaning: "Dead pages are what a deletion leaves until VACUUM has seen them; then new objects lie there.".into(),
        shape: Shape::Bars { categories },
        x: Axis::linear("cycle", Unit::None),
        y: Axis::linear("pages of 2048 bytes", Unit::None),
        series: vec![
            bars("written", "written_pages"),
            bars("in reused room", "reused_pages"),
            bars("alive", "live_pages"),
            bars("dead before vacuum", "dead_pages"),
        ],
    });
    report.tables.push(table);
    report
}
