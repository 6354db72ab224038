//! `bench anatomy`: what the single steps of a read take, and who waits for whom when readers outnumber connections.
//!
//! Two ways to read are set against each other. A *held descriptor* keeps a connection and a transaction for the whole
//! object; *windows* take a connection for one `lo_get` at a time. The time to acquire a handle is that until the first byte
//! could be asked for: a connection, BEGIN and `lo_open` on the one side, a connection and the row on the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::Statement;

use crate::config::{format_size, parse_size};

use super::bare::{Bare, Located};
use super::lab::Lab;
use super::measure::{Samples, Series, timed};
use super::pool::Pool;
use super::report::{Axis, Cell, Plot, Report, Shape, Table, Unit};

/// `INV_READ` (libpq/libpq-fs.h).
const READ: i32 = 0x0004_0000;
/// Objects that readers take in turns.
const OBJECTS: usize = 4;
/// Windows of an object.
const WINDOWS: u64 = 8;
/// Objects that each reader reads in a round.
const DOWNLOADS: usize = 4;

/// The steps of a read, one by one; then held descriptors against windows, with more readers than connections
///
/// First p50/p99 of each step over one connection: the row, BEGIN and lo_open, loread, lo_get. Then readers on a pool of
/// --pool connections, with --readers of them at once: how long each waits for a handle when handles are held for the
/// whole object, and when only single windows take a connection (as the gateway does).
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate bench anatomy --pool 8 --readers 8,16,32")]
pub struct Args {
    /// Connections that the readers share
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=500))]
    pool: u16,
    /// Readers at once, one level after another, separated by commas
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_value = "2,4,8,16", value_parser = clap::value_parser!(u16).range(1..=1000))]
    readers: Vec<u16>,
    /// Bytes of a window, and of a loread [default: storage.read_window]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    window: Option<u64>,
    /// How often each step is done in a round
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    operations: u32,
}

/// A session that can hold a descriptor.
struct Reader {
    bare: Bare,
    open: Statement,
    read: Statement,
}

impl Args {
    fn window(&self, lab: &Lab<'_>) -> u64 {
        self.window.unwrap_or(lab.config.storage.read_window)
    }

    /// See [`super::Command::check`].
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let fits = self.window.is_none_or(|window| (4 << 10..=64 << 20).contains(&window));
        anyhow::ensure!(fits, "--window must be from 4KiB to 64MiB");
        Ok(())
    }
}

pub(super) async fn measure(args: &Args, lab: &Lab<'_>) -> anyhow::Result<Report> {
    let mut readers = Vec::new();
    for client in lab.connect_many(usize::from(args.pool)).await? {
        readers.push(Reader::new(Bare::new(client).await?).await?);
    }
    let taken = readers.len();
    lab.progress.expect((args.readers.len() + 1) * lab.rounds as usize);
    let keys = store(args, lab, &readers[0].bare).await?;
    let steps = steps(args, lab, &readers[0], &keys[0]).await?;
    let pool = Pool::new(readers);
    let mut handles = handles_table();
    for level in &args.readers {
        lab.progress.doing(format!("{level} readers on {taken} connections"));
        let (mut held, mut windows) = (Way::default(), Way::default());
        for _ in 0..lab.rounds {
            round(&pool, &keys, args.window(lab), *level, true, &mut held).await?;
            round(&pool, &keys, args.window(lab), *level, false, &mut windows).await?;
            lab.progress.step();
        }
        handles.row([
            Cell::from(u64::from(*level)),
            held.handles.p50().into(),
            held.handles.p99().into(),
            held.bytes.speed().into(),
            windows.handles.p50().into(),
            windows.handles.p99().into(),
            windows.bytes.speed().into(),
        ]);
    }
    Ok(report(args, lab, steps, handles, taken))
}

async fn store(args: &Args, lab: &Lab<'_>, bare: &Bare) -> anyhow::Result<Arc<[String]>> {
    let mut noise = lab.noise();
    let keys: Vec<String> = (0..OBJECTS).map(|number| format!("anatomy-{number}")).collect();
    for key in &keys {
        bare.put(key, &noise.body(args.window(lab) * WINDOWS), lab.config.storage.write_chunk, None).await?;
        bare.read(bare.locate(key).await?, args.window(lab)).await?;
    }
    Ok(keys.into())
}

