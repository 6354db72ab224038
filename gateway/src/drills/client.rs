//! A client of the load: it writes and reads keys that nobody else writes, and checks every answer.
//!
//! It keeps a handful of keys in use. One whose write was never answered is retired: it is read, never written again, until
//! the end (`ledger` says why); one that broke a promise is dropped, having been counted. Each client does every kind of
//! operation in its first few, whatever chance has it do later, so that a short drill has all of them.
//! Invariant: a client does one thing at a time, so each of its keys has one state that it can know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use md5::Digest as _;

use crate::bench::limit::endpoint::{count, values};

use super::body::{Form, Number, Sizes, parts, recognise};
use super::ledger::{Breach, Ledger, Seen, Value};
use super::record::{Event, How, Kind, Record};
use super::sender::{Answer, Ask, Doors, Sender};

/// Keys in use.
const KEYS: u32 = 6;
/// Bits of a key's number that count within a client.
const KEY_BITS: u32 = 22;
/// Most clients: their numbers take the other bits.
pub(super) const CLIENTS_MAX: u16 = 1 << (32 - KEY_BITS - 1);
/// Until something is tried again, after it was refused or not answered.
const PAUSE: Duration = Duration::from_millis(20);
/// A tag that no body has.
const NO_ETAG: &str = "\"00000000000000000000000000000000\"";

/// A key in use, and the entity tag of what it holds.
struct Slot {
    ledger: Ledger,
    etag: Option<String>,
}

/// A client.
pub(super) struct Client {
    number: u32,
    sizes: Sizes,
    sender: Sender,
    gateways: usize,
    rng: fastrand::Rng,
    made: u32,
    slots: Vec<Slot>,
    retired: Vec<Ledger>,
    record: Record,
}

/// What became of a write, as far as the answer tells.
enum Outcome {
    Acknowledged,
    /// Its condition does not hold.
    Unmet,
    Refused,
    Open,
    Unreachable,
}

/// The name of a key.
pub(super) fn name(key: u32) -> String {
    format!("drill/{key:08x}")
}

impl Client {
    pub(super) fn new(number: u16, sizes: Sizes, doors: &Doors) -> Self {
        let mut client = Self {
            number: u32::from(number),
            sizes,
            sender: Sender::new(doors),
            gateways: doors.count(),
            rng: fastrand::Rng::new(),
            made: 0,
            slots: Vec::new(),
            retired: Vec::new(),
            record: Record::default(),
        };
        for _ in 0..KEYS {
            let slot = client.fresh();
            client.slots.push(slot);
        }
        client
    }

    /// Works until told to stop, and returns what it noted and all its keys.
    pub(super) async fn run(mut self, stop: Arc<AtomicBool>) -> (Record, Vec<Ledger>) {
        let mut turn = self.number as usize;
        let all = turn + Kind::ALL.len();
        while !stop.load(Ordering::Relaxed) {
            let kind = if turn < all { Kind::ALL[turn % Kind::ALL.len()] } else { self.kind() };
            turn += 1;
            let at = Instant::now();
            let slot = self.rng.usize(..self.slots.len());
            let (how, took) = match kind {
                Kind::Get => self.read(slot).await,
                Kind::Put => {
                    let form = self.form();
                    self.put(slot, form).await
                }
                Kind::Delete => self.delete(slot).await,
                Kind::Conditional => self.put_if(slot).await,
                Kind::Multipart => self.upload(slot).await,
            };
            self.record.events.push(Event { kind, how, at, took: took.unwrap_or_else(|| at.elapsed()) });
            if !how.is_done() {
                tokio::time::sleep(PAUSE).await;
            }
        }
        let used = self.slots.into_iter().map(|slot| slot.ledger);
        (self.record, used.chain(self.retired).collect())
    }

    fn kind(&mut self) -> Kind {
        match self.rng.u32(..1000) {
            0..420 => Kind::Get,
            420..720 => Kind::Put,
            720..890 => Kind::Conditional,
            890..995 => Kind::Delete,
            _ => Kind::Multipart,
        }
    }

    fn form(&mut self) -> Form {
        match self.rng.u32(..100) {
            0..60 => Form::Inline,
            60..88 => Form::Whole,
            _ => Form::Streamed,
        }
    }

    fn fresh(&mut self) -> Slot {
        self.made += 1;
        Slot { ledger: Ledger::new(self.number << KEY_BITS | self.made), etag: None }
    }

