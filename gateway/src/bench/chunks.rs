//! `bench chunks`: how many bytes a statement should carry, writing and reading.

use futures::{StreamExt, TryStreamExt};
use tokio_postgres::{Client, Statement};

use crate::config::{format_size, parse_size};

use super::bare::{Bare, WRITES_IN_FLIGHT, signed};
use super::lab::Lab;
use super::measure::{Samples, Series, timed};
use super::noise::Body;
use super::report::{Axis, Cell, Plot, Report, Shape, Table, Unit};

/// The sizes that are tried, KiB: denser where the knee is.
const SIZES: [u64; 8] = [8, 32, 128, 256, 512, 1024, 2048, 8192];
const LEAST: u64 = 8 << 10;
const MOST: u64 = 8 << 20;
/// `INV_READ | INV_WRITE` (libpq/libpq-fs.h).
const READ_WRITE: i32 = 0x0002_0000 | 0x0004_0000;
const KEY: &str = "chunked";

/// How many bytes a statement should carry: a sweep of chunks and windows from 8 KiB to 8 MiB
///
/// Writes an object of --size with lowrite (a descriptor, one write at a time), with lo_put (by offset, one at a time) and
/// with lo_put three under way, and reads it with lo_get, for chunk sizes from 8 KiB up to that of the object, 8 MiB at
/// most. The knee of the curves is the size from which larger statements win nothing: storage.write_chunk and
/// storage.read_window.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate bench chunks --size 64MiB")]
pub struct Args {
    /// The object that is written and read, 8KiB to 1GiB
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_size)]
    size: u64,
}

/// A way to write the chunks of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Lowrite,
    LoPut,
    Pipelined,
}

/// Statements beside the common ones.
struct Writer {
    create: Statement,
    open: Statement,
    lowrite: Statement,
    lo_put: Statement,
    insert: Statement,
}

impl Args {
    /// See [`super::Command::check`].
    pub(super) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!((LEAST..=1 << 30).contains(&self.size), "--size must be from 8KiB to 1GiB");
        Ok(())
    }
}

pub(super) async fn measure(args: &Args, lab: &Lab<'_>) -> anyhow::Result<Report> {
    let sizes: Vec<u64> = SIZES.iter().map(|kib| kib << 10).filter(|size| *size <= args.size).collect();
    let bare = Bare::new(lab.connect().await?).await?;
    let writer = Writer::new(&bare.client).await?;
    let mut noise = lab.noise();
    let (mut writes, mut reads) = tables();
    lab.progress.expect(sizes.len());
    // Warms up: plans, caches, the first extension of files.
    writer.write(&bare.client, Way::Lowrite, &noise.body(args.size.min(1 << 20)), MOST).await?;
    bare.delete(&[KEY.to_owned()]).await?;
    for chunk in sizes {
        lab.progress.doing(format!("statements of {}", format_size(chunk)));
        let mut written = [Way::Lowrite, Way::LoPut, Way::Pipelined].map(|way| (way, Series::default()));
        let mut read = Series::default();
        for _ in 0..lab.rounds {
            for (way, series) in &mut written {
                let body = noise.body(args.size);
                let (done, took) = timed(writer.write(&bare.client, *way, &body, chunk)).await;
                done?;
                series.round(args.size, Samples::of(took));
                if *way == Way::Pipelined {
                    let windows = windows(&bare, chunk).await?;
                    read.round(args.size, windows);
                }
                bare.delete(&[KEY.to_owned()]).await?;
            }
        }
        lab.reclaim(&bare.client).await?;
        let speeds = written.map(|(_, series)| Cell::from(series.speed()));
        writes.row(std::iter::once(Cell::from(chunk)).chain(speeds));
        reads.row([Cell::from(chunk), read.speed().into(), read.operations.p50().into(), read.operations.p99().into()]);
        lab.progress.step();
    }
    Ok(report(args, lab, writes, reads))
}

impl Writer {
    async fn new(client: &Client) -> anyhow::Result<Self> {
        Ok(Self {
            create: client.prepare("-- bench_create\nSELECT lo_create(0)").await?,
            open: client.prepare("-- bench_open\nSELECT lo_open($1, $2)").await?,
            lowrite: client.prepare("-- bench_lowrite\nSELECT lowrite($1 /* descriptor */, $2 /* bytes */)").await?,
            lo_put: client.prepare("-- bench_lo_put\nSELECT lo_put($1, $2 /* offset */, $3 /* bytes */)").await?,
            insert: client.prepare("-- bench_insert\nINSERT INTO object (key, loid, size) VALUES ($1, $2, $3)").await?,
        })
    }

