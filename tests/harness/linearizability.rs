//! Whether a history of one key could have come from a single register: what S3 promises of an object.
//!
//! The search is that of Wing and Gong with Lowe's memory of what was tried: operations are put into an order that
//! respects real time, one after the other, and taken back where a later answer contradicts. An operation without an
//! answer may have happened at any time after its call, or never.

use std::collections::HashSet;

/// A value of the register: nothing, or the number of a body.
pub(crate) type Value = Option<u64>;

/// What a client did, and what it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It read this.
    Read(Value),
    /// It wrote this: an object, or with `None` its deletion.
    Write(Value),
    /// It wrote `value` on the condition that the register is `expected`; or was refused because it isn't.
    Swap { expected: Value, value: Value, done: bool },
}

/// An operation on one key. Times are of one clock, of any unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) called: u64,
    /// When it was answered; `None` where it never was.
    pub(crate) answered: Option<u64>,
    pub(crate) action: Action,
}

impl Action {
    /// The register after this, if it could give the answer that it gave.
    fn apply(self, register: Value) -> Option<Value> {
        match self {
            Self::Read(value) => (register == value).then_some(register),
            Self::Write(value) => Some(value),
            Self::Swap { expected, value, done } => match (register == expected, done) {
                (true, true) => Some(value),
                (false, false) => Some(register),
                _ => None,
            },
        }
    }
}

/// Operations that are in the order already, a bit for each.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Placed(Vec<u64>);

impl Placed {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn with(&self, at: usize) -> Self {
        let mut placed = self.clone();
        placed.0[at / 64] |= 1 << (at % 64);
        placed
    }
}

/// Whether an operation without an answer could explain anybody else's: a body that nobody read can only have been in the
/// way of a condition. Without those the search stays small.
fn may_be_seen(operation: &Operation, history: &[Operation]) -> bool {
    let (Action::Write(written) | Action::Swap { value: written, .. }) = operation.action else { return false };
    let later = history.iter().filter(|other| other.answered.is_none_or(|at| at >= operation.called));
    later.clone().any(|other| match other.action {
        Action::Read(value) => value == written,
        Action::Swap { expected, done, .. } => !done || expected == written,
        Action::Write(_) => false,
    })
}

/// States that are looked at before the search is given up: a minute or so.
const MOST_STATES: usize = 4_000_000;

/// Whether some order of the operations explains every answer, from an empty register on.
///
/// An operation without an answer is put into the order only where somebody sees what it did next; unseen, it may as well never
/// have happened. That keeps the search short.
///
/// # Panics
/// Where that cannot be decided with [`MOST_STATES`].
pub(crate) fn is_linearizable(history: &[Operation]) -> bool {
    let matters = |operation: &&Operation| operation.answered.is_some() || may_be_seen(operation, history);
    let mut history: Vec<Operation> = history.iter().filter(matters).copied().collect();
    history.sort_by_key(|operation| operation.called);
    let none = Placed(vec![0; history.len().div_ceil(64).max(1)]);
    let mut tried = HashSet::from([(none.clone(), None, false)]);
    let mut open = vec![(none, None, false)];
    while let Some((placed, register, unseen)) = open.pop() {
        assert!(tried.len() < MOST_STATES, "undecided: {history:#?}");
        let missing = || history.iter().enumerate().filter(|(at, _)| !placed.has(*at));
        // Whatever was called after another had been answered comes after it.
        let Some(end) = missing().filter_map(|(_, operation)| operation.answered).min() else { return true };
        let sees =
            |operation: &Operation| operation.answered.is_some() && !matches!(operation.action, Action::Write(_));
        let possible = missing().take_while(|(_, operation)| operation.called <= end);
        let next = possible.filter(|(_, operation)| !unseen || sees(operation)).filter_map(|(at, operation)| {
            operation.action.apply(register).map(|register| (placed.with(at), register, operation.answered))
        });
        let mut next: Vec<_> = next.collect();
        // The earliest answer is tried first, what was never answered last.
        next.sort_by_key(|(_, _, answered)| std::cmp::Reverse(answered.unwrap_or(u64::MAX)));
        for (placed, register, answered) in next {
            let state = (placed, register, answered.is_none());
            if tried.insert(state.clone()) {
                open.push(state);
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(called: u64, answered: Option<u64>, action: Action) -> Operation {
        Operation { called, answered, action }
    }

    #[test]
    fn histories_of_a_register_are_told_from_others() {
        use Action::{Read, Swap, Write};
        let write = |from, to, value| operation(from, to, Write(value));
        let read = |from, to, value| operation(from, Some(to), Read(value));
        let first = write(0, Some(1), Some(1));
        assert!(is_linearizable(&[]));
        assert!(is_linearizable(&[first, read(2, 3, Some(1))]));
        assert!(!is_linearizable(&[first, read(2, 3, None)]), "an acknowledged write is lost");
        assert!(!is_linearizable(&[read(0, 1, Some(7))]), "a body that nobody wrote");
        let second = write(2, Some(9), Some(2));
        assert!(is_linearizable(&[first, second, read(3, 4, Some(1)), read(5, 6, Some(2))]));
        assert!(!is_linearizable(&[first, second, read(3, 4, Some(2)), read(5, 6, Some(1))]), "time runs backwards");
        let lost = write(2, None, Some(2));
        assert!(is_linearizable(&[first, lost, read(3, 4, Some(1))]), "it never happened");
        assert!(is_linearizable(&[first, lost, read(30, 40, Some(1)), read(50, 60, Some(2))]), "it happened late");
        assert!(!is_linearizable(&[first, lost, read(3, 4, Some(2)), read(5, 6, Some(1))]), "it happened once");
        let create =
            |from, to, value, done| operation(from, Some(to), Swap { expected: None, value: Some(value), done });
        assert!(is_linearizable(&[create(0, 9, 1, true), create(0, 9, 2, false), create(0, 9, 3, false)]));
        assert!(!is_linearizable(&[create(0, 9, 1, true), create(0, 9, 2, true)]), "two creators won");
        assert!(!is_linearizable(&[create(0, 9, 1, false), create(0, 9, 2, false)]), "nobody won");
    }

    #[test]
    fn long_histories_with_many_lost_answers_are_decided() {
        let mut history = Vec::new();
        for number in 0..300 {
            let (at, value) = (number * 10, Some(number));
            if number % 10 == 0 {
                history.push(operation(at, None, Action::Write(Some(number + 1_000_000))));
            }
            history.push(operation(at, Some(at + 4), Action::Write(value)));
            history.push(operation(at + 5, Some(at + 6), Action::Read(value)));
        }
        assert!(is_linearizable(&history));
        history.push(operation(4000, Some(4001), Action::Read(Some(1_000_000))));
        assert!(is_linearizable(&history), "an early write without an answer may happen late");
        history.push(operation(4002, Some(4003), Action::Read(Some(7))));
        assert!(!is_linearizable(&history));
    }
}
