//! The private PostgreSQL of a gateway without a database URL: made, stopped, recovered and looked at by commands.

use std::path::{Path, PathBuf};

use crate::harness::server::{lobgate, text};
use crate::harness::{BUCKET, Gateway, RawRequest, bytes, client, path};

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::Builder::new().prefix("lobgate-test-home-").tempdir().expect("a directory"))
    }

    /// The data directory, below parents that are long enough to break a socket's path where `long`.
    fn data(&self, long: bool) -> PathBuf {
        if long { self.0.path().join("x".repeat(120)).join("data") } else { self.0.path().join("data") }
    }
}

async fn put_and_get(gateway: &Gateway, key: &str) {
    let data = bytes(1, 100_000);
    let put = RawRequest::new(&gateway.endpoint, "PUT", &path(key)).body(&data).send().await;
    assert_eq!(put.status, 200, "{}", put.text());
    assert!(RawRequest::new(&gateway.endpoint, "GET", &path(key)).send().await.body == data);
}

async fn verify(data: &Path) -> std::process::Output {
    let mut command = lobgate(&["verify", "--data-dir"]);
    command.arg(data);
    tokio::task::spawn_blocking(move || command.output()).await.expect("a thread").expect("run lobgate verify")
}

#[tokio::test]
async fn a_private_database_is_made_stopped_found_again_and_verified_at_rest() {
    let home = Home::new();
    let data = home.data(true);
    let mut gateway = Gateway::start_embedded(&data).await;
    client::sdk(&gateway.endpoint).create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    put_and_get(&gateway, "k").await;
    let running = verify(&data).await;
    assert!(running.status.success(), "while the gateway runs: {}", text(&running));
    assert!(gateway.terminate().await.success());
    let rest = verify(&data).await;
    assert!(rest.status.success(), "at rest: {}", text(&rest));
    let mut gateway = Gateway::start_embedded(&data).await;
    let got = RawRequest::new(&gateway.endpoint, "GET", &path("k")).send().await;
    assert!(got.body == bytes(1, 100_000));
    assert!(gateway.terminate().await.success());
}

#[tokio::test]
async fn after_a_kill_the_private_database_recovers() {
    let home = Home::new();
    let data = home.data(false);
    let mut gateway = Gateway::start_embedded(&data).await;
    client::sdk(&gateway.endpoint).create_bucket().bucket(BUCKET).send().await.expect("a bucket");
    put_and_get(&gateway, "k").await;
    gateway.kill_9();
    let mut gateway = Gateway::start_embedded(&data).await;
    let got = RawRequest::new(&gateway.endpoint, "GET", &path("k")).send().await;
    assert!(got.body == bytes(1, 100_000), "acknowledged, so it is there: {}", got.status);
    put_and_get(&gateway, "k2").await;
    assert!(gateway.terminate().await.success());
}

#[tokio::test]
async fn a_second_gateway_on_the_same_data_directory_is_refused_in_a_clear_sentence() {
    let home = Home::new();
    let data = home.data(false);
    let mut first = Gateway::start_embedded(&data).await;
    let mut second = Gateway::spawn_embedded(&data);
    assert!(!second.ended().await.success());
    let log = second.log();
    assert!(log.contains("another lobgate") || log.contains("in use") || log.contains("already"), "{log}");
    assert_eq!(log.lines().filter(|line| !line.is_empty()).count(), 1, "one sentence: {log}");
    client::sdk(&first.endpoint).create_bucket().bucket(BUCKET).send().await.expect("the first is unharmed");
    put_and_get(&first, "k").await;
    assert!(first.terminate().await.success());
}

#[tokio::test]
async fn root_keys_are_generated_once_and_kept_from_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let data = home.data(false);
    let mut keys = Vec::new();
    for _ in 0..2 {
        let mut gateway = Gateway::spawn_embedded_without_keys(&data);
        gateway.ready().await;
        let printed =
            gateway.log().lines().find_map(|line| line.strip_prefix("access key:").map(str::trim).map(str::to_owned));
        keys.push(printed.expect("the access key is printed"));
        assert!(gateway.terminate().await.success());
    }
    assert_eq!(keys[0], keys[1], "the pair is kept");
    let mut secrets = 0;
    for entry in std::fs::read_dir(&data).expect("the data directory").flatten() {
        let holds = std::fs::read_to_string(entry.path()).is_ok_and(|text| text.contains(&keys[0]));
        if holds {
            secrets += 1;
            let mode = entry.metadata().expect("its mode").permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", entry.path().display());
        }
    }
    assert_eq!(secrets, 1, "the pair is stored once");
}
