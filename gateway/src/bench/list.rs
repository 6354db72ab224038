//! `bench list`: keys per page and per second, plain and rolled up by a delimiter, against the bare index.
//!
//! The table has the columns and the index that listings of the gateway scan. A roll-up that *skips* looks for the first
//! key behind each common prefix in the index, so it costs what it returns; one that groups reads every key.

use tokio_postgres::Client;

use super::lab::Lab;
use super::measure::{Samples, per_second, timed};
use super::plot::figure;
use super::report::{Axis, Cell, Plot, Report, Shape, Table, Unit};

/// Entries of a page, S3's most.
const PAGE: i64 = 1000;
/// Pages of a way in a round.
const PAGES: u32 = 10;

const TABLE: &str = "CREATE TABLE listing (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    bucket_id integer NOT NULL,
    key text COLLATE \"C\" NOT NULL,
    is_latest boolean NOT NULL DEFAULT true,
    size bigint NOT NULL,
    etag text NOT NULL,
    attributes jsonb,
    last_modified timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX listing_live ON listing (bucket_id, key) WHERE is_latest";

// Every directory is there from the first $3 objects on: later ones make them fuller.
const FILL: &str = "INSERT INTO listing (bucket_id, key, size, etag)
SELECT 1, format('directory-%s/%s-%s', lpad((n % $3)::text, 6, '0'), lpad(n::text, 9, '0'), substr(md5(n::text), 1, 8)),
       n, md5(n::text)
FROM generate_series($1::bigint, $2::bigint - 1) AS n";

/// A way to make a page; `$1` is the key to begin behind, `$2` the number of entries. The last column is the entry.
struct Way {
    id: &'static str,
    title: &'static str,
    sql: &'static str,
}

const WAYS: [Way; 5] = [
    Way {
        id: "plain",
        title: "Plain page: objects as a listing shows them",
        sql: "-- bench_list_plain
SELECT size, etag, last_modified, attributes ->> 'storage_class', key FROM listing
WHERE bucket_id = 1 AND is_latest AND key > $1 ORDER BY key LIMIT $2",
    },
    Way {
        id: "keys",
        title: "Keys alone: the bare index, sent to the client",
        sql: "-- bench_list_keys
SELECT key FROM listing WHERE bucket_id = 1 AND is_latest AND key > $1 ORDER BY key LIMIT $2",
    },
    Way {
        id: "index",
        title: "Bare index scan: nothing is sent but the number of keys and the last",
        sql: "-- bench_list_index
SELECT count(*), max(key) FROM (SELECT key FROM listing WHERE bucket_id = 1 AND is_latest AND key > $1 ORDER BY key LIMIT $2) p",
    },
    Way {
        id: "rollup",
        title: "Delimiter roll-up that skips past each common prefix",
        sql: "-- bench_list_rollup
WITH RECURSIVE walk (prefix) AS (
    (SELECT split_part(key, '/', 1) FROM listing WHERE bucket_id = 1 AND is_latest AND key > $1 ORDER BY key LIMIT 1)
    UNION ALL
    -- '0' follows '/': the first key behind everything below the prefix
    SELECT (SELECT split_part(l.key, '/', 1) FROM listing l
            WHERE l.bucket_id = 1 AND l.is_latest AND l.key >= w.prefix || '0' ORDER BY l.key LIMIT 1)
    FROM walk w WHERE w.prefix IS NOT NULL
)
SELECT prefix || '/' FROM walk WHERE prefix IS NOT NULL LIMIT $2",
    },
    Way {
        id: "grouped",
        title: "Delimiter roll-up that reads every key",
        sql: "-- bench_list_grouped
SELECT split_part(key, '/', 1) || '/' FROM listing WHERE bucket_id = 1 AND is_latest AND key > $1
GROUP BY 1 ORDER BY 1 LIMIT $2",
    },
];

/// Listing: keys per second, pages of 1000 and delimiter roll-ups, against the bare index
///
/// Fills a companion table in three steps up to --objects rows, below --directories common prefixes, and reads pages of
/// 1000 entries: plain, keys alone, the index without sending anything, rolled up by skipping from prefix to prefix, and
/// rolled up by reading every key. Gives p50/p99 of a page and entries per second.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Example:\n  lobgate bench list --objects 5000000 --directories 1000")]
pub struct Args {
    /// Objects in the table
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    objects: u32,
    /// Common prefixes they lie below
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    directories: u32,
}

