//! `bench curves`: throughput and latency of put and get over the size of objects, against a local file.

use std::path::PathBuf;

use anyhow::Context;

use crate::config::{format_size, parse_size};

use super::bare::Bare;
use super::lab::Lab;
use super::local_files::LocalFiles;
use super::measure::{Samples, Series, timed};
use super::noise::Noise;
use super::report::{Axis, Cell, Plot, Report, Shape, Table, Unit};

/// Smallest and largest size; each is four times the one before.
const LEAST: u64 = 4 << 10;
const MOST: u64 = 1 << 30;
/// Longest body that is also stored in a row.
const INLINE_MAX: u64 = 1 << 20;
/// Bytes of a round, where a single object is not longer.
const ROUND_BYTES: u64 = 4 << 20;
/// Most objects of a round.
const ROUND_OBJECTS: u64 = 64;

/// Throughput and latency of put and get by object size: large objects, rows, and a local file with fsync
///
/// Stores and reads objects of 4 KiB up to --max-size, one at a time over one connection: as large objects with their
/// companion row, up to 1 MiB also inside the row, and as local files that are fsynced. Gives MB/s (median of the
/// rounds) and p50/p99 per size. Reads are of what was just written: out of caches.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate bench curves --max-size 1GiB --html curves.html")]
pub struct Args {
    /// Largest object, up to 1GiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    max_size: u64,
    /// Directory of the files to compare with; it should be on the disk of the database [default: here]
    #[arg(long, value_name = "DIR")]
    file_dir: Option<PathBuf>,
}

/// What is measured of one way to store.
#[derive(Default)]
struct Way {
    put: Series,
    get: Series,
}

impl Args {
    /// See [`super::Command::check`].
    pub(super) fn check(&self) -> anyhow::Result<()> {
        sizes(self.max_size).map(drop)
    }
}

pub(super) async fn measure(args: &Args, lab: &Lab<'_>) -> anyhow::Result<Report> {
    let sizes = sizes(args.max_size)?;
    let parent = args.file_dir.clone().unwrap_or_else(|| PathBuf::from("."));
    let files = LocalFiles::create(&parent)?;
    let bare = Bare::new(lab.connect().await?).await?;
    let mut noise = lab.noise();
    let (mut objects, mut rows, mut local) = (table("large_object"), table("inline"), table("file"));
    lab.progress.expect(sizes.len() * (lab.rounds as usize + 1));
    for size in sizes {
        lab.progress.doing(format!("objects of {}", format_size(size)));
        let (mut lo, mut inline, mut file) = (Way::default(), Way::default(), Way::default());
        // Round 0 warms up: plans, caches, the first extension of files.
        for round in 0..=lab.rounds {
            let count = if round == 0 { 1 } else { (ROUND_BYTES / size).clamp(1, ROUND_OBJECTS) };
            let keys: Vec<String> = (0..count).map(|number| format!("{size}-{round}-{number}")).collect();
            let kept = round > 0;
            large_objects(lab, &bare, &mut noise, size, &keys, kept.then_some(&mut lo)).await?;
            if size <= INLINE_MAX {
                in_rows(&bare, &mut noise, size, &keys, kept.then_some(&mut inline)).await?;
            }
            as_files(&files, &mut noise, size, &keys, kept.then_some(&mut file))?;
            lab.progress.step();
        }
        lab.reclaim(&bare.client).await?;
        add(&mut objects, size, &lo);
        add(&mut local, size, &file);
        if size <= INLINE_MAX {
            add(&mut rows, size, &inline);
        }
    }
    let mut report = Report::new("curves", "Put and get by object size", "How fast are objects of which size?");
    describe(&mut report, lab, &files);
    plots(&mut report, [&objects, &rows, &local]);
    report.tables = vec![objects, rows, local];
    Ok(report)
}

/// The sizes from 4 KiB to `max`.
pub(super) fn sizes(max: u64) -> anyhow::Result<Vec<u64>> {
    anyhow::ensure!((LEAST..=MOST).contains(&max), "--max-size must be from 4KiB to 1GiB");
    Ok(std::iter::successors(Some(LEAST), |size| Some(size * 4)).take_while(|size| *size <= max).collect())
}

async fn large_objects(
    lab: &Lab<'_>,
    bare: &Bare,
    noise: &mut Noise,
    size: u64,
    keys: &[String],
    way: Option<&mut Way>,
) -> anyhow::Result<()> {
    let storage = &lab.config.storage;
    let (mut puts, mut gets) = (Samples::default(), Samples::default());
    for key in keys {
        let body = noise.body(size);
        let (done, took) = timed(bare.put(key, &body, storage.write_chunk, None)).await;
        done?;
        puts.push(took);
    }
    for key in keys {
        let get = async { bare.read(bare.locate(key).await?, storage.read_window).await };
        let (done, took) = timed(get).await;
        done?;
        gets.push(took);
    }
    bare.delete(keys).await?;
    note(way, size, puts, gets);
    Ok(())
}

async fn in_rows(
    bare: &Bare,
    noise: &mut Noise,
    size: u64,
    keys: &[String],
    way: Option<&mut Way>,
) -> anyhow::Result<()> {
    let (mut puts, mut gets) = (Samples::default(), Samples::default());
    for key in keys {
        let (done, took) = timed(bare.put_inline(key, &noise.body(size))).await;
        done?;
        puts.push(took);
    }
    for key in keys {
        let (done, took) = timed(bare.read_inline(key)).await;
        anyhow::ensure!(done? == size, "an inline body is cut off");
        gets.push(took);
    }
    bare.delete(keys).await?;
    note(way, size, puts, gets);
    Ok(())
}

