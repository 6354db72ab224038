//! The private server on the real binaries of this machine, through crashes of either side.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

fn options() -> EmbeddedOptions {
    EmbeddedOptions { postgres_bin: None, connections: 8, create: true }
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

async fn value(client: &tokio_postgres::Client, sql: &str) -> String {
    client.query_one(sql, &[]).await.expect("answered").get(0)
}

fn postmaster(data_dir: &Path) -> Pid {
    let text = std::fs::read_to_string(data_dir.join("postgres/postmaster.pid")).expect("running");
    Pid::from_raw(text.lines().next().expect("a line").parse().expect("a number"))
}

#[tokio::test]
async fn serves_an_ordinary_role_with_durable_settings() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let cluster = EmbeddedCluster::start(dir.path(), &options()).await.expect("started");
    let client = connect(cluster.url()).await;
    assert_eq!(value(&client, "SELECT current_user::text || current_database()").await, "lobgatelobgate");
    assert_eq!(value(&client, "SELECT rolsuper::text FROM pg_roles WHERE rolname = current_user").await, "false");
    assert_eq!(
        value(&client, "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = 'lobgate'").await,
        "lobgate"
    );
    for (setting, expected) in [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("data_checksums", "on"),
        ("listen_addresses", ""),
        ("server_encoding", "UTF8"),
        ("lc_collate", "C"),
        ("max_locks_per_transaction", "256"),
        ("max_connections", "72"),
    ] {
        assert_eq!(value(&client, &format!("SELECT current_setting('{setting}', true)")).await, expected, "{setting}");
    }
    client.batch_execute("CREATE SCHEMA lobgate; SELECT lo_create(0)").await.expect("the role owns its database");
    assert_eq!(std::fs::metadata(dir.path().join("run")).expect("run").permissions().mode() & 0o777, 0o700);
    let pid = postmaster(dir.path());
    cluster.stop().await;
    assert!(kill(pid, None).is_err(), "the server is gone after stop");
}

#[tokio::test]
async fn second_owner_is_refused_but_commands_may_join() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let cluster = EmbeddedCluster::start(dir.path(), &options()).await.expect("started");
    let error = EmbeddedCluster::start(dir.path(), &options()).await.expect_err("refused").to_string();
    assert!(error.contains(&std::process::id().to_string()) && error.lines().count() == 1, "{error}");
    let joined = EmbeddedCluster::attach_or_start(dir.path(), &options()).await.expect("joined");
    assert_eq!(joined.url(), cluster.url());
    joined.stop().await;
    connect(cluster.url()).await;
    cluster.stop().await;
    let alone = EmbeddedCluster::attach_or_start(dir.path(), &options()).await.expect("started for a while");
    connect(alone.url()).await;
    let pid = postmaster(dir.path());
    alone.stop().await;
    assert!(kill(pid, None).is_err());
}

#[tokio::test]
async fn commands_that_only_look_make_nothing() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let data_dir = dir.path().join("mistyped");
    let looking = EmbeddedOptions { create: false, ..options() };
    let error = EmbeddedCluster::attach_or_start(&data_dir, &looking).await.expect_err("nothing there");
    assert!(matches!(error, EmbeddedError::Missing { .. }), "{error}");
    assert!(!data_dir.exists());
}

