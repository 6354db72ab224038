//! A PostgreSQL server for the tests.
//!
//! One cluster is started lazily and shared by every test of the process; tests that crash the server start their own.
//! `LOBGATE_TEST_DATABASE_URL` names a running server to use instead (as its superuser), `LOBGATE_TEST_PG_BIN` the
//! directory of the binaries; without it the newest of the distribution's is taken.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};
use tempfile::TempDir;
use tokio_postgres::config::Host;

use super::undertaker;

const START_DEADLINE: Duration = Duration::from_secs(60);

/// The role that owns the tests' databases: what a managed server would give.
pub(crate) const ROLE: &str = "lobgate_test";
pub(crate) const ROLE_PASSWORD: &str = "lobgate-test";

/// A running PostgreSQL server, and how to reach it as its superuser.
pub(crate) struct Cluster {
    pub(crate) host: String,
    pub(crate) port: u16,
    superuser: tokio_postgres::Config,
    own: Option<Own>,
    /// Name of the migrated template database, once there is one.
    pub(crate) template: tokio::sync::OnceCell<String>,
}

struct Own {
    directory: PathBuf,
    binaries: PathBuf,
    fsync: bool,
    /// Beside those of every cluster.
    settings: Vec<String>,
    postmaster: Mutex<Child>,
}

