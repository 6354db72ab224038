//! Rows of listings: pages, roll-ups and the whole of a large bucket, against scans of the same index.

use std::sync::Arc;
use std::time::Instant;

use tokio_postgres::{Client, Statement};

use super::super::measure::{milliseconds, per_second};
use super::bars::{BARE, Bound, LIMIT, Line, Measure, OURS, Side, Standing, in_turns};
use super::connection::Upload;
use super::endpoint::{Endpoint, Talk, count, values};
use super::fill;
use super::load::{Heads, Requests, Until};
use super::presign::Request;
use super::stage::Stage;

/// Keys of a page, S3's most.
const PAGE: i64 = 1000;
/// Common prefixes in the large bucket.
pub(super) const PREFIXES: u32 = 1000;
/// A whole listing has to give as many keys a second.
const WHOLE: f64 = 100_000.0;
/// The small bucket that others are compared on.
const SMALL_KEYS: u64 = 2000;
const SMALL_PREFIXES: u64 = 20;
const SMALL_CONNECTIONS: usize = 4;

/// The plainest scan that gives what a listing shows.
pub(super) const SCAN: &str = "SELECT key, size, etag, last_modified FROM lobgate.object
WHERE bucket_id = $1 AND is_latest AND NOT is_delete_marker AND key > $2 ORDER BY key LIMIT $3";

/// The plainest statement that finds the common prefixes of the large bucket without reading what lies below: a loose
/// index scan, which PostgreSQL does by recursion only.
pub(super) const LOOSE_SCAN: &str = "WITH RECURSIVE walk AS (
    (SELECT key FROM lobgate.object
     WHERE bucket_id = $1 AND is_latest AND NOT is_delete_marker ORDER BY key LIMIT 1)
    UNION ALL
    SELECT n.key FROM walk w CROSS JOIN LATERAL (
        SELECT o.key FROM lobgate.object o
        WHERE o.bucket_id = $1 AND o.is_latest AND NOT o.is_delete_marker
          AND o.key >= left(w.key, strpos(w.key, '/') - 1) || '0'
        ORDER BY o.key LIMIT 1) n)
SELECT left(key, strpos(key, '/')) FROM walk";

/// Pages one after another, from the beginning again where the listing ends.
struct Walk {
    talk: Talk,
    endpoint: Endpoint,
    token: Option<String>,
}

impl Walk {
    async fn start(endpoint: &Endpoint) -> anyhow::Result<Self> {
        Ok(Self { talk: endpoint.talk().await?, endpoint: endpoint.clone(), token: None })
    }

    /// Reads a page and gives the number of its keys.
    async fn page(&mut self) -> anyhow::Result<u64> {
        let mut query = vec![("list-type", "2"), ("max-keys", "1000")];
        if let Some(token) = &self.token {
            query.push(("continuation-token", token));
        }
        let path = format!("/{}", self.endpoint.bucket);
        let request = Request { method: "GET", path: &path, query: &query, ..Request::default() };
        let page = self.talk.ok(&self.endpoint.signer.head(&request), b"", "a listing").await?;
        // At the very end, whatever the page holds.
        let tail = &page[page.len().saturating_sub(2048)..];
        let head = &page[..page.len().min(2048)];
        let token = values(head, "NextContinuationToken").pop().or_else(|| values(tail, "NextContinuationToken").pop());
        self.token = token.or_else(|| values(&page, "NextContinuationToken").pop());
        Ok(count(&page, "<Key>") as u64)
    }
}

/// The bucket of many keys, filled once for all rows.
pub(super) async fn large_bucket(stage: &Stage<'_>) -> anyhow::Result<Endpoint> {
    let endpoint = Endpoint { bucket: format!("{}-list", stage.ours.bucket), ..stage.ours.clone() };
    let client = stage.lab.connect().await?;
    let known = client.query_opt("SELECT FROM lobgate.bucket WHERE name = $1", &[&endpoint.bucket]).await?;
    if known.is_none() {
        endpoint.talk().await?.create_bucket().await?;
        let bucket = stage.bucket_id_of(&endpoint.bucket).await?;
        fill::listed(stage, &client, bucket, PREFIXES).await?;
    }
    Ok(endpoint)
}

