//! Bytes that no compression makes smaller.
//!
//! A pool of random bytes is made once; every body is a run through it from a place of its own, so that no two bodies, and
//! no two pages of a large object, are equal. Making bytes costs no time inside a measurement: pieces are views of the pool.

use bytes::{Bytes, BytesMut};

/// Random bytes that bodies are cut from: more than the longest statement's.
const POOL: usize = 16 << 20;
/// How far apart bodies begin, odd so that pages of two bodies never coincide.
const STRIDE: usize = 4_999;

/// A source of bodies.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    pool: Bytes,
    next: usize,
}

/// A body: its length and where it begins in the pool.
#[derive(Debug, Clone)]
pub(super) struct Body {
    pool: Bytes,
    start: usize,
    length: u64,
}

impl Noise {
    /// A source; no two give the same bytes.
    #[must_use]
    pub(super) fn new() -> Self {
        let (mut state, _) = uuid::Uuid::new_v4().as_u64_pair();
        let mut pool = Vec::with_capacity(POOL);
        while pool.len() < POOL {
            // SplitMix64: every state gives another word, and the words pass for random.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            pool.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
        }
        Self { pool: pool.into(), next: 0 }
    }

    /// The next body.
    pub(super) fn body(&mut self, length: u64) -> Body {
        let start = self.next;
        self.next = (self.next + STRIDE) % POOL;
        Body { pool: self.pool.clone(), start, length }
    }
}

impl Default for Noise {
    fn default() -> Self {
        Self::new()
    }
}

impl Body {
    /// Its bytes.
    #[must_use]
    pub(super) fn len(&self) -> u64 {
        self.length
    }

    /// The bytes from `offset` on, at most `length`; copied only where the pool's end lies between.
    #[must_use]
    pub(super) fn piece(&self, offset: u64, length: u64) -> Bytes {
        let wanted = index(length.min(self.length.saturating_sub(offset)));
        let from = (self.start + index(offset % POOL as u64)) % POOL;
        if from + wanted <= POOL {
            return self.pool.slice(from..from + wanted);
        }
        let mut joined = BytesMut::with_capacity(wanted);
        let mut at = from;
        while joined.len() < wanted {
            let run = (POOL - at).min(wanted - joined.len());
            joined.extend_from_slice(&self.pool[at..at + run]);
            at = 0;
        }
        joined.freeze()
    }

    /// All bytes as pieces of a length.
    pub(super) fn pieces(&self, length: u64) -> impl Iterator<Item = (u64, Bytes)> + '_ {
        let step = length.max(1);
        let count = self.length.div_ceil(step);
        (0..count).map(move |number| (number * step, self.piece(number * step, step)))
    }
}

/// A length in memory.
fn index(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_differ_and_pieces_make_the_whole() {
        let mut noise = Noise::new();
        let (first, second) = (noise.body(10_000), noise.body(10_000));
        assert_ne!(first.piece(0, 10_000), second.piece(0, 10_000));
        let joined: Vec<u8> = first.pieces(2048).flat_map(|(_, piece)| piece.to_vec()).collect();
        assert_eq!(joined, first.piece(0, 10_000));
        assert_eq!(first.piece(9_999, 5).len(), 1);
        assert!(first.piece(10_000, 5).is_empty());
    }

    #[test]
    fn a_body_may_be_longer_than_the_pool() {
        let body = Noise::new().body(40 << 20);
        assert_eq!(body.piece(0, 40 << 20).len(), 40 << 20);
        let total: usize = body.pieces(3 << 20).map(|(_, piece)| piece.len()).sum();
        assert_eq!(total, 40 << 20);
    }
}
