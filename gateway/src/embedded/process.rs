//! One run of the server: start, wait until it answers, stop.
//!
//! The server is a direct child in its own process group. Its first words go to `logs/startup.log`, everything after
//! to its own log files. Invariant: a [`ServerProcess`] that is dropped while running has been told to stop in order,
//! so no path through lobgate forgets a server; only a killed lobgate does, and `orphans` looks after that.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Child;
use tokio_postgres::NoTls;

use super::error::{EmbeddedError, IoContext};
use super::initdb::SUPERUSER;
use super::layout::{Layout, SOCKET_NAME};
use super::logs::tail;
use super::settings::DURABLE;
use super::user::Launcher;

/// Longest wait for a start; crash recovery of a large log takes minutes.
const READY_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Time for an orderly stop; its last part is a checkpoint.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
const PROGRESS: Duration = Duration::from_secs(5);

/// What the server says, when it moves on to its own log files.
const COLLECTOR_NOTICE: &str = "logging collector";

/// All that is needed to start the server again.
#[derive(Debug, Clone)]
pub(super) struct ServerPlan {
    pub(super) launcher: Launcher,
    pub(super) layout: Layout,
    pub(super) socket_dir: PathBuf,
}

/// A running server.
#[derive(Debug)]
pub(super) struct ServerProcess {
    child: Child,
}

impl ServerPlan {
    /// Starts the server and returns once it answers.
    pub(super) async fn start(&self) -> Result<ServerProcess, EmbeddedError> {
        let mut server = self.spawn()?;
        let started = Instant::now();
        let mut reported = started;
        loop {
            if self.connect().await.is_ok() {
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait().context("watch", &self.layout.pgdata())? {
                return Err(self.exited(status));
            }
            if reported.elapsed() >= PROGRESS {
                reported = Instant::now();
                let waited_seconds = started.elapsed().as_secs();
                tracing::info!(waited_seconds, latest = %self.last_words(1), "waiting for the private PostgreSQL server");
            }
            if started.elapsed() > READY_TIMEOUT {
                let seconds = READY_TIMEOUT.as_secs();
                let data_dir = self.layout.root.clone();
                return Err(EmbeddedError::NotReady { data_dir, seconds, logs: self.layout.logs() });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// A connection as superuser, for preparing role and database.
    pub(super) async fn connect(&self) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(&self.socket_dir).user(SUPERUSER).dbname("postgres").application_name("lobgate setup");
        let (client, connection) = config.connect_timeout(Duration::from_secs(5)).connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    fn spawn(&self) -> Result<ServerProcess, EmbeddedError> {
        self.remove_stale_socket()?;
        let log_path = self.startup_log();
        let log = File::create(&log_path).context("write", &log_path)?;
        let log_too = log.try_clone().context("write", &log_path)?;
        let mut launch = self.launcher.prepare("postgres", &self.layout.pgdata())?;
        launch.command.arg("-D").arg(&launch.data_argument);
        for setting in DURABLE {
            launch.command.args(["-c", setting]);
        }
        launch.command.stdout(log).stderr(log_too);
        let spawned = tokio::process::Command::from(launch.command).spawn();
        Ok(ServerProcess { child: spawned.context("run", &self.launcher.binaries.program("postgres"))? })
    }

    /// The socket's own pid file misleads PostgreSQL as `postmaster.pid` may. Its directory serves this cluster only
    /// and nothing works on the cluster, so whatever is left there is stale.
    fn remove_stale_socket(&self) -> Result<(), EmbeddedError> {
        for name in [SOCKET_NAME.to_owned(), format!("{SOCKET_NAME}.lock")] {
            let path = self.socket_dir.join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).context("remove", &path);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn exited(&self, status: ExitStatus) -> EmbeddedError {
        EmbeddedError::Exited { status: describe(status), detail: self.last_words(3), logs: self.layout.logs() }
    }

    fn startup_log(&self) -> PathBuf {
        self.layout.logs().join("startup.log")
    }

    /// The newest lines of the server's log, or of what it said before it had one.
    fn last_words(&self, lines: usize) -> String {
        let before = tail(&self.startup_log(), lines);
        if !before.contains(COLLECTOR_NOTICE) {
            return before;
        }
        let entries = std::fs::read_dir(self.layout.logs()).into_iter().flatten().flatten();
        let is_log =
            |path: &PathBuf| path.extension().is_some_and(|end| end == "log") && !path.ends_with("startup.log");
        let dated = entries.map(|entry| entry.path()).filter(is_log).filter_map(|path| {
            let written = path.metadata().ok()?.modified().ok()?;
            Some((written, path))
        });
        dated.max().map(|(_, path)| tail(&path, lines)).unwrap_or_default()
    }
}

impl ServerProcess {
    /// Waits until the server ends by itself.
    pub(super) async fn ended(&mut self) -> String {
        self.child.wait().await.map_or_else(|error| error.to_string(), describe)
    }

    /// Process id of the server, while it runs.
    pub(super) fn pid(&self) -> Option<i32> {
        self.child.id().and_then(|id| i32::try_from(id).ok())
    }

    /// Kills it without a word; its backends notice by themselves.
    pub(super) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Stops the server in order: sessions are ended, transactions rolled back, a checkpoint is written.
    pub(super) async fn stop(mut self) {
        self.signal(Signal::SIGINT);
        if tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await.is_err() {
            tracing::warn!(
                "the private PostgreSQL server takes too long to stop: it is told to drop everything and will recover at its next start"
            );
            self.signal(Signal::SIGQUIT);
            if let Err(error) = self.child.wait().await {
                tracing::warn!(%error, "the private PostgreSQL server could not be waited for");
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // Refused only where the server is gone already, which is what was wanted.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.signal(Signal::SIGINT);
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "unknown end".to_owned(),
    }
}
