//! What every test stands on: a real PostgreSQL, gateways as processes, and clients that can be as wrong as they like.
//!
//! [`Stage`] is what most tests start from: a database of their own, one gateway on it, a bucket and the clients.

pub(crate) mod chunked;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod database;
pub(crate) mod inspect;
pub(crate) mod linearizability;
pub(crate) mod proxy;
pub(crate) mod raw;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod sigv4;
pub(crate) mod small_disk;
mod undertaker;

pub(crate) use undertaker::{forget, kill_at_end};

use std::future::Future;
use std::time::{Duration, Instant};

pub(crate) use client::{Failure, failure};
pub(crate) use database::Database;
pub(crate) use raw::Reply;
pub(crate) use request::RawRequest;
pub(crate) use server::Gateway;

/// How long anything may take that should happen soon, on a slow and busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The bucket that [`Stage::start`] creates.
pub(crate) const BUCKET: &str = "bucket";

/// A gateway on a database of its own, with one empty bucket.
pub(crate) struct Stage {
    // Dropped in this order: the gateway ends before its database goes.
    pub(crate) gateway: Gateway,
    pub(crate) s3: aws_sdk_s3::Client,
    pub(crate) database: Database,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With settings in the environment, for example `("LOBGATE_STORAGE_INLINE_MAX", "4KiB")`.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        Self::on(Database::create().await, settings).await
    }

    /// On a database that is there, for example one of a cluster that is to crash.
    pub(crate) async fn on(database: Database, settings: &[(&str, &str)]) -> Self {
        let gateway = Gateway::start(&database.url(), settings).await;
        let s3 = client::sdk(&gateway.endpoint);
        s3.create_bucket().bucket(BUCKET).send().await.expect("create the stage's bucket");
        Self { gateway, s3, database }
    }

    /// A request of the raw client, signed with the root credentials unless told otherwise.
    pub(crate) fn request(&self, method: &str, target: &str) -> RawRequest {
        RawRequest::new(&self.gateway.endpoint, method, target)
    }

    /// Creates a user with an access key of the same name, by the command line.
    pub(crate) async fn user(&self, name: &'static str) -> User<'_> {
        self.lobgate(&["user", "create", name]).await;
        let secret = "secret-of-a-user";
        self.lobgate(&["key", "create", "--user", name, "--access-key", name, "--secret-key", secret]).await;
        let rows = self.database.superuser().await;
        let row = rows.query_one("SELECT canonical_id, account FROM lobgate.iam_user WHERE name = $1", &[&name]).await;
        let row = row.expect("the user");
        User { stage: self, name, secret, id: row.get(0), account: row.get(1) }
    }

    /// Runs a command on the stage's database, which has to succeed; gives what it says.
    pub(crate) async fn lobgate(&self, arguments: &[&str]) -> String {
        let done = server::run(&self.database.url(), arguments).await;
        assert!(done.status.success(), "{arguments:?}: {}", server::text(&done));
        server::text(&done)
    }

    pub(crate) async fn put(&self, key: &str, body: &[u8]) {
        let body = aws_sdk_s3::primitives::ByteStream::from(body.to_vec());
        let put = self.s3.put_object().bucket(BUCKET).key(key).body(body).send().await;
        put.unwrap_or_else(|error| panic!("put {key:?}: {error:?}"));
    }

    pub(crate) async fn get(&self, key: &str) -> Vec<u8> {
        let got = self.s3.get_object().bucket(BUCKET).key(key).send().await;
        let got = got.unwrap_or_else(|error| panic!("get {key:?}: {error:?}"));
        got.body.collect().await.expect("the whole body").to_vec()
    }

    pub(crate) async fn delete(&self, key: &str) {
        let deleted = self.s3.delete_object().bucket(BUCKET).key(key).send().await;
        deleted.unwrap_or_else(|error| panic!("delete {key:?}: {error:?}"));
    }

    pub(crate) async fn exists(&self, key: &str) -> bool {
        let head = self.s3.head_object().bucket(BUCKET).key(key).send().await;
        match head {
            Ok(_) => true,
            Err(error) if error.raw_response().is_some_and(|reply| reply.status().as_u16() == 404) => false,
            Err(error) => panic!("head {key:?}: {error:?}"),
        }
    }
}

/// A user of a stage.
pub(crate) struct User<'a> {
    stage: &'a Stage,
    /// Also its access key.
    pub(crate) name: &'static str,
    pub(crate) secret: &'static str,
    pub(crate) id: String,
    pub(crate) account: String,
}

impl User<'_> {
    /// A request that it signs.
    pub(crate) fn request(&self, method: &str, target: &str) -> RawRequest {
        self.stage.request(method, target).credentials(self.name, self.secret)
    }

    /// Sends one; gives the status, and the code of a refusal.
    pub(crate) async fn asks(&self, method: &str, target: &str) -> (u16, String) {
        self.request(method, target).send().await.refusal()
    }

    pub(crate) fn arn(&self) -> String {
        format!("arn:aws:iam::{}:user/{}", self.account, self.name)
    }
}

/// The path of `key` in the stage's bucket, percent-encoded as clients send it.
pub(crate) fn path(key: &str) -> String {
    format!("/{BUCKET}/{}", sigv4::encode(key, true))
}

/// Bytes that look random and are not: `seed` decides them all.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0xd1b5_4a32_d192_ed03) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    out.truncate(length);
    out
}

/// Asks `condition` again and again until it holds; fails after [`DEADLINE`].
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let started = Instant::now();
    while !condition().await {
        assert!(started.elapsed() < DEADLINE, "still waiting after {DEADLINE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs a future to its end on a thread of its own: for `Drop` and other places that can't await.
pub(crate) fn blocking<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(work)
    });
    thread.join().expect("the blocking work")
}

/// MD5 in lower-case hexadecimal: what an ETag holds.
pub(crate) fn md5_hex(data: &[u8]) -> String {
    use md5::Digest as _;
    hex::encode(md5::Md5::digest(data))
}

/// Base64 as in `Content-MD5` and the `x-amz-checksum-*` headers.
pub(crate) fn base64(data: impl AsRef<[u8]>) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(data)
}
