//! TEMPORARY STUB of branch `ops`, only so that `cli/serve.rs` compiles and its start and stop can be tried:
//! the real server replaces this file. It binds both addresses, reports them and serves nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::embedded::RootCredentials;

/// Addresses in use, with the real port where 0 was asked for.
#[derive(Debug, Clone, Copy)]
pub struct BoundAddresses {
    /// The S3 endpoint.
    pub listen: SocketAddr,
    /// Health and metrics.
    pub admin: SocketAddr,
}

/// Serves until `shutdown` is cancelled.
///
/// # Errors
/// An address can't be bound.
pub async fn run(
    config: Arc<Config>,
    _database_url: String,
    _root: RootCredentials,
    shutdown: CancellationToken,
    ready: oneshot::Sender<BoundAddresses>,
) -> anyhow::Result<()> {
    let (listen, admin) = (
        TcpListener::bind(config.listen).await?,
        TcpListener::bind(config.admin_listen).await?,
    );
    let _ = ready.send(BoundAddresses {
        listen: listen.local_addr()?,
        admin: admin.local_addr()?,
    });
    shutdown.cancelled().await;
    Ok(())
}
