//! What a fuzzer feeds with bytes off the wire: the whole edge, with s3s, protocol and engine behind it, on a database that
//! can't be reached. Whatever arrives is answered, and never with 500.
//!
//! Two edges: one that asks for signatures, as every gateway does, and one that does not, so that bytes which nobody signed
//! get to the parsers behind. Compiled into tests and fuzz targets alone.
#![allow(clippy::expect_used, missing_docs, reason = "a fuzzer is told by a panic")]

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::auth::{Directory, RootCredentials};
use crate::config::Config;
use crate::db::{Db, PoolOptions, ServerFacts, Target};
use crate::protocol::Gateway;
use crate::protocol::error::from_storage;
use crate::startup;
use crate::storage::{RunningReads, Storage};

use super::edge::Edge;
use super::host::Hosts;
use super::{ServerSettings, listener, s3_service};

/// Long enough for every answer that does not wait for the database.
const PATIENCE: Duration = Duration::from_secs(30);

/// An edge, and the runtime it lives in: one whose clock stands still unless everybody waits, so that no retry takes time.
pub struct Wire {
    runtime: Runtime,
    edge: Edge,
}

impl Wire {
    #[must_use]
    pub fn new(signed: bool) -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        let edge = {
            let _inside = runtime.enter();
            edge(signed)
        };
        Self { runtime, edge }
    }

    /// Sends bytes as a client that then closes its end, and looks at the answer.
    ///
    /// # Panics
    /// Where it is none that the edge may give.
    pub fn send(&self, bytes: &[u8]) {
        let answer = self.runtime.block_on(async {
            tokio::time::timeout(PATIENCE, exchange(self.edge.clone(), bytes)).await.unwrap_or_default()
        });
        let head = String::from_utf8_lossy(&answer[..answer.len().min(4096)]).into_owned();
        assert!(!head.starts_with("HTTP/1.1 500"), "{}\n\n{head}", String::from_utf8_lossy(bytes));
        let refused = head.starts_with("HTTP/1.1 4") || head.starts_with("HTTP/1.1 5");
        if refused && head.to_ascii_lowercase().contains("x-amz-request-id") && head.contains("<?xml") {
            assert!(head.contains("<Code>") && head.contains("<RequestId>"), "{head}");
        }
    }
}

async fn exchange(edge: Edge, bytes: &[u8]) -> Vec<u8> {
    let (near, far) = tokio::io::duplex(256 << 10);
    let http = listener::http_builder(Duration::from_secs(1));
    let serving = async {
        // Bytes that are no HTTP end the connection with an error.
        let _ = http.serve_connection(TokioIo::new(far), edge).await;
    };
    let asking = async {
        let (mut reader, mut writer) = tokio::io::split(near);
        let writing = async {
            let _ = writer.write_all(bytes).await;
            let _ = writer.shutdown().await;
        };
        let mut answer = Vec::new();
        let _ = tokio::join!(writing, reader.read_to_end(&mut answer));
        answer
    };
    tokio::join!(serving, asking).1
}

fn edge(signed: bool) -> Edge {
    let config = Config::default();
    let facts = ServerFacts {
        version: 150_000,
        version_text: "15".into(),
        pooled: false,
        lz4: false,
        fsync: true,
        standby: false,
    };
    // Nobody listens there.
    let target = Target::parse("postgres://nobody@127.0.0.1:1/nothing").expect("a URL");
    let short = Duration::from_millis(10);
    let pools = PoolOptions {
        size: 1,
        writer_size: 1,
        wait_timeout: short,
        connect_timeout: short,
        statement_timeout: short,
        max_age: short,
    };
    let db = Db::new(&target, facts, &pools).expect("pools");
    let reads = Arc::new(RunningReads::new(String::new(), Duration::from_secs(u64::from(u32::MAX)), Instant::now()));
    let storage = Storage::new(db, startup::storage_options(&config), reads);
    let settings = ServerSettings::from(&config);
    let hosts = Hosts::new(&settings.domains);
    let gateway = Gateway::new(storage.clone(), settings.region.clone(), settings.default_ownership);
    let root = RootCredentials { access_key: "AKIAIOSFODNN7EXAMPLE".into(), secret_key: "secret".into() };
    let directory = Arc::new(Directory::new(storage.clone(), root, Arc::new(|| None), from_storage));
    let directory = signed.then_some(&directory);
    let s3 = s3_service::build(&gateway, directory, (&settings.region, false), &hosts).expect("a service");
    Edge::new(s3, storage, hosts, &settings)
}
