//! A long random history: many clients over two gateways, while everything breaks in turns. Every answer is checked.
//!
//! Per key the answers have to be those of a single register (`harness/linearizability.rs`): no acknowledged write is lost,
//! none that was refused (412, 503) appears, no condition is decided wrongly, no read goes back in time. Every body that is
//! read is compared. At the end the store is whole and holds exactly what its rows own.
//!
//! `CHAOS_SECONDS` and `CHAOS_SEED` make it longer and repeat its choices (not what the scheduler makes of
//! them); `make chaos` runs it for an hour and shows the figures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::injector::{Arena, Fault};
use super::setting;
use crate::harness::inspect::{assert_verified, large_objects, until_reclaimed};
use crate::harness::linearizability::{Action, Operation, Value, is_linearizable};
use crate::harness::{RawRequest, Reply, bytes, eventually, md5_hex, path};

const CLIENTS: u64 = 12;
/// Keys that are in use at the same time; new ones come into use every second, so that histories stay short.
const KEYS: u64 = 5;
/// How long an answer counts as given after a fault, for the figures.
const AFTERMATH: Duration = Duration::from_secs(2);

/// An operation, and how it went.
struct Event {
    key: String,
    at: Instant,
    took: Duration,
    /// What it tells of the register; nothing where it was refused, or a read failed.
    operation: Option<Operation>,
    answered: bool,
}

struct Client {
    arena: Arc<Arena>,
    begun: Instant,
    rng: fastrand::Rng,
    /// Numbers of bodies, unique over all clients.
    next: Arc<AtomicU64>,
    /// What it read or wrote last, and where.
    known: Option<(String, Value)>,
    events: Vec<Event>,
}

/// Lengths in all forms of storage.
fn length(value: u64) -> usize {
    [10, 3000, 100_000, 200_000, 500_000][usize::try_from(value % 5).expect("small")]
}

fn body(value: u64) -> Vec<u8> {
    bytes(value, length(value))
}

/// The number of the body that an answer carries, every byte of it compared.
fn value_of(reply: &Reply) -> u64 {
    let value = reply.header("x-amz-meta-value").and_then(|value| value.parse().ok()).expect("a numbered object");
    assert!(reply.body == body(value), "WRONG BYTES of body {value}: {} of {}", reply.body.len(), length(value));
    value
}

impl Client {
    async fn run(mut self, stop: Arc<AtomicBool>) -> Vec<Event> {
        while !stop.load(Ordering::Relaxed) {
            let key = format!("{}/{}", self.begun.elapsed().as_secs(), self.rng.u64(..KEYS));
            let which = self.rng.usize(..2);
            let request = |method: &str| RawRequest::new(&self.arena.endpoint(which), method, &path(&key));
            match self.rng.u32(..100) {
                0..40 => {
                    let request = request("GET");
                    self.read(key, request).await;
                }
                40..65 => {
                    let (put, value) = self.put(request("PUT"));
                    self.write(key, put, Action::Write(Some(value))).await;
                }
                65..75 => {
                    let (put, value) = self.put(request("PUT"));
                    let action = Action::Swap { expected: None, value: Some(value), done: true };
                    self.write(key, put.header("if-none-match", "*"), action).await;
                }
                75..90 => {
                    let Some((known, Some(seen))) = self.known.clone() else { continue };
                    let request = RawRequest::new(&self.arena.endpoint(which), "PUT", &path(&known));
                    let (put, value) = self.put(request);
                    let put = put.header("if-match", &format!("\"{}\"", md5_hex(&body(seen))));
                    let action = Action::Swap { expected: Some(seen), value: Some(value), done: true };
                    self.write(known, put, action).await;
                }
                _ => {
                    let request = request("DELETE");
                    self.write(key, request, Action::Write(None)).await;
                }
            }
        }
        self.events
    }