#[tokio::test]
async fn killed_server_is_started_again_with_its_data() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let cluster = EmbeddedCluster::start(dir.path(), &options()).await.expect("started");
    connect(cluster.url()).await.batch_execute("CREATE TABLE kept AS SELECT 1").await.expect("committed");
    let first = postmaster(dir.path());
    kill(first, Signal::SIGKILL).expect("killed");
    let revived = async {
        loop {
            if let Ok((client, connection)) = tokio_postgres::connect(cluster.url(), NoTls).await {
                tokio::spawn(connection);
                if client.query_one("SELECT * FROM kept", &[]).await.is_ok() && postmaster(dir.path()) != first {
                    break;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), revived).await.expect("running again");
    cluster.stop().await;
}

#[tokio::test]
async fn left_behind_server_is_replaced() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let cluster = EmbeddedCluster::start(dir.path(), &options()).await.expect("started");
    connect(cluster.url()).await.batch_execute("CREATE TABLE kept AS SELECT 1").await.expect("committed");
    let first = postmaster(dir.path());
    // What a killed lobgate leaves: a running server without owner and without lock.
    cluster.supervisor.abort();
    drop(cluster);
    let again = EmbeddedCluster::start(dir.path(), &options()).await.expect("started over it");
    assert_ne!(postmaster(dir.path()), first);
    connect(again.url()).await.query_one("SELECT * FROM kept", &[]).await.expect("data kept");
    again.stop().await;
}

#[tokio::test]
async fn half_made_cluster_and_misleading_pid_file_are_overcome() {
    let dir = tempfile::tempdir().expect("temporary directory");
    std::fs::create_dir(dir.path().join("postgres.init-1")).expect("made");
    std::fs::write(dir.path().join("postgres.init-1/PG_VERSION"), "15").expect("written");
    let cluster = EmbeddedCluster::start(dir.path(), &options()).await.expect("started");
    assert!(!dir.path().join("postgres.init-1").exists());
    let socket_dir = cluster.plan.socket_dir.clone();
    cluster.stop().await;
    // As after a reboot: the pid file names a live process of the same user that is no server.
    let pgdata = dir.path().join("postgres");
    let owner = pgdata.metadata().expect("there").uid();
    let mut stranger = std::process::Command::new("sleep");
    let mut sleeping = std::os::unix::process::CommandExt::uid(stranger.arg("60"), owner).spawn().expect("sleeping");
    let misleading = format!("{}\n{}\n", sleeping.id(), pgdata.display());
    std::fs::write(pgdata.join("postmaster.pid"), &misleading).expect("written");
    std::fs::create_dir_all(&socket_dir).expect("made");
    std::fs::set_permissions(&socket_dir, PermissionsExt::from_mode(0o700)).expect("private");
    std::fs::write(socket_dir.join(".s.PGSQL.5432.lock"), &misleading).expect("written");
    let again = EmbeddedCluster::start(dir.path(), &options()).await.expect("started");
    again.stop().await;
    sleeping.kill().and_then(|()| sleeping.wait().map(drop)).expect("ended");
}

#[tokio::test]
async fn deep_and_closed_directories_work() {
    let dir = tempfile::tempdir().expect("temporary directory");
    // tempfile makes it 0700: as root, the server's user can't walk through it.
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).expect("closed");
    let deep = dir.path().join("a, b").join("x".repeat(120)).join("data dir");
    let cluster = EmbeddedCluster::start(&deep, &options()).await.expect("started");
    connect(cluster.url()).await;
    let socket_dir = cluster.plan.socket_dir.clone();
    assert!(!socket_dir.starts_with(dir.path()));
    let joined = EmbeddedCluster::attach_or_start(&deep, &options()).await.expect("joined");
    joined.stop().await;
    cluster.stop().await;
    assert!(!socket_dir.exists());
    let again = EmbeddedCluster::start(&deep, &options()).await.expect("started again");
    again.stop().await;
}

#[tokio::test]
async fn failed_start_says_why_in_one_line() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let cluster = EmbeddedCluster::start(dir.path(), &options()).await.expect("started");
    cluster.stop().await;
    let wishes = dir.path().join("postgres/local.conf");
    std::fs::write(&wishes, "shared_buffers = nonsense\n").expect("written");
    std::fs::set_permissions(&wishes, PermissionsExt::from_mode(0o644)).expect("readable");
    let error = EmbeddedCluster::start(dir.path(), &options()).await.expect_err("refused").to_string();
    assert!(error.contains("shared_buffers") && error.lines().count() == 1, "{error}");
}
