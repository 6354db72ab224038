//! The integration tests: the built `lobgate` binary, over HTTP, on a real PostgreSQL.
//!
//! Every test has a database of its own and starts the gateways it needs, so all of them run in parallel. Nothing is
//! mocked, and nothing waits by sleeping: what takes time is asked for until it holds or a deadline passes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, clippy::print_stderr)]
#![allow(missing_docs, reason = "tests are sentences")]

mod harness;
mod hostile;

mod acls;
mod auth;
mod bench;
mod bench_limit;
mod bucket_settings;
mod buckets;
mod cache;
mod checksums;
mod cli;
mod clients;
mod conditions;
mod copying;
mod cors;
mod drill;
mod embedded;
mod errors;
mod escalations;
mod faults;
mod features;
mod gc;
mod keys;
mod layering;
mod lifecycle;
mod listing;
mod listing_model;
mod load;
mod metadata;
mod migrations;
mod model;
mod multipart;
mod multipart_listing;
mod object_lock;
mod objects;
mod offsets;
mod part_checksums;
mod policies;
mod pooler;
mod post_forms;
mod ranges;
mod removal;
mod renaming;
mod sigv2;
mod smuggling;
mod streaming;
mod tagging;
mod tls;
mod together;
mod users;
mod version_listing;
mod versions;
mod writing_together;
