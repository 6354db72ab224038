//! What can keep the private server from running, each as one sentence with its mend.

use std::path::{Path, PathBuf};

/// The private server can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedError {
    /// Nothing usable is installed.
    #[error(
        "no PostgreSQL {least} or later was found on this machine: install it (Debian and Ubuntu: apt install \
         postgresql), name its directory in postgres_bin, or name a running server in database_url"
    )]
    NoBinaries {
        /// The oldest usable major version.
        least: u32,
    },
    /// `postgres_bin` points at something else.
    #[error("postgres_bin names {}, which has no usable initdb and postgres of version {least} or later", dir.display())]
    BadBinaries {
        /// The configured directory.
        dir: PathBuf,
        /// The oldest usable major version.
        least: u32,
    },
    /// The data was made by another major version.
    #[error(
        "the data in {} belongs to PostgreSQL {needed}, but this machine has {found}: install PostgreSQL {needed} \
         or move the data with pg_upgrade", data_dir.display()
    )]
    WrongVersion {
        /// The data directory of lobgate.
        data_dir: PathBuf,
        /// The version in `PG_VERSION`.
        needed: String,
        /// The versions found.
        found: String,
    },
    /// Its supervisor has given up.
    #[error("the private PostgreSQL server of {} is not running any more: its logs say why", data_dir.display())]
    Gone {
        /// The data directory of lobgate.
        data_dir: PathBuf,
    },
    /// Another lobgate holds the data directory.
    #[error(
        "the data directory {} is in use by another lobgate (process {holder}): stop that one or choose another \
         data_dir", data_dir.display()
    )]
    InUse {
        /// The data directory of lobgate.
        data_dir: PathBuf,
        /// Its process id, or `unknown`.
        holder: String,
    },
    /// A command that only looks was pointed at nothing.
    #[error(
        "{} holds no lobgate data: check data_dir, or start `lobgate serve` there once", data_dir.display()
    )]
    Missing {
        /// The data directory of lobgate.
        data_dir: PathBuf,
    },
    /// Root must hand the server to somebody.
    #[error(
        "PostgreSQL refuses to run as root and this machine has neither a user postgres nor nobody: create one or \
         run lobgate as an ordinary user"
    )]
    NoUser,
    /// The data belongs to somebody else.
    #[error("{} belongs to user {owner}: run lobgate as that user or as root", path.display())]
    ForeignOwner {
        /// What belongs to somebody else.
        path: PathBuf,
        /// Name or number of the owner.
        owner: String,
    },
    /// The unprivileged user can't get at files that it needs.
    #[error("user {user} can't reach {} to run PostgreSQL: {mend}", path.display())]
    Unreachable {
        /// Name or number of the user.
        user: String,
        /// What can't be reached.
        path: PathBuf,
        /// What to do.
        mend: &'static str,
    },
    /// The directory for the socket isn't safe.
    #[error("{} exists but isn't a private directory of user {user}: remove it", path.display())]
    SocketDir {
        /// The directory.
        path: PathBuf,
        /// Name or number of the user it must belong to.
        user: String,
    },
    /// `initdb` failed.
    #[error("initdb could not create the PostgreSQL data directory: {detail}")]
    Initdb {
        /// Its last words.
        detail: String,
    },
    /// The server went away.
    #[error("PostgreSQL stopped while starting ({status}): {detail}; its logs are in {}", logs.display())]
    Exited {
        /// Exit status.
        status: String,
        /// Its last words.
        detail: String,
        /// Where to read on.
        logs: PathBuf,
    },
    /// The server doesn't answer.
    #[error("PostgreSQL in {} did not answer within {seconds} seconds: see {}", data_dir.display(), logs.display())]
    NotReady {
        /// The data directory of lobgate.
        data_dir: PathBuf,
        /// How long it was waited for.
        seconds: u64,
        /// Where to read on.
        logs: PathBuf,
    },
    /// Processes of an earlier server don't end.
    #[error(
        "an earlier PostgreSQL (process {process}) still runs on {} and doesn't end: stop it and start again",
        data_dir.display()
    )]
    Orphan {
        /// The data directory of lobgate.
        data_dir: PathBuf,
        /// One of its process ids.
        process: i32,
    },
    /// The role or database can't be made.
    #[error("the private PostgreSQL server can't be prepared: {reason}")]
    Setup {
        /// What the server said.
        reason: String,
    },
    /// The stored root keys are damaged.
    #[error("{} holds no pair of root keys: restore it, or remove it to have new keys generated", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("can't {action} {}: {reason}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said. Part of the sentence, so it is no `source` that a chain would print again.
        reason: std::io::Error,
    },
}

impl From<tokio_postgres::Error> for EmbeddedError {
    fn from(error: tokio_postgres::Error) -> Self {
        let reason = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
        Self::Setup { reason }
    }
}

/// Adds to an [`std::io::Error`] what was tried on which path.
pub(super) trait IoContext<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, EmbeddedError>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, EmbeddedError> {
        self.map_err(|reason| EmbeddedError::Io { action, path: path.to_owned(), reason })
    }
}
