//! Rows of what moves no bytes: deletes, copies and completions take as long for large contents as for small ones.
//!
//! Each side does the same to objects of one size; the bar is on the ratio of the times, so that it holds on any machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::super::measure::{Samples, milliseconds, timed};
use super::bars::{Bound, Line, Measure, OURS, Side, in_turns};
use super::connection::Upload;
use super::endpoint::{Endpoint, Talk, delete_many, values};
use super::load::{Heads, Requests, Until};
use super::presign::Request;
use super::stage::Stage;

/// The side that does the same to small contents.
const SMALL: &str = "small contents";
/// What a large content may cost more: noise, as there is no reason for any.
const INDEPENDENT: Bound = Bound::AtMost(1.5);
/// Objects that are deleted or copied in a round, one after another.
const PER_ROUND: usize = 4;
/// Objects of a DeleteObjects, S3's most.
const MANY: u64 = 1000;
const MANY_SMALL: u64 = 4 << 10;
/// Above any `storage.inline_max` but the largest: each has a large object of its own.
const MANY_LARGE: u64 = 256 << 10;
const SMALL_OBJECT: u64 = 1 << 20;
/// Least size of a part that is not the last one.
const PART: u64 = 5 << 20;
/// The first part again and again, under other numbers.
const PARTS: &str =
    "INSERT INTO lobgate.upload_part (upload_id, part_number, content_id, size, md5, checksum, last_modified)
SELECT p.upload_id, n, p.content_id, p.size, p.md5, p.checksum, p.last_modified
FROM lobgate.upload_part p CROSS JOIN generate_series(2, $2) AS n WHERE p.upload_id = $1 AND p.part_number = 1";
/// Connections that store what is measured afterwards.
const CONNECTIONS: usize = 8;

/// DeleteObjects of 1000 objects with a content each.
pub(super) async fn delete_thousand(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let count = if stage.args.quick { 50 } else { MANY };
    let side = |name: &'static str, size: u64| {
        let body = stage.body(size);
        Side::new(name, move || {
            let body = body.clone();
            async move {
                let keys: Vec<String> = (0..count).map(|number| format!("many-{size}/{number:04}")).collect();
                let to = stage.ours.clone();
                let make = move |number: u64| to.head("PUT", &format!("many-{size}/{number:04}"), Some(size));
                storing(&stage.ours, make, Upload::new(&body, size))
                    .run(&stage.crew, CONNECTIONS, Until::operations(count), 0)
                    .await?;
                let mut talk = settled(stage).await?;
                let (head, list) = delete_many(&stage.ours, &keys);
                let (answer, took) = timed(talk.ok(&head, &list, "DeleteObjects")).await;
                let left = talk.ask(&stage.ours.head("GET", &keys[0], None), b"").await?.0.status;
                anyhow::ensure!(
                    !answer?.windows(5).any(|part| part == b"Error") && left == 404,
                    "an object was not deleted"
                );
                Ok(milliseconds(took))
            }
        })
    };
    let sides = vec![side(OURS, MANY_LARGE), side(SMALL, MANY_SMALL)];
    let standing = in_turns(stage.lab, row, Measure::Milliseconds, sides).await;
    Ok(standing.lines(&[(SMALL, INDEPENDENT)]))
}

/// DELETE of single objects.
pub(super) async fn delete_large(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let session = Arc::new(stage.lab.connect().await?);
    let side = |name: &'static str, size: u64| {
        let (body, session) = (stage.body(size), Arc::clone(&session));
        Side::new(name, move || {
            let (body, session) = (body.clone(), Arc::clone(&session));
            async move {
                let mut talk = stage.ours.talk().await?;
                let key = |number: usize| format!("delete-{size}/{number}");
                for number in 0..PER_ROUND {
                    talk.put(&key(number), &body).await?;
                }
                let mut talk = settled(stage).await?;
                let mut samples = Samples::default();
                for number in 0..PER_ROUND {
                    let head = stage.ours.head("DELETE", &key(number), None);
                    let (answer, took) = timed(talk.ok(&head, b"", "DeleteObject")).await;
                    answer?;
                    samples.push(took);
                }
                // The reaper has what it needs; the next side needs the room.
                stage.lab.reclaim(&session).await?;
                samples.p50().context("nothing was deleted")
            }
        })
    };
    let sides = vec![side(OURS, stage.args.large), side(SMALL, SMALL_OBJECT.min(stage.args.large))];
    let standing = in_turns(stage.lab, row, Measure::Milliseconds, sides).await;
    Ok(standing.lines(&[(SMALL, INDEPENDENT)]))
}

