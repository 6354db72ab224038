//! The private server from start to stop.
//!
//! [`EmbeddedCluster::start`] takes the owner lock, makes the cluster if there is none, settles what an earlier run
//! left, starts the server and prepares an ordinary role and its database. A supervisor task starts the server again
//! when it ends by itself and gives up only when it can't be started; [`EmbeddedCluster::failed`] tells.
//! Commands beside the gateway use [`EmbeddedCluster::attach_or_start`]: they join a running server, or run one for
//! as long as they need. Invariant: at most one process owns the server of a data directory.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_postgres::NoTls;
use tokio_util::sync::CancellationToken;

use super::binaries::Binaries;
use super::error::{EmbeddedError, IoContext};
use super::initdb;
use super::layout::{Layout, url_of};
use super::lock::{Holder, OwnerLock, UserMark};
use super::orphans;
use super::process::{ServerPlan, ServerProcess};
use super::settings;
use super::user::{Launcher, ServerUser};

/// Attempts to start a server again that ended by itself.
const RESTARTS: u32 = 5;
/// Pause before the first of them, doubled each time.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// How long a command waits for a server that another lobgate is starting.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(120);

/// What the private server needs to know.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedOptions {
    /// Directory of `initdb` and `postgres`; found when `None`.
    pub postgres_bin: Option<PathBuf>,
    /// Connections of all pools of one gateway; the server allows a margin above.
    pub connections: u32,
    /// Whether [`EmbeddedCluster::attach_or_start`] may make a cluster where there is none.
    pub create: bool,
}

impl From<&crate::config::Config> for EmbeddedOptions {
    fn from(config: &crate::config::Config) -> Self {
        let pools = config.database.pool_size + config.database.writer_pool_size;
        let connections = u32::try_from(pools).unwrap_or(u32::MAX);
        Self { postgres_bin: config.postgres_bin.clone(), connections, create: true }
    }
}

/// A server that this process owns.
#[derive(Debug)]
pub struct EmbeddedCluster {
    url: String,
    plan: ServerPlan,
    stop: CancellationToken,
    failure: watch::Receiver<Option<String>>,
    crashes: mpsc::Sender<oneshot::Sender<()>>,
    supervisor: JoinHandle<()>,
    // Given up last, when the server is down.
    lock: OwnerLock,
}

/// A server that this process may use: its own for a while, or another's.
#[derive(Debug)]
pub struct AttachedCluster {
    url: String,
    owned: Option<EmbeddedCluster>,
    _mark: Option<UserMark>,
}

/// As long as it lives, no other command can begin to use the server.
#[derive(Debug)]
pub struct HeldOff {
    _mark: UserMark,
}

impl EmbeddedCluster {
    /// Starts the server of `data_dir`, making directory and cluster where they don't exist.
    ///
    /// # Errors
    /// Another lobgate holds the directory, no fitting PostgreSQL is installed, or the server doesn't start.
    pub async fn start(data_dir: &Path, options: &EmbeddedOptions) -> Result<Self, EmbeddedError> {
        let layout = Layout::create(data_dir)?;
        match OwnerLock::try_take(&layout)? {
            Some(lock) => Self::start_locked(layout, lock, options).await,
            None => {
                let holder = Holder::read(&layout).pid.unwrap_or_else(|| "unknown".to_owned());
                Err(EmbeddedError::InUse { data_dir: layout.root, holder })
            }
        }
    }

