//! `bench readers`: how much several readers get together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::config::{format_duration, format_size, parse_duration, parse_size};

use super::bare::{Bare, Located};
use super::lab::Lab;
use super::measure::{Samples, Series, timed};
use super::report::{Axis, Cell, Plot, Report, Shape, Table, Unit};

/// Several readers at once: their aggregate throughput
///
/// Reads --objects large objects out of caches with lo_get windows, by 1, 2, 4, … --max-readers readers at once, each on a
/// connection of its own, for --time per round. Gives MB/s of all together and p50/p99 of a window. Where the curve
/// goes flat, the server's cores (or the network) are used up: more connections only wait longer.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate bench readers --max-readers 64 --time 2s")]
pub struct Args {
    /// Most readers at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    max_readers: u16,
    /// How long each round reads
    #[arg(long, value_name = "TIME", default_value = "600ms", value_parser = parse_duration)]
    time: Duration,
    /// Objects that are read, in turns
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    objects: u16,
    /// Size of each
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_size)]
    size: u64,
}

impl Args {
    /// See [`super::Command::check`].
    pub(super) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!((1..=1 << 30).contains(&self.size), "--size must be from 1 byte to 1GiB");
        let times = Duration::from_millis(10)..=Duration::from_secs(3600);
        anyhow::ensure!(times.contains(&self.time), "--time must be from 10ms to 1h");
        Ok(())
    }
}

pub(super) async fn measure(args: &Args, lab: &Lab<'_>) -> anyhow::Result<Report> {
    let most = usize::from(args.max_readers);
    let mut workers = Vec::with_capacity(most);
    for client in lab.connect_many(most).await? {
        workers.push(Arc::new(Bare::new(client).await?));
    }
    let mut levels: Vec<usize> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < workers.len()).collect();
    levels.push(workers.len());
    lab.progress.expect(levels.len() * lab.rounds as usize + usize::from(args.objects));
    let objects = store(args, lab, &workers[0]).await?;
    let mut table = table();
    for readers in levels {
        lab.progress.doing(format!("readers at once: {readers}"));
        let mut series = Series::default();
        for _ in 0..lab.rounds {
            let (bytes, elapsed, windows) =
                round(&workers[..readers], &objects, lab.config.storage.read_window, args.time).await?;
            series.concurrent_round(bytes, elapsed, windows);
            lab.progress.step();
        }
        let windows = &series.operations;
        table.row([Cell::from(readers as u64), series.speed().into(), windows.p50().into(), windows.p99().into()]);
    }
    let taken = workers.len();
    Ok(report(args, lab, table, taken))
}

/// Stores the objects, and reads them once to have them in caches.
async fn store(args: &Args, lab: &Lab<'_>, bare: &Bare) -> anyhow::Result<Arc<[Located]>> {
    let storage = &lab.config.storage;
    let mut noise = lab.noise();
    let mut objects = Vec::new();
    lab.progress.doing("storing the objects");
    for number in 0..args.objects {
        let key = format!("read-{number}");
        bare.put(&key, &noise.body(args.size), storage.write_chunk, None).await?;
        let object = bare.locate(&key).await?;
        bare.read(object, storage.read_window).await?;
        objects.push(object);
        lab.progress.step();
    }
    Ok(objects.into())
}

/// Lets the readers read for a time; gives the bytes of all, the time that took, and every window.
async fn round(
    workers: &[Arc<Bare>],
    objects: &Arc<[Located]>,
    window: u64,
    time: Duration,
) -> anyhow::Result<(u64, Duration, Samples)> {
    let started = Instant::now();
    let until = started + time;
    let mut readers = JoinSet::new();
    for (number, worker) in workers.iter().enumerate() {
        let (bare, objects) = (Arc::clone(worker), Arc::clone(objects));
        readers.spawn(async move { read_until(&bare, &objects, number, window, until).await });
    }
    let (mut bytes, mut windows) = (0, Samples::default());
    while let Some(ended) = readers.join_next().await {
        let (read, took) = ended??;
        bytes += read;
        windows.extend(took);
    }
    Ok((bytes, started.elapsed(), windows))
}

async fn read_until(
    bare: &Bare,
    objects: &[Located],
    first: usize,
    window: u64,
    until: Instant,
) -> anyhow::Result<(u64, Samples)> {
    let (mut bytes, mut windows) = (0, Samples::default());
    // Each begins with another object, so that they don't walk in step.
    for object in objects.iter().cycle().skip(first % objects.len().max(1)) {
        let mut offset = 0;
        while offset < object.size {
            let (got, took) = timed(bare.window(object.loid, offset, window.min(object.size - offset))).await;
            let got = got?;
            anyhow::ensure!(got > 0, "a large object is cut off");
            offset += got;
            bytes += got;
            windows.push(took);
            if Instant::now() >= until {
                return Ok((bytes, windows));
            }
        }
    }
    Ok((bytes, windows))
}

fn table() -> Table {
    let columns = [
        ("readers", "readers", Unit::None),
        ("mb_s", "all together", Unit::MegabytesPerSecond),
        ("window_p50_ms", "window p50", Unit::Milliseconds),
        ("window_p99_ms", "window p99", Unit::Milliseconds),
    ];
    Table::new("readers", "Readers at once", &columns)
}

fn report(args: &Args, lab: &Lab<'_>, table: Table, taken: usize) -> Report {
    let mut report = Report::new("readers", "Readers in parallel", "How much do several readers get together?");
    report.method(format!(
        "{} objects of {}, read once before; {} of {} for every number of readers, MB/s is their median. \
         Windows of {}, one under way for each reader.",
        args.objects,
        format_size(args.size),
        lab.rounds_text(),
        format_duration(args.time),
        format_size(lab.config.storage.read_window)
    ));
    if taken < usize::from(args.max_readers) {
        report.finding(format!("the server took no more than {taken} connections"));
    }
    let speed = table.series("all readers", "readers", "mb_s");
    if let Some([readers, most]) = speed.highest() {
        report.finding(format!("most together: {most:.0} MB/s, with readers at once: {readers}"));
    }
    report.plots.push(Plot {
        id: "throughput".into(),
        title: "Aggregate throughput".into(),
        meaning: "Where the line goes flat, the server's cores or the network are used up.".into(),
        shape: Shape::Lines,
        x: Axis::log("readers", Unit::None),
        y: Axis::linear("throughput of all", Unit::MegabytesPerSecond),
        series: vec![speed],
    });
    report.plots.push(Plot {
        id: "windows".into(),
        title: "Time of a window".into(),
        meaning: "Beyond what the server can do at once, every further reader makes all of them wait longer.".into(),
        shape: Shape::Lines,
        x: Axis::log("readers", Unit::None),
        y: Axis::log("time", Unit::Milliseconds),
        series: vec![table.series("p50", "readers", "window_p50_ms"), table.series("p99", "readers", "window_p99_ms")],
    });
    report.tables.push(table);
    report
}
