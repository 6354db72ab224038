//! `lobgate serve`: the gateway from its first connection to the database to its last.
//!
//! Order of start: sockets, root keys, private PostgreSQL server (with no `database_url`), the server; once that is ready, how
//! to reach it is printed. Order of stop, the reverse: the first signal cancels a token, the server finishes its
//! requests, the private database stops. A second signal ends lobgate at once; the private database then stops by
//! itself. Invariant: nothing but a kill leaves the private database running without lobgate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::auth;
use crate::config::Config;
use crate::embedded::{EmbeddedCluster, EmbeddedOptions, RootCredentials};
use crate::server::{self, BoundAddresses, Listeners};

use super::signals::StopSignals;
use super::{Outcome, output};

pub(super) const EXAMPLE: &str = "Examples:
  lobgate serve                                   with a private PostgreSQL server in ./lobgate-data
  lobgate serve --database-url postgres://lobgate:password@db.example.org/lobgate";

pub(super) async fn run(config: Config) -> anyhow::Result<Outcome> {
    // Secrets and contents are in its memory: no core is dumped, and nobody but root looks in.
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "a crash of this process may leave its memory, with its secrets, in a core dump");
    }
    let mut signals = StopSignals::install()?;
    let shutdown = CancellationToken::new();
    let mut gateway = std::pin::pin!(serve(config, shutdown.clone()));
    loop {
        tokio::select! {
            ended = &mut gateway => return ended.map(|()| Outcome::Done),
            signal = signals.next() => {
                if shutdown.is_cancelled() {
                    anyhow::bail!("stopped at once by a second signal ({signal})");
                }
                tracing::info!(signal, "stopping; a second signal stops at once");
                shutdown.cancel();
            }
        }
    }
}

async fn serve(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let listeners = Listeners::bind(&config).await?;
    let root = RootCredentials::resolve(&config)?;
    let shared = Arc::new(config);
    if let Some(url) = &shared.database_url {
        return serve_on(Arc::clone(&shared), url.expose().clone(), root, listeners, shutdown).await;
    }
    let options = EmbeddedOptions::from(shared.as_ref());
    let starting = EmbeddedCluster::start(&shared.data_dir, &options);
    // Cancelled while it starts: what was begun is told to stop and completed by the next start.
    let Some(started) = shutdown.run_until_cancelled(starting).await else {
        return Ok(());
    };
    let cluster = started?;
    let mut serving = std::pin::pin!(serve_on(shared, cluster.url().to_owned(), root, listeners, shutdown.clone()));
    let served = tokio::select! {
        ended = &mut serving => ended,
        reason = cluster.failed() => {
            shutdown.cancel();
            let _ = serving.await;
            Err(anyhow::anyhow!(reason).context("the private PostgreSQL server ended and can't be started again"))
        }
    };
    cluster.stop().await;
    served
}

/// Runs the server on a database and says how to reach it once it is ready.
async fn serve_on(
    config: Arc<Config>,
    database_url: String,
    root: RootCredentials,
    listeners: Listeners,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (ready, mut readiness) = oneshot::channel();
    let greeting_root = root.clone();
    let credentials =
        auth::RootCredentials { access_key: root.access_key, secret_key: root.secret_key.expose().as_str().into() };
    let mut server = std::pin::pin!(server::run(&config, &database_url, credentials, listeners, ready, shutdown));
    let is_ready = tokio::select! {
        ended = &mut server => return ended,
        addresses = &mut readiness => addresses,
    };
    if let Ok(addresses) = is_ready {
        for text in greeting(&config, &greeting_root, addresses) {
            output::line(&text)?;
        }
    }
    server.await
}

/// What a newcomer needs: where, with which keys, and a first command that works as it stands.
fn greeting(config: &Config, root: &RootCredentials, addresses: BoundAddresses) -> Vec<String> {
    let scheme = if config.tls.files().is_some() { "https" } else { "http" };
    let endpoint = format!("{scheme}://{}", reachable(addresses.listen));
    let mut lines = vec![format!("endpoint:   {endpoint}"), format!("access key: {}", root.access_key)];
    // A configured secret is the operator's own: it isn't repeated.
    let secret = if root.generated {
        lines.push(format!("secret key: {}", root.secret_key.expose()));
        root.secret_key.expose().clone()
    } else {
        "\"$LOBGATE_ROOT_SECRET_KEY\"".to_owned()
    };
    lines.push(format!("health:     http://{}/health/ready", reachable(addresses.admin)));
    let region =
        if config.region == "us-east-1" { String::new() } else { format!("AWS_DEFAULT_REGION={} ", config.region) };
    lines.push(format!(
        "try:        {region}AWS_ACCESS_KEY_ID={} AWS_SECRET_ACCESS_KEY={secret} aws --endpoint-url {endpoint} s3 mb s3://first-bucket",
        root.access_key
    ));
    lines
}

/// An address clients on this machine can use: a wildcard is replaced by the loopback address of its family.
fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, bound.port())
}

#[cfg(test)]
mod tests {
    use crate::config::Secret;

    use super::*;

    fn addresses() -> BoundAddresses {
        BoundAddresses { listen: ([0, 0, 0, 0], 9000).into(), admin: ([127, 0, 0, 1], 9001).into() }
    }

    fn root(generated: bool) -> RootCredentials {
        RootCredentials { access_key: "AK".to_owned(), secret_key: Secret::new("hush".to_owned()), generated }
    }

    #[test]
    fn greeting_shows_a_generated_secret_and_a_command_that_works() {
        let lines = greeting(&Config::default(), &root(true), addresses());
        assert_eq!(lines[..3], ["endpoint:   http://127.0.0.1:9000", "access key: AK", "secret key: hush"]);
        assert!(lines[4].ends_with(
            "AWS_ACCESS_KEY_ID=AK AWS_SECRET_ACCESS_KEY=hush aws --endpoint-url http://127.0.0.1:9000 s3 mb s3://first-bucket"
        ));
    }

    #[test]
    fn greeting_keeps_a_configured_secret() {
        let text = greeting(&Config::default(), &root(false), addresses()).join("\n");
        assert!(!text.contains("hush") && !text.contains("secret key:"), "{text}");
    }
}