    fn put(&self, request: RawRequest) -> (RawRequest, u64) {
        let value = self.next.fetch_add(1, Ordering::Relaxed);
        (request.header("x-amz-meta-value", &value.to_string()).body(body(value)), value)
    }

    async fn read(&mut self, key: String, request: RawRequest) {
        let at = Instant::now();
        let reply = request.try_send().await;
        let value = match &reply {
            Ok(reply) if reply.status == 200 && reply.complete => Some(Some(value_of(reply))),
            Ok(reply) if reply.status == 404 => Some(None),
            Ok(reply) => {
                assert!(matches!(reply.status, 200 | 500 | 503), "{key}: {}", reply.text());
                None
            }
            Err(_) => None,
        };
        if let Some(value) = value {
            self.known = Some((key.clone(), value));
        }
        self.note(key, at, value.map(Action::Read), value.is_some());
    }

    /// Sends what changes something. `action` is what it means if it succeeds.
    async fn write(&mut self, key: String, request: RawRequest, action: Action) {
        let at = Instant::now();
        let reply = request.try_send().await;
        let (Action::Write(value) | Action::Swap { value, .. } | Action::Read(value)) = action;
        let (action, answered) = match reply.as_ref().map(|reply| reply.status) {
            Ok(200 | 204) => (Some(action), true),
            Ok(404 | 412) => match action {
                Action::Swap { expected, value, .. } => (Some(Action::Swap { expected, value, done: false }), true),
                _ => panic!("{key}: {reply:?}"),
            },
            // A true word: it did not happen, and never will.
            Ok(503) => (None, false),
            Ok(500) | Err(_) => (Some(action), false),
            Ok(_) => panic!("{key}: {}", reply.unwrap().text()),
        };
        if answered && !matches!(action, Some(Action::Swap { done: false, .. })) {
            self.known = Some((key.clone(), value));
        }
        self.note(key, at, action, answered);
    }

    fn note(&mut self, key: String, at: Instant, action: Option<Action>, answered: bool) {
        let time = |instant: Instant| u64::try_from((instant - self.begun).as_micros()).expect("microseconds");
        let operation = action.map(|action| Operation {
            called: time(at),
            answered: answered.then(|| time(Instant::now())),
            action,
        });
        self.events.push(Event { key, at, took: at.elapsed(), operation, answered });
    }
}

