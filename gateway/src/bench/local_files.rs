//! The other side of a comparison: a plain file, written as durably as PostgreSQL writes.
//!
//! put = write a new file, fsync it, rename it to its name, fsync the directory. The files lie in a directory of their own,
//! named and locked like a scratch: one whose lock nobody holds belongs to a run that was killed, and the next run in
//! the same place removes it. Invariant: only directories of that form are removed.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::fcntl::{Flock, FlockArg};

use super::noise::Body;

/// Starts the name of every directory; a random number follows.
const PREFIX: &str = "lobgate_bench_files_";
/// Bytes per read and write.
const PIECE: u64 = 1 << 20;

/// A directory of measured files, removed when dropped.
#[derive(Debug)]
pub(super) struct LocalFiles {
    directory: PathBuf,
    _lock: Flock<File>,
}

impl LocalFiles {
    /// Makes the directory below `parent`, and removes those of runs that were killed.
    ///
    /// # Errors
    /// Files can't be made there.
    pub(super) fn create(parent: &Path) -> anyhow::Result<Self> {
        remove_stale(parent);
        let (number, _) = uuid::Uuid::new_v4().as_u64_pair();
        let directory = parent.join(format!("{PREFIX}{number:016x}"));
        let made = || -> anyhow::Result<Flock<File>> {
            fs::create_dir(&directory)?;
            lock(&directory)?.context("another run took it")
        };
        let locked = made().with_context(|| {
            format!("no files can be made in {} to compare with: name another place with --file-dir", parent.display())
        })?;
        Ok(Self { directory, _lock: locked })
    }

    /// Where the files are.
    #[must_use]
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a file durably.
    ///
    /// # Errors
    /// The disk refused.
    pub(super) fn put(&self, name: &str, body: &Body) -> std::io::Result<()> {
        let unfinished = self.directory.join(format!("{name}.tmp"));
        let mut file = File::create(&unfinished)?;
        for (_, piece) in body.pieces(PIECE) {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
        fs::rename(&unfinished, self.directory.join(name))?;
        File::open(&self.directory)?.sync_all()
    }

    /// Reads a file to its end and returns how many bytes came.
    ///
    /// # Errors
    /// The disk refused.
    pub(super) fn read(&self, name: &str) -> std::io::Result<u64> {
        let mut file = File::open(self.directory.join(name))?;
        let mut buffer = vec![0; usize::try_from(PIECE).unwrap_or(usize::MAX)];
        let mut total = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(total),
                got => total += got as u64,
            }
        }
    }

    /// Removes a file.
    ///
    /// # Errors
    /// There is none, or the disk refused.
    pub(super) fn remove(&self, name: &str) -> std::io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }
}

impl Drop for LocalFiles {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(directory = %self.directory.display(), %error, "measured files are left behind");
        }
    }
}

/// Takes the lock of a directory unless a living run holds it.
fn lock(directory: &Path) -> std::io::Result<Option<Flock<File>>> {
    let file = File::create(directory.join("lock"))?;
    Ok(Flock::lock(file, FlockArg::LockExclusiveNonblock).ok())
}

/// Best effort: what can't be removed is no reason not to measure.
fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| {
            let digits = name.strip_prefix(PREFIX).unwrap_or_default();
            digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit())
        });
        if is_ours && matches!(lock(&entry.path()), Ok(Some(_))) {
            tracing::info!(directory = %entry.path().display(), "removing the files of a bench that was killed");
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::noise::Noise;
    use super::*;

    #[test]
    fn files_are_written_read_and_removed_with_their_directory() {
        let parent = tempfile::tempdir().unwrap();
        let stale = parent.path().join(format!("{PREFIX}{:016x}", 7));
        let foreign = parent.path().join(format!("{PREFIX}notes"));
        fs::create_dir(&stale).unwrap();
        fs::create_dir(&foreign).unwrap();
        let files = LocalFiles::create(parent.path()).unwrap();
        assert!(!stale.exists() && foreign.exists());
        files.put("one", &Noise::new().body(3 << 20)).unwrap();
        assert_eq!(files.read("one").unwrap(), 3 << 20);
        let second = LocalFiles::create(parent.path()).unwrap();
        assert!(files.directory().exists(), "a living run's files stay");
        drop((files, second));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
