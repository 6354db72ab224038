//! Bodies that are their own proof: every byte follows from a number, and the number stands in the body.
//!
//! A number says which key the body was written to, which write of that key it was, and how it is to be stored. A body
//! begins with its number and its length; what follows is made from the number. So whoever reads one knows what it should
//! be without having kept it, and a body that was cut, mixed or put under another key is recognised.
//! Invariant: no two writes of a drill have the same number.

use crate::config::StorageConfig;

/// Number and length, at the beginning of a body.
const HEAD: usize = 16;
/// Bits of a number that say how the body is to be stored.
const FORM_BITS: u32 = 2;
/// Smallest part of an upload that another may follow.
const PART_MIN: usize = 5 << 20;
/// How far lengths of one form differ.
const SPREAD: u64 = 200_000;

/// How a body comes to lie in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// In its row.
    Inline,
    /// In a large object, received whole before its one transaction.
    Whole,
    /// In a large object, streamed while it arrives.
    Streamed,
    /// In two parts of a multipart upload.
    Parts,
}

/// The name of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Number(u64);

/// The lengths at which the gateways change the form, and so those of bodies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    inline_max: u64,
    buffer_max: u64,
}

impl Number {
    /// The body of a write of a key. The first `2^30` writes of a key have names.
    pub(crate) fn new(key: u32, write: u32, form: Form) -> Self {
        let form = match form {
            Form::Inline => 0,
            Form::Whole => 1,
            Form::Streamed => 2,
            Form::Parts => 3,
        };
        Self(u64::from(key) << 32 | u64::from(write << FORM_BITS) | form)
    }

    /// The key it was made for.
    pub(crate) fn key(self) -> u64 {
        self.0 >> 32
    }

    /// Which write of the key it is.
    pub(crate) fn write(self) -> u64 {
        (self.0 & 0xffff_ffff) >> FORM_BITS
    }

    /// How it is to be stored.
    pub(crate) fn form(self) -> Form {
        match self.0 & 3 {
            0 => Form::Inline,
            1 => Form::Whole,
            2 => Form::Streamed,
            _ => Form::Parts,
        }
    }
}

impl Sizes {
    /// Those of gateways with these settings.
    pub(crate) fn of(storage: &StorageConfig) -> Self {
        Self { inline_max: storage.inline_max, buffer_max: storage.buffer_max }
    }

    /// The length of a body.
    fn length(&self, number: Number) -> usize {
        let variation = scrambled(number.0);
        let length = match number.form() {
            Form::Inline => HEAD as u64 + variation % self.inline_max.saturating_sub(HEAD as u64).max(1),
            Form::Whole => {
                let room = self.buffer_max.saturating_sub(self.inline_max).clamp(1, SPREAD);
                (self.inline_max + 1 + variation % room).max(HEAD as u64)
            }
            Form::Streamed => (self.buffer_max + 1 + variation % SPREAD).max(HEAD as u64),
            Form::Parts => PART_MIN as u64 + 1 + variation % SPREAD,
        };
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    /// The bytes of a body.
    pub(crate) fn body(&self, number: Number) -> Vec<u8> {
        filled(number, self.length(number))
    }
}

/// The parts of a body that is uploaded in parts.
pub(crate) fn parts(body: &[u8]) -> [&[u8]; 2] {
    let (first, second) = body.split_at(PART_MIN.min(body.len()));
    [first, second]
}

/// The number of a body, every byte of it compared; `None` where it is nobody's.
pub(crate) fn recognise(bytes: &[u8]) -> Option<Number> {
    let number = Number(u64::from_le_bytes(bytes.first_chunk().copied()?));
    (bytes.len() >= HEAD && filled(number, bytes.len()) == bytes).then_some(number)
}

fn filled(number: Number, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    bytes.extend_from_slice(&number.0.to_le_bytes());
    bytes.extend_from_slice(&(length as u64).to_le_bytes());
    let mut state = scrambled(number.0);
    while bytes.len() < length {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bytes.extend_from_slice(&scrambled(state).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// The output function of SplitMix64: bytes made of it pass for random and can't be compressed.
fn scrambled(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: [Form; 4] = [Form::Inline, Form::Whole, Form::Streamed, Form::Parts];

    fn sizes() -> Sizes {
        Sizes { inline_max: 65_536, buffer_max: 1 << 20 }
    }

    #[test]
    fn a_number_says_key_write_and_form() {
        for form in FORMS {
            let number = Number::new(u32::MAX, 77, form);
            assert_eq!((number.key(), number.write(), number.form()), (u64::from(u32::MAX), 77, form));
        }
    }

    #[test]
    fn bodies_have_the_length_of_their_form() {
        for write in 0..50 {
            let length = |form| sizes().body(Number::new(3, write, form)).len() as u64;
            assert!((16..=65_536).contains(&length(Form::Inline)));
            assert!((65_537..=1 << 20).contains(&length(Form::Whole)));
            assert!(length(Form::Streamed) > 1 << 20);
        }
        let body = sizes().body(Number::new(3, 1, Form::Parts));
        let [first, second] = parts(&body);
        assert!(first.len() == PART_MIN && !second.is_empty());
    }

    #[test]
    fn odd_settings_have_bodies_too() {
        for (inline_max, buffer_max) in [(0, 0), (1 << 20, 1 << 20)] {
            let sizes = Sizes { inline_max, buffer_max };
            for form in FORMS {
                let number = Number::new(1, 1, form);
                assert_eq!(recognise(&sizes.body(number)), Some(number), "{inline_max} {form:?}");
            }
        }
    }

    #[test]
    fn a_body_is_recognised_and_a_changed_one_is_not() {
        let number = Number::new(9, 4, Form::Whole);
        let body = sizes().body(number);
        assert_eq!(recognise(&body), Some(number));
        for at in [0, 8, 100, body.len() - 1] {
            let mut changed = body.clone();
            changed[at] ^= 1;
            assert_eq!(recognise(&changed), None, "byte {at}");
        }
        assert_eq!(recognise(&body[..body.len() - 1]), None, "cut");
        assert_eq!(recognise(&body[..10]), None);
        assert_eq!(recognise(b""), None);
    }
}