fn p99(events: &[Event], when: impl Fn(Instant) -> bool) -> Option<Duration> {
    let mut times: Vec<_> = events.iter().filter(|event| event.answered && when(event.at)).map(|e| e.took).collect();
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_a_long_history_with_faults_is_one_of_a_single_register() {
    let (seconds, seed) = (setting("CHAOS_SECONDS", 12), setting("CHAOS_SEED", fastrand::u64(..)));
    eprintln!("seed {seed}, {seconds} s");
    let arena = Arc::new(Arena::start().await);
    let (begun, stop, next) = (Instant::now(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(1)));
    let client = |number: u64| Client {
        arena: Arc::clone(&arena),
        begun,
        rng: fastrand::Rng::with_seed(seed ^ (number + 1)),
        next: Arc::clone(&next),
        known: None,
        events: Vec::new(),
    };
    let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(client(number).run(Arc::clone(&stop)))).collect();
    let mut faults: BTreeMap<Fault, Vec<(Instant, Instant)>> = BTreeMap::new();
    let mut rng = fastrand::Rng::with_seed(seed);
    'all: loop {
        let mut order = Fault::ALL;
        rng.shuffle(&mut order);
        for fault in order {
            tokio::time::sleep(Duration::from_millis(rng.u64(100..600))).await;
            faults.entry(fault).or_default().push(arena.inflict(fault, rng.usize(..2)).await);
            if begun.elapsed().as_secs() >= seconds && faults.len() == Fault::ALL.len() {
                break 'all;
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut events = Vec::new();
    for client in clients {
        events.extend(client.await.expect("a client"));
    }
    conclude(&arena, begun, &mut events).await;
    let wrong = contradicted(&events);
    report(&events, &faults, wrong.len());
    assert!(wrong.is_empty(), "seed {seed}, keys whose answers no order explains:\n{}", wrong.join("\n"));
}

/// Reads every key once more through each gateway, and looks at the store from within.
async fn conclude(arena: &Arc<Arena>, begun: Instant, events: &mut Vec<Event>) {
    let keys: std::collections::BTreeSet<String> = events.iter().map(|event| event.key.clone()).collect();
    for which in 0..2 {
        eventually("the gateway serves again", || async {
            let head = RawRequest::new(&arena.endpoint(which), "GET", "/bucket?max-keys=0").try_send().await;
            head.is_ok_and(|reply| reply.status == 200)
        })
        .await;
        let (rng, next) = (fastrand::Rng::new(), Arc::new(AtomicU64::new(0)));
        let mut reader = Client { arena: Arc::clone(arena), begun, rng, next, known: None, events: Vec::new() };
        for key in &keys {
            let request = RawRequest::new(&arena.endpoint(which), "GET", &path(key));
            reader.read(key.clone(), request).await;
        }
        assert!(reader.events.iter().all(|event| event.answered), "all is mended, so every read is answered");
        events.extend(reader.events);
    }
    until_reclaimed(&arena.database).await;
    let owned = "SELECT count(*) FROM lobgate.content WHERE loid IS NOT NULL";
    assert_eq!(large_objects(&arena.database).await, arena.database.count(owned).await, "leaked large objects");
    assert_verified(&arena.database).await;
}

/// Keys whose answers contradict each other, with their histories.
fn contradicted(events: &[Event]) -> Vec<String> {
    let mut histories: BTreeMap<&str, Vec<Operation>> = BTreeMap::new();
    for event in events {
        histories.entry(&event.key).or_default().extend(event.operation);
    }
    let mut wrong = Vec::new();
    for (key, mut history) in histories {
        if !is_linearizable(&history) {
            history.sort_by_key(|operation| operation.called);
            let lines: Vec<String> = history.iter().map(|operation| format!("  {operation:?}")).collect();
            wrong.push(format!("{key}:\n{}", lines.join("\n")));
        }
    }
    wrong
}

fn report(events: &[Event], faults: &BTreeMap<Fault, Vec<(Instant, Instant)>>, wrong: usize) {
    let answered = events.iter().filter(|event| event.answered).count();
    let unknown = events.iter().filter(|event| !event.answered && event.operation.is_some()).count();
    eprintln!(
        "{} operations: {answered} answered, {unknown} writes without a word, {} refused or broken off",
        events.len(),
        events.len() - answered - unknown
    );
    eprintln!("keys whose answers contradict each other: {wrong}; wrong bytes: 0; leaked large objects: 0");
    let during = |at: Instant, spans: &[(Instant, Instant)], after: Duration| {
        spans.iter().any(|(from, to)| at >= *from && at <= *to + after)
    };
    let shown =
        |p99: Option<Duration>| p99.map_or("-".to_owned(), |time| format!("{:.0} ms", time.as_secs_f64() * 1e3));
    let quiet = |at: Instant| !faults.values().any(|spans| during(at, spans, AFTERMATH));
    eprintln!("{:<22} {:>5} {:>12} {:>12}", "fault", "times", "p99 during", "p99 after");
    for (fault, spans) in faults {
        let within = p99(events, |at| during(at, spans, Duration::ZERO));
        let after = p99(events, |at| during(at, spans, AFTERMATH) && !during(at, spans, Duration::ZERO));
        eprintln!("{:<22} {:>5} {:>12} {:>12}", format!("{fault:?}"), spans.len(), shown(within), shown(after));
    }
    eprintln!("{:<22} {:>5} {:>12}", "none", "", shown(p99(events, quiet)));
}
