//! Why an operation of the engine did not do what was asked, and what its caller may do about it.
//!
//! The kind is what the caller acts on (and the metric label); the source is for the log only and never reaches a
//! client. `protocol/error.rs` turns kinds into S3 errors by exhaustive match.

use std::fmt;

use crate::db::{DbError, DbErrorKind};

/// A failure of the engine.
#[derive(Debug)]
pub struct StorageError {
    kind: ErrorKind,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The bucket does not exist.
    NoSuchBucket,
    /// The bucket exists and belongs to somebody else.
    BucketAlreadyExists,
    /// The bucket exists and belongs to the caller.
    BucketAlreadyOwnedByYou,
    /// The bucket still holds objects.
    BucketNotEmpty,
    /// The key does not exist.
    NoSuchKey,
    /// The version does not exist.
    NoSuchVersion,
    /// The version is a delete marker; the source is a [`DeleteMarker`](super::version_types::DeleteMarker) where a read
    /// found it.
    DeleteMarker,
    /// The version is locked against this.
    Locked,
    /// The bucket has no object lock.
    NoObjectLock,
    /// The bucket's versioning and object lock do not go with this.
    InvalidBucketState,
    /// The multipart upload does not exist, was completed or aborted.
    NoSuchUpload,
    /// The token of a rename was used for another one.
    TokenOfAnother,
    /// A condition of the request does not hold.
    PreconditionFailed,
    /// The upload lacks a named part, or the part has another ETag or checksum.
    InvalidPart,
    /// A part but the last is smaller than 5 MiB.
    EntityTooSmall,
    /// The body is longer than an object or part may be.
    EntityTooLarge,
    /// The body ended before its declared length.
    IncompleteBody,
    /// The body stream failed; the source tells how.
    Body,
    /// A checksum that the client declared is not that of the bytes.
    ChecksumMismatch,
    /// The size that the client declared of a multipart object is not that of its parts.
    SizeMismatch,
    /// No byte of the body arrived in time.
    BodyTimeout,
    /// Buffers or connections are exhausted: try again later; nothing happened.
    Busy,
    /// The database cannot be reached, restarts, or is read-only: nothing happened.
    Unavailable,
    /// Whether the write happened could not be established.
    Indeterminate,
    /// The database server has no space left: nothing happened.
    NoSpace,
    /// A read outlived its lease, or its content is gone: the stream cannot go on.
    ReadInterrupted,
    /// A defect: what is stored contradicts the index, or a statement failed in a way that was not foreseen.
    Internal,
}

impl ErrorKind {
    /// The metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSuchBucket => "no_such_bucket",
            Self::BucketAlreadyExists => "bucket_already_exists",
            Self::BucketAlreadyOwnedByYou => "bucket_already_owned_by_you",
            Self::BucketNotEmpty => "bucket_not_empty",
            Self::NoSuchKey => "no_such_key",
            Self::NoSuchVersion => "no_such_version",
            Self::DeleteMarker => "delete_marker",
            Self::Locked => "locked",
            Self::NoObjectLock => "no_object_lock",
            Self::InvalidBucketState => "invalid_bucket_state",
            Self::NoSuchUpload => "no_such_upload",
            Self::TokenOfAnother => "token_of_another",
            Self::PreconditionFailed => "precondition_failed",
            Self::InvalidPart => "invalid_part",
            Self::EntityTooSmall => "entity_too_small",
            Self::EntityTooLarge => "entity_too_large",
            Self::IncompleteBody => "incomplete_body",
            Self::Body => "body",
            Self::ChecksumMismatch => "checksum_mismatch",
            Self::SizeMismatch => "size_mismatch",
            Self::BodyTimeout => "body_timeout",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::Indeterminate => "indeterminate",
            Self::NoSpace => "no_space",
            Self::ReadInterrupted => "read_interrupted",
            Self::Internal => "internal",
        }
    }
}

/// Result of an operation of the engine.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

impl StorageError {
    /// An error with its cause, which is for the log.
    pub fn new(kind: ErrorKind, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The cause, where it is of that type.
    #[must_use]
    pub fn cause<E: std::error::Error + 'static>(&self) -> Option<&E> {
        self.source.as_deref().and_then(|source| source.downcast_ref())
    }

    /// Takes the cause out, for a caller that knows its type (a body stream's error).
    #[must_use]
    pub fn into_source(self) -> Option<Box<dyn std::error::Error + Send + Sync>> {
        self.source
    }
}

/// What a failed statement means to the engine. `LG…` are the SQLSTATEs that our own SQL functions raise (migrations).
impl From<DbError> for StorageError {
    fn from(error: DbError) -> Self {
        let kind = match (error.kind(), error.sqlstate().map(tokio_postgres::error::SqlState::code)) {
            (DbErrorKind::Indeterminate, _) => ErrorKind::Indeterminate,
            _ if error.is_of_standby() => ErrorKind::Unavailable,
            (_, Some("LG001")) => ErrorKind::NoSuchBucket,
            (_, Some("LG002")) => ErrorKind::NoSuchKey,
            (_, Some("LG003")) => ErrorKind::PreconditionFailed,
            (_, Some("LG004")) => ErrorKind::NoSuchUpload,
            (_, Some("LG005")) => ErrorKind::BucketNotEmpty,
            (_, Some("LG006")) => ErrorKind::Locked,
            (_, Some("LG007")) => ErrorKind::NoObjectLock,
            (_, Some("LG008")) => ErrorKind::InvalidBucketState,
            (_, Some("LG009")) => ErrorKind::NoSuchVersion,
            (_, Some("LG011")) => ErrorKind::TokenOfAnother,
            (_, Some("LG010")) => ErrorKind::DeleteMarker,
            // disk_full, and the limit of temporary space
            (_, Some("53100" | "53400")) => ErrorKind::NoSpace,
            // too_many_connections, out_of_memory, query_canceled (statement_timeout), lock_not_available, deadlock,
            // serialization failure
            (_, Some("53300" | "53200" | "57014" | "55P03" | "40P01" | "40001")) => ErrorKind::Busy,
            // shutting down or starting up, read-only
            (_, Some("57P01" | "57P02" | "57P03" | "25006")) => ErrorKind::Unavailable,
            (_, Some(code)) if code.starts_with("08") => ErrorKind::Unavailable,
            (DbErrorKind::PoolTimeout, _) => ErrorKind::Busy,
            (DbErrorKind::Connect | DbErrorKind::Lost, _) => ErrorKind::Unavailable,
            (DbErrorKind::Rejected | DbErrorKind::Driver, _) => ErrorKind::Internal,
        };
        Self::new(kind, error)
    }
}

impl From<ErrorKind> for StorageError {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|s| s as &(dyn std::error::Error + 'static))
    }
}
