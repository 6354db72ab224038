//! Whom the server runs as, and how its programs are started.
//!
//! PostgreSQL refuses to run as root. A lobgate that is root hands the server to the owner of existing data, else to
//! `postgres`, else to `nobody`; any other lobgate runs it as itself. An unprivileged user may be unable to walk to a
//! data directory below, say, a root-only home. Linux lets it in all the same through an inherited descriptor: the
//! programs get `-D /proc/self/fd/N`, a link that the kernel follows without looking at the parents.
//! Invariant: programs start with a bare environment, in their own process group (a Ctrl-C in the terminal reaches
//! lobgate only), without supplementary groups.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::{Uid, User, geteuid};

use super::binaries::Binaries;
use super::error::{EmbeddedError, IoContext};

/// The system user that runs the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerUser {
    /// User id.
    pub(super) uid: u32,
    /// Group id.
    pub(super) gid: u32,
    /// Name, or the number where there is no name.
    pub(super) name: String,
    /// Whether lobgate is root and must switch.
    pub(super) switch: bool,
}

impl ServerUser {
    /// The user for the cluster in `pgdata`, which need not exist yet.
    pub(super) fn choose(pgdata: &Path) -> Result<Self, EmbeddedError> {
        let me = geteuid();
        let owner = std::fs::metadata(pgdata).ok().map(|metadata| (metadata.uid(), metadata.gid()));
        if !me.is_root() {
            return match owner {
                Some((uid, _)) if uid != me.as_raw() => {
                    Err(EmbeddedError::ForeignOwner { path: pgdata.to_owned(), owner: user_name(uid) })
                }
                _ => Ok(Self {
                    uid: me.as_raw(),
                    gid: nix::unistd::getegid().as_raw(),
                    name: user_name(me.as_raw()),
                    switch: false,
                }),
            };
        }
        if let Some((uid, gid)) = owner.filter(|(uid, _)| *uid != 0) {
            return Ok(Self { uid, gid, name: user_name(uid), switch: true });
        }
        let known = ["postgres", "nobody"].iter().find_map(|name| User::from_name(name).ok().flatten());
        let user = known.ok_or(EmbeddedError::NoUser)?;
        Ok(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw(), name: user.name, switch: true })
    }

    /// Makes the directory, or takes an existing one over, with mode 0700.
    pub(super) fn own_dir(&self, path: &Path) -> Result<(), EmbeddedError> {
        std::fs::create_dir_all(path).context("create", path)?;
        self.own(path)?;
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o700)).context("protect", path)
    }

    /// Gives everything below `path` to this user; links are not followed.
    fn own_tree(&self, path: &Path) -> Result<(), EmbeddedError> {
        self.own(path)?;
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            for entry in std::fs::read_dir(path).context("read", path)? {
                self.own_tree(&entry.context("read", path)?.path())?;
            }
        }
        Ok(())
    }

    /// Writes a file of this user with mode 0600, replacing an older one in one step.
    pub(super) fn write_file(&self, path: &Path, content: &str) -> Result<(), EmbeddedError> {
        let fresh = path.with_extension("new");
        std::fs::write(&fresh, content).context("write", &fresh)?;
        std::fs::set_permissions(&fresh, PermissionsExt::from_mode(0o600)).context("protect", &fresh)?;
        self.own(&fresh)?;
        File::open(&fresh).and_then(|file| file.sync_all()).context("write", &fresh)?;
        std::fs::rename(&fresh, path).context("write", path)
    }

    /// Takes over data that root owns (a copy or a restore); other owners were respected by [`Self::choose`].
    pub(super) fn adopt(&self, pgdata: &Path) -> Result<(), EmbeddedError> {
        let owner = pgdata.metadata().context("read", pgdata)?.uid();
        if self.switch && owner != self.uid { self.own_tree(pgdata) } else { Ok(()) }
    }

    fn own(&self, path: &Path) -> Result<(), EmbeddedError> {
        if self.switch {
            std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid)).context("hand over", path)
        } else {
            Ok(())
        }
    }
}

/// Name of a user, or its number.
fn user_name(uid: u32) -> String {
    let known = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    known.map_or_else(|| uid.to_string(), |user| user.name)
}

/// Starts programs of one installation as one user on one data directory.
#[derive(Debug, Clone)]
pub(super) struct Launcher {
    /// Which programs.
    pub(super) binaries: Binaries,
    /// As whom.
    pub(super) user: ServerUser,
}

/// A command prepared to work on a data directory.
pub(super) struct Launch {
    /// To be extended and spawned.
    pub(super) command: Command,
    /// The argument of `-D`.
    pub(super) data_argument: PathBuf,
    /// Descriptor behind `data_argument`; must live until the command is spawned.
    _directory: Option<File>,
}

impl Launcher {
    /// The program `name` on the data directory `dir`, which must exist.
    pub(super) fn prepare(&self, name: &str, dir: &Path) -> Result<Launch, EmbeddedError> {
        let program = self.binaries.program(name);
        if self.can_enter(dir)? {
            return Ok(Launch { command: self.command(&program), data_argument: dir.to_owned(), _directory: None });
        }
        if !Path::new("/proc/self/fd").exists() {
            let mend = "let that user walk through the parent directories or choose another data_dir";
            return Err(EmbeddedError::Unreachable { user: self.user.name.clone(), path: dir.to_owned(), mend });
        }
        let directory = File::open(dir).context("open", dir)?;
        // Inherited by the program: the only way in that needs no permission on the parents.
        fcntl(directory.as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).map_err(io::Error::from).context("open", dir)?;
        let data_argument = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        Ok(Launch { command: self.command(&program), data_argument, _directory: Some(directory) })
    }

    /// Whether the user can run the programs and walk to `dir`.
    pub(super) fn can_enter(&self, dir: &Path) -> Result<bool, EmbeddedError> {
        if !self.user.switch {
            return Ok(true);
        }
        let program = self.binaries.program("postgres");
        let reaches = |from: &Path| {
            // The working directory is entered after the switch to the user, so this asks the kernel itself.
            let status = self.command(&program).arg("--version").current_dir(from).stdout(Stdio::null()).status();
            match status {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
                Err(error) => Err(error),
            }
        };
        if !reaches(Path::new("/")).context("run", &program)? {
            let mend = "install PostgreSQL where every user can run it or name such a directory in postgres_bin";
            return Err(EmbeddedError::Unreachable { user: self.user.name.clone(), path: program, mend });
        }
        reaches(dir).context("enter", dir)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC");
        command.current_dir("/").stdin(Stdio::null()).process_group(0);
        if self.user.switch {
            command.uid(self.user.uid).gid(self.user.gid);
        }
        command
    }
}
