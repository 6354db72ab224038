//! An S3-compatible object gateway over PostgreSQL large objects.
pub mod db;
pub mod storage;
