//! Many objects at once: rows as the gateway would have made them, by `INSERT … SELECT generate_series`.
//!
//! Listings need objects alone, so theirs share one content, as copies do; where growth is measured, every object has a
//! content of its own. Rows lie in another order than their keys, as in a store that grew.

use tokio_postgres::Client;

use super::stage::Stage;

/// Rows of one statement: between two the run can be stopped.
const BATCH: i64 = 50_000;

const CONTENT: &str = "INSERT INTO lobgate.content (id, inline, size, md5)
VALUES ($1, ''::bytea, 0, decode(md5(''), 'hex'))";

const LISTED: &str = "INSERT INTO lobgate.object (bucket_id, key, content_id, size, etag, owner, last_modified)
SELECT $1, format('directory-%s/%s', lpad((n % $2)::text, 6, '0'), lpad(n::text, 9, '0')), $3, 0, md5(''), 'bench',
       date_trunc('milliseconds', clock_timestamp())
FROM generate_series($4::bigint, $5::bigint - 1) AS n";

/// Bytes of an object: `n` in decimal, 64 characters long.
const OWN: &str = "WITH s AS MATERIALIZED (
    SELECT gen_random_uuid() AS id, n, convert_to(lpad(n::text, 64, '0'), 'UTF8') AS bytes
    FROM generate_series($2::bigint, $3::bigint - 1) AS n
), c AS (
    INSERT INTO lobgate.content (id, inline, size, md5) SELECT id, bytes, 64, decode(md5(bytes), 'hex') FROM s
)
INSERT INTO lobgate.object (bucket_id, key, content_id, size, etag, owner, last_modified)
SELECT $1, 'grown/' || md5(n::text), id, 64, md5(bytes), 'bench', date_trunc('milliseconds', clock_timestamp()) FROM s";

/// Common prefixes that so many listed objects lie below.
pub(super) fn prefixes(rows: u32, most: u32) -> usize {
    usize::try_from(rows.min(most)).unwrap_or(usize::MAX)
}

/// Fills a bucket for listings.
///
/// # Errors
/// A statement failed.
pub(super) async fn listed(stage: &Stage<'_>, client: &Client, bucket: i32, prefixes: u32) -> anyhow::Result<()> {
    let content = uuid::Uuid::now_v7();
    client.execute(CONTENT, &[&content]).await?;
    let (statement, rows) = (client.prepare(LISTED).await?, i64::from(stage.args.rows));
    for (from, to) in batches(0, rows) {
        stage.lab.progress.doing(format!("filling a bucket: {from} of {rows} rows"));
        client.execute(&statement, &[&bucket, &i64::from(prefixes), &content, &from, &to]).await?;
    }
    client.batch_execute("VACUUM ANALYZE lobgate.object").await?;
    Ok(())
}

/// Adds objects with a content each to a bucket, numbers `from..to`.
///
/// # Errors
/// A statement failed.
pub(super) async fn grown(stage: &Stage<'_>, client: &Client, bucket: i32, from: u32, to: u32) -> anyhow::Result<()> {
    let statement = client.prepare(OWN).await?;
    for (begin, end) in batches(i64::from(from), i64::from(to)) {
        stage.lab.progress.doing(format!("growing: {begin} of {to} objects"));
        client.execute(&statement, &[&bucket, &begin, &end]).await?;
    }
    // Each on its own: VACUUM is refused in a transaction, which one message is.
    client.batch_execute("VACUUM ANALYZE lobgate.object").await?;
    client.batch_execute("VACUUM ANALYZE lobgate.content").await?;
    Ok(())
}

fn batches(from: i64, to: i64) -> impl Iterator<Item = (i64, i64)> {
    (0..)
        .map(move |number| from + number * BATCH)
        .take_while(move |at| *at < to)
        .map(move |at| (at, to.min(at + BATCH)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_cover_all_rows_once() {
        assert_eq!(batches(0, 120_000).collect::<Vec<_>>(), [(0, 50_000), (50_000, 100_000), (100_000, 120_000)]);
        assert_eq!(batches(7, 9).collect::<Vec<_>>(), [(7, 9)]);
        assert_eq!(batches(9, 9).count(), 0);
        assert_eq!((prefixes(10, 1000), prefixes(5000, 1000)), (10, 1000));
    }
}