fn as_files(
    files: &LocalFiles,
    noise: &mut Noise,
    size: u64,
    keys: &[String],
    way: Option<&mut Way>,
) -> anyhow::Result<()> {
    let (mut puts, mut gets) = (Samples::default(), Samples::default());
    let failed = || format!("a file of {} cannot be written and read", format_size(size));
    for key in keys {
        let body = noise.body(size);
        let started = std::time::Instant::now();
        files.put(key, &body).with_context(failed)?;
        puts.push(started.elapsed());
    }
    for key in keys {
        let started = std::time::Instant::now();
        let got = files.read(key).with_context(failed)?;
        gets.push(started.elapsed());
        anyhow::ensure!(got == size, "a file is cut off");
    }
    for key in keys {
        files.remove(key).with_context(failed)?;
    }
    note(way, size, puts, gets);
    Ok(())
}

fn note(way: Option<&mut Way>, size: u64, puts: Samples, gets: Samples) {
    if let Some(way) = way {
        way.put.round(size * puts.len() as u64, puts);
        way.get.round(size * gets.len() as u64, gets);
    }
}

fn table(way: &str) -> Table {
    let title = match way {
        "large_object" => "Large objects",
        "inline" => "In the companion row (bytea)",
        _ => "Local file with fsync",
    };
    let columns = [
        ("size_bytes", "size", Unit::Bytes),
        ("operations", "objects", Unit::None),
        ("put_mb_s", "put", Unit::MegabytesPerSecond),
        ("put_p50_ms", "put p50", Unit::Milliseconds),
        ("put_p99_ms", "put p99", Unit::Milliseconds),
        ("get_mb_s", "get", Unit::MegabytesPerSecond),
        ("get_p50_ms", "get p50", Unit::Milliseconds),
        ("get_p99_ms", "get p99", Unit::Milliseconds),
    ];
    Table::new(way, title, &columns)
}

fn add(table: &mut Table, size: u64, way: &Way) {
    let (put, get) = (&way.put, &way.get);
    table.row([
        Cell::from(size),
        Cell::from(put.operations.len() as u64),
        put.speed().into(),
        put.operations.p50().into(),
        put.operations.p99().into(),
        get.speed().into(),
        get.operations.p50().into(),
        get.operations.p99().into(),
    ]);
}

fn plots(report: &mut Report, [objects, rows, local]: [&Table; 3]) {
    let mut add = |id: &str, title: &str, meaning: &str, y: Axis, columns: &[(&str, &str)]| {
        let of = |table: &Table, name: &str| {
            let curve = move |(key, suffix): &(&str, &str)| table.series(&format!("{name}{suffix}"), "size_bytes", key);
            columns.iter().map(curve).collect::<Vec<_>>()
        };
        let series = [of(objects, "large object"), of(rows, "row"), of(local, "local file")].concat();
        let (id, title, meaning) = (id.to_owned(), title.to_owned(), meaning.to_owned());
        let x = Axis::log("object size", Unit::Bytes);
        report.plots.push(Plot { id, title, meaning, shape: Shape::Lines, x, y, series });
    };
    let speed = || Axis::log("throughput", Unit::MegabytesPerSecond);
    let time = || Axis::log("time", Unit::Milliseconds);
    add(
        "put",
        "Put: throughput",
        "Short objects cost a commit each, whatever they hold; long ones cost what the server needs per byte. Where the \
         line of rows is above that of large objects, a body is better kept in its row (storage.inline_max).",
        speed(),
        &[("put_mb_s", "")],
    );
    add(
        "get",
        "Get: throughput out of caches",
        "A file in the page cache is a copy in memory; a large object is assembled from 2 KiB rows. The distance between \
         the two is what a block cache in front can win.",
        speed(),
        &[("get_mb_s", "")],
    );
    let percentiles = |what: &str| [(format!("{what}_p50_ms"), " p50"), (format!("{what}_p99_ms"), " p99")];
    for (what, title) in [("put", "Put: latency"), ("get", "Get: latency out of caches")] {
        let keys = percentiles(what);
        let columns: Vec<(&str, &str)> = keys.iter().map(|(key, suffix)| (key.as_str(), *suffix)).collect();
        let meaning = "Half of the objects took no longer than p50, all but one in a hundred no longer than p99.";
        add(&format!("{what}-latency"), title, meaning, time(), &columns);
    }
}

fn describe(report: &mut Report, lab: &Lab<'_>, files: &LocalFiles) {
    let storage = &lab.config.storage;
    report.method(format!(
        "{} after one that warms up; MB/s is the median of the rounds, percentiles are over all objects of all rounds. \
         One connection, one object at a time.",
        lab.rounds_text()
    ));
    report.method(format!(
        "Large objects up to 8 MiB are stored by one statement, longer ones in chunks of {}, three under way; \
         read in windows of {}, one under way. The companion row is written in the same transaction.",
        format_size(storage.write_chunk),
        format_size(storage.read_window)
    ));
    report.method("Files are written, fsynced, renamed, and their directory is fsynced.");
    report.method(format!(
        "Files were in {}: compare only if that is on a disk like the database's.",
        if files.directory().starts_with(".") { "the working directory" } else { "the directory of --file-dir" }
    ));
}