/// Pages of 1000 keys of the large bucket, on one connection.
pub(super) async fn pages(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let endpoint = large_bucket(stage).await?;
    let ours = Side::new(OURS, move || {
        let endpoint = endpoint.clone();
        async move {
            let mut walk = Walk::start(&endpoint).await?;
            walk.page().await?;
            let (begun, mut pages) = (Instant::now(), 0_u32);
            while begun.elapsed().as_secs_f64() < stage.args.seconds || pages == 0 {
                walk.page().await?;
                pages += 1;
            }
            Ok(milliseconds(begun.elapsed()) / f64::from(pages))
        }
    });
    let bare = scan_side(stage).await?;
    let standing = in_turns(stage.lab, row, Measure::Milliseconds, vec![ours, bare]).await;
    Ok(standing.lines(&[(BARE, Bound::AtMost(1.5))]))
}

/// Pages of the bare scan.
async fn scan_side<'a>(stage: &'a Stage<'_>) -> anyhow::Result<Side<'a>> {
    let client = stage.lab.connect().await?;
    let statement = client.prepare(SCAN).await?;
    let bucket = stage.bucket_id_of(&format!("{}-list", stage.ours.bucket)).await?;
    let session = Arc::new((client, statement));
    Ok(Side::new(BARE, move || {
        let session = Arc::clone(&session);
        async move {
            let (client, statement): &(Client, Statement) = &session;
            let mut after = String::new();
            let (begun, mut pages) = (Instant::now(), 0_u32);
            while begun.elapsed().as_secs_f64() < stage.args.seconds || pages == 0 {
                let rows = client.query(statement, &[&bucket, &after, &PAGE]).await?;
                pages += 1;
                let last = rows.last().filter(|_| rows.len() == 1000).map(|last| last.get(0));
                after = last.unwrap_or_default();
            }
            Ok(milliseconds(begun.elapsed()) / f64::from(pages))
        }
    }))
}

/// The large bucket rolled up to its common prefixes, one page.
pub(super) async fn roll_up(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let endpoint = large_bucket(stage).await?;
    let head = endpoint.list_head(&[("list-type", "2"), ("delimiter", "/")]);
    let page = endpoint.talk().await?.ok(&head, b"", "a listing").await?;
    let (found, expected) = (count(&page, "<CommonPrefixes>"), fill::prefixes(stage.args.rows, PREFIXES));
    anyhow::ensure!(found == expected, "the listing gave {found} common prefixes instead of {expected}");
    let requests = Arc::new(Requests {
        name: endpoint.name.clone(),
        address: endpoint.address,
        heads: Heads::Turns(vec![head].into()),
        body: Upload::none(),
        expected: Some(page.len() as u64),
        patient: false,
    });
    let ours = Side::new(OURS, move || {
        let requests = Arc::clone(&requests);
        async move { requests.run(&stage.crew, 1, Until::time(stage.args.seconds), 0).await?.median() }
    });
    let sides = vec![ours, scan_side(stage).await?, loose_scan_side(stage, expected).await?];
    let standing = in_turns(stage.lab, row, Measure::Milliseconds, sides).await;
    Ok(standing.lines(&[(BARE, Bound::AtMost(3.0))]))
}

/// The same roll-up by a bare statement.
async fn loose_scan_side<'a>(stage: &'a Stage<'_>, expected: usize) -> anyhow::Result<Side<'a>> {
    let client = stage.lab.connect().await?;
    client.batch_execute("SET jit = off").await?;
    let statement = client.prepare(LOOSE_SCAN).await?;
    let bucket = stage.bucket_id_of(&format!("{}-list", stage.ours.bucket)).await?;
    let session = Arc::new((client, statement));
    Ok(Side::new("bare loose scan", move || {
        let session = Arc::clone(&session);
        async move {
            let (client, statement): &(Client, Statement) = &session;
            let (begun, mut pages) = (Instant::now(), 0_u32);
            while begun.elapsed().as_secs_f64() < stage.args.seconds || pages == 0 {
                let found = client.query(statement, &[&bucket]).await?.len();
                anyhow::ensure!(found == expected, "the loose scan gave {found} common prefixes");
                pages += 1;
            }
            Ok(milliseconds(begun.elapsed()) / f64::from(pages))
        }
    }))
}

