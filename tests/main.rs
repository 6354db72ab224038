//! The integration tests: the built `lobgate` binary, over HTTP, on a real PostgreSQL.
//!
//! Every test has a database of its own and starts the gateways it needs, so all of them run in parallel. Nothing is
//! mocked, and nothing waits by sleeping: what takes time is asked for until it holds or a deadline passes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::print_stderr)]
#![allow(missing_docs, reason = "tests are sentences")]

mod harness;

mod checksums;
mod conditions;
mod errors;
mod keys;
mod listing;
mod listing_model;
mod multipart;
mod objects;
mod part_checksums;
mod ranges;
