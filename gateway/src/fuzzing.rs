//! Fuzz targets: every way in which text of others comes into this process. `gateway/fuzz` lets libFuzzer at them
//! (`make fuzz`); the tests here run each over the kept corpus and over mutations of it.
//!
//! A target takes bytes and must come back: no panic, no 500, nothing that takes long.
#![allow(missing_docs, reason = "a target's name says it")]

use std::path::Path;

pub use crate::server::fuzzing::Wire;

/// The text of a configuration file.
pub fn config(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = crate::config::from_text(text);
    }
}

/// A database URL.
pub fn database_url(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = crate::db::Target::parse(text);
    }
}

/// A report of `lobgate sweep`.
pub fn sweep_report(bytes: &[u8]) {
    let _ = crate::gc::sweep::parse(&String::from_utf8_lossy(bytes), Path::new("report.json"));
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Mutations of each kept input.
    const MUTATIONS: usize = 500;

    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&directory).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{} is empty", directory.display());
        files.iter().map(|file| std::fs::read(file).expect("an input")).collect()
    }

    /// Bytes changed, taken out, doubled, and put together with those of another input.
    fn mutated(input: &[u8], other: &[u8], rng: &mut fastrand::Rng) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..rng.usize(1..6) {
            let at = rng.usize(..=bytes.len());
            match rng.u8(..5) {
                0 if at < bytes.len() => bytes[at] = rng.u8(..),
                1 if at < bytes.len() => drop(bytes.drain(at..(at + rng.usize(1..20)).min(bytes.len()))),
                2 => bytes.insert(at, *rng.choice(b"%&=/?\r\n\0\"<>-:;,9\xff").expect("a byte")),
                3 => {
                    let end = (at + rng.usize(1..40)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => {
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[rng.usize(..=other.len())..]);
                }
            }
        }
        bytes
    }

    fn run(target: &str, run: impl Fn(&[u8])) {
        let corpus = corpus(target);
        let mut rng = fastrand::Rng::with_seed(1);
        for input in &corpus {
            run(input);
            for _ in 0..MUTATIONS {
                let other = rng.choice(&corpus).expect("an input");
                run(&mutated(input, other, &mut rng));
            }
        }
    }

    #[test]
    fn bytes_off_the_wire_are_answered() {
        let wire = Wire::new(true);
        run("wire", |bytes| wire.send(bytes));
    }

    #[test]
    fn requests_that_nobody_has_to_sign_are_answered() {
        let wire = Wire::new(false);
        run("wire", |bytes| wire.send(bytes));
    }

    #[test]
    fn texts_are_read_or_refused() {
        run("config", config);
        run("database_url", database_url);
        run("sweep_report", sweep_report);
    }
}