    /// A whole put: transaction, large object, chunks, row, COMMIT.
    async fn write(&self, client: &Client, way: Way, body: &Body, chunk: u64) -> anyhow::Result<()> {
        client.batch_execute("BEGIN").await?;
        let loid: u32 = client.query_one(&self.create, &[]).await?.get(0);
        match way {
            Way::Lowrite => {
                let descriptor: i32 = client.query_one(&self.open, &[&loid, &READ_WRITE]).await?.get(0);
                for (_, bytes) in body.pieces(chunk) {
                    client.execute(&self.lowrite, &[&descriptor, &bytes.as_ref()]).await?;
                }
            }
            Way::LoPut | Way::Pipelined => {
                let under_way = if way == Way::LoPut { 1 } else { WRITES_IN_FLIGHT };
                let writes = body.pieces(chunk).map(|(offset, bytes)| async move {
                    client.execute(&self.lo_put, &[&loid, &signed(offset), &bytes.as_ref()]).await
                });
                futures::stream::iter(writes).buffered(under_way).try_collect::<Vec<_>>().await?;
            }
        }
        client.execute(&self.insert, &[&KEY, &loid, &signed(body.len())]).await?;
        client.batch_execute("COMMIT").await?;
        Ok(())
    }
}

/// Reads the object and times every window.
async fn windows(bare: &Bare, window: u64) -> anyhow::Result<Samples> {
    let object = bare.locate(KEY).await?;
    let mut samples = Samples::default();
    let mut offset = 0;
    while offset < object.size {
        let (got, took) = timed(bare.window(object.loid, offset, window)).await;
        offset += got?.max(1);
        samples.push(took);
    }
    Ok(samples)
}

fn tables() -> (Table, Table) {
    let writes = [
        ("chunk_bytes", "chunk", Unit::Bytes),
        ("lowrite_mb_s", "lowrite", Unit::MegabytesPerSecond),
        ("lo_put_mb_s", "lo_put", Unit::MegabytesPerSecond),
        ("pipelined_mb_s", "lo_put, 3 under way", Unit::MegabytesPerSecond),
    ];
    let reads = [
        ("window_bytes", "window", Unit::Bytes),
        ("lo_get_mb_s", "lo_get", Unit::MegabytesPerSecond),
        ("p50_ms", "p50", Unit::Milliseconds),
        ("p99_ms", "p99", Unit::Milliseconds),
    ];
    (Table::new("writes", "Writing, by chunk", &writes), Table::new("reads", "Reading, by window", &reads))
}

fn report(args: &Args, lab: &Lab<'_>, writes: Table, reads: Table) -> Report {
    let mut report = Report::new("chunks", "Bytes per statement", "How many bytes should a statement carry?");
    report.method(format!(
        "An object of {}, put durably and read in {} for every size; MB/s is the median. A put is the whole \
         transaction: BEGIN, lo_create, the chunks, the row, COMMIT. One connection.",
        format_size(args.size),
        lab.rounds_text()
    ));
    report.method(format!(
        "The gateway now writes chunks of {} and reads windows of {}.",
        format_size(lab.config.storage.write_chunk),
        format_size(lab.config.storage.read_window)
    ));
    for (table, columns) in
        [(&writes, &["lowrite_mb_s", "lo_put_mb_s", "pipelined_mb_s"][..]), (&reads, &["lo_get_mb_s"])]
    {
        for (at, column) in columns.iter().enumerate() {
            let best = table.series("", &table.columns[0].key, column).highest();
            if let Some([size, speed]) = best {
                report.finding(format!(
                    "{}: fastest with {} ({speed:.0} MB/s)",
                    if columns.len() == 1 {
                        "reading, lo_get"
                    } else {
                        ["lowrite", "lo_put", "lo_put, 3 under way"][at]
                    },
                    super::plot::size(size)
                ));
            }
        }
    }
    let speed = || Axis::linear("throughput", Unit::MegabytesPerSecond);
    report.plots.push(Plot {
        id: "writes".into(),
        title: "Writing: throughput by chunk".into(),
        meaning:
            "Below the knee, round trips are what is paid for; beyond it, larger chunks win nothing and cost memory."
                .into(),
        shape: Shape::Lines,
        x: Axis::log("chunk", Unit::Bytes),
        y: speed(),
        series: vec![
            writes.series("lowrite", "chunk_bytes", "lowrite_mb_s"),
            writes.series("lo_put", "chunk_bytes", "lo_put_mb_s"),
            writes.series("lo_put, 3 under way", "chunk_bytes", "pipelined_mb_s"),
        ],
    });
    report.plots.push(Plot {
        id: "reads".into(),
        title: "Reading: throughput by window".into(),
        meaning: "Very large windows get slower again: the server builds each answer whole before it sends it.".into(),
        shape: Shape::Lines,
        x: Axis::log("window", Unit::Bytes),
        y: speed(),
        series: vec![reads.series("lo_get", "window_bytes", "lo_get_mb_s")],
    });
    report.tables = vec![writes, reads];
    report
}
