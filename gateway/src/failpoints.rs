//! Places where a test ends the process as `kill -9` would: before and after every statement, every COMMIT, every migration.
//!
//! The library `fail` does nothing in what is shipped: its feature `failpoints` is on in test builds alone. There the
//! variable `FAILPOINTS` arms them: `before_publish_large_object=return` kills when that statement is about to be sent,
//! `after_put_chunk=2*off->return` when the third chunk has been written. They are reached by the database layer alone,
//! by the names that statements have there.

use nix::sys::signal::{Signal, raise};

/// Reads `FAILPOINTS`; they stay armed as long as the value lives.
pub(crate) fn arm() -> Option<fail::FailScenario<'static>> {
    fail::has_failpoints().then(fail::FailScenario::setup)
}

/// Arrives at a place.
pub(crate) fn reach(name: &str) {
    fail::fail_point!(name, |_| kill(name));
    let _ = name;
}

/// Arrives at a place by the name of a statement, `before_NAME`, or of a transaction: `after_commit_NAME`.
pub(crate) fn reach_statement(step: &str, statement: &str) {
    if fail::has_failpoints() {
        reach(&format!("{step}_{statement}"));
    }
}

#[allow(dead_code, reason = "used where failpoints are compiled in")]
fn kill(name: &str) {
    eprintln!("failpoint {name}");
    let _ = raise(Signal::SIGKILL);
}
