//! `bench reput`: what it costs to put again what is there already.

use std::time::Instant;

use sha2::{Digest, Sha256};

use crate::config::{format_size, parse_size};

use super::bare::{Bare, signed};
use super::curves::sizes;
use super::lab::Lab;
use super::measure::{Samples, timed};
use super::report::{Axis, Cell, Plot, Report, Shape, Table, Unit};

/// Probes of a round.
const PROBES: u32 = 50;
const PROBE: &str = "-- bench_probe
SELECT 1 FROM object WHERE key = $1 AND size = $2 AND sha256 = $3";

/// Putting the same content again: compare and skip, at every size
///
/// Stores an object of every size once, then puts the same bytes again: hash them, ask whether the key has that digest and
/// size, and write nothing. The probe costs the same at every size; hashing costs a pass over the bytes, which the gateway
/// makes only where size and MD5 are those of the object that is there; the fresh put is shown beside them.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate bench reput --max-size 256MiB")]
pub struct Args {
    /// Largest object, up to 1GiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    max_size: u64,
}

impl Args {
    /// See [`super::Command::check`].
    pub(super) fn check(&self) -> anyhow::Result<()> {
        sizes(self.max_size).map(drop)
    }
}

pub(super) async fn measure(args: &Args, lab: &Lab<'_>) -> anyhow::Result<Report> {
    let sizes = sizes(args.max_size)?;
    let bare = Bare::new(lab.connect().await?).await?;
    let probe = bare.client.prepare(PROBE).await?;
    let mut noise = lab.noise();
    let mut table = table();
    lab.progress.expect(sizes.len());
    for size in sizes {
        lab.progress.doing(format!("objects of {}", format_size(size)));
        let (mut puts, mut hashes, mut probes) = (Samples::default(), Samples::default(), Samples::default());
        let key = format!("reput-{size}");
        // Round 0 warms up.
        for round in 0..=lab.rounds {
            let body = noise.body(size);
            let started = Instant::now();
            let mut hasher = Sha256::new();
            body.pieces(64 << 10).for_each(|(_, piece)| hasher.update(&piece));
            let digest = hasher.finalize().to_vec();
            let hashed = started.elapsed();
            let (done, put) = timed(bare.put(&key, &body, lab.config.storage.write_chunk, Some(&digest))).await;
            done?;
            for _ in 0..PROBES {
                let (found, took) = timed(bare.client.query_opt(&probe, &[&key, &signed(size), &digest])).await;
                anyhow::ensure!(found?.is_some(), "an object that was just put is not found");
                if round > 0 {
                    probes.push(took);
                }
            }
            if round > 0 {
                puts.push(put);
                hashes.push(hashed);
            }
            bare.delete(std::slice::from_ref(&key)).await?;
        }
        lab.reclaim(&bare.client).await?;
        let saved = puts.p50().zip(hashes.p50()).zip(probes.p50()).map(|((put, hash), probe)| put / (hash + probe));
        let p50 = |samples: &Samples| Cell::from(samples.p50());
        table.row([Cell::from(size), p50(&puts), p50(&hashes), p50(&probes), probes.p99().into(), saved.into()]);
        lab.progress.step();
    }
    Ok(report(lab, table))
}

fn table() -> Table {
    let columns = [
        ("size_bytes", "size", Unit::Bytes),
        ("put_p50_ms", "fresh put p50", Unit::Milliseconds),
        ("sha256_p50_ms", "SHA-256 p50", Unit::Milliseconds),
        ("probe_p50_ms", "probe p50", Unit::Milliseconds),
        ("probe_p99_ms", "probe p99", Unit::Milliseconds),
        ("times_cheaper", "times cheaper", Unit::None),
    ];
    Table::new("reput", "Putting the same content again", &columns)
}

fn report(lab: &Lab<'_>, table: Table) -> Report {
    let mut report = Report::new("reput", "Compare and skip", "What does it cost to put again what is there already?");
    report.method(format!(
        "{} after one that warms up: a fresh put with its digest, then {PROBES} probes by key, size and digest. \
         Times cheaper: the fresh put over hashing and probing. The hash is computed on this machine, one thread.",
        lab.rounds_text()
    ));
    let probes: Vec<f64> = table.series("", "size_bytes", "probe_p50_ms").points.iter().map(|p| p[1]).collect();
    if let (Some(least), Some(most)) =
        (probes.iter().copied().reduce(f64::min), probes.iter().copied().reduce(f64::max))
    {
        report.finding(format!("the probe takes {least:.2} to {most:.2} ms (p50), whatever the size"));
    }
    report.plots.push(Plot {
        id: "reput".into(),
        title: "A fresh put, and the same content again".into(),
        meaning: "The probe is flat: a re-put costs a look-up and the hash of its bytes, while a fresh put grows with its size."
            .into(),
        shape: Shape::Lines,
        x: Axis::log("object size", Unit::Bytes),
        y: Axis::log("time (p50)", Unit::Milliseconds),
        series: vec![
            table.series("fresh put", "size_bytes", "put_p50_ms"),
            table.series("SHA-256", "size_bytes", "sha256_p50_ms"),
            table.series("probe", "size_bytes", "probe_p50_ms"),
        ],
    });
    report.tables.push(table);
    report
}