/// The large bucket from its first key to its last.
pub(super) async fn whole(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let endpoint = large_bucket(stage).await?;
    let rows = u64::from(stage.args.rows);
    let ours = Side::new(OURS, move || {
        let endpoint = endpoint.clone();
        async move {
            let mut walk = Walk::start(&endpoint).await?;
            let (begun, mut keys) = (Instant::now(), walk.page().await?);
            while walk.token.is_some() {
                keys += walk.page().await?;
            }
            anyhow::ensure!(keys == rows, "the whole listing gave {keys} keys instead of {rows}");
            Ok(per_second(keys, begun.elapsed()))
        }
    });
    let limit = Side::new(LIMIT, || async { Ok(WHOLE) });
    let standing = in_turns(stage.lab, row, Measure::PerSecond, vec![ours, limit]).await;
    Ok(standing.lines(&[(LIMIT, Bound::AtLeast(1.0))]))
}

/// A small bucket, as others can be filled with too: a page of 1000 keys, or a roll-up to 20 prefixes.
pub(super) async fn small(stage: &Stage<'_>, row: &'static str, delimiter: bool) -> anyhow::Result<Vec<Line>> {
    let mut sides = Vec::new();
    for endpoint in stage.endpoints() {
        sides.push(match small_requests(stage, &endpoint, delimiter).await {
            Err(error) => Side::failed(&endpoint.name, &error),
            Ok(requests) => {
                let requests = Arc::new(requests);
                Side::new(&endpoint.name, move || {
                    let requests = Arc::clone(&requests);
                    let until = Until::time(stage.args.seconds);
                    async move { Ok(requests.run(&stage.crew, SMALL_CONNECTIONS, until, 0).await?.rate()) }
                })
            }
        });
    }
    let standing: Standing = in_turns(stage.lab, row, Measure::PerSecond, sides).await;
    Ok(standing.lines(&[("garage", Bound::AtLeast(if delimiter { 6.0 } else { 1.5 }))]))
}

async fn small_requests(stage: &Stage<'_>, endpoint: &Endpoint, delimiter: bool) -> anyhow::Result<Requests> {
    let mut talk = endpoint.talk().await?;
    let last = format!("list/{:02}/{:06}", (SMALL_KEYS - 1) % SMALL_PREFIXES, SMALL_KEYS - 1);
    if talk.ask(&endpoint.head("GET", &last, None), b"").await?.0.status != 200 {
        let keys = endpoint.clone();
        let make = move |number| keys.head("PUT", &format!("list/{:02}/{number:06}", number % SMALL_PREFIXES), Some(1));
        let filling = Requests {
            name: endpoint.name.clone(),
            address: endpoint.address,
            heads: Heads::fresh(make),
            body: Upload::new(b"x", 1),
            expected: None,
            patient: false,
        };
        filling.run(&stage.crew, 8, Until::operations(SMALL_KEYS), SMALL_KEYS).await?;
        // Servers close connections that were idle for long.
        talk = endpoint.talk().await?;
    }
    let (query, element, expected): (&[_], _, _) = if delimiter {
        (&[("list-type", "2"), ("prefix", "list/"), ("delimiter", "/")], "<CommonPrefixes>", SMALL_PREFIXES)
    } else {
        (&[("list-type", "2"), ("prefix", "list/"), ("max-keys", "1000")], "<Key>", 1000)
    };
    let head = endpoint.list_head(query);
    let page = talk.ok(&head, b"", "a listing").await?;
    let found = count(&page, element) as u64;
    anyhow::ensure!(found == expected, "{} listed {found} entries instead of {expected}", endpoint.name);
    Ok(Requests {
        name: endpoint.name.clone(),
        address: endpoint.address,
        heads: Heads::Turns(vec![head].into()),
        body: Upload::none(),
        expected: None,
        patient: false,
    })
}