    /// Reads a key in use, or one whose last write is open. The time ends before the bytes are compared.
    async fn read(&mut self, slot: usize) -> (How, Option<Duration>) {
        let retired =
            (!self.retired.is_empty() && self.rng.u32(..10) == 0).then(|| self.rng.usize(..self.retired.len()));
        let ledger = retired.map_or(&self.slots[slot].ledger, |at| &self.retired[at]);
        let (key, at) = (ledger.key(), Instant::now());
        let answer = self.ask(&Ask { method: "GET", key: &name(key), ..Ask::default() }).await;
        let took = at.elapsed();
        let seen = match answer {
            Answer::Reply { status: 200, body } => recognise(&body).map_or(Seen::Garbage, Seen::Body),
            Answer::Reply { status: 404, .. } => Seen::Nothing,
            other => return (self.failed(&other), Some(took)),
        };
        let ledger = retired.map_or(&mut self.slots[slot].ledger, |at| &mut self.retired[at]);
        if let Err(breach) = ledger.judge(seen) {
            self.breach(breach, key, &format!("read as {}", described(seen)));
            match retired {
                Some(at) => drop(self.retired.swap_remove(at)),
                None => self.slots[slot] = self.fresh(),
            }
        }
        (How::Answered, Some(took))
    }

    async fn put(&mut self, slot: usize, form: Form) -> (How, Option<Duration>) {
        let (number, body) = self.next(slot, form);
        let key = name(self.slots[slot].ledger.key());
        let at = Instant::now();
        let answer = self.ask(&Ask { method: "PUT", key: &key, body: Some(&body), ..Ask::default() }).await;
        let took = at.elapsed();
        let outcome = self.outcome(&answer, false);
        (self.settle(slot, &outcome, Some(number), &body), Some(took))
    }

    async fn delete(&mut self, slot: usize) -> (How, Option<Duration>) {
        let key = name(self.slots[slot].ledger.key());
        let answer = self.ask(&Ask { method: "DELETE", key: &key, ..Ask::default() }).await;
        let outcome = self.outcome(&answer, false);
        (self.settle(slot, &outcome, None, b""), None)
    }

    /// A conditional PUT: the state of the key is known, and so is what has to come of it.
    async fn put_if(&mut self, slot: usize) -> (How, Option<Duration>) {
        let form = self.form();
        let (number, body) = self.next(slot, form);
        let (key, there) = (self.slots[slot].ledger.key(), self.slots[slot].ledger.value().is_some());
        let current = self.slots[slot].etag.clone().filter(|_| there);
        let (header, tag, met) = match (current, self.rng.u32(..3)) {
            (Some(etag), 0 | 1) => ("if-match", etag, true),
            (None, 0 | 1) => ("if-none-match", "*".to_owned(), true),
            (Some(_), _) => ("if-none-match", "*".to_owned(), false),
            (None, _) => ("if-match", NO_ETAG.to_owned(), false),
        };
        let headers = [(header, tag.as_str())];
        let at = Instant::now();
        let ask = Ask { method: "PUT", key: &name(key), headers: &headers, body: Some(&body), ..Ask::default() };
        let answer = self.ask(&ask).await;
        let took = at.elapsed();
        let outcome = self.outcome(&answer, true);
        let broken = match (&outcome, met, there) {
            (Outcome::Unmet, true, true) | (Outcome::Acknowledged, false, true) => Some(Breach::Lost),
            (Outcome::Unmet, true, false) => Some(Breach::Resurrected),
            (Outcome::Acknowledged, false, false) => Some(Breach::Wrong),
            _ => None,
        };
        if let Some(breach) = broken {
            self.breach(
                breach,
                key,
                &format!("the condition {header}: {tag} was decided against what was acknowledged"),
            );
            self.slots[slot] = self.fresh();
            return (How::Answered, Some(took));
        }
        (self.settle(slot, &outcome, Some(number), &body), Some(took))
    }

