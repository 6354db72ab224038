//! What a failed statement means: did it happen, and is it worth trying again?
//!
//! A statement that the server answered with an error did not happen. One whose answer never came may have been
//! committed: [`DbErrorKind::Indeterminate`] says so, and only whoever knows how to ask the database may decide.
//! Statements that change nothing are never indeterminate.

use std::fmt;
use std::sync::Arc;

use deadpool_postgres::PoolError;
use tokio_postgres::error::{Severity, SqlState};

/// A failure between us and PostgreSQL.
#[derive(Clone, Debug)]
pub struct DbError {
    kind: DbErrorKind,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Driver(Arc<tokio_postgres::Error>),
    Text(String),
}

/// What is known of the statement that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DbErrorKind {
    /// No connection became free in time; nothing was sent.
    PoolTimeout,
    /// No connection could be made; nothing was sent.
    Connect,
    /// The server answered with an error; nothing happened.
    Rejected,
    /// The connection failed before an answer came.
    Lost,
    /// The connection failed, or the session was ended, while a change was being committed.
    Indeterminate,
    /// The driver could not encode or decode a value: a defect.
    Driver,
}

impl DbError {
    pub(super) fn from_driver(error: tokio_postgres::Error) -> Self {
        let kind = if error.as_db_error().is_some() {
            DbErrorKind::Rejected
        } else if error.is_closed()
            || std::error::Error::source(&error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
        {
            DbErrorKind::Lost
        } else {
            DbErrorKind::Driver
        };
        Self { kind, source: Source::Driver(Arc::new(error)) }
    }

    pub(super) fn from_pool(error: PoolError) -> Self {
        match error {
            PoolError::Backend(e) | PoolError::PostCreateHook(deadpool_postgres::HookError::Backend(e)) => {
                Self { kind: DbErrorKind::Connect, source: Source::Driver(Arc::new(e)) }
            }
            PoolError::Timeout(deadpool_postgres::TimeoutType::Wait) => Self {
                kind: DbErrorKind::PoolTimeout,
                source: Source::Text("no connection became free in time".into()),
            },
            other => Self { kind: DbErrorKind::Connect, source: Source::Text(other.to_string()) },
        }
    }

    /// The same error, of a statement that commits a change: a lost answer, or the end of the session, leaves open
    /// whether it happened. (PostgreSQL can end a session after the commit record is written: syncrep.c.)
    pub(super) fn of_write(self) -> Self {
        let session_ended = self
            .driver()
            .and_then(tokio_postgres::Error::as_db_error)
            .is_some_and(|e| matches!(e.parsed_severity(), Some(Severity::Fatal | Severity::Panic)));
        let kind = if self.kind == DbErrorKind::Lost || session_ended { DbErrorKind::Indeterminate } else { self.kind };
        Self { kind, source: self.source }
    }

    /// The same error, of what comes before a statement: whatever became of it, the statement was not sent.
    pub(super) fn of_preparation(self) -> Self {
        let kind = if self.kind == DbErrorKind::Lost { DbErrorKind::Connect } else { self.kind };
        Self { kind, source: self.source }
    }

    pub(super) fn of_kind(kind: DbErrorKind, message: impl Into<String>) -> Self {
        Self { kind, source: Source::Text(message.into()) }
    }

    /// A change that somebody else was to send, and who is gone.
    #[must_use]
    pub fn unanswered() -> Self {
        Self::of_kind(DbErrorKind::Indeterminate, "whoever sent the statement is gone")
    }

    /// What is known of the statement.
    #[must_use]
    pub fn kind(&self) -> DbErrorKind {
        self.kind
    }

    /// The server's error code, where it answered with one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&SqlState> {
        self.driver().and_then(tokio_postgres::Error::code)
    }

    /// Whether a standby refused to give out an oid or a transaction id (varsup.c); the server calls that an internal
    /// error, and the names of its routines are the same in every language.
    #[must_use]
    pub fn is_of_standby(&self) -> bool {
        let routine = self.driver().and_then(tokio_postgres::Error::as_db_error).and_then(|e| e.routine());
        self.sqlstate() == Some(&SqlState::INTERNAL_ERROR)
            && matches!(routine, Some("GetNewObjectId" | "GetNewTransactionId"))
    }

    /// Whether the statement may have been committed.
    #[must_use]
    pub fn is_indeterminate(&self) -> bool {
        self.kind == DbErrorKind::Indeterminate
    }

    /// Whether the same statement may succeed shortly. Says nothing of whether it already did.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        if let Some(code) = self.sqlstate() {
            return [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
                SqlState::CANNOT_CONNECT_NOW,
                SqlState::TOO_MANY_CONNECTIONS,
                SqlState::CONNECTION_EXCEPTION,
                SqlState::CONNECTION_FAILURE,
                SqlState::CONNECTION_DOES_NOT_EXIST,
            ]
            .contains(code);
        }
        match self.kind {
            DbErrorKind::Connect | DbErrorKind::Lost | DbErrorKind::Indeterminate => true,
            DbErrorKind::PoolTimeout | DbErrorKind::Rejected | DbErrorKind::Driver => false,
        }
    }

    fn driver(&self) -> Option<&tokio_postgres::Error> {
        match &self.source {
            Source::Driver(e) => Some(e),
            Source::Text(_) => None,
        }
    }
}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Text(text) => f.write_str(text),
            Source::Driver(e) => match e.as_db_error() {
                Some(db) => write!(f, "{} (SQLSTATE {})", db.message(), db.code().code()),
                None => match std::error::Error::source(e.as_ref()) {
                    Some(cause) => write!(f, "{e}: {cause}"),
                    None => write!(f, "{e}"),
                },
            },
        }
    }
}

impl std::error::Error for DbError {}
