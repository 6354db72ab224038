//! Offsets beyond 2 GiB and 4 GiB: no 32-bit number anywhere on the way of a ranged read.

use crate::harness::{Stage, bytes, path};

const GIB: i64 = 1 << 30;
/// Length of each marked stretch.
const MARK: usize = 3_000_000;

/// Makes the object a sparse one of a little more than 5 GiB: only the stretches around the marks have pages.
async fn stretch(stage: &Stage, marks: &[i64]) -> i64 {
    let client = stage.database.superuser().await;
    let row =
        client.query_one("SELECT loid FROM lobgate.content WHERE loid IS NOT NULL", &[]).await.expect("one content");
    let loid: u32 = row.get(0);
    for (seed, mark) in (1..).zip(marks) {
        let data = bytes(seed, MARK);
        client.execute("SELECT lo_put($1, $2, $3)", &[&loid, mark, &data]).await.expect("write a stretch");
    }
    let size = 5 * GIB + 4_000_001;
    client.execute("SELECT lo_put($1, $2, '\\x2a')", &[&loid, &(size - 1)]).await.expect("write the last byte");
    client.execute("UPDATE lobgate.content SET size = $1 WHERE loid = $2", &[&size, &loid]).await.expect("its size");
    client.execute("UPDATE lobgate.object SET size = $1", &[&size]).await.expect("the object's size");
    size
}

#[tokio::test]
async fn ranges_straddling_2_and_4_gib_are_byte_exact() {
    let stage = Stage::start().await;
    stage.put("k", &bytes(0, 100_000)).await;
    let marks = [2 * GIB - 1_000_000, 4 * GIB - 1_000_001];
    let size = stretch(&stage, &marks).await;
    let head = stage.request("HEAD", &path("k")).send().await;
    assert_eq!(head.header("content-length"), Some(size.to_string().as_str()));
    for (seed, mark) in (1..).zip(marks) {
        let data = bytes(seed, MARK);
        for (skip, length) in
            [(0, MARK), (999_999, 2), (1_000_000, 1), (1_000_001, 1), (500_000, 1_500_000), (MARK - 1, 1)]
        {
            let start = mark + i64::try_from(skip).unwrap();
            let end = start + i64::try_from(length).unwrap() - 1;
            let request = stage.request("GET", &path("k")).header("range", &format!("bytes={start}-{end}"));
            let got = request.send().await;
            assert_eq!(got.header("content-range"), Some(format!("bytes {start}-{end}/{size}").as_str()));
            assert!(got.status == 206 && got.body == data[skip..skip + length], "bytes {start}-{end}");
        }
    }
    let last = stage.request("GET", &path("k")).header("range", "bytes=-1").send().await;
    assert_eq!(last.text(), "*");
    let hole = stage.request("GET", &path("k")).header("range", "bytes=3221225472-3221325471").send().await;
    assert!(hole.body == vec![0; 100_000], "pages that were never written read as zeros");
    let beyond = stage.request("GET", &path("k")).header("range", &format!("bytes={size}-")).send().await;
    assert_eq!(beyond.status, 416);
}
