//! The running gateway: sockets, limits and life time around the operations.
//!
//! [`run`] binds both addresses before it says that it is ready, so that a supervisor learns of a taken port at once. On
//! shutdown readiness goes first, then the S3 socket, then the connections drain, and the admin address answers last.

mod answer;
mod document;
mod document_memory;
mod edge;
mod error_body;
mod final_chunk;
mod form_fields;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod host;
mod idle_io;
mod listener;
mod open_files;
mod patience;
mod request_body;
mod request_id;
mod response_body;
mod s3_service;
mod second_pass;
mod signature;
mod signature_v2;
mod standing_stream;
mod stray_text;
mod sub_resources;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin::{self, ReadyCheck};
use crate::auth::{Directory, EncryptionKey, ObjectOwnership, RootCredentials};
use crate::config::Config;
use crate::db::Target;
use crate::embedded;
use crate::gc::{self, GcOptions};
use crate::protocol::Gateway;
use crate::protocol::error::from_storage;
use crate::startup::{self, Schema};
use crate::storage::{BlockCache, Lease, Storage};

use edge::Edge;
use host::Hosts;
use listener::ConnectionLimits;
use patience::Terms;
use tls::Tls;

/// What the server needs of the configuration.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The region that requests are signed for.
    pub region: String,
    /// Whether signature version 2 is accepted.
    pub sigv2: bool,
    /// The object ownership of buckets that are created without a word about it.
    pub default_ownership: ObjectOwnership,
    /// Domains with buckets in front of them.
    pub domains: Vec<String>,
    /// Connections at a time; more wait to be accepted.
    pub max_connections: usize,
    /// Requests at a time; more are answered `SlowDown`.
    pub max_requests: usize,
    /// For the headers of a request to arrive.
    pub header_read_timeout: Duration,
    /// Between two pieces of a request's body.
    pub body_idle_timeout: Duration,
    /// Between two pieces of an answer that the client takes.
    pub write_idle_timeout: Duration,
    /// What a client has to send, or take, in the long run, bytes per second; 0 for nothing.
    pub min_transfer_rate: u64,
    /// For requests under way to end on shutdown.
    pub shutdown_grace: Duration,
}

/// Where the server listens, ports included.
#[derive(Clone, Copy, Debug)]
pub struct BoundAddresses {
    /// Of S3.
    pub listen: SocketAddr,
    /// Of health and metrics.
    pub admin: SocketAddr,
}

/// The sockets, bound before anything else is begun: a taken port is said at once.
pub struct Listeners {
    s3: TcpListener,
    admin: TcpListener,
}

impl Listeners {
    /// Binds both addresses.
    ///
    /// # Errors
    /// Where one cannot be bound.
    pub async fn bind(config: &Config) -> anyhow::Result<Self> {
        let s3 = bind(config.listen, "listen").await?;
        let admin = bind(config.admin_listen, "admin-listen").await?;
        Ok(Self { s3, admin })
    }
}

/// Runs the gateway on a database until shutdown: opens the engine, keeps its lease, collects what was removed.
///
/// # Errors
/// Where the database cannot be used, or an address cannot be bound.
pub async fn run(
    config: &Config,
    database_url: &str,
    root: RootCredentials,
    listeners: Listeners,
    ready: oneshot::Sender<BoundAddresses>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    // First of all: what is counted before it is there is lost.
    admin::metrics_handle()?;
    let pools = config.database.pool_size + config.database.writer_pool_size;
    open_files::allow(config.server.max_connections + pools);
    let db = startup::open_database(config, database_url, Schema::Migrate).await?;
    // Neither a pooler nor a standby lets a session listen.
    let listening = !db.facts().pooled && !db.facts().standby;
    let lease = Lease::register(&db, config.gc.lease).await?;
    let cache = BlockCache::new(config.cache.memory);
    let storage = Storage::new(db, startup::storage_options(config), lease.reads()).with_cache(cache);
    let background = TaskTracker::new();
    // The lease outlives the requests: reads that drain on shutdown are still under it.
    let served = CancellationToken::new();
    gc::start(&storage, lease.clone(), gc_options(config), &background, &served);
    let tls = tls::open(&config.tls, &shutdown)?;
    let encryption_key = encryption_key_of(config);
    let directory = Arc::new(Directory::new(storage.clone(), root, encryption_key, from_storage));
    let listening = listening.then(|| Target::parse(database_url)).transpose()?;
    let connect_timeout = config.database.connect_timeout;
    background.spawn(Arc::clone(&directory).run(listening, connect_timeout, served.clone()));
    let services = Services { storage: storage.clone(), database_is_up: ready_check(storage), directory, tls };
    let outcome = serve(ServerSettings::from(config), services, listeners, ready, shutdown).await;
    served.cancel();
    background.close();
    background.wait().await;
    if let Err(error) = lease.end().await {
        tracing::debug!(%error, "the lease runs out by itself");
    }
    outcome
}

