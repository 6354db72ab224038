//! The running gateway: sockets, limits and life time around the operations.
//!
//! [`run`] binds both addresses before it says that it is ready, so that a supervisor learns of a taken port at once. On
//! shutdown readiness goes first, then the S3 socket, then the connections drain, and the admin address answers last.

mod edge;
mod error_body;
mod host;
mod idle_io;
mod listener;
mod request_body;
mod request_id;
mod response_body;
mod s3_service;
mod second_pass;
mod sub_resources;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::admin::{self, ReadyCheck};
use crate::auth::{Owner, RootCredentials};
use crate::protocol::Gateway;
use crate::storage::Storage;

use edge::Edge;
use host::Hosts;
use listener::ConnectionLimits;

/// What the server needs of the configuration.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where S3 is served.
    pub listen: SocketAddr,
    /// Where health and metrics are served.
    pub admin_listen: SocketAddr,
    /// The region that requests are signed for.
    pub region: String,
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

/// Runs the gateway on a database until shutdown.
///
/// # Errors
/// Where the database cannot be used, or an address cannot be bound.
pub async fn run(
    settings: ServerSettings,
    database_url: String,
    root: RootCredentials,
    ready: oneshot::Sender<BoundAddresses>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (storage, database_is_up) = open_storage(&database_url).await?;
    serve(settings, Services { storage, database_is_up, root }, ready, shutdown).await
}

// SEAM: the engine is opened here (pool, probe, migrations, background work) once storage and db are in. The closure
// asks the database something trivial.
#[allow(clippy::unused_async)]
async fn open_storage(_database_url: &str) -> anyhow::Result<(Storage, ReadyCheck)> {
    anyhow::bail!("the storage engine is not connected yet")
}

/// What the server serves.
pub struct Services {
    /// The engine.
    pub storage: Storage,
    /// Asks the database whether it is there.
    pub database_is_up: ReadyCheck,
    /// The key pair of root.
    pub root: RootCredentials,
}

/// Serves an engine until shutdown.
///
/// # Errors
/// Where an address cannot be bound.
pub async fn serve(
    settings: ServerSettings,
    services: Services,
    ready: oneshot::Sender<BoundAddresses>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let listener = bind(settings.listen, "listen").await?;
    let admin_listener = bind(settings.admin_listen, "admin-listen").await?;
    let addresses = BoundAddresses { listen: listener.local_addr()?, admin: admin_listener.local_addr()? };

    let hosts = Hosts::new(&settings.domains);
    let gateway = Gateway::new(services.storage, settings.region.clone(), Owner::root());
    let s3 = s3_service::build(&gateway, services.root, &settings.region, &hosts)?;
    let edge = Edge::new(s3, hosts, settings.max_requests, settings.body_idle_timeout);
    let limits = ConnectionLimits {
        max_connections: settings.max_connections,
        header_read_timeout: settings.header_read_timeout,
        write_idle_timeout: settings.write_idle_timeout,
        shutdown_grace: settings.shutdown_grace,
    };

    let admin_shutdown = CancellationToken::new();
    let router = admin::router(admin::metrics_handle()?, services.database_is_up, shutdown.clone());
    let admin = tokio::spawn(admin::serve(admin_listener, router, admin_shutdown.clone()));
    // Whoever waits may have gone; the server runs all the same.
    let _ = ready.send(addresses);
    listener::run(listener, edge, limits, shutdown).await;
    admin_shutdown.cancel();
    admin.await.context("the admin server ends badly")?
}

async fn bind(address: SocketAddr, name: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{name} address {address} cannot be bound"))
}
