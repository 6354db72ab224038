//! The root keys, and the key that users' secrets are encrypted with: configured, or generated once and kept.
//!
//! With none configured, a pair is drawn from the system's random source and stored in `data_dir/credentials` with
//! mode 0600; later starts read it back. Invariant: the file appears complete or not at all, and of several processes
//! that start at once, all use the pair of the one that came first.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::config::{Config, Secret};

use super::error::{EmbeddedError, IoContext};
use super::layout::{create_private_dir, give_to_owner_of_dir};

/// Length of a generated access key, characters.
const ACCESS_KEY_LENGTH: usize = 20;
/// Length of a generated secret key, characters.
const SECRET_KEY_LENGTH: usize = 40;
/// Length of a generated encryption key, characters.
const ENCRYPTION_KEY_LENGTH: usize = 64;
const ACCESS_KEY_ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const SECRET_KEY_ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The keys of the root account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootCredentials {
    /// Public part.
    pub access_key: String,
    /// Secret part.
    pub secret_key: Secret<String>,
    /// Whether lobgate generated the pair (now or earlier), so that printing it tells nobody's own secret.
    pub generated: bool,
}

impl RootCredentials {
    /// The configured pair, else the stored one, else a new one that is stored.
    ///
    /// # Errors
    /// The file can't be read or written, or holds something else.
    pub fn resolve(config: &Config) -> Result<Self, EmbeddedError> {
        if let (Some(access_key), Some(secret_key)) = (&config.root_access_key, &config.root_secret_key) {
            return Ok(Self { access_key: access_key.clone(), secret_key: secret_key.clone(), generated: false });
        }
        let path = config.data_dir.join("credentials");
        if !path.exists() {
            create_private_dir(&config.data_dir)?;
            store(&path, &Self::generate(&path)?)?;
        }
        Self::read(&path)
    }

    /// The access key that root has now, if it has one.
    ///
    /// # Errors
    /// As [`RootCredentials::resolve`].
    pub fn access_key(config: &Config) -> Result<Option<String>, EmbeddedError> {
        let is_there = config.root_access_key.is_some() || config.data_dir.join("credentials").exists();
        is_there.then(|| Self::resolve(config).map(|root| root.access_key)).transpose()
    }

    fn generate(path: &Path) -> Result<Self, EmbeddedError> {
        let access_key = random_text(ACCESS_KEY_ALPHABET, ACCESS_KEY_LENGTH).context("draw keys for", path)?;
        let secret_key = random_text(SECRET_KEY_ALPHABET, SECRET_KEY_LENGTH).context("draw keys for", path)?;
        Ok(Self { access_key, secret_key: Secret::new(secret_key), generated: true })
    }

    fn read(path: &Path) -> Result<Self, EmbeddedError> {
        let text = std::fs::read_to_string(path).context("read", path)?;
        // Copies and restores lose modes; secrets go back behind theirs.
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).context("protect", path)?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
            let quoted = line.trim_start().strip_prefix('=')?.trim();
            Some(quoted.trim_matches('"').to_owned()).filter(|value| !value.is_empty())
        };
        match (value("root_access_key"), value("root_secret_key")) {
            (Some(access_key), Some(secret_key)) => {
                Ok(Self { access_key, secret_key: Secret::new(secret_key), generated: true })
            }
            _ => Err(EmbeddedError::Credentials { path: path.to_owned() }),
        }
    }
}

/// What users' secrets are encrypted with: the configured key, else the stored one; with `create`, else a new one that is
/// stored.
///
/// # Errors
/// The file can't be read or written.
pub fn encryption_key(config: &Config, create: bool) -> Result<Option<Secret<String>>, EmbeddedError> {
    if let Some(key) = &config.auth.encryption_key {
        return Ok(Some(key.clone()));
    }
    let path = config.data_dir.join("encryption-key");
    if !path.exists() {
        if !create {
            return Ok(None);
        }
        create_private_dir(&config.data_dir)?;
        let key = random_text(SECRET_KEY_ALPHABET, ENCRYPTION_KEY_LENGTH).context("draw a key for", &path)?;
        store_text(&path, &format!("{key}\n"))?;
    }
    let text = std::fs::read_to_string(&path).context("read", &path)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).context("protect", &path)?;
    Ok(Some(Secret::new(text.trim().to_owned())))
}

/// A new key pair for a user: public and secret part.
///
/// # Errors
/// The system's random source can't be read.
pub fn new_pair() -> std::io::Result<(String, String)> {
    Ok((random_text(ACCESS_KEY_ALPHABET, ACCESS_KEY_LENGTH)?, random_text(SECRET_KEY_ALPHABET, SECRET_KEY_LENGTH)?))
}

/// Writes the pair unless another process was first.
fn store(path: &Path, credentials: &RootCredentials) -> Result<(), EmbeddedError> {
    let text = format!(
        "# The root keys of this lobgate, generated at its first start.\nroot_access_key = \"{}\"\nroot_secret_key = \"{}\"\n",
        credentials.access_key,
        credentials.secret_key.expose()
    );
    store_text(path, &text)
}

/// Writes a private file unless another process was first.
fn store_text(path: &Path, text: &str) -> Result<(), EmbeddedError> {
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh).context("write", &fresh)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).context("write", &fresh)?;
    give_to_owner_of_dir(path, &file)?;
    let linked = std::fs::hard_link(&fresh, path);
    std::fs::remove_file(&fresh).context("remove", &fresh)?;
    match linked {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.context("write", path),
    }
}

/// `length` characters of `alphabet`, each equally likely.
fn random_text(alphabet: &[u8], length: usize) -> std::io::Result<String> {
    let mut source = File::open("/dev/urandom")?;
    let mut text = String::with_capacity(length);
    // Bytes beyond the last whole multiple of the alphabet would favour its first characters.
    let fair = 256 - 256 % alphabet.len();
    while text.len() < length {
        let mut byte = [0_u8];
        source.read_exact(&mut byte)?;
        let number = usize::from(byte[0]);
        if number < fair {
            text.push(char::from(alphabet[number % alphabet.len()]));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_in(dir: &Path) -> Config {
        Config { data_dir: dir.join("data"), ..Config::default() }
    }

    #[test]
    fn generated_keys_are_kept_private_and_used_again() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let config = config_in(dir.path());
        let first = RootCredentials::resolve(&config).expect("generated");
        assert!(first.generated);
        assert_eq!((first.access_key.len(), first.secret_key.expose().len()), (20, 40));
        assert!(first.access_key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()));
        let mode = std::fs::metadata(config.data_dir.join("credentials")).expect("stored").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(RootCredentials::resolve(&config).expect("read back"), first);
        assert_eq!(std::fs::read_dir(&config.data_dir).expect("listed").count(), 1, "no temporary file is left");
        assert!(!format!("{first:?}").contains(first.secret_key.expose()));
    }

    #[test]
    fn configured_keys_win_and_nothing_is_written() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let mut config = config_in(dir.path());
        config.root_access_key = Some("OWNKEY".to_owned());
        config.root_secret_key = Some(Secret::new("ownsecret".to_owned()));
        let root = RootCredentials::resolve(&config).expect("configured");
        assert!(!root.generated && root.access_key == "OWNKEY");
        assert!(!config.data_dir.exists());
    }

    #[test]
    fn damaged_file_is_named() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let config = config_in(dir.path());
        std::fs::create_dir(&config.data_dir).expect("created");
        std::fs::write(config.data_dir.join("credentials"), "").expect("written");
        let error = RootCredentials::resolve(&config).expect_err("empty file").to_string();
        assert!(error.contains("credentials") && error.contains("remove it"), "{error}");
    }
}
