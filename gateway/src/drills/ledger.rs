//! The checker: what a key may hold, from what its only writer was told.
//!
//! A write that was acknowledged happened; one that was refused (503, or its condition failed) did not and never will; one
//! that was never answered may happen at any time, or not at all. So a key holds the last acknowledged write, or an
//! unanswered one that was sent after it. Everything else is a promise broken: an object or its newest write is *lost*, one
//! that was deleted or refused is *resurrected*, or the bytes are *wrong*.
//!
//! An unanswered write may even come after a later one that was acknowledged: therefore the writer gives a key up after the
//! first unanswered write. Whatever is seen is adopted, so that a fault is counted once
//! and time may not run backwards afterwards.

use super::body::Number;

/// What a key holds: a body, or nothing.
pub(crate) type Value = Option<Number>;

/// All that is known of a key.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    key: u32,
    acknowledged: Value,
    unanswered: Vec<Value>,
    writes: u32,
}

/// What was found under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// No object.
    Nothing,
    /// A whole body.
    Body(Number),
    /// Bytes that are no body.
    Garbage,
}

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Breach {
    /// A write that was acknowledged is not there.
    Lost,
    /// Bytes that were never written here.
    Wrong,
    /// What was deleted, or refused, is there.
    Resurrected,
}

impl Ledger {
    /// A key that nothing was written to.
    pub(crate) fn new(key: u32) -> Self {
        Self { key, acknowledged: None, unanswered: Vec::new(), writes: 0 }
    }

    /// The key's number.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// Which write the next one is.
    pub(crate) fn next_write(&mut self) -> u32 {
        self.writes += 1;
        self.writes
    }

    /// What the key holds, unless a write is open.
    pub(crate) fn value(&self) -> Value {
        self.acknowledged
    }

    /// A write was acknowledged.
    pub(crate) fn acknowledge(&mut self, value: Value) {
        self.acknowledged = value;
        self.unanswered.clear();
    }

    /// A write was sent, and nobody said what became of it.
    pub(crate) fn leave_open(&mut self, value: Value) {
        self.unanswered.push(value);
    }

    /// Compares what was found with what may be there, and takes it for the key's value from now on.
    ///
    /// # Errors
    /// The promise that was broken.
    pub(crate) fn judge(&mut self, seen: Seen) -> Result<(), Breach> {
        let value = match seen {
            Seen::Nothing => None,
            Seen::Body(number) if number.key() == u64::from(self.key) => Some(number),
            Seen::Body(_) | Seen::Garbage => return Err(Breach::Wrong),
        };
        if value == self.acknowledged {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.acknowledged, value);
        if let Some(at) = self.unanswered.iter().position(|open| *open == value) {
            self.unanswered.remove(at);
            return Ok(());
        }
        match (before, value) {
            (Some(newest), Some(found)) if found.write() > newest.write() => Err(Breach::Resurrected),
            (Some(_), _) => Err(Breach::Lost),
            (None, _) => Err(Breach::Resurrected),
        }
    }
}

impl Breach {
    /// What it is called in reports.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Wrong => "wrong",
            Self::Resurrected => "resurrected",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::body::Form;
    use super::*;

    const KEY: u32 = 5;

    fn body(write: u32) -> Number {
        Number::new(KEY, write, Form::Inline)
    }

    fn written(writes: &[Value]) -> Ledger {
        let mut ledger = Ledger::new(KEY);
        for value in writes {
            ledger.acknowledge(*value);
        }
        ledger
    }

    fn seen(value: Value) -> Seen {
        value.map_or(Seen::Nothing, Seen::Body)
    }

    #[test]
    fn the_last_acknowledged_write_is_what_is_expected() {
        for last in [None, Some(body(2))] {
            let mut ledger = written(&[Some(body(1)), last]);
            assert_eq!(ledger.judge(seen(last)), Ok(()));
        }
        assert_eq!(Ledger::new(KEY).judge(Seen::Nothing), Ok(()));
    }

    #[test]
    fn an_acknowledged_write_that_is_absent_or_older_is_lost() {
        let mut ledger = written(&[Some(body(1)), Some(body(2))]);
        assert_eq!(ledger.clone().judge(Seen::Nothing), Err(Breach::Lost));
        assert_eq!(ledger.judge(seen(Some(body(1)))), Err(Breach::Lost));
        assert_eq!(ledger.judge(seen(Some(body(1)))), Ok(()), "it is counted once");
    }

    #[test]
    fn bytes_that_nobody_wrote_here_are_wrong() {
        let ledger = written(&[Some(body(1))]);
        assert_eq!(ledger.clone().judge(Seen::Garbage), Err(Breach::Wrong));
        let elsewhere = Number::new(KEY + 1, 1, Form::Inline);
        assert_eq!(ledger.clone().judge(Seen::Body(elsewhere)), Err(Breach::Wrong));
    }

    #[test]
    fn a_deleted_or_refused_write_that_is_there_is_resurrected() {
        let mut deleted = written(&[Some(body(1)), None]);
        assert_eq!(deleted.judge(seen(Some(body(1)))), Err(Breach::Resurrected));
        // The second write was refused: nothing was entered for it.
        let mut refused = written(&[Some(body(1))]);
        assert_eq!(refused.judge(seen(Some(body(2)))), Err(Breach::Resurrected));
        assert_eq!(Ledger::new(KEY).judge(seen(Some(body(1)))), Err(Breach::Resurrected));
    }

    #[test]
    fn an_unanswered_write_may_have_happened_or_not_and_once_only() {
        let open = |value: Value| {
            let mut ledger = written(&[Some(body(1))]);
            ledger.leave_open(value);
            ledger
        };
        for value in [None, Some(body(2))] {
            assert_eq!(open(value).judge(seen(Some(body(1)))), Ok(()), "it did not");
            let mut ledger = open(value);
            assert_eq!(ledger.judge(seen(value)), Ok(()), "it did");
            assert!(ledger.judge(seen(Some(body(1)))).is_err(), "time runs backwards");
        }
        let mut late = open(Some(body(2)));
        assert_eq!(late.judge(seen(Some(body(1)))), Ok(()));
        assert_eq!(late.judge(seen(Some(body(2)))), Ok(()), "it came later");
        assert_eq!(open(Some(body(2))).judge(Seen::Nothing), Err(Breach::Lost));
    }

    #[test]
    fn a_later_acknowledgement_settles_what_was_open() {
        let mut ledger = written(&[Some(body(1))]);
        ledger.leave_open(Some(body(2)));
        ledger.acknowledge(Some(body(3)));
        assert_eq!(ledger.judge(seen(Some(body(2)))), Err(Breach::Lost));
    }
}
