//! The gateway under test: this same binary, as a process of its own, on the scratch.
//!
//! It runs as `lobgate bench gateway`, which is `serve` tied to the process that started it: its stdin is a pipe that
//! nobody writes to, and the end of the pipe, which the kernel brings about even for a bench that is killed, stops it.
//! Invariant: it has the settings of the bench and none of the environment, so that both sides of a comparison are set
//! alike.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::config::{Config, parse_size};

use super::endpoint::Peer;

const ACCESS_KEY: &str = "LOBGATEBENCH";
/// Longest time until it serves.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time until it has stopped, with a private server.
const STOPPING: Duration = Duration::from_secs(30);
/// Lines of its log that are shown where it fails.
const LINES: usize = 5;
/// The setting that says how much of the blocks read is kept in memory.
const CACHE: &str = "cache.memory";
/// Settings that the bench makes itself.
const OURS: [&str; 8] = [
    "listen",
    "admin_listen",
    "database_url",
    "data_dir",
    "root_access_key",
    "root_secret_key",
    "postgres_bin",
    "auth.encryption_key",
];

/// A running gateway.
pub(crate) struct Gateway {
    child: Child,
    log: Log,
    peer: Peer,
    took: Duration,
}

/// What it has to know.
pub(crate) struct Plan<'a> {
    pub(crate) config: &'a Config,
    /// Name and value of settings that are its own.
    pub(crate) settings: Vec<(String, String)>,
}

type Log = Arc<Mutex<VecDeque<String>>>;

impl<'a> Plan<'a> {
    /// On a database.
    pub(crate) fn on_database(config: &'a Config, url: String) -> Self {
        Self { config, settings: vec![("database_url".to_owned(), url)] }
    }

    /// With a private server.
    pub(crate) fn in_directory(config: &'a Config, directory: &std::path::Path) -> Self {
        let mut settings = vec![("data_dir".to_owned(), directory.display().to_string())];
        let binaries = config.postgres_bin.as_ref().map(|path| path.display().to_string());
        settings.extend(binaries.map(|path| ("postgres_bin".to_owned(), path)));
        Self { config, settings }
    }

    /// Without a cache of blocks.
    pub(crate) fn uncached(mut self) -> Self {
        self.settings.push((CACHE.to_owned(), "0".to_owned()));
        self
    }

    fn environment(&self, secret: &str) -> Vec<(String, String)> {
        let inherited = self.config.settings().into_iter().filter(|(key, _)| !OURS.contains(&key.as_str()));
        let mut settings: Vec<_> = inherited.map(|(key, value)| (key, plain(&value))).collect();
        settings.extend([("listen", "127.0.0.1:0"), ("admin_listen", "127.0.0.1:0")].map(owned));
        settings.extend([("root_access_key", ACCESS_KEY), ("root_secret_key", secret)].map(owned));
        settings.extend(self.settings.iter().cloned());
        settings.into_iter().map(|(key, value)| (variable(&key), value)).collect()
    }
}

