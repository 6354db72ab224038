//! Texts: configuration, database URLs, reports of the sweep.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lobgate::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::config(bytes);
    fuzzing::database_url(bytes);
    fuzzing::sweep_report(bytes);
});
