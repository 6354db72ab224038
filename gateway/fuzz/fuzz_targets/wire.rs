//! Bytes off the wire, at an edge that asks for signatures.
#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use lobgate::fuzzing::Wire;

thread_local!(static WIRE: OnceCell<Wire> = const { OnceCell::new() });

fuzz_target!(|bytes: &[u8]| WIRE.with(|wire| wire.get_or_init(|| Wire::new(true)).send(bytes)));