/// The steps over one connection.
async fn steps(args: &Args, lab: &Lab<'_>, reader: &Reader, key: &str) -> anyhow::Result<Table> {
    let mut samples: [Samples; 4] = Default::default();
    lab.progress.doing("single steps");
    // Round 0 warms up.
    for round in 0..=lab.rounds {
        let count = if round == 0 { 1 } else { args.operations };
        for number in 0..count {
            let offset = (u64::from(number) % WINDOWS) * args.window(lab);
            let (object, row) = timed(reader.bare.locate(key)).await;
            let object = object?;
            let (descriptor, open) = timed(reader.hold(object)).await;
            let descriptor = descriptor?;
            reader.seek(descriptor, offset).await?;
            let (read, loread) = timed(reader.next(descriptor, args.window(lab))).await;
            anyhow::ensure!(read? > 0, "a descriptor gave nothing");
            reader.bare.client.batch_execute("COMMIT").await?;
            let (got, lo_get) = timed(reader.bare.window(object.loid, offset, args.window(lab))).await;
            anyhow::ensure!(got? > 0, "a window is empty");
            if round > 0 {
                for (sample, took) in samples.iter_mut().zip([row, open, loread, lo_get]) {
                    sample.push(took);
                }
            }
        }
        if round > 0 {
            lab.progress.step();
        }
    }
    let columns = [
        ("step", "step", Unit::None),
        ("operations", "operations", Unit::None),
        ("p50_ms", "p50", Unit::Milliseconds),
        ("p99_ms", "p99", Unit::Milliseconds),
    ];
    let mut table = Table::new("steps", "The steps of a read", &columns);
    let window = format_size(args.window(lab));
    let names = ["row".to_owned(), "BEGIN, lo_open".to_owned(), format!("loread {window}"), format!("lo_get {window}")];
    for (name, sample) in names.into_iter().zip(&samples) {
        table.row([Cell::from(name), (sample.len() as u64).into(), sample.p50().into(), sample.p99().into()]);
    }
    Ok(table)
}

/// What readers of one kind took.
#[derive(Default)]
struct Way {
    handles: Samples,
    bytes: Series,
}

/// One round of readers, each of which reads some objects.
async fn round(
    pool: &Pool<Reader>,
    keys: &Arc<[String]>,
    window: u64,
    level: u16,
    held: bool,
    way: &mut Way,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut readers = JoinSet::new();
    for number in 0..usize::from(level) {
        let (pool, keys) = (pool.clone(), Arc::clone(keys));
        readers.spawn(async move {
            let mut handles = Samples::default();
            for key in keys.iter().cycle().skip(number % OBJECTS).take(DOWNLOADS) {
                let took = if held {
                    hold_and_read(&pool, key, window).await?
                } else {
                    read_windows(&pool, key, window).await?
                };
                handles.push(took);
            }
            anyhow::Ok(handles)
        });
    }
    let mut handles = Samples::default();
    while let Some(ended) = readers.join_next().await {
        handles.extend(ended??);
    }
    let bytes = window * WINDOWS * handles.len() as u64;
    way.bytes.concurrent_round(bytes, started.elapsed(), Samples::default());
    way.handles.extend(handles);
    Ok(())
}

/// Holds a connection and a descriptor for a whole object; gives the time until it had them.
async fn hold_and_read(pool: &Pool<Reader>, key: &str, window: u64) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let turn = pool.take().await?;
    let reader = turn.session()?;
    let object = reader.bare.locate(key).await?;
    let descriptor = reader.hold(object).await?;
    let took = started.elapsed();
    while reader.next(descriptor, window).await? > 0 {}
    reader.bare.client.batch_execute("COMMIT").await?;
    Ok(took)
}

/// Takes a connection for the row and for each window; gives the time until it had the row.
async fn read_windows(pool: &Pool<Reader>, key: &str, window: u64) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let object = pool.take().await?.session()?.bare.locate(key).await?;
    let took = started.elapsed();
    let mut offset = 0;
    while offset < object.size {
        let got = pool.take().await?.session()?.bare.window(object.loid, offset, window).await?;
        anyhow::ensure!(got > 0, "a large object is cut off");
        offset += got;
    }
    Ok(took)
}

