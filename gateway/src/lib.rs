//! lobgate: an S3-compatible gateway whose only store is a stock PostgreSQL server.

pub mod admin;
pub mod auth;
pub mod bench;
pub mod cli;
pub mod config;
pub mod db;
pub mod drills;
pub mod embedded;
mod failpoints;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod gc;
pub mod protocol;
pub mod server;
pub mod startup;
pub mod storage;
pub mod telemetry;
