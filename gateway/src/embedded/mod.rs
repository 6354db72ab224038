//! A private PostgreSQL server for whoever has none: started with lobgate, stopped with lobgate.
//!
//! For trying lobgate out, for tests and for single machines. The server is the machine's own PostgreSQL on files
//! below the data directory, reachable through a private socket only, with durable settings. It is an ordinary
//! cluster: `pg_dump`, `psql` and point-in-time recovery work on it, and a move to a managed server is a dump and a
//! restore. `layout` says what lies where, `user` whom the server runs as, `initdb` makes the cluster, `process` runs
//! it, `orphans` settles what a crash left, `cluster` ties them together.
//! Invariant: whatever is killed, and when, the next start recovers by itself and loses no acknowledged write.

mod binaries;
mod cluster;
mod credentials;
mod error;
mod initdb;
mod layout;
mod lock;
mod logs;
mod orphans;
mod process;
mod settings;
mod user;

pub use binaries::{Binaries, LEAST_VERSION};
pub use cluster::{AttachedCluster, EmbeddedCluster, EmbeddedOptions, HeldOff};
pub use credentials::{RootCredentials, encryption_key, new_pair};
pub use error::EmbeddedError;