impl Gateway {
    /// Starts a gateway and waits until it serves.
    ///
    /// # Errors
    /// It does not serve; the end of its log is in the error.
    pub(crate) async fn start(plan: &Plan<'_>) -> anyhow::Result<Self> {
        let secret = uuid::Uuid::new_v4().simple().to_string();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "gateway"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LOBGATE_")) {
            command.env_remove(name);
        }
        command.envs(plan.environment(&secret));
        let started = Instant::now();
        let mut child = command.spawn().context("the gateway can't be started")?;
        let log = Log::default();
        let (found, mut endpoint) = mpsc::unbounded_channel();
        if let Some(errors) = child.stderr.take() {
            tokio::spawn(follow(errors, Arc::clone(&log), None));
        }
        if let Some(output) = child.stdout.take() {
            tokio::spawn(follow(output, Arc::clone(&log), Some(found)));
        }
        let peer = Peer::ours("", "", "", "");
        let mut gateway = Self { child, log, peer, took: Duration::ZERO };
        let Ok(Some(url)) = tokio::time::timeout(PATIENCE, endpoint.recv()).await else {
            let ended = gateway.child.try_wait().ok().flatten();
            let how = ended.map_or_else(|| "it is not ready in time".to_owned(), |status| status.to_string());
            anyhow::bail!("the gateway does not serve ({how}): {}", gateway.last_words());
        };
        gateway.took = started.elapsed();
        gateway.peer = Peer::ours(&url, ACCESS_KEY, &secret, &plan.config.region);
        Ok(gateway)
    }

    /// How to reach it.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// From its start until it served.
    pub(crate) fn took(&self) -> Duration {
        self.took
    }

    /// Kills it: no chance to finish anything.
    ///
    /// # Errors
    /// It can't be killed or waited for.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("the gateway can't be killed")
    }

    /// The most memory it ever had, where the system tells.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        let pid = self.child.id().context("the gateway has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM is told")?;
        let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kibibytes << 10)
    }

    /// Stops it in order.
    ///
    /// # Errors
    /// It does not end.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.signal(Signal::SIGTERM);
        let ended = tokio::time::timeout(STOPPING, self.child.wait()).await;
        ended.context("the gateway does not stop")?.map(|_| ()).context("the gateway can't be waited for")
    }

    fn last_words(&self) -> String {
        // The readers have to see the end first.
        let lines = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect::<Vec<_>>().join(" | ")
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            // Refused only where it is gone already.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

impl Drop for Gateway {
    /// A run that is given up stops its gateways before their scratch goes, private servers included.
    fn drop(&mut self) {
        if self.child.id().is_none() {
            return;
        }
        self.signal(Signal::SIGTERM);
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > STOPPING {
                self.signal(Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Reads what it writes, keeps the last lines, and tells where it listens.
async fn follow(stream: impl AsyncRead + Unpin, log: Log, endpoint: Option<mpsc::UnboundedSender<String>>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let (Some(found), Some(url)) = (&endpoint, line.strip_prefix("endpoint:")) {
            // Nobody waits for it any more once it was found.
            let _ = found.send(url.trim().to_owned());
        }
        let mut kept = log.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(line);
        if kept.len() > LINES {
            kept.pop_front();
        }
    }
}

/// Bytes of blocks that a gateway with these settings keeps; `None` where this version keeps none.
pub(crate) fn cache(config: &Config) -> Option<u64> {
    let settings = config.settings();
    let value = settings.iter().find(|(key, _)| key == CACHE).map(|(_, value)| plain(value))?;
    parse_size(&value).ok()
}

/// The same server and role, with another database. What is named last counts.
pub(crate) fn on_database(url: &str, name: &str) -> String {
    let separator = match url {
        _ if !url.starts_with("postgres://") && !url.starts_with("postgresql://") => ' ',
        _ if url.contains('?') => '&',
        _ => '?',
    };
    format!("{url}{separator}dbname={name}")
}

/// The variable of a setting.
fn variable(key: &str) -> String {
    format!("LOBGATE_{}", key.replace('.', "_").to_ascii_uppercase())
}

/// A value as a variable has it: text without quotes, lists with commas.
fn plain(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(serde_json::Value::Array(items)) => {
            items.iter().filter_map(|item| item.as_str()).collect::<Vec<_>>().join(",")
        }
        _ => json.to_owned(),
    }
}

fn owned(setting: (&str, &str)) -> (String, String) {
    (setting.0.to_owned(), setting.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Target;

    #[test]
    fn another_database_of_the_same_server_is_named() {
        for url in [
            "postgres://u:p@h:5433/home",
            "postgresql://u@h/home?connect_timeout=3",
            "postgres://u@%2Frun%2Fx/home?sslmode=disable",
            "host=h user=u dbname=home",
        ] {
            let target = Target::parse(&on_database(url, "scratch")).unwrap();
            assert!(format!("{target:?}").contains("Some(\"scratch\")"), "{url}: {target:?}");
        }
    }

    #[test]
    fn a_gateway_has_the_settings_of_the_bench() {
        let mut config = Config::default();
        config.storage.read_ahead = 7;
        let plan = Plan::on_database(&config, "postgres://u@h/d".to_owned());
        let environment = plan.environment("hush");
        let value = |name: &str| environment.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(value("LOBGATE_STORAGE_READ_AHEAD"), Some("7"));
        assert_eq!(value("LOBGATE_STORAGE_INLINE_MAX"), Some("64KiB"));
        assert_eq!(value("LOBGATE_DOMAINS"), Some("localhost"));
        assert_eq!(value("LOBGATE_LISTEN"), Some("127.0.0.1:0"));
        assert_eq!(value("LOBGATE_DATABASE_URL"), Some("postgres://u@h/d"));
    }
}
