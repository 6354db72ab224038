//! An S3-compatible object gateway over PostgreSQL large objects.
pub mod admin;
pub mod auth;
pub mod protocol;
pub mod server;
pub mod storage;