    /// A multipart upload of two parts.
    async fn upload(&mut self, slot: usize) -> (How, Option<Duration>) {
        let (number, body) = self.next(slot, Form::Parts);
        let key = name(self.slots[slot].ledger.key());
        let created = [("uploads", "")];
        let answer =
            self.ask(&Ask { method: "POST", key: &key, query: &created, body: Some(b""), ..Ask::default() }).await;
        let id = match &answer {
            Answer::Reply { status: 200, body } => values(body, "UploadId").into_iter().next(),
            other => return (self.failed(other), None),
        };
        let Some(id) = id else { return (How::Unanswered, None) };
        let (mut list, mut digests) = (String::new(), Vec::new());
        for (part, at) in parts(&body).into_iter().zip(1..) {
            let at = at.to_string();
            let query = [("partNumber", at.as_str()), ("uploadId", id.as_str())];
            let ask = Ask { method: "PUT", key: &key, query: &query, body: Some(part), ..Ask::default() };
            match self.ask(&ask).await {
                Answer::Reply { status: 200, .. } => self.record.stored += part.len() as u64,
                other => return (self.failed(&other), None),
            }
            let digest = md5::Md5::digest(part);
            list.push_str(&format!("<Part><PartNumber>{at}</PartNumber><ETag>{}</ETag></Part>", hex::encode(digest)));
            digests.extend_from_slice(&digest);
        }
        let document = format!("<CompleteMultipartUpload>{list}</CompleteMultipartUpload>");
        let query = [("uploadId", id.as_str())];
        let ask = Ask { method: "POST", key: &key, query: &query, body: Some(document.as_bytes()), ..Ask::default() };
        let answer = self.ask(&ask).await;
        // A completion may fail after its status was sent.
        let outcome = match &answer {
            Answer::Reply { status: 200, body } if count(body, "<Error>") > 0 => Outcome::Open,
            other => self.outcome(other, false),
        };
        let how = self.settle(slot, &outcome, Some(number), b"");
        if how == How::Acknowledged {
            self.slots[slot].etag = Some(format!("\"{}-2\"", hex::encode(md5::Md5::digest(&digests))));
        }
        (how, None)
    }

    /// The next body of a key.
    fn next(&mut self, slot: usize, form: Form) -> (Number, Vec<u8>) {
        let ledger = &mut self.slots[slot].ledger;
        let number = Number::new(ledger.key(), ledger.next_write(), form);
        (number, self.sizes.body(number))
    }

    async fn ask(&mut self, ask: &Ask<'_>) -> Answer {
        let which = self.rng.usize(..self.gateways);
        self.sender.ask(which, ask).await
    }

    fn outcome(&mut self, answer: &Answer, conditional: bool) -> Outcome {
        match answer {
            Answer::Reply { status: 200 | 204, .. } => Outcome::Acknowledged,
            Answer::Reply { status: 404 | 412, .. } if conditional => Outcome::Unmet,
            other => match self.failed(other) {
                How::Refused => Outcome::Refused,
                How::Unreachable => Outcome::Unreachable,
                _ => Outcome::Open,
            },
        }
    }

    /// What an answer says that is no success.
    fn failed(&mut self, answer: &Answer) -> How {
        match answer {
            Answer::Reply { status: 503, .. } => How::Refused,
            Answer::Reply { status: 500, .. } | Answer::Nothing => How::Unanswered,
            Answer::Reply { status, .. } => {
                *self.record.unexpected.entry(*status).or_default() += 1;
                How::Unanswered
            }
            Answer::Unreachable => How::Unreachable,
        }
    }

    /// Enters a write.
    fn settle(&mut self, slot: usize, outcome: &Outcome, value: Value, body: &[u8]) -> How {
        match outcome {
            Outcome::Acknowledged => {
                self.record.stored += body.len() as u64;
                let digest = md5::Md5::digest(body);
                let held = &mut self.slots[slot];
                held.ledger.acknowledge(value);
                held.etag = Some(format!("\"{}\"", hex::encode(digest)));
                How::Acknowledged
            }
            Outcome::Unmet => How::Answered,
            Outcome::Refused => How::Refused,
            Outcome::Unreachable => How::Unreachable,
            Outcome::Open => {
                let fresh = self.fresh();
                let mut held = std::mem::replace(&mut self.slots[slot], fresh);
                held.ledger.leave_open(value);
                self.retired.push(held.ledger);
                How::Unanswered
            }
        }
    }

    fn breach(&mut self, breach: Breach, key: u32, how: &str) {
        self.record.breaches.push((breach, format!("{} {}", name(key), how)));
    }
}

/// What was seen, in words.
pub(super) fn described(seen: Seen) -> String {
    match seen {
        Seen::Nothing => "absent".to_owned(),
        Seen::Body(number) => format!("write {} of key {:08x}", number.write(), number.key()),
        Seen::Garbage => "bytes that nobody wrote".to_owned(),
    }
}
