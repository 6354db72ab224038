//! Who may do what.
//!
//! Root's key pair comes from the configuration, users and their keys from the database ([`Directory`]). s3s verifies
//! signatures with the secrets that [`Secrets`] gives it; [`Gate`] then decides on every request, anonymous ones included,
//! by policies, ownership and lists ([`verdict`]). s3s skips all checks where no authentication is set, so both are always
//! installed together. `policy` is pure: it knows nothing of where documents come from.
//! Invariant: a request without a permit reaches no operation.

mod access;
pub mod acl;
mod bucket;
mod cipher;
mod directory;
mod facts;
mod identity;
mod operation;
mod permit;
pub mod policy;
mod verdict;

pub use access::{Gate, OperationSlot, Secrets, Verified};
pub use bucket::{BucketRules, ObjectOwnership, PublicAccessBlock};
pub use cipher::{Cipher, CipherError};
pub use directory::{Directory, EncryptionKey, RootCredentials};
pub use facts::{Connected, Proof};
pub use identity::{Identity, Owner, account_of};
pub use operation::copies_tags;
pub use permit::{Permit, Resource};
