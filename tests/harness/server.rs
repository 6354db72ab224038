//! A gateway as users run it: the built binary, as a process.
//!
//! What it writes to stdout and stderr is kept, and a panic in it fails the test that started it.

use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{DEADLINE, undertaker};

/// The root credentials of every gateway of the tests.
/// What users' secrets are encrypted with.
const ENCRYPTION_KEY: &str = "the-encryption-key-of-the-tests-0123456789";

pub(crate) const ACCESS_KEY: &str = "LOBGATETESTROOT";
pub(crate) const SECRET_KEY: &str = "lobgate+test/root/secret";

/// How long after the end of a process its streams may still be read.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A running `lobgate serve`; dropping the value kills it.
pub(crate) struct Gateway {
    process: Child,
    reaped: bool,
    log: Arc<Mutex<Vec<String>>>,
    /// What fills `log`, one thread for each stream.
    collectors: [JoinHandle<()>; 2],
    /// `http://127.0.0.1:PORT` of the S3 API.
    pub(crate) endpoint: String,
    /// The same of the admin address.
    pub(crate) admin: String,
}

impl Gateway {
    /// Starts a gateway on `database_url` and waits until it serves.
    pub(crate) async fn start(database_url: &str, settings: &[(&str, &str)]) -> Self {
        let mut gateway = Self::spawn(database_url, settings);
        gateway.ready().await;
        gateway
    }

    /// Starts a gateway without waiting; see [`Gateway::ready`].
    pub(crate) fn spawn(database_url: &str, settings: &[(&str, &str)]) -> Self {
        let mut command = serve();
        command.args(["--database-url", database_url]).envs(settings.iter().copied());
        Self::run(command)
    }

    /// Starts a gateway on a private database in `data` and waits until it serves.
    pub(crate) async fn start_embedded(data: &Path) -> Self {
        let mut gateway = Self::spawn_embedded(data);
        gateway.ready().await;
        gateway
    }

    /// The same without waiting.
    pub(crate) fn spawn_embedded(data: &Path) -> Self {
        let mut command = serve();
        command.arg("--data-dir").arg(data);
        Self::run(command)
    }

    /// The same without root keys in the environment.
    pub(crate) fn spawn_embedded_without_keys(data: &Path) -> Self {
        let mut command = serve();
        command.env_remove("LOBGATE_ROOT_ACCESS_KEY").env_remove("LOBGATE_ROOT_SECRET_KEY");
        command.arg("--data-dir").arg(data);
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("start lobgate serve");
        undertaker::kill_at_end(process.id());
        let log = Arc::new(Mutex::new(Vec::new()));
        let collectors = [
            collect(process.stdout.take().expect("a piped stdout"), &log),
            collect(process.stderr.take().expect("a piped stderr"), &log),
        ];
        Self { process, reaped: false, log, collectors, endpoint: String::new(), admin: String::new() }
    }

    /// Waits until the gateway has printed its addresses.
    pub(crate) async fn ready(&mut self) {
        let started = Instant::now();
        loop {
            let lines = self.log.lock().expect("the log").clone();
            let printed = |label: &str| lines.iter().find_map(|line| Some(line.strip_prefix(label)?.trim().to_owned()));
            if let (Some(endpoint), Some(admin)) =
                (printed("endpoint:"), printed("admin:").or_else(|| printed("health:")))
            {
                self.endpoint = endpoint;
                self.admin = admin.trim_end_matches("/health/ready").to_owned();
                return;
            }
            let ended = self.process.try_wait().expect("the gateway's state");
            assert!(ended.is_none(), "the gateway ended ({ended:?}):\n{}", self.log());
            assert!(started.elapsed() < DEADLINE, "the gateway printed no addresses:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Everything it has written so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("the log").join("\n")
    }

    /// The port of the S3 API.
    pub(crate) fn port(&self) -> u16 {
        self.endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port in the endpoint")
    }

    /// The process.
    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// The most memory it ever had resident, bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("a process");
        let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
        kib.and_then(|text| text.parse::<u64>().ok()).expect("its peak") << 10
    }

    /// SIGKILL: no chance to clean up.
    pub(crate) fn kill_9(&mut self) {
        self.signal(Signal::SIGKILL);
        self.reap();
    }

    /// SIGTERM, and waits for the orderly end.
    pub(crate) async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.ended().await
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("the gateway's state") {
                self.reap();
                return status;
            }
            assert!(started.elapsed() < DEADLINE, "the gateway still runs:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Sends any signal: SIGSTOP and SIGCONT freeze and thaw it.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).expect("a process id"));
        kill(pid, signal).expect("signal the gateway");
    }

    fn reap(&mut self) {
        if !self.reaped {
            let _ = self.process.wait();
            undertaker::forget(self.process.id());
            self.reaped = true;
            self.last_words();
        }
    }

    /// Waits until all that the process wrote is in the log: its end can be seen before its last line is read.
    /// A child that outlives it (PostgreSQL of a killed gateway) may hold the streams open, hence the limit.
    fn last_words(&self) {
        let started = Instant::now();
        while !self.collectors.iter().all(JoinHandle::is_finished) && started.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        self.reap();
        let log = self.log();
        if std::thread::panicking() {
            eprintln!("--- what the gateway wrote:\n{log}\n---");
        } else {
            assert!(!log.contains("panicked at"), "the gateway panicked:\n{log}");
        }
    }
}

fn serve() -> Command {
    lobgate(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
}

/// The binary, with the tests' credentials and none of the caller's own settings.
pub(crate) fn lobgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lobgate"));
    for (name, _) in std::env::vars() {
        if name.starts_with("LOBGATE_") || name.starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("LOBGATE_ROOT_ACCESS_KEY", ACCESS_KEY).env("LOBGATE_ROOT_SECRET_KEY", SECRET_KEY);
    command.env("LOBGATE_AUTH_ENCRYPTION_KEY", ENCRYPTION_KEY);
    command.args(arguments);
    command
}

/// Runs a subcommand against a database to its end.
pub(crate) async fn run(database_url: &str, arguments: &[&str]) -> Output {
    let mut command = lobgate(arguments);
    command.args(["--database-url", database_url]).stdin(Stdio::null());
    let done = tokio::task::spawn_blocking(move || command.output()).await;
    done.expect("the waiting thread").expect("run lobgate")
}

/// Both streams of a finished command, for messages and searches.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn collect(stream: impl Read + Send + 'static, log: &Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            log.lock().expect("the log").push(line);
        }
    })
}