    /// Joins the server that another lobgate runs on `data_dir`, or runs it until [`AttachedCluster::stop`].
    ///
    /// # Errors
    /// As [`EmbeddedCluster::start`]; and with `options.create` unset, there is no cluster.
    pub async fn attach_or_start(data_dir: &Path, options: &EmbeddedOptions) -> Result<AttachedCluster, EmbeddedError> {
        if !options.create && !data_dir.join("postgres/PG_VERSION").exists() {
            return Err(EmbeddedError::Missing { data_dir: data_dir.to_owned() });
        }
        let layout = Layout::create(data_dir)?;
        let started = Instant::now();
        loop {
            if let Some(lock) = OwnerLock::try_take(&layout)? {
                let cluster = Self::start_locked(layout, lock, options).await?;
                return Ok(AttachedCluster { url: cluster.url.clone(), owned: Some(cluster), _mark: None });
            }
            if let Some(attached) = attach(&layout).await? {
                return Ok(attached);
            }
            if started.elapsed() > ATTACH_TIMEOUT {
                let seconds = ATTACH_TIMEOUT.as_secs();
                return Err(EmbeddedError::NotReady { logs: layout.logs(), data_dir: layout.root, seconds });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn start_locked(
        layout: Layout,
        mut lock: OwnerLock,
        options: &EmbeddedOptions,
    ) -> Result<Self, EmbeddedError> {
        let plan = arrange(layout, options).await?;
        lock.announce(Some(&plan.socket_dir))?;
        let connections = options.connections;
        settings::write(&plan.launcher, &plan.layout, &plan.socket_dir, connections)?;
        let server = plan.start().await?;
        prepare_database(&plan).await?;
        tracing::info!(postgres.pid = server.pid(), data_dir = %plan.layout.root.display(), "private PostgreSQL server is running");
        let stop = CancellationToken::new();
        let (failed, failure) = watch::channel(None);
        let (crashes, orders) = mpsc::channel(1);
        let supervisor = tokio::spawn(supervise(server, plan.clone(), stop.clone(), failed, orders));
        Ok(Self { url: url_of(&plan.socket_dir), plan, stop, failure, crashes, supervisor, lock })
    }

    /// The URL of database `lobgate` as role `lobgate`, which owns it and is no superuser.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns, with the reason, once the server has ended and can't be started again.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        loop {
            let reason = failure.borrow_and_update().clone();
            if let Some(text) = reason {
                return text;
            }
            if failure.changed().await.is_err() {
                // The supervisor is gone because the server is being stopped: nothing failed.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Kills the server on purpose, as a crash would, and returns once it is running again.
    ///
    /// # Errors
    /// It can't be started again.
    pub async fn crash(&self) -> Result<(), EmbeddedError> {
        let (order, done) = oneshot::channel();
        let gone = || EmbeddedError::Gone { data_dir: self.plan.layout.root.clone() };
        self.crashes.send(order).await.map_err(|_| gone())?;
        done.await.map_err(|_| gone())
    }

    /// Stops the server in order and gives the data directory up.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.supervisor).await {
            tracing::error!(%error, "the supervisor of the private PostgreSQL server failed");
        }
        if !self.plan.socket_dir.starts_with(&self.plan.layout.root) {
            // Stays where something else is in it; harmless, and used again next time.
            let _ = std::fs::remove_dir(&self.plan.socket_dir);
        }
        if let Err(error) = self.lock.announce(None) {
            tracing::debug!(%error, "the lock file was not updated");
        }
        tracing::info!("private PostgreSQL server has stopped");
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl AttachedCluster {
    /// The URL of database `lobgate` as role `lobgate`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server, where this process runs it and no other command uses it. Newcomers are held off as long as the second
    /// value lives.
    #[must_use]
    pub fn sole(&self) -> Option<(&EmbeddedCluster, HeldOff)> {
        let cluster = self.owned.as_ref()?;
        Some((cluster, HeldOff { _mark: UserMark::try_exclude(&cluster.plan.layout)? }))
    }

    /// Stops the server if this process started it, once no other command uses it.
    pub async fn stop(self) {
        let Some(cluster) = self.owned else { return };
        let mut waiting = false;
        let _newcomers_held_off = loop {
            if let Some(mark) = UserMark::try_exclude(&cluster.plan.layout) {
                break mark;
            }
            if !waiting {
                tracing::info!("waiting for other commands that use the private PostgreSQL server");
                waiting = true;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        cluster.stop().await;
    }
}

/// Directories, programs and user for the cluster, which exists afterwards and is at rest.
async fn arrange(layout: Layout, options: &EmbeddedOptions) -> Result<ServerPlan, EmbeddedError> {
    let pgdata = layout.pgdata();
    let exists = layout.has_cluster();
    let version =
        if exists { Some(std::fs::read_to_string(pgdata.join("PG_VERSION")).context("read", &pgdata)?) } else { None };
    let needed = version.as_deref().map(str::trim);
    let binaries = Binaries::find(options.postgres_bin.as_deref(), needed, &layout.root)?;
    let user = ServerUser::choose(&pgdata)?;
    layout.let_user_pass(&user)?;
    user.own_dir(&layout.logs())?;
    let launcher = Launcher { binaries, user };
    if exists {
        orphans::settle(&layout).await?;
        launcher.user.adopt(&pgdata)?;
    } else {
        initdb::create(&launcher, &layout).await?;
    }
    let reachable = launcher.can_enter(&layout.root)?;
    let socket_dir = layout.make_socket_dir(&launcher.user, reachable)?;
    Ok(ServerPlan { launcher, layout, socket_dir })
}

/// Makes role and database where they don't exist; each start completes what an earlier one left undone.
async fn prepare_database(plan: &ServerPlan) -> Result<(), EmbeddedError> {
    let client = plan.connect().await?;
    let role = client.query_opt("SELECT rolcreatedb FROM pg_roles WHERE rolname = 'lobgate'", &[]).await?;
    // CREATEDB is for `lobgate bench`: what it stores goes with its own database. On a private server it gives nothing away.
    match role.map(|row| row.get(0)) {
        None => client.batch_execute("CREATE ROLE lobgate LOGIN CREATEDB").await?,
        Some(false) => client.batch_execute("ALTER ROLE lobgate CREATEDB").await?,
        Some(true) => {}
    }
    let database = client.query_opt("SELECT 1 FROM pg_database WHERE datname = 'lobgate'", &[]).await?;
    if database.is_none() {
        client.batch_execute("CREATE DATABASE lobgate OWNER lobgate").await?;
    }
    Ok(())
}

/// Joins the server of the lock's holder if it answers.
async fn attach(layout: &Layout) -> Result<Option<AttachedCluster>, EmbeddedError> {
    let Some(socket_dir) = Holder::read(layout).socket_dir else {
        return Ok(None);
    };
    let Some(mark) = UserMark::try_leave(layout)? else {
        return Ok(None);
    };
    let url = url_of(&socket_dir);
    // Role and database come last in a start: when this succeeds, everything is ready.
    let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await else {
        return Ok(None);
    };
    drop((client, connection));
    Ok(Some(AttachedCluster { url, owned: None, _mark: Some(mark) }))
}

/// Keeps the server running until told to stop.
async fn supervise(
    mut server: ServerProcess,
    plan: ServerPlan,
    stop: CancellationToken,
    failed: watch::Sender<Option<String>>,
    mut orders: mpsc::Receiver<oneshot::Sender<()>>,
) {
    let mut ordered: Option<oneshot::Sender<()>> = None;
    loop {
        let status = loop {
            tokio::select! {
                () = stop.cancelled() => return server.stop().await,
                status = server.ended() => break status,
                Some(order) = orders.recv(), if ordered.is_none() => {
                    ordered = Some(order);
                    server.kill();
                }
            }
        };
        if ordered.is_none() {
            tracing::error!(%status, logs = %plan.layout.logs().display(), "the private PostgreSQL server ended unexpectedly: starting it again");
        }
        tokio::select! {
            // A server that was starting is told to stop when it is dropped here.
            () = stop.cancelled() => return,
            restarted = restart(&plan) => match restarted {
                Ok(running) => server = running,
                Err(error) => {
                    tracing::error!(%error, "the private PostgreSQL server can't be started again");
                    failed.send_replace(Some(error.to_string()));
                    return;
                }
            },
        }
        tracing::info!(postgres.pid = server.pid(), "private PostgreSQL server is running again");
        if let Some(order) = ordered.take() {
            // Whoever ordered it may have been stopped meanwhile.
            let _ = order.send(());
        }
    }
}

async fn restart(plan: &ServerPlan) -> Result<ServerProcess, EmbeddedError> {
    let mut pause = RESTART_PAUSE;
    let mut attempt = 1;
    loop {
        tokio::time::sleep(pause).await;
        let outcome = match orphans::settle(&plan.layout).await {
            Ok(()) => plan.start().await,
            Err(error) => Err(error),
        };
        match outcome {
            Err(error) if attempt < RESTARTS => {
                tracing::warn!(%error, attempt, "the private PostgreSQL server did not start")
            }
            settled => return settled,
        }
        pause *= 2;
        attempt += 1;
    }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
