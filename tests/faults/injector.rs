//! Two gateways on one durable server, each behind a proxy of its own, and every way in which they can be broken and mended.

use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::harness::cluster::Cluster;
use crate::harness::proxy::Proxy;
use crate::harness::{BUCKET, Database, Gateway, client};

const SETTINGS: &[(&str, &str)] = &[
    ("LOBGATE_STORAGE_BUFFER_MAX", "256KiB"),
    ("LOBGATE_STORAGE_WRITE_CHUNK", "64KiB"),
    ("LOBGATE_GC_INTERVAL", "100ms"),
    ("LOBGATE_GC_LEASE", "2s"),
    ("LOBGATE_DATABASE_STATEMENT_TIMEOUT", "4s"),
    ("LOBGATE_DATABASE_CONNECT_TIMEOUT", "2s"),
    ("LOBGATE_DATABASE_POOL_WAIT_TIMEOUT", "2s"),
];

/// What breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Fault {
    /// A gateway is killed, and another started in its place.
    GatewayKilled,
    /// A gateway is told to stop, and another started in its place.
    GatewayStopped,
    /// A gateway stands still for longer than its lease.
    GatewayFrozen,
    /// All connections of a gateway to the database are cut.
    ConnectionsCut,
    /// The database can't be connected to.
    DatabaseUnreachable,
    /// The database's answers don't arrive for a while.
    AnswersStalled,
    /// The connection is cut between a COMMIT and its answer.
    CommitAnswerLost,
    /// The same for a statement that commits by itself.
    PutAnswerLost,
    /// Every backend is terminated.
    BackendsTerminated,
    /// The server is killed and recovers.
    ServerKilled,
}

impl Fault {
    pub(super) const ALL: [Self; 10] = [
        Self::GatewayKilled,
        Self::CommitAnswerLost,
        Self::GatewayFrozen,
        Self::ConnectionsCut,
        Self::BackendsTerminated,
        Self::AnswersStalled,
        Self::ServerKilled,
        Self::PutAnswerLost,
        Self::DatabaseUnreachable,
        Self::GatewayStopped,
    ];
}

struct Place {
    proxy: Proxy,
    gateway: Mutex<Option<Gateway>>,
}

/// The two gateways, their proxies and their server.
pub(super) struct Arena {
    places: [Place; 2],
    pub(super) endpoints: RwLock<[String; 2]>,
    // Dropped after the gateways.
    pub(super) database: Database,
    cluster: Arc<Cluster>,
}

impl Arena {
    pub(super) async fn start() -> Self {
        let cluster = tokio::task::spawn_blocking(|| Cluster::start(true)).await.expect("a durable cluster");
        let database = Database::create_on(Arc::clone(&cluster)).await;
        let mut places = Vec::new();
        for _ in 0..2 {
            let proxy = Proxy::start(&cluster).await;
            let gateway = Gateway::start(&proxy.url(&database.name), SETTINGS).await;
            places.push(Place { proxy, gateway: Mutex::new(Some(gateway)) });
        }
        let endpoint = |place: &Place| place.gateway.lock().unwrap().as_ref().expect("a gateway").endpoint.clone();
        let endpoints = [endpoint(&places[0]), endpoint(&places[1])];
        client::sdk(&endpoints[0]).create_bucket().bucket(BUCKET).send().await.expect("a bucket");
        let places: [Place; 2] = places.try_into().ok().expect("two places");
        Self { places, endpoints: RwLock::new(endpoints), database, cluster }
    }

    pub(super) fn endpoint(&self, which: usize) -> String {
        self.endpoints.read().unwrap()[which].clone()
    }

    /// Breaks something of gateway `which`, or of the server, and mends it again. Gives when it was broken and mended.
    pub(super) async fn inflict(&self, fault: Fault, which: usize) -> (Instant, Instant) {
        let begun = Instant::now();
        let proxy = &self.places[which].proxy;
        match fault {
            Fault::GatewayKilled => {
                self.take(which).kill_9();
                self.replace(which).await;
            }
            Fault::GatewayStopped => {
                let end = self.take(which).terminate().await;
                assert!(end.success(), "an orderly end: {end:?}");
                self.replace(which).await;
            }
            Fault::GatewayFrozen => {
                self.signal(which, Signal::SIGSTOP);
                pass(2500).await;
                self.signal(which, Signal::SIGCONT);
            }
            Fault::ConnectionsCut => {
                for _ in 0..10 {
                    proxy.cut();
                    pass(30).await;
                }
            }
            Fault::DatabaseUnreachable => {
                proxy.refuse();
                pass(700).await;
                proxy.restore();
            }
            Fault::AnswersStalled => {
                proxy.stall(false, true);
                pass(700).await;
                proxy.restore();
            }
            Fault::CommitAnswerLost => lose(proxy, "COMMIT\0").await,
            Fault::PutAnswerLost => lose(proxy, "put_object").await,
            Fault::BackendsTerminated => {
                let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE datname = current_database() AND pid <> pg_backend_pid()";
                for _ in 0..5 {
                    self.database.execute(all).await;
                    pass(50).await;
                }
            }
            Fault::ServerKilled => {
                let cluster = Arc::clone(&self.cluster);
                let crash = tokio::task::spawn_blocking(move || {
                    cluster.kill_9();
                    std::thread::sleep(Duration::from_millis(200));
                    cluster.restart();
                });
                crash.await.expect("crash and recovery");
            }
        }
        (begun, Instant::now())
    }

    fn take(&self, which: usize) -> Gateway {
        self.places[which].gateway.lock().unwrap().take().expect("a gateway")
    }

    fn signal(&self, which: usize, signal: Signal) {
        self.places[which].gateway.lock().unwrap().as_ref().expect("a gateway").signal(signal);
    }

    async fn replace(&self, which: usize) {
        let place = &self.places[which];
        let gateway = Gateway::start(&place.proxy.url(&self.database.name), SETTINGS).await;
        self.endpoints.write().unwrap()[which].clone_from(&gateway.endpoint);
        *place.gateway.lock().unwrap() = Some(gateway);
    }
}

/// Loses the answer to the next such statement. Statements that were prepared are not seen by their text, so the
/// connections are made anew.
async fn lose(proxy: &Proxy, statement: &str) {
    for _ in 0..3 {
        proxy.cut();
        proxy.lose_answer_to(statement);
        let waiting = Instant::now();
        while !proxy.has_lost() && waiting.elapsed() < Duration::from_secs(1) {
            pass(10).await;
        }
    }
}

/// Faults last for a while: here time itself is what is tested with.
async fn pass(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}
