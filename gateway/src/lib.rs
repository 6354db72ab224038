//! lobgate: an S3-compatible gateway whose only store is a stock PostgreSQL server.

pub mod cli;
pub mod config;
pub mod db;
pub mod embedded;
pub mod server;
pub mod storage;
pub mod telemetry;
