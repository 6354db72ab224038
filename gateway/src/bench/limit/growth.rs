//! Rows of growth: what GET, PUT and a page of a listing cost among many more objects.
//!
//! Few and many can't be measured in turns, for they are the same tables: few come first, the others are added, and the
//! ratio is that of the medians before and after.

use bytes::Bytes;

use super::super::measure::median;
use super::bars::{Bound, Line, Measure, OURS, Standing};
use super::connection::Upload;
use super::endpoint::{Endpoint, count};
use super::fill;
use super::load::{Heads, Requests, Until};
use super::stage::Stage;

/// Objects among which is measured first.
const FEW: u32 = 10_000;
/// Keys that are read and listed from, spread over all of them.
const SAMPLED: u32 = 2000;
const CONNECTIONS: usize = 8;
const SIZE: u64 = 64;
/// What growth may cost.
const BOUND: Bound = Bound::AtLeast(1.0 / 1.3);

/// Rates of the three operations.
struct Rates {
    get: anyhow::Result<f64>,
    put: anyhow::Result<f64>,
    list: anyhow::Result<f64>,
}

pub(super) const ROWS: [&str; 3] = ["growth-get", "growth-put", "growth-list"];

/// All three, for they need the same objects.
pub(super) async fn growth(stage: &Stage<'_>) -> anyhow::Result<Vec<Line>> {
    let client = stage.lab.connect().await?;
    let endpoint = Endpoint { bucket: format!("{}-grown", stage.ours.bucket), ..stage.ours.clone() };
    endpoint.talk().await?.create_bucket().await?;
    let bucket = stage.bucket_id_of(&endpoint.bucket).await?;
    let many = stage.args.objects;
    let few = FEW.min(many / 10).max(1);
    let puts = Heads::fresh({
        let endpoint = endpoint.clone();
        move |number| endpoint.head("PUT", &format!("grown/{:x}", put_key(number)), Some(SIZE))
    });
    fill::grown(stage, &client, bucket, 0, few).await?;
    let before = rates(stage, &endpoint, &puts, few).await;
    fill::grown(stage, &client, bucket, few, many).await?;
    let after = rates(stage, &endpoint, &puts, many).await;
    let few = format!("{few} objects");
    let pairs = [(after.get, before.get), (after.put, before.put), (after.list, before.list)];
    let mut lines = Vec::new();
    for (row, (many, before)) in ROWS.into_iter().zip(pairs) {
        let standing = Standing::of(row, Measure::PerSecond, vec![(OURS, many), (&few, before)]);
        lines.extend(standing.lines(&[(&few, BOUND)]));
    }
    Ok(lines)
}

/// A key in no order, as those of the other objects.
fn put_key(number: u64) -> u128 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (u128::from(mixed) << 64) | u128::from(number)
}

async fn rates(stage: &Stage<'_>, endpoint: &Endpoint, puts: &Heads, objects: u32) -> Rates {
    let step = (objects / SAMPLED).max(1);
    let names: Vec<String> = (0..objects).step_by(step as usize).map(name).collect();
    let gets: Vec<Bytes> = names.iter().map(|name| endpoint.head("GET", name, None)).collect();
    let pages =
        names.iter().map(|name| endpoint.list_head(&[("list-type", "2"), ("max-keys", "100"), ("start-after", name)]));
    let requests = |heads: Heads, body: Upload, expected: Option<u64>| Requests {
        name: endpoint.name.clone(),
        address: endpoint.address,
        heads,
        body,
        expected,
        patient: false,
    };
    let get = requests(Heads::Turns(gets.into()), Upload::none(), Some(SIZE));
    let put = requests(puts.clone(), Upload::new(&stage.body(SIZE), SIZE), None);
    let list = requests(Heads::Turns(pages.collect()), Upload::none(), None);
    let proven = async {
        let mut talk = endpoint.talk().await?;
        talk.compare(&name(1), format!("{:064}", 1).as_bytes()).await?;
        let page = endpoint.list_head(&[("list-type", "2"), ("max-keys", "100")]);
        let page = talk.ok(&page, b"", "a listing").await?;
        let expected = 100.min(objects as usize);
        anyhow::ensure!(count(&page, "<Key>") == expected, "a page has {} keys", count(&page, "<Key>"));
        anyhow::Ok(())
    };
    let get = match proven.await {
        Ok(()) => rate(stage, "GET", &get).await,
        Err(error) => Err(error),
    };
    Rates { get, put: rate(stage, "PUT", &put).await, list: rate(stage, "LIST", &list).await }
}

/// The median of the rounds, after one that warms up.
async fn rate(stage: &Stage<'_>, what: &str, requests: &Requests) -> anyhow::Result<f64> {
    let until = Until::time(stage.args.seconds);
    let mut figures = Vec::new();
    for round in 0..=stage.lab.rounds {
        stage.lab.progress.doing(format!("growth: {what}"));
        let run = requests.run(&stage.crew, CONNECTIONS, until, 0).await?;
        if round > 0 {
            figures.push(run.rate());
        }
    }
    median(&figures).ok_or_else(|| anyhow::anyhow!("nothing was measured"))
}

/// The key of an object, as the database made it.
fn name(number: u32) -> String {
    use md5::Digest as _;
    format!("grown/{}", hex::encode(md5::Md5::digest(number.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_database_and_never_the_same() {
        assert_eq!(name(1), "grown/c4ca4238a0b923820dcc509a6f75849b");
        let keys: std::collections::BTreeSet<u128> = (0..10_000).map(put_key).collect();
        assert_eq!(keys.len(), 10_000);
    }
}
