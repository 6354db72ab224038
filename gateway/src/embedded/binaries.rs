//! Finding `initdb` and `postgres` of the right version on this machine.
//!
//! Looked at: the directory named in `postgres_bin` (then nothing else), `PATH`, `pg_config --bindir`, and the places
//! where distributions and Homebrew put server binaries outside `PATH`. A directory counts when it has both programs
//! and `postgres --version` answers with 14 or later. A new cluster takes the newest; an existing one the version
//! that made it. Invariant: what is returned has been executed once.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::EmbeddedError;

/// The oldest major version lobgate works with.
pub const LEAST_VERSION: u32 = 14;

/// Where server programs live, with at most one `*` per pattern.
const USUAL_PLACES: &[&str] = &[
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/libexec/postgresql*",
    "/usr/local/pgsql/bin",
    "/usr/local/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
];

/// One installation of PostgreSQL's server programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// Directory of `initdb` and `postgres`, without symbolic links.
    pub dir: PathBuf,
    /// Major version, at least [`LEAST_VERSION`].
    pub major: u32,
}

impl Binaries {
    /// The installation to use: `configured` if given, else the newest found; of version `needed` (the text of
    /// `PG_VERSION`) where data exists already.
    ///
    /// # Errors
    /// Nothing usable is installed, or not the version that the data in `data_dir` needs.
    pub fn find(configured: Option<&Path>, needed: Option<&str>, data_dir: &Path) -> Result<Self, EmbeddedError> {
        let mut usable: Vec<Self> = match configured {
            Some(dir) => Self::probe(dir).into_iter().collect(),
            None => candidate_dirs().iter().filter_map(|dir| Self::probe(dir)).collect(),
        };
        // Stable, newest first: among equals the one found first, which is the one in PATH.
        usable.sort_by_key(|binaries| std::cmp::Reverse(binaries.major));
        if usable.is_empty() {
            return Err(match configured {
                Some(dir) => EmbeddedError::BadBinaries { dir: dir.to_owned(), least: LEAST_VERSION },
                None => EmbeddedError::NoBinaries { least: LEAST_VERSION },
            });
        }
        let fits = |binaries: &&Self| needed.is_none_or(|version| binaries.major.to_string() == version);
        usable.iter().find(fits).cloned().ok_or_else(|| {
            let mut majors: Vec<String> =
                usable.iter().map(|binaries| format!("PostgreSQL {}", binaries.major)).collect();
            majors.dedup();
            EmbeddedError::WrongVersion {
                data_dir: data_dir.to_owned(),
                needed: needed.unwrap_or_default().to_owned(),
                found: majors.join(", "),
            }
        })
    }

    /// Path of the program `name`.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn probe(dir: &Path) -> Option<Self> {
        let resolved = dir.join("postgres").canonicalize().ok()?.parent()?.to_owned();
        if !resolved.join("initdb").exists() {
            return None;
        }
        let output = Command::new(resolved.join("postgres")).arg("--version").output().ok()?;
        let major = parse_major(&String::from_utf8_lossy(&output.stdout))?;
        (major >= LEAST_VERSION).then_some(Self { dir: resolved, major })
    }
}

/// The major version in the answer of `postgres --version`, such as `postgres (PostgreSQL) 15.18 (Debian …)`.
fn parse_major(answer: &str) -> Option<u32> {
    let version = answer.split_once("(PostgreSQL)")?.1.trim_start();
    let digits_end = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits_end].parse().ok()
}

fn candidate_dirs() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        dirs.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    dirs.extend(USUAL_PLACES.iter().flat_map(|pattern| expand(pattern)));
    let mut seen = std::collections::HashSet::new();
    dirs.into_iter()
        .filter_map(|dir| dir.join("postgres").canonicalize().ok()?.parent().map(Path::to_owned))
        .filter(|dir| seen.insert(dir.clone()))
        .collect()
}

/// The existing directories that a pattern with at most one `*` names.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![PathBuf::from(pattern)];
    };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let fitting = names.filter(|name: &std::ffi::OsString| starts_with(name, prefix));
    fitting.map(|name| PathBuf::from(parent).join(name).join(after.trim_start_matches('/'))).collect()
}

fn starts_with(name: &OsStr, prefix: &str) -> bool {
    name.to_string_lossy().starts_with(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_version_is_read_from_every_kind_of_release() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(parse_major("postgres (PostgreSQL) 9.6.24\n"), Some(9));
        assert_eq!(parse_major("something else"), None);
    }

    #[test]
    fn data_of_another_version_is_refused_in_one_sentence() {
        let error = Binaries::find(None, Some("13"), Path::new("/data")).expect_err("13 can't be served");
        let text = error.to_string();
        assert!(text.contains("PostgreSQL 13") && text.contains("/data") && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn configured_directory_without_programs_is_named() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let error = Binaries::find(Some(dir.path()), None, Path::new("/data")).expect_err("an empty directory");
        assert!(error.to_string().contains("postgres_bin"), "{error}");
    }
}
