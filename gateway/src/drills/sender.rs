//! Requests of one client, over a connection to each gateway: what was asked, and whether it was answered.
//!
//! Invariant: nothing is sent twice. What a broken connection had taken counts as unanswered, even where the gateway may
//! never have seen it; only a connection that was never established proves that nothing was sent.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::bench::limit::connection::{Body, Connection};
use crate::bench::limit::endpoint::Endpoint;
use crate::bench::limit::presign::Request;

/// How long an answer is waited for: longer than every timeout of a gateway with usual settings.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the gateways listen now; nothing for one that is down.
#[derive(Clone)]
pub(super) struct Doors(Arc<[RwLock<Option<Arc<Endpoint>>>]>);

/// Sends requests.
pub(super) struct Sender {
    doors: Doors,
    /// The endpoint that a connection leads to comes with it: a gateway that was started again listens elsewhere.
    open: Vec<Option<(Arc<Endpoint>, Connection)>>,
}

/// What is asked.
#[derive(Clone, Copy, Default)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) key: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: Option<&'a [u8]>,
}

/// What came of it.
pub(super) enum Answer {
    /// This.
    Reply { status: u16, body: Vec<u8> },
    /// The connection broke, or nothing came for too long.
    Nothing,
    /// There was no connection.
    Unreachable,
}

impl Doors {
    /// For so many gateways, all down.
    pub(super) fn new(count: usize) -> Self {
        Self((0..count).map(|_| RwLock::new(None)).collect())
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// A gateway is up, or down.
    pub(super) fn set(&self, which: usize, endpoint: Option<Endpoint>) {
        if let Some(door) = self.0.get(which) {
            *door.write().unwrap_or_else(PoisonError::into_inner) = endpoint.map(Arc::new);
        }
    }

    fn get(&self, which: usize) -> Option<Arc<Endpoint>> {
        self.0.get(which)?.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sender {
    pub(super) fn new(doors: &Doors) -> Self {
        Self { doors: doors.clone(), open: (0..doors.count()).map(|_| None).collect() }
    }

    /// Sends a request to a gateway.
    pub(super) async fn ask(&mut self, which: usize, ask: &Ask<'_>) -> Answer {
        let Some((endpoint, mut connection)) = self.connection(which).await else {
            return Answer::Unreachable;
        };
        let head = endpoint.signer.head(&Request {
            method: ask.method,
            path: &endpoint.path(ask.key),
            query: ask.query,
            headers: ask.headers,
            length: ask.body.map(|body| body.len() as u64),
        });
        let mut kept = Vec::new();
        let exchange = connection.exchange_last(&head, Body::Exactly(ask.body.unwrap_or_default()), Some(&mut kept));
        match tokio::time::timeout(PATIENCE, exchange).await {
            Ok(Ok(reply)) => {
                if reply.keep_alive {
                    self.open[which] = Some((endpoint, connection));
                }
                Answer::Reply { status: reply.status, body: kept }
            }
            Ok(Err(_)) | Err(_) => Answer::Nothing,
        }
    }

    /// The connection to a gateway, taken out: it is put back if it can be used again.
    async fn connection(&mut self, which: usize) -> Option<(Arc<Endpoint>, Connection)> {
        let endpoint = self.doors.get(which)?;
        if let Some((known, connection)) = self.open.get_mut(which)?.take()
            && Arc::ptr_eq(&known, &endpoint)
        {
            return Some((known, connection));
        }
        let connection = Connection::open(endpoint.address).await.ok()?;
        Some((endpoint, connection))
    }
}