fn ready_check(storage: Storage) -> ReadyCheck {
    Arc::new(move || {
        let asked = storage.clone();
        Box::pin(async move { asked.ping().await.map_err(|e| e.to_string()) })
    })
}

/// The key that users' secrets are encrypted with: looked for whenever it is needed, since a command may make it later.
fn encryption_key_of(config: &Config) -> EncryptionKey {
    let config = config.clone();
    Arc::new(move || {
        embedded::encryption_key(&config, false).unwrap_or_else(|error| {
            tracing::error!(error = format!("{error:#}"), "the key that secrets are encrypted with cannot be read");
            None
        })
    })
}

fn gc_options(config: &Config) -> GcOptions {
    GcOptions { interval: config.gc.interval, batch: config.gc.batch, upload_expiry: config.gc.upload_expiry }
}

impl From<&Config> for ServerSettings {
    fn from(config: &Config) -> Self {
        Self {
            region: config.region.clone(),
            sigv2: config.auth.sigv2,
            default_ownership: config.auth.default_object_ownership.into(),
            domains: config.domains.clone(),
            max_connections: config.server.max_connections,
            max_requests: config.server.max_requests,
            header_read_timeout: config.server.header_read_timeout,
            body_idle_timeout: config.server.body_idle_timeout,
            write_idle_timeout: config.server.write_idle_timeout,
            min_transfer_rate: config.server.min_transfer_rate,
            shutdown_grace: config.server.shutdown_grace,
        }
    }
}

/// What the server serves.
pub struct Services {
    /// The engine.
    pub storage: Storage,
    /// Asks the database whether it is there.
    pub database_is_up: ReadyCheck,
    /// Everybody who may send requests.
    pub directory: Arc<Directory>,
    /// The endpoint's certificate.
    tls: Option<Tls>,
}

/// Serves an engine until shutdown.
///
/// # Errors
/// Where an address cannot be bound.
pub async fn serve(
    settings: ServerSettings,
    services: Services,
    listeners: Listeners,
    ready: oneshot::Sender<BoundAddresses>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let Listeners { s3: listener, admin: admin_listener } = listeners;
    let addresses = BoundAddresses { listen: listener.local_addr()?, admin: admin_listener.local_addr()? };

    let hosts = Hosts::new(&settings.domains);
    let gateway = Gateway::new(services.storage.clone(), settings.region.clone(), settings.default_ownership);
    let signing = (settings.region.as_str(), settings.sigv2);
    let s3 = s3_service::build(&gateway, Some(&services.directory), signing, &hosts)?;
    let edge = Edge::new(s3, services.storage, hosts, &settings);
    let limits = ConnectionLimits {
        max_connections: settings.max_connections,
        header_read_timeout: settings.header_read_timeout,
        write_terms: Terms { idle: settings.write_idle_timeout, rate: settings.min_transfer_rate },
        shutdown_grace: settings.shutdown_grace,
    };

    let admin_shutdown = CancellationToken::new();
    let router = admin::router(admin::metrics_handle()?, services.database_is_up, shutdown.clone());
    let admin = tokio::spawn(admin::serve(admin_listener, router, admin_shutdown.clone()));
    // Whoever waits may have gone; the server runs all the same.
    let _ = ready.send(addresses);
    listener::run(listener, services.tls, edge, limits, shutdown).await;
    admin_shutdown.cancel();
    admin.await.context("the admin server ends badly")?
}

async fn bind(address: SocketAddr, name: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("address {address} cannot be bound: choose another with --{name}"))
}
