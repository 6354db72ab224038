//! Who may run the server, and who is using it.
//!
//! Two `flock` files. `lobgate.lock` is held exclusively by the lobgate that runs the server and names its process
//! and socket directory for others. `lobgate.users` is held shared by commands that use the server of another
//! lobgate; a short-lived command that happens to run the server waits for them before it stops it.
//! Invariant: the kernel drops both locks with their process, however it ends, so no lock is ever stale.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::error::{EmbeddedError, IoContext};
use super::layout::{Layout, give_to_owner_of_dir};

/// The right to run the server of one data directory; given up on drop.
#[derive(Debug)]
pub(super) struct OwnerLock {
    file: File,
    path: PathBuf,
}

/// What the lock file tells about its holder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Holder {
    /// Its process id, as text.
    pub(super) pid: Option<String>,
    /// Where its server listens.
    pub(super) socket_dir: Option<PathBuf>,
}

impl OwnerLock {
    /// Takes the lock, or returns `None` where another process has it.
    pub(super) fn try_take(layout: &Layout) -> Result<Option<Self>, EmbeddedError> {
        let path = layout.lock();
        let file = open(&path)?;
        match file.try_lock() {
            Ok(()) => {
                let mut lock = Self { file, path };
                lock.announce(None)?;
                Ok(Some(lock))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).context("lock", &path),
        }
    }

    /// Tells other processes who holds the lock and where the server listens.
    pub(super) fn announce(&mut self, socket_dir: Option<&Path>) -> Result<(), EmbeddedError> {
        let socket = socket_dir.map(|dir| format!("socket_dir={}\n", dir.display())).unwrap_or_default();
        let content = format!("pid={}\n{socket}", std::process::id());
        let written = self
            .file
            .rewind()
            .and_then(|()| self.file.set_len(0))
            .and_then(|()| self.file.write_all(content.as_bytes()));
        written.context("write", &self.path)
    }
}

impl Holder {
    /// What the lock file says now; empty while its holder is starting.
    pub(super) fn read(layout: &Layout) -> Self {
        let text = std::fs::read_to_string(layout.lock()).unwrap_or_default();
        let value =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned));
        Self { pid: value("pid"), socket_dir: value("socket_dir").map(PathBuf::from) }
    }
}

/// The mark of a command that uses the server of another lobgate; given up on drop.
#[derive(Debug)]
pub(super) struct UserMark {
    file: File,
}

impl UserMark {
    /// Leaves the mark, or returns `None` while the owner is about to stop its server.
    pub(super) fn try_leave(layout: &Layout) -> Result<Option<Self>, EmbeddedError> {
        let path = layout.users_lock();
        let file = open(&path)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).context("lock", &path),
        }
    }

    /// Holds newcomers off; `None` while somebody uses the server.
    pub(super) fn try_exclude(layout: &Layout) -> Option<Self> {
        let file = open(&layout.users_lock()).ok()?;
        file.try_lock().ok().map(|()| Self { file })
    }
}

// Unlocked by name, not by closing: a program just being started may hold a copy of the descriptor for a moment.
impl Drop for OwnerLock {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl Drop for UserMark {
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

fn open(path: &Path) -> Result<File, EmbeddedError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).context("open", path)?;
    give_to_owner_of_dir(path, &file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_owner_is_refused_and_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let layout = Layout::open(dir.path()).expect("layout");
        let mut first = OwnerLock::try_take(&layout).expect("lock file").expect("free");
        first.announce(Some(Path::new("/run/x"))).expect("announced");
        assert!(OwnerLock::try_take(&layout).expect("lock file").is_none());
        let holder = Holder::read(&layout);
        assert_eq!(holder.pid, Some(std::process::id().to_string()));
        assert_eq!(holder.socket_dir, Some(PathBuf::from("/run/x")));
        drop(first);
        assert!(OwnerLock::try_take(&layout).expect("lock file").is_some());
    }

    #[test]
    fn owner_waits_for_users() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let layout = Layout::open(dir.path()).expect("layout");
        let user = UserMark::try_leave(&layout).expect("mark").expect("free");
        assert!(UserMark::try_leave(&layout).expect("mark").is_some(), "users don't exclude each other");
        assert!(UserMark::try_exclude(&layout).is_none());
        drop(user);
        let excluded = UserMark::try_exclude(&layout).expect("nobody left");
        assert!(UserMark::try_leave(&layout).expect("mark").is_none());
        drop(excluded);
    }
}