impl Cluster {
    /// The cluster that all ordinary tests share.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<Cluster>> = OnceLock::new();
        let cluster = SHARED.get_or_init(|| match std::env::var("LOBGATE_TEST_DATABASE_URL") {
            Ok(url) => Arc::new(Self::existing(&url)),
            Err(_) => Self::start(false),
        });
        Arc::clone(cluster)
    }

    fn existing(url: &str) -> Self {
        let superuser: tokio_postgres::Config = url.parse().expect("LOBGATE_TEST_DATABASE_URL is a PostgreSQL URL");
        let host = match superuser.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "127.0.0.1".to_owned(),
        };
        let port = superuser.get_ports().first().copied().unwrap_or(5432);
        let cluster = Self { host, port, superuser, own: None, template: tokio::sync::OnceCell::new() };
        cluster.create_role();
        cluster
    }

    /// Starts a new cluster. Crash tests want `fsync`, everything else is faster without.
    pub(crate) fn start(fsync: bool) -> Arc<Self> {
        Self::create(directory("lobgate-test-pg-"), fsync, &[])
    }

    /// Starts a durable one with further settings.
    pub(crate) async fn start_with(settings: &[String]) -> Arc<Self> {
        let settings = settings.to_vec();
        let starting =
            tokio::task::spawn_blocking(move || Self::create(directory("lobgate-test-pg-"), true, &settings));
        starting.await.expect("a cluster")
    }

    /// Starts a durable one whose files lie in a small place, save the WAL: where that has no room the server stops.
    pub(crate) fn start_in(place: &Path, wal: &Path) -> Arc<Self> {
        let small = ["max_wal_size=32MB", "min_wal_size=32MB", "shared_buffers=16MB"].map(str::to_owned);
        Self::create_with(directory_in(place, "lobgate-test-pg-"), true, &small, Some(wal))
    }

    /// Starts one on the files of another, which lie in `data` of a directory.
    pub(crate) async fn start_on(files: TempDir, settings: &[String]) -> Arc<Self> {
        let settings = settings.to_vec();
        tokio::task::spawn_blocking(move || Self::launch(files, true, &settings)).await.expect("a cluster")
    }

    fn create(directory: TempDir, fsync: bool, settings: &[String]) -> Arc<Self> {
        Self::create_with(directory, fsync, settings, None)
    }

    fn create_with(directory: TempDir, fsync: bool, settings: &[String], wal: Option<&Path>) -> Arc<Self> {
        let mut initdb = command(&binaries().join("initdb"), directory.path());
        initdb.args(["-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C", "-D"]);
        initdb.arg(directory.path().join("data"));
        if let Some(wal) = wal {
            initdb.arg("--waldir").arg(wal);
        }
        let initdb = initdb.output().expect("run initdb");
        assert!(initdb.status.success(), "initdb: {}", String::from_utf8_lossy(&initdb.stderr));
        let cluster = Self::launch(directory, fsync, settings);
        cluster.create_role();
        cluster
    }

    fn launch(directory: TempDir, fsync: bool, settings: &[String]) -> Arc<Self> {
        let directory = directory.keep();
        undertaker::remove_cluster_at_end(&directory);
        let (binaries, port) = (binaries(), free_port());
        let postmaster = Mutex::new(launch(&binaries, &directory, port, fsync, settings));
        let mut superuser = tokio_postgres::Config::new();
        superuser.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
        let cluster = Self {
            host: "127.0.0.1".to_owned(),
            port,
            superuser,
            own: Some(Own { directory, binaries, fsync, settings: settings.to_vec(), postmaster }),
            template: tokio::sync::OnceCell::new(),
        };
        cluster.await_ready();
        Arc::new(cluster)
    }

    /// The directory of the server's programs.
    pub(crate) fn binaries(&self) -> PathBuf {
        self.own.as_ref().map_or_else(binaries, |own| own.binaries.clone())
    }

    /// How to reach database `name` as the superuser.
    pub(crate) fn superuser(&self, name: &str) -> tokio_postgres::Config {
        let mut config = self.superuser.clone();
        config.dbname(name);
        config
    }

    /// The URL of database `name` for the role that owns it.
    pub(crate) fn url(&self, name: &str) -> String {
        url_at(&self.host, self.port, name)
    }

    /// Kills the server and every backend at once, as a power cut would, leaving its files as they are.
    pub(crate) fn kill_9(&self) {
        let own = self.own.as_ref().expect("a cluster of our own");
        let mut postmaster = own.postmaster.lock().expect("the postmaster");
        let children = children_of(postmaster.id());
        postmaster.kill().expect("kill the postmaster");
        for child in children {
            let _ = kill(child, Signal::SIGKILL);
        }
        postmaster.wait().expect("the postmaster ends");
    }

    /// Starts the killed server again and waits until it has recovered.
    pub(crate) fn restart(&self) {
        let own = self.own.as_ref().expect("a cluster of our own");
        let _ = fs::remove_file(own.directory.join("data/postmaster.pid"));
        let child = launch(&own.binaries, &own.directory, self.port, own.fsync, &own.settings);
        *own.postmaster.lock().expect("the postmaster") = child;
        self.await_ready();
    }

    fn await_ready(&self) {
        let own = self.own.as_ref().expect("a cluster of our own");
        let started = Instant::now();
        loop {
            let status = fs::read_to_string(own.directory.join("data/postmaster.pid")).unwrap_or_default();
            if status.lines().nth(7).is_some_and(|line| matches!(line.trim(), "ready" | "standby")) {
                return;
            }
            let ended = own.postmaster.lock().expect("the postmaster").try_wait().expect("its state");
            if ended.is_some() || started.elapsed() > START_DEADLINE {
                let log = fs::read_to_string(own.directory.join("log")).unwrap_or_default();
                panic!("PostgreSQL did not start:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn create_role(&self) {
        let config = self.superuser("postgres");
        super::blocking(async move {
            let client = super::database::connect(&config).await;
            let statement = format!("CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOCREATEDB PASSWORD '{ROLE_PASSWORD}'");
            if let Err(error) = client.batch_execute(&statement).await {
                let code = error.code().map(|state| state.code().to_owned());
                assert!(matches!(code.as_deref(), Some("42710" | "23505")), "create the role: {error:?}");
            }
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            let mut postmaster = own.postmaster.lock().expect("the postmaster");
            let pid = Pid::from_raw(i32::try_from(postmaster.id()).expect("a process id"));
            let _ = kill(pid, Signal::SIGQUIT);
            let _ = postmaster.wait();
            let _ = fs::remove_dir_all(&own.directory);
        }
    }
}

/// A URL for the tests' role, on any address (a proxy or pooler, say).
pub(crate) fn url_at(host: &str, port: u16, name: &str) -> String {
    if host.starts_with('/') {
        return format!("postgres://{ROLE}:{ROLE_PASSWORD}@{}:{port}/{name}", host.replace('/', "%2F"));
    }
    format!("postgres://{ROLE}:{ROLE_PASSWORD}@{host}:{port}/{name}")
}

fn launch(binaries: &Path, directory: &Path, port: u16, fsync: bool, settings: &[String]) -> Child {
    let log = fs::File::options().create(true).append(true).open(directory.join("log")).expect("a log file");
    let mut postgres = command(&binaries.join("postgres"), directory);
    postgres.arg("-D").arg(directory.join("data")).arg("-k").arg(directory).args(["-p", &port.to_string()]);
    let durable = if fsync { "on" } else { "off" };
    // Where the server is to crash, WAL is written by commits alone: what is not committed is lost, as in a power cut.
    let wal_writer_delay = if fsync { "10s" } else { "200ms" };
    for setting in [
        "listen_addresses=127.0.0.1".to_owned(),
        format!("fsync={durable}"),
        format!("full_page_writes={durable}"),
        format!("wal_writer_delay={wal_writer_delay}"),
        "max_connections=500".to_owned(),
        "max_locks_per_transaction=256".to_owned(),
        "max_wal_size=2GB".to_owned(),
        "autovacuum_naptime=10s".to_owned(),
    ] {
        postgres.args(["-c", &setting]);
    }
    for setting in settings {
        postgres.args(["-c", setting]);
    }
    let log_twin = log.try_clone().expect("a second handle of the log");
    postgres.stdin(Stdio::null()).stdout(log).stderr(log_twin).process_group(0).spawn().expect("start postgres")
}

/// A command run as the user `postgres` when we are root, which PostgreSQL refuses to be.
pub(crate) fn command(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).env("LC_ALL", "C");
    if let Some(user) = unprivileged() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

/// The user to run servers as that refuse to run as root.
pub(crate) fn unprivileged() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten())
}

fn binaries() -> PathBuf {
    if let Ok(directory) = std::env::var("LOBGATE_TEST_PG_BIN") {
        return PathBuf::from(directory);
    }
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = installed
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .max();
    if let Some((_, bin)) = newest {
        return bin;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|directory| directory.join("initdb").exists() && directory.join("postgres").exists())
        .expect("PostgreSQL's server binaries: install them, or set LOBGATE_TEST_PG_BIN or LOBGATE_TEST_DATABASE_URL")
}

/// A directory that the server's user may write.
pub(crate) fn directory(prefix: &str) -> TempDir {
    directory_in(&std::env::temp_dir(), prefix)
}

fn directory_in(place: &Path, prefix: &str) -> TempDir {
    let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(place).expect("a directory");
    if let Some(user) = unprivileged() {
        chown(directory.path(), Some(user.uid), Some(user.gid)).expect("give the directory to the server's user");
    }
    directory
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind any port");
    listener.local_addr().expect("its address").port()
}

fn children_of(parent: u32) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let ppid: u32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
            (ppid == parent).then(|| Pid::from_raw(pid))
        })
        .collect()
}
