//! The data directory: what lies where, and which directory carries the socket.
//!
//! ```text
//! data_dir/            0700, or 0711 where the server is another user's
//!   lobgate.lock       held by the lobgate that runs the server; names its process and the socket directory
//!   lobgate.users      shared by commands that use the server of another lobgate
//!   credentials        generated root keys, 0600
//!   postgres/          the cluster, 0700, the server user's
//!   run/               its socket, 0700, the server user's
//!   logs/              its logs, 0700, the server user's
//! ```
//! A socket path holds about 100 bytes. Where `run/` is deeper, or has characters that lists of directories can't
//! carry, or can't be reached by the server's user, the socket goes to a private directory with a short name derived
//! from the data directory. Invariant: whoever can reach the socket is the server's user or root, because the
//! server trusts its socket.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::{EmbeddedError, IoContext};
use super::user::ServerUser;

/// Longest socket path used: the system's limit is 108 bytes on Linux, 104 elsewhere.
const SOCKET_PATH_MAX: usize = 100;
/// Name of the socket within its directory.
pub(super) const SOCKET_NAME: &str = ".s.PGSQL.5432";

/// Paths within one data directory.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The directory itself, absolute and without symbolic links.
    pub(super) root: PathBuf,
}

impl Layout {
    /// The layout of an existing data directory.
    pub(super) fn open(data_dir: &Path) -> Result<Self, EmbeddedError> {
        let root = data_dir.canonicalize().context("find", data_dir)?;
        Ok(Self { root })
    }

    /// The layout of a data directory that is made where it doesn't exist.
    pub(super) fn create(data_dir: &Path) -> Result<Self, EmbeddedError> {
        create_private_dir(data_dir)?;
        Self::open(data_dir)
    }

    pub(super) fn pgdata(&self) -> PathBuf {
        self.root.join("postgres")
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("lobgate.lock")
    }

    pub(super) fn users_lock(&self) -> PathBuf {
        self.root.join("lobgate.users")
    }

    /// Whether a complete cluster exists: it appears by a rename, so it is never half made.
    pub(super) fn has_cluster(&self) -> bool {
        self.pgdata().join("PG_VERSION").exists()
    }

    /// Lets the server's user pass through the data directory to its own parts.
    pub(super) fn let_user_pass(&self, user: &ServerUser) -> Result<(), EmbeddedError> {
        let metadata = self.root.metadata().context("read", &self.root)?;
        let mode = metadata.permissions().mode();
        if user.switch && metadata.uid() != user.uid && mode & 0o001 == 0 {
            std::fs::set_permissions(&self.root, PermissionsExt::from_mode(mode | 0o011))
                .context("open up", &self.root)?;
        }
        Ok(())
    }

    /// Makes the directory for the socket and returns it.
    pub(super) fn make_socket_dir(&self, user: &ServerUser, reachable: bool) -> Result<PathBuf, EmbeddedError> {
        let run = self.root.join("run");
        if reachable && fits_a_socket(&run) {
            user.own_dir(&run)?;
            return Ok(run);
        }
        let digest = hex::encode(Sha256::digest(self.root.as_os_str().as_encoded_bytes()));
        let short = short_base(user).join(format!("lobgate-{}", &digest[..12]));
        make_owned_private_dir(&short, user)?;
        Ok(short)
    }
}

/// Makes a directory and its parents, itself with mode 0700, unless it exists.
pub(super) fn create_private_dir(dir: &Path) -> Result<(), EmbeddedError> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).context("create", parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.context("create", dir),
    }
}

/// Lets the owner of a data directory keep using a file in it that root made during a visit.
pub(super) fn give_to_owner_of_dir(path: &Path, file: &std::fs::File) -> Result<(), EmbeddedError> {
    let Some(dir) = path.parent().filter(|_| nix::unistd::geteuid().is_root()) else {
        return Ok(());
    };
    let owner = dir.metadata().context("read", dir)?;
    std::os::unix::fs::fchown(file, Some(owner.uid()), Some(owner.gid())).context("hand over", path)
}

/// The URL of the gateway's role and database behind a socket directory.
pub(super) fn url_of(socket_dir: &Path) -> String {
    let encoded =
        percent_encoding::percent_encode(socket_dir.as_os_str().as_encoded_bytes(), percent_encoding::NON_ALPHANUMERIC);
    format!("postgresql://lobgate@/lobgate?host={encoded}")
}

fn fits_a_socket(dir: &Path) -> bool {
    let plain = dir.to_str().is_some_and(|text| !text.contains([',', '"', '\'', '\\', '\n']));
    plain && dir.as_os_str().len() + 1 + SOCKET_NAME.len() <= SOCKET_PATH_MAX
}

/// Where short socket directories go: the system's for root, the user's own, or the one for all.
fn short_base(user: &ServerUser) -> PathBuf {
    let is_short = |dir: &PathBuf| dir.is_absolute() && dir.is_dir() && dir.as_os_str().len() < 60;
    if user.switch {
        return Some(PathBuf::from("/run")).filter(is_short).unwrap_or_else(|| PathBuf::from("/tmp"));
    }
    let mine = |dir: &PathBuf| dir.metadata().is_ok_and(|metadata| metadata.uid() == user.uid);
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    runtime.filter(is_short).filter(mine).unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Makes `dir` with mode 0700 for `user`; an existing one must be exactly that, since anybody may write in `/tmp`.
fn make_owned_private_dir(dir: &Path, user: &ServerUser) -> Result<(), EmbeddedError> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => return user.own_dir(dir),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).context("create", dir),
    }
    let metadata = dir.symlink_metadata().context("read", dir)?;
    // One that root made for another user, or that root just made and could not hand over yet, is taken over.
    let trusted_owner = metadata.uid() == user.uid || (user.switch && metadata.uid() == 0);
    if metadata.is_dir() && trusted_owner && metadata.mode() & 0o077 == 0 {
        return user.own_dir(dir);
    }
    Err(EmbeddedError::SocketDir { path: dir.to_owned(), user: user.name.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_or_awkward_paths_are_not_used_for_sockets() {
        assert!(fits_a_socket(Path::new("/var/lib/lobgate/run")));
        assert!(fits_a_socket(Path::new("/srv/with space/run")));
        assert!(!fits_a_socket(Path::new("/srv/a,b/run")));
        assert!(!fits_a_socket(&PathBuf::from(format!("/{}/run", "x".repeat(90)))));
    }

    #[test]
    fn url_survives_the_parser() {
        let url = url_of(Path::new("/srv/with space/100%/run"));
        let parsed: tokio_postgres::Config = url.parse().expect("a valid URL");
        assert_eq!(parsed.get_hosts(), [tokio_postgres::config::Host::Unix("/srv/with space/100%/run".into())]);
        assert_eq!((parsed.get_user(), parsed.get_dbname()), (Some("lobgate"), Some("lobgate")));
    }
}
