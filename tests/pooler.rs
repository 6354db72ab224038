//! Behind a transaction-pooling PgBouncer: no session state survives, and nothing needs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use nix::unistd::chown;

use crate::harness::cluster::{ROLE, ROLE_PASSWORD, command, free_port, unprivileged, url_at};
use crate::harness::inspect::{assert_consistent, until_reclaimed};
use crate::harness::{BUCKET, Database, Gateway, RawRequest, bytes, client, eventually, path};

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// A running PgBouncer in front of the database's server.
struct Pooler {
    process: Child,
    directory: PathBuf,
    port: u16,
}

impl Pooler {
    async fn start(database: &Database) -> Self {
        let directory = tempfile::Builder::new().prefix("lobgate-test-pooler-").tempdir().expect("a directory").keep();
        let port = free_port();
        let settings = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 8\n\
             max_client_conn = 200\nlogfile = {}\n",
            database.cluster.host,
            database.cluster.port,
            directory.join("users").display(),
            directory.join("log").display(),
        );
        fs::write(directory.join("settings"), settings).expect("the settings");
        fs::write(directory.join("users"), format!("\"{ROLE}\" \"{ROLE_PASSWORD}\"\n")).expect("the users");
        if let Some(user) = unprivileged() {
            chown(&directory, Some(user.uid), Some(user.gid)).expect("give the directory away");
        }
        let process = command(Path::new(PROGRAM), &directory)
            .arg(directory.join("settings"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start pgbouncer");
        crate::harness::kill_at_end(process.id());
        let address = format!("127.0.0.1:{port}");
        eventually("the pooler listens", || async { tokio::net::TcpStream::connect(&address).await.is_ok() }).await;
        Self { process, directory, port }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        crate::harness::forget(self.process.id());
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[tokio::test]
async fn everything_works_through_a_transaction_pooler() {
    let may_miss = std::env::var_os("LOBGATE_TEST_ALLOW_MISSING_CLIENTS").is_some_and(|value| value == "1");
    if !Path::new(PROGRAM).exists() {
        assert!(may_miss, "{PROGRAM} is missing: install the package pgbouncer");
        return;
    }
    let database = Database::virgin().await;
    let pooler = Pooler::start(&database).await;
    let url = url_at("127.0.0.1", pooler.port, &database.name);
    let settings = [("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"), ("LOBGATE_GC_INTERVAL", "100ms")];
    let gateways = [Gateway::start(&url, &settings).await, Gateway::start(&url, &settings).await];
    let s3 = client::sdk(&gateways[0].endpoint);
    s3.create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    let work = (0..24_u64).map(|number| {
        let endpoint = &gateways[usize::try_from(number % 2).unwrap()].endpoint;
        async move {
            let size = [10, 100_000, 600_000][usize::try_from(number % 3).unwrap()];
            let (data, key) = (bytes(number, size), format!("k{number}"));
            let put = RawRequest::new(endpoint, "PUT", &path(&key)).body(&data).send().await;
            assert_eq!(put.status, 200, "{}", put.text());
            let got = RawRequest::new(endpoint, "GET", &path(&key)).send().await;
            assert!(got.status == 200 && got.body == data, "{key}: {}", got.status);
            let deleted = RawRequest::new(endpoint, "DELETE", &path(&key)).send().await;
            assert_eq!(deleted.status, 204);
        }
    });
    futures::future::join_all(work).await;
    let listed = RawRequest::new(&gateways[1].endpoint, "GET", "/bucket?list-type=2").send().await;
    assert_eq!(listed.xml("KeyCount").as_deref(), Some("0"));
    until_reclaimed(&database).await;
    assert_consistent(&database).await;
    assert_eq!(crate::harness::inspect::large_objects(&database).await, 0);
}
