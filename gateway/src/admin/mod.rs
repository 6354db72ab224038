//! Health and metrics, on an address of their own.
//!
//! `/health/live` says that the process answers; `/health/ready` that it can serve, which needs the database and ends
//! when shutdown begins; `/metrics` is Prometheus text. None of them tells anything of what is stored, and no S3 name can
//! collide with them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use futures::future::BoxFuture;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Asks whether the database is there; the error is for the operator.
pub type ReadyCheck = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Longest a readiness check waits for the database.
const READY_TIMEOUT: Duration = Duration::from_secs(3);
/// How often histograms are brought up to date.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Upper bounds of the request latency histogram, seconds.
const LATENCY_BUCKETS: &[f64] =
    &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Every metric and what it counts, for the HELP lines.
const COUNTERS: [(&str, &str); 8] = [
    ("lobgate_requests_total", "Requests that were answered, by operation and status"),
    ("lobgate_response_bytes_total", "Bytes of response bodies that were sent, by operation"),
    ("lobgate_cache_hits_total", "Blocks of contents that were read from memory"),
    ("lobgate_cache_misses_total", "Blocks of contents that were fetched from the database"),
    ("lobgate_cache_evictions_total", "Blocks that made room for others"),
    ("lobgate_reaped_contents_total", "Contents that were destroyed after their last reference and reader were gone"),
    ("lobgate_reaped_bytes_total", "Bytes of these contents"),
    (
        "lobgate_lifecycle_expired_total",
        "Versions, delete markers and uploads that ended by lifecycle rules, by action",
    ),
];
const GAUGES: [(&str, &str); 2] = [
    ("lobgate_cache_bytes", "Bytes of the blocks in memory"),
    ("lobgate_cache_limit_bytes", "The most they may take: the setting cache.memory"),
];
const HISTOGRAMS: [(&str, &str); 1] =
    [("lobgate_request_duration_seconds", "From the head of a request to the last byte of its response, by operation")];

#[derive(Clone)]
struct Admin {
    metrics: PrometheusHandle,
    database_is_up: ReadyCheck,
    shutdown: CancellationToken,
}

/// The recorder of this process, installed at first use.
///
/// # Errors
/// Where another recorder was installed before.
pub fn metrics_handle() -> anyhow::Result<PrometheusHandle> {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    if let Some(handle) = HANDLE.get() {
        return Ok(handle.clone());
    }
    let handle = PrometheusBuilder::new()
        .set_buckets(LATENCY_BUCKETS)
        .and_then(PrometheusBuilder::install_recorder)
        .context("the metrics recorder cannot be installed")?;
    for (name, help) in COUNTERS {
        metrics::describe_counter!(name, help);
    }
    for (name, help) in GAUGES {
        metrics::describe_gauge!(name, help);
    }
    for (name, help) in HISTOGRAMS {
        metrics::describe_histogram!(name, help);
    }
    Ok(HANDLE.get_or_init(|| handle).clone())
}

/// The routes. Readiness ends with `shutdown`.
pub fn router(metrics: PrometheusHandle, database_is_up: ReadyCheck, shutdown: CancellationToken) -> Router {
    Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(render_metrics))
        .with_state(Admin { metrics, database_is_up, shutdown })
}

/// Serves the routes until the token is cancelled.
///
/// # Errors
/// Where the socket fails.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> anyhow::Result<()> {
    let handle = metrics_handle()?;
    let upkeep = async {
        let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
        loop {
            interval.tick().await;
            handle.run_upkeep();
        }
    };
    let server = axum::serve(listener, router);
    tokio::select! {
        outcome = async { server.await } => outcome.context("the admin address fails"),
        () = upkeep => Ok(()),
        () = shutdown.cancelled() => Ok(()),
    }
}

async fn live() -> &'static str {
    "ok\n"
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, String) {
    if admin.shutdown.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n".to_owned());
    }
    match tokio::time::timeout(READY_TIMEOUT, (admin.database_is_up)()).await {
        Ok(Ok(())) => (StatusCode::OK, "ok\n".to_owned()),
        Ok(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n".to_owned()),
    }
}

async fn render_metrics(State(admin): State<Admin>) -> String {
    admin.metrics.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admin(up: bool) -> Admin {
        Admin {
            metrics: PrometheusBuilder::new().build_recorder().handle(),
            database_is_up: Arc::new(move || {
                Box::pin(async move { if up { Ok(()) } else { Err("connection refused".to_owned()) } })
            }),
            shutdown: CancellationToken::new(),
        }
    }

    #[tokio::test]
    async fn readiness_follows_the_database_and_ends_with_shutdown() {
        assert_eq!(ready(State(admin(true))).await.0, StatusCode::OK);
        let (status, reason) = ready(State(admin(false))).await;
        assert_eq!((status, reason.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "connection refused\n"));
        let leaving = admin(true);
        leaving.shutdown.cancel();
        assert_eq!(ready(State(leaving)).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
