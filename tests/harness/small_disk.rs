//! A disk that can be full: a file system in memory, of a size that can be changed while it is in use.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Mounted until dropped.
pub(crate) struct SmallDisk {
    directory: PathBuf,
}

impl SmallDisk {
    /// Mounts a file system of so many bytes; `None` where this user may not.
    pub(crate) fn mount(bytes: u64) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("lobgate-test-disk-").tempdir().ok()?.keep();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes},mode=0755"), "tmpfs"])
            .arg(&directory)
            .output();
        if mounted.is_ok_and(|done| done.status.success()) {
            return Some(Self { directory });
        }
        let _ = std::fs::remove_dir(&directory);
        None
    }

    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    /// Gives it another size.
    pub(crate) fn grow(&self, bytes: u64) {
        let options = format!("remount,size={bytes}");
        let done = Command::new("mount").args(["-o", &options]).arg(&self.directory).output().expect("run mount");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What still runs on it holds it until it ends.
        let _ = Command::new("umount").arg("--lazy").arg(&self.directory).output();
        let _ = std::fs::remove_dir(&self.directory);
    }
}
