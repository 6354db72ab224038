//! Rows of the process itself: the most memory it takes under many large transfers, and how soon it serves.

use std::path::Path;

use super::super::local_files::LocalFiles;
use super::super::measure::{median, milliseconds};
use super::bars::{Bound, LIMIT, Line, Measure, OURS, Standing};
use super::connection::Upload;
use super::endpoint::Endpoint;
use super::gateway::{Gateway, Plan, cache};
use super::load::{Heads, Requests, Until};
use super::stage::Stage;

/// Memory that a gateway may take, besides its cache.
const MEMORY_MIB: f64 = 200.0;
/// Until it serves from a directory that is there, milliseconds.
const START_MS: f64 = 2000.0;
/// Until it serves from a new one.
const FIRST_START_MS: f64 = 8000.0;
/// Bytes that uploads consist of, over and over.
const PIECE: u64 = 1 << 20;

pub(super) const STARTS: [&str; 2] = ["start", "start-first"];

/// Many uploads and downloads at once, at a gateway that has done nothing else.
pub(super) async fn memory(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let (streams, size) = (usize::from(stage.args.streams), stage.args.stream_size);
    stage.lab.progress.doing(format!("{row}: {streams} uploads and {streams} downloads"));
    let gateway = Gateway::start(&Plan::on_database(stage.lab.config, stage.url.clone())).await?;
    let endpoint = Endpoint::find(gateway.peer(), &stage.ours.bucket).await?;
    // All zero but for what makes bodies differ: it lies compressed on the disk.
    let body = Upload::new(&vec![0; usize::try_from(PIECE.min(size))?], size);
    let requests = |heads: Heads, body: Upload, expected: Option<u64>| Requests {
        name: endpoint.name.clone(),
        address: endpoint.address,
        heads,
        body,
        expected,
        patient: true,
    };
    let make = |prefix: &'static str| {
        let endpoint = endpoint.clone();
        move |number: u64| endpoint.head("PUT", &format!("{prefix}/{number}"), Some(size))
    };
    let source = requests(Heads::fresh(make("memory-source")), body.clone(), None);
    source.run(&stage.crew, 1, Until::operations(1), 0).await?;
    let uploads = requests(Heads::fresh(make("memory")), body, None);
    let download = endpoint.head("GET", "memory-source/0", None);
    let downloads = requests(Heads::Turns(vec![download].into()), Upload::none(), Some(size));
    let once = Until::operations(streams as u64);
    let both = tokio::join!(uploads.run(&stage.crew, streams, once, 0), downloads.run(&stage.crew, streams, once, 0));
    let peak = gateway.peak_memory();
    let transferred = both.0.and(both.1);
    let client = stage.lab.connect().await?;
    stage.wipe(&client, "memory").await?;
    gateway.stop().await?;
    transferred?;
    let mebibytes = |bytes: u64| super::super::report::Cell::number(bytes) / f64::from(1 << 20);
    let limit = MEMORY_MIB + mebibytes(cache(stage.lab.config).unwrap_or(0));
    let standing = Standing::of(row, Measure::Mebibytes, vec![(OURS, peak.map(mebibytes)), (LIMIT, Ok(limit))]);
    Ok(standing.lines(&[(LIMIT, Bound::AtMost(1.0))]))
}

/// First and further starts with a private server.
pub(super) async fn starts(stage: &Stage<'_>) -> anyhow::Result<Vec<Line>> {
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for round in 0..stage.lab.rounds {
        stage.lab.progress.doing(format!("starting, round {}", round + 1));
        let files = LocalFiles::create(&std::env::temp_dir())?;
        let directory = files.directory().join("data");
        first.push(start(stage, &directory).await?);
        again.push(start(stage, &directory).await?);
    }
    let figure = |figures: &[f64]| median(figures).ok_or_else(|| anyhow::anyhow!("nothing was measured"));
    let rows = [(STARTS[0], again, START_MS), (STARTS[1], first, FIRST_START_MS)];
    let lines = rows.map(|(row, figures, limit)| {
        let standing = Standing::of(row, Measure::Milliseconds, vec![(OURS, figure(&figures)), (LIMIT, Ok(limit))]);
        standing.lines(&[(LIMIT, Bound::AtMost(1.0))])
    });
    Ok(lines.into_iter().flatten().collect())
}

async fn start(stage: &Stage<'_>, directory: &Path) -> anyhow::Result<f64> {
    let gateway = Gateway::start(&Plan::in_directory(stage.lab.config, directory)).await?;
    let took = gateway.took();
    gateway.stop().await?;
    Ok(milliseconds(took))
}