pub(super) async fn measure(args: &Args, lab: &Lab<'_>) -> anyhow::Result<Report> {
    let client = lab.connect().await?;
    client.batch_execute(TABLE).await?;
    let mut tables = WAYS.map(|way| Table::new(way.id, way.title, &COLUMNS));
    let mut levels = vec![args.objects / 100, args.objects / 10, args.objects];
    levels.retain(|level| *level > 0);
    lab.progress.expect(levels.len() * WAYS.len());
    let mut filled = 0;
    for level in levels {
        lab.progress.doing(format!("filling up to {level} objects"));
        let (from, to, directories) = (i64::from(filled), i64::from(level), i64::from(args.directories));
        client.execute(FILL, &[&from, &to, &directories]).await?;
        // As autovacuum would: index-only scans and the planner rest on it.
        client.batch_execute("VACUUM ANALYZE listing").await?;
        filled = level;
        for (way, table) in WAYS.iter().zip(&mut tables) {
            lab.progress.doing(format!("{level} objects: {}", way.id));
            let measured = pages(&client, lab, way).await?;
            let pages = &measured.pages;
            table.row([
                Cell::from(u64::from(level)),
                measured.entries.into(),
                pages.p50().into(),
                pages.p99().into(),
                per_second(measured.total, pages.total()).into(),
            ]);
            lab.progress.step();
        }
    }
    Ok(report(args, lab, tables))
}

/// Pages of one way.
#[derive(Default)]
struct Measured {
    pages: Samples,
    /// Most entries that a page had.
    entries: u64,
    /// Entries of all pages.
    total: u64,
}

async fn pages(client: &Client, lab: &Lab<'_>, way: &Way) -> anyhow::Result<Measured> {
    let statement = client.prepare(way.sql).await?;
    let mut measured = Measured::default();
    // Round 0 warms up.
    for round in 0..=lab.rounds {
        let mut after = String::new();
        for _ in 0..PAGES {
            let (rows, took) = timed(client.query(&statement, &[&after, &PAGE])).await;
            let rows = rows?;
            let last = rows.last().and_then(|row| row.get::<_, Option<String>>(row.len() - 1));
            let entries = match rows.first() {
                Some(counted) if way.id == "index" => u64::try_from(counted.get::<_, i64>(0))?,
                _ => rows.len() as u64,
            };
            if round > 0 && last.is_some() {
                measured.pages.push(took);
                measured.entries = measured.entries.max(entries);
                measured.total += entries;
            }
            // Behind everything below a common prefix; from the beginning again where the listing has ended.
            let next = last.filter(|_| entries == PAGE.unsigned_abs());
            after = next.map(|key| if key.ends_with('/') { key.replace('/', "0") } else { key }).unwrap_or_default();
        }
    }
    Ok(measured)
}

const COLUMNS: [(&str, &str, Unit); 5] = [
    ("objects", "objects", Unit::None),
    ("page_entries", "entries of a page", Unit::None),
    ("page_p50_ms", "page p50", Unit::Milliseconds),
    ("page_p99_ms", "page p99", Unit::Milliseconds),
    ("entries_per_second", "entries", Unit::PerSecond),
];

fn report(args: &Args, lab: &Lab<'_>, tables: [Table; 5]) -> Report {
    let mut report =
        Report::new("list", "Listing", "How many keys a second does a listing give, and what does a roll-up cost?");
    report.method(format!(
        "{} of {PAGES} pages for every way, after one that warms up, out of caches, one connection. The objects lie \
         below {} common prefixes, whatever their number.",
        lab.rounds_text(),
        args.directories
    ));
    report.method(
        "Rows lie in the order in which objects arrived, which is not that of their keys, as in a store that grew.",
    );
    let last = |id: &str, key: &str| {
        let table = tables.iter().find(|table| table.id == id);
        table.and_then(|table| table.series("", "objects", key).points.last().map(|p| p[1]))
    };
    if let (Some(plain), Some(index)) = (last("plain", "entries_per_second"), last("index", "entries_per_second")) {
        let (plain, index) = (figure(plain), figure(index));
        report.finding(format!("plain pages: {plain} keys a second; the bare index scan: {index}"));
    }
    if let (Some(skip), Some(group)) = (last("rollup", "page_p50_ms"), last("grouped", "page_p50_ms")) {
        report.finding(format!("rolled up by skipping: {skip:.2} ms a page; by reading every key: {group:.2} ms"));
    }
    let series = |key: &str| tables.iter().map(|table| table.series(&table.id, "objects", key)).collect();
    report.plots.push(Plot {
        id: "pages".into(),
        title: "Time of a page by number of objects".into(),
        meaning:
            "A page costs what it returns, however many objects there are, unless a roll-up has to read every key."
                .into(),
        shape: Shape::Lines,
        x: Axis::log("objects in the bucket", Unit::None),
        y: Axis::log("time of a page (p50)", Unit::Milliseconds),
        series: series("page_p50_ms"),
    });
    report.plots.push(Plot {
        id: "entries".into(),
        title: "Entries per second by number of objects".into(),
        meaning: "The distance between the bare index and a plain page is the price of reading rows and sending them."
            .into(),
        shape: Shape::Lines,
        x: Axis::log("objects in the bucket", Unit::None),
        y: Axis::log("entries", Unit::PerSecond),
        series: series("entries_per_second"),
    });
    report.tables = tables.into();
    report
}
