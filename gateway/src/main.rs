//! The `lobgate` binary.
fn main() {}