impl Reader {
    async fn new(bare: Bare) -> anyhow::Result<Self> {
        let open = bare.client.prepare("-- bench_open\nSELECT lo_open($1, $2)").await?;
        let read = bare.client.prepare("-- bench_loread\nSELECT loread($1, $2)").await?;
        Ok(Self { bare, open, read })
    }

    /// Begins a transaction and opens a descriptor in it.
    async fn hold(&self, object: Located) -> anyhow::Result<i32> {
        self.bare.client.batch_execute("BEGIN").await?;
        Ok(self.bare.client.query_one(&self.open, &[&object.loid, &READ]).await?.get(0))
    }

    async fn seek(&self, descriptor: i32, offset: u64) -> anyhow::Result<()> {
        let seek = format!("SELECT lo_lseek64({descriptor}, {offset}, 0)");
        self.bare.client.batch_execute(&seek).await?;
        Ok(())
    }

    /// Reads on from where the descriptor stands.
    async fn next(&self, descriptor: i32, length: u64) -> anyhow::Result<usize> {
        let row = self.bare.client.query_one(&self.read, &[&descriptor, &i32::try_from(length)?]).await?;
        Ok(row.get::<_, &[u8]>(0).len())
    }
}

fn handles_table() -> Table {
    let columns = [
        ("readers", "readers", Unit::None),
        ("held_p50_ms", "held p50", Unit::Milliseconds),
        ("held_p99_ms", "held p99", Unit::Milliseconds),
        ("held_mb_s", "held", Unit::MegabytesPerSecond),
        ("windows_p50_ms", "windows p50", Unit::Milliseconds),
        ("windows_p99_ms", "windows p99", Unit::Milliseconds),
        ("windows_mb_s", "windows", Unit::MegabytesPerSecond),
    ];
    Table::new("handles", "Time to acquire a handle, and MB/s of all readers", &columns)
}

fn report(args: &Args, lab: &Lab<'_>, steps: Table, handles: Table, taken: usize) -> Report {
    let question = "What do the steps of a read take, and who waits for whom?";
    let mut report = Report::new("anatomy", "Anatomy of a read", question);
    report.method(format!(
        "Steps: {} of {} over one connection, out of caches, after one that warms up.",
        lab.rounds_text(),
        args.operations
    ));
    report.method(format!(
        "Handles: readers share {taken} connections, first come, first served; each reads {DOWNLOADS} objects of {} \
         in a round, {}.",
        format_size(args.window(lab) * WINDOWS),
        lab.rounds_text()
    ));
    if taken < usize::from(args.pool) {
        report.finding(format!("the server took no more than {taken} connections"));
    }
    report.plots.push(Plot {
        id: "steps".into(),
        title: "The steps of a read".into(),
        meaning: "lo_get does in one round trip and without a transaction what BEGIN, lo_open and loread do in three."
            .into(),
        shape: Shape::Bars { categories: steps.names("step") },
        x: Axis::linear("", Unit::None),
        y: Axis::linear("time", Unit::Milliseconds),
        series: vec![steps.bars("p50", "p50_ms"), steps.bars("p99", "p99_ms")],
    });
    let curve = |name, key| handles.series(name, "readers", key);
    report.plots.push(Plot {
        id: "handles".into(),
        title: format!("Time to acquire a handle, {taken} connections"),
        meaning:
            "With more readers than connections, who needs a connection for a whole object waits for whole objects of \
                  others; who needs it for a window waits for windows."
                .into(),
        shape: Shape::Lines,
        x: Axis::log("readers", Unit::None),
        y: Axis::log("time", Unit::Milliseconds),
        series: vec![
            curve("held p50", "held_p50_ms"),
            curve("held p99", "held_p99_ms"),
            curve("windows p50", "windows_p50_ms"),
            curve("windows p99", "windows_p99_ms"),
        ],
    });
    report.tables = vec![steps, handles];
    report
}