/// CopyObject of single objects.
pub(super) async fn copy(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let mut talk = stage.ours.talk().await?;
    let mut sides = Vec::new();
    for (name, size) in [(OURS, stage.args.large), (SMALL, SMALL_OBJECT.min(stage.args.large))] {
        let source = format!("copy-{name}/source").replace(' ', "-");
        let body = stage.body(size);
        talk.put(&source, &body).await?;
        let path = stage.ours.path(&source);
        sides.push(Side::new(name, move || {
            let (path, source) = (path.clone(), source.clone());
            async move {
                let mut talk = stage.ours.talk().await?;
                let mut samples = Samples::default();
                for number in 0..PER_ROUND {
                    let head = copying(&stage.ours, &format!("{source}-{number}"), &path, &[]);
                    let (answer, took) = timed(talk.ok(&head, b"", "CopyObject")).await;
                    answer?;
                    samples.push(took);
                }
                samples.p50().context("nothing was copied")
            }
        }));
        let once = copying(
            &stage.ours,
            &format!("copy-check-{size}"),
            &stage.ours.path(&format!("copy-{name}/source").replace(' ', "-")),
            &[],
        );
        talk.ok(&once, b"", "CopyObject").await?;
        talk.compare(&format!("copy-check-{size}"), &body).await?;
    }
    let standing = in_turns(stage.lab, row, Measure::Milliseconds, sides).await;
    Ok(standing.lines(&[(SMALL, INDEPENDENT)]))
}

/// CompleteMultipartUpload of very many parts, all of them copies of one object.
pub(super) async fn complete(stage: &Stage<'_>, row: &'static str) -> anyhow::Result<Vec<Line>> {
    let mut talk = stage.ours.talk().await?;
    let mut sides = Vec::new();
    for (name, size) in [(OURS, stage.args.large.max(PART)), (SMALL, PART)] {
        let source = format!("part-{size}/source");
        talk.put(&source, &stage.body(size)).await?;
        let path = stage.ours.path(&source);
        sides.push(Side::new(name, move || {
            let path = path.clone();
            async move { completed(stage, &path, size).await }
        }));
    }
    let standing = in_turns(stage.lab, row, Measure::Milliseconds, sides).await;
    Ok(standing.lines(&[(SMALL, INDEPENDENT)]))
}

/// Makes an upload of parts that are copies, and says how long it took to complete it.
async fn completed(stage: &Stage<'_>, source: &str, size: u64) -> anyhow::Result<f64> {
    let (ours, parts) = (&stage.ours, u64::from(stage.args.parts));
    let mut talk = ours.talk().await?;
    let key = format!("completed-{size}");
    let path = ours.path(&key);
    let request =
        Request { method: "POST", path: &path, query: &[("uploads", "")], length: Some(0), ..Request::default() };
    let started = talk.ok(&ours.signer.head(&request), b"", "CreateMultipartUpload").await?;
    let upload = values(&started, "UploadId").pop().context("no UploadId was given")?;
    let first = copying(ours, &key, source, &[("partNumber", "1"), ("uploadId", &upload)]);
    let answer = talk.ok(&first, b"", "UploadPartCopy").await?;
    let etag = values(&answer, "ETag").pop().context("no ETag was given")?;
    // As further UploadPartCopy requests would have left them, were they not read for their checksums.
    let id = uuid::Uuid::parse_str(&upload).context("the UploadId is of a form that is not known here")?;
    stage.lab.connect().await?.execute(PARTS, &[&id, &i32::from(stage.args.parts)]).await?;
    let mut list = "<CompleteMultipartUpload>".to_owned();
    for number in 1..=parts {
        list.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"));
    }
    list.push_str("</CompleteMultipartUpload>");
    let head = ours.signer.head(&Request {
        method: "POST",
        path: &path,
        query: &[("uploadId", &upload)],
        length: Some(list.len() as u64),
        ..Request::default()
    });
    let mut talk = settled(stage).await?;
    let begun = Instant::now();
    talk.ok(&head, list.as_bytes(), "CompleteMultipartUpload").await?;
    let took = milliseconds(begun.elapsed());
    talk.ok(&ours.head("DELETE", &key, None), b"", "DeleteObject").await?;
    Ok(took)
}

/// Lets the disk come to rest after many bytes were stored, and gives a connection that was used already.
async fn settled(stage: &Stage<'_>) -> anyhow::Result<Talk> {
    tokio::time::sleep(Duration::from_secs_f64(stage.args.seconds.min(2.0))).await;
    let mut talk = stage.ours.talk().await?;
    for _ in 0..3 {
        talk.put("settled", b"x").await?;
        talk.ok(&stage.ours.head("DELETE", "settled", None), b"", "DeleteObject").await?;
    }
    Ok(talk)
}

/// The head of CopyObject, or of UploadPartCopy.
fn copying(endpoint: &Endpoint, key: &str, source: &str, query: &[(&str, &str)]) -> bytes::Bytes {
    endpoint.signer.head(&Request {
        method: "PUT",
        path: &endpoint.path(key),
        query,
        headers: &[("x-amz-copy-source", source)],
        length: Some(0),
    })
}

fn storing(endpoint: &Endpoint, make: impl Fn(u64) -> bytes::Bytes + Send + Sync + 'static, body: Upload) -> Requests {
    let (name, address) = (endpoint.name.clone(), endpoint.address);
    Requests { name, address, heads: Heads::fresh(make), body, expected: None, patient: false }
}
