//! The last words of PostgreSQL's programs, for messages of one line.
//!
//! Invariant: a missing or unreadable log gives an empty text, never an error that hides the first one.

use std::path::Path;

/// Marks of PostgreSQL's messages; what stands before them is time and process.
const MARKS: &[&str] = &["PANIC:", "FATAL:", "ERROR:", "WARNING:", "LOG:", "DETAIL:", "HINT:"];

/// The last `lines` messages in the file at `path`, joined to one line.
pub(super) fn tail(path: &Path, lines: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut last: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(lines).map(gist).collect();
    last.reverse();
    last.join("; ")
}

fn gist(line: &str) -> &str {
    let start = MARKS.iter().filter_map(|mark| line.find(mark)).min();
    line[start.unwrap_or_default()..].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_joined_without_time_and_process() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("x.log");
        std::fs::write(&path, "old\n2026-01-01 00:00:00 UTC [1]  LOG:  one\n\n2026-01-01 [2] FATAL:  two: no\n")
            .expect("written");
        assert_eq!(tail(&path, 2), "LOG:  one; FATAL:  two: no");
        assert_eq!(tail(&dir.path().join("missing"), 2), "");
    }
}
