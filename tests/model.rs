//! The engine's contract against a model: after any mix of operations the listing, the companion tables and the large
//! objects tell one story, and it is the model's.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::harness::inspect::{assert_consistent, assert_empty, large_objects, until_reclaimed};
use crate::harness::{Stage, bytes, md5_hex, path};
use crate::multipart;

const INLINE_MAX: usize = 4096;
const SETTINGS: &[(&str, &str)] = &[
    ("LOBGATE_STORAGE_INLINE_MAX", "4KiB"),
    ("LOBGATE_STORAGE_BUFFER_MAX", "64KiB"),
    ("LOBGATE_GC_INTERVAL", "100ms"),
];

#[derive(Debug, Clone)]
enum Operation {
    /// Inline, buffered or streamed, by its size.
    Put {
        key: u8,
        seed: u64,
        size: usize,
    },
    Delete {
        key: u8,
    },
    Copy {
        from: u8,
        to: u8,
    },
    /// An upload of one or two parts that is completed.
    Multipart {
        key: u8,
        seed: u64,
        size: usize,
    },
    /// The same, aborted.
    Abandon {
        key: u8,
        seed: u64,
        size: usize,
    },
    /// A copy of an object becomes the only part of another.
    PartCopy {
        from: u8,
        to: u8,
    },
    /// A put with a condition that cannot hold, and one whose checksum is wrong.
    Refused {
        key: u8,
        seed: u64,
        size: usize,
    },
    Read {
        key: u8,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || 0..5_u8;
    let size = || {
        prop::sample::select(vec![0, 1, 2047, 2048, 2049, INLINE_MAX, INLINE_MAX + 1, 30_000, 65_536, 65_537, 200_000])
    };
    // Few seeds: the same bytes come again under the same and other keys.
    let seed = || 0..3_u64;
    prop_oneof![
        5 => (key(), seed(), size()).prop_map(|(key, seed, size)| Operation::Put { key, seed, size }),
        3 => key().prop_map(|key| Operation::Delete { key }),
        3 => (key(), key()).prop_map(|(from, to)| Operation::Copy { from, to }),
        2 => (key(), seed(), size()).prop_map(|(key, seed, size)| Operation::Multipart { key, seed, size }),
        1 => (key(), seed(), size()).prop_map(|(key, seed, size)| Operation::Abandon { key, seed, size }),
        1 => (key(), key()).prop_map(|(from, to)| Operation::PartCopy { from, to }),
        1 => (key(), seed(), size()).prop_map(|(key, seed, size)| Operation::Refused { key, seed, size }),
        2 => key().prop_map(|key| Operation::Read { key }),
    ]
}

type Model = BTreeMap<String, Vec<u8>>;

fn name(key: u8) -> String {
    format!("key/{key}")
}

async fn apply(stage: &Stage, model: &mut Model, operation: &Operation) {
    match *operation {
        Operation::Put { key, seed, size } => {
            stage.put(&name(key), &bytes(seed, size)).await;
            model.insert(name(key), bytes(seed, size));
        }
        Operation::Delete { key } => {
            stage.delete(&name(key)).await;
            model.remove(&name(key));
        }
        Operation::Copy { from, to } => {
            let request = stage.request("PUT", &path(&name(to))).header("x-amz-copy-source", &path(&name(from)));
            let copied = request.header("x-amz-metadata-directive", "REPLACE").send().await;
            match model.get(&name(from)).cloned() {
                Some(data) => {
                    assert_eq!(copied.status, 200, "{}", copied.text());
                    model.insert(name(to), data);
                }
                None => assert_eq!(copied.refusal(), (404, "NoSuchKey".to_owned())),
            }
        }
        Operation::Multipart { key, seed, size } => {
            multipart::upload(stage, &name(key), &[bytes(seed, size)]).await;
            model.insert(name(key), bytes(seed, size));
        }
        Operation::Abandon { key, seed, size } => {
            let id = multipart::create(stage, &name(key)).await;
            multipart::part(stage, &name(key), &id, 1, &bytes(seed, size)).await;
            let abort = stage.request("DELETE", &format!("{}?uploadId={id}", path(&name(key))));
            assert_eq!(abort.send().await.status, 204);
        }
        Operation::PartCopy { from, to } => part_copy(stage, model, &name(from), &name(to)).await,
        Operation::Refused { key, seed, size } => {
            let put = stage.request("PUT", &path(&name(key))).body(bytes(seed, size));
            let other = put.clone().header("x-amz-checksum-crc32", "AAAAAA==").send().await;
            assert!(other.status == 400 || size == 0, "{}", other.text());
            if other.status == 200 {
                model.insert(name(key), Vec::new());
            }
            let matched = put.header("if-match", "\"00000000000000000000000000000000\"").send().await;
            assert!(matches!(matched.status, 404 | 412), "{}", matched.text());
        }
        Operation::Read { key } => {
            let got = stage.request("GET", &path(&name(key))).send().await;
            match model.get(&name(key)) {
                Some(data) => assert!(got.status == 200 && got.body == *data, "{}", name(key)),
                None => assert_eq!(got.status, 404),
            }
        }
    }
}

async fn part_copy(stage: &Stage, model: &mut Model, from: &str, to: &str) {
    let id = multipart::create(stage, to).await;
    let target = format!("{}?partNumber=1&uploadId={id}", path(to));
    let copied = stage.request("PUT", &target).header("x-amz-copy-source", &path(from)).send().await;
    let Some(data) = model.get(from).cloned() else {
        assert_eq!(copied.refusal(), (404, "NoSuchKey".to_owned()));
        assert_eq!(stage.request("DELETE", &format!("{}?uploadId={id}", path(to))).send().await.status, 204);
        return;
    };
    assert_eq!(copied.status, 200, "{}", copied.text());
    let done = multipart::complete(stage, to, &id, &[(1, &copied.xml("ETag").expect("an ETag"))]).send().await;
    assert_eq!(done.status, 200, "{}", done.text());
    model.insert(to.to_owned(), data);
}

/// Listing, rows, bytes and large objects agree with the model; then everything is deleted and nothing is left.
async fn settle(stage: &Stage, model: &Model) {
    let listed = stage.request("GET", "/bucket?list-type=2").send().await;
    assert_eq!(listed.xml_all("Key"), model.keys().cloned().collect::<Vec<_>>());
    let sizes: Vec<String> = model.values().map(|data| data.len().to_string()).collect();
    assert_eq!(listed.xml_all("Size"), sizes);
    for (key, data) in model {
        assert!(stage.get(key).await == *data, "{key}: {} bytes, {}", data.len(), md5_hex(data));
    }
    until_reclaimed(&stage.database).await;
    assert_consistent(&stage.database).await;
    let referred = "SELECT count(*) FROM lobgate.content WHERE loid IS NOT NULL";
    assert_eq!(large_objects(&stage.database).await, stage.database.count(referred).await);
    for key in model.keys() {
        stage.delete(key).await;
    }
    until_reclaimed(&stage.database).await;
    assert_empty(&stage.database).await;
}

#[test]
fn any_mix_of_operations_leaves_what_the_model_has_and_nothing_else() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let stage = runtime.block_on(Stage::with(SETTINGS));
    let config = Config { cases: 16, failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
    let outcome = TestRunner::new(config).run(&prop::collection::vec(operation(), 1..40), |operations| {
        // A failed case leaves objects behind, which must not fail the smaller ones that shrinking tries.
        runtime.block_on(async {
            for key in 0..5 {
                stage.delete(&name(key)).await;
            }
            let mut model = Model::new();
            for operation in &operations {
                apply(&stage, &mut model, operation).await;
            }
            settle(&stage, &model).await;
        });
        Ok(())
    });
    let _inside = runtime.enter();
    drop(stage);
    outcome.unwrap_or_else(|failed| panic!("{failed}"));
}

#[tokio::test]
async fn on_a_virgin_store_everything_is_a_clean_no_op_or_a_clean_error() {
    let stage = Stage::start().await;
    let key = path("k");
    assert!(!stage.exists("k").await);
    assert_eq!(stage.request("GET", &key).send().await.refusal(), (404, "NoSuchKey".to_owned()));
    assert_eq!(stage.request("DELETE", &key).send().await.status, 204);
    assert!(stage.request("GET", "/bucket").send().await.xml_all("Key").is_empty());
    assert!(stage.request("GET", "/bucket?uploads").send().await.xml_all("Key").is_empty());
    let copy = stage.request("PUT", &path("copy")).header("x-amz-copy-source", &key).send().await;
    assert_eq!(copy.refusal(), (404, "NoSuchKey".to_owned()));
    let verified = crate::harness::server::run(&stage.database.url(), &["verify"]).await;
    assert!(verified.status.success(), "{}", crate::harness::server::text(&verified));
    assert_empty(&stage.database).await;
}
