//! Everything that can be set, in one typed and validated value.
//!
//! [`Config::load`] merges defaults < TOML file < `LOBGATE_*` environment < flags, refuses what it doesn't know and
//! checks ranges, so that the rest of the gateway never meets a bad setting. One struct per section of the file,
//! each in its own module with its defaults and limits. A relative path counts from the working directory.
//! Invariant: a `Config` that [`Config::load`] returned satisfies every documented range, and printing it in any
//! way (`Debug`, [`Config::settings`]) shows no secret.

mod auth;
mod cache;
mod database;
mod error;
mod gc;
mod keys;
mod load;
mod log;
mod secret;
mod server;
mod storage;
mod tls;
mod units;
mod validate;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use auth::{AuthConfig, ObjectOwnership};
pub use cache::CacheConfig;
pub use database::{DatabaseConfig, Pooler};
pub use error::ConfigError;
pub use gc::GcConfig;
#[cfg(any(test, fuzzing))]
pub(crate) use load::from_text;
pub use log::{LogConfig, LogFormat};
pub use secret::Secret;
pub use server::ServerConfig;
pub use storage::{LARGE_OBJECT_PAGE, StorageConfig};
pub use tls::TlsConfig;
pub use units::{format_duration, format_size, parse_duration, parse_size};

use validate::require;

/// All settings of one gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address and port of the S3 endpoint; port 0 takes a free one. Default 127.0.0.1:9000.
    pub listen: SocketAddr,
    /// Address and port of health and metrics; port 0 takes a free one. Default 127.0.0.1:9001.
    pub admin_listen: SocketAddr,
    /// The PostgreSQL server to use; without it lobgate runs a private one in `data_dir`. Default none.
    pub database_url: Option<Secret<String>>,
    /// Directory of the private server and of generated keys. Default `./lobgate-data`.
    pub data_dir: PathBuf,
    /// Directory of `initdb` and `postgres` for the private server; found by itself when not set. Default none.
    pub postgres_bin: Option<PathBuf>,
    /// Access key of the root account, 3..=128 letters, digits or `_-.`; set with `root_secret_key`. Default generated.
    pub root_access_key: Option<String>,
    /// Secret key of the root account, 8..=128 characters; set with `root_access_key`. Default generated.
    pub root_secret_key: Option<Secret<String>>,
    /// Region that requests are signed for. Default `us-east-1`.
    pub region: String,
    /// Base domains of virtual-host addressing (`bucket.domain`), lower case. Default `localhost`.
    pub domains: Vec<String>,
    /// The certificate of the S3 endpoint.
    pub tls: TlsConfig,
    /// Limits of the listening side.
    pub server: ServerConfig,
    /// Pools and timeouts towards the database.
    pub database: DatabaseConfig,
    /// Sizes and memory budgets of the storage engine.
    pub storage: StorageConfig,
    /// The block cache in front of the large objects.
    pub cache: CacheConfig,
    /// Pace of the background work.
    pub gc: GcConfig,
    /// Accepted signatures, users' secrets and ownership.
    pub auth: AuthConfig,
    /// Form and amount of the log.
    pub log: LogConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9000)),
            admin_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9001)),
            database_url: None,
            data_dir: PathBuf::from("./lobgate-data"),
            postgres_bin: None,
            root_access_key: None,
            root_secret_key: None,
            region: "us-east-1".to_owned(),
            domains: vec!["localhost".to_owned()],
            tls: TlsConfig::default(),
            server: ServerConfig::default(),
            database: DatabaseConfig::default(),
            storage: StorageConfig::default(),
            cache: CacheConfig::default(),
            gc: GcConfig::default(),
            auth: AuthConfig::default(),
            log: LogConfig::default(),
        }
    }
}

/// The settings that also exist as flags of every subcommand.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ConfigFlags {
    /// Read settings from this TOML file
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of the S3 endpoint [default: 127.0.0.1:9000]
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Address of health and metrics [default: 127.0.0.1:9001]
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    pub admin_listen: Option<String>,
    /// PostgreSQL server to use [default: a private one in the data directory]
    #[arg(long, global = true, value_name = "URL")]
    pub database_url: Option<Secret<String>>,
    /// Directory of the private server and generated keys [default: ./lobgate-data]
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<String>,
}

impl ConfigFlags {
    /// The flags that were given: flag, key, text.
    fn given(&self) -> impl Iterator<Item = (&'static str, &'static str, &str)> {
        let url = self.database_url.as_ref().map(|url| url.expose().as_str());
        [
            ("--listen", "listen", self.listen.as_deref()),
            ("--admin-listen", "admin_listen", self.admin_listen.as_deref()),
            ("--database-url", "database_url", url),
            ("--data-dir", "data_dir", self.data_dir.as_deref()),
        ]
        .into_iter()
        .filter_map(|(flag, key, text)| text.map(|given| (flag, key, given)))
    }
}

impl Config {
    /// Reads file, environment and `flags`, and checks the result.
    ///
    /// # Errors
    /// One sentence naming the setting, where it came from and how to mend it.
    pub fn load(flags: &ConfigFlags) -> Result<Self, ConfigError> {
        let config = load::assemble(flags, &load::process_environment())?;
        config.validate()?;
        Ok(config)
    }

    /// Every setting with its effective value as TOML lines, secrets shown as `***`, unset ones left out.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        if let Ok(tree) = serde_json::to_value(self) {
            for (key, _) in keys::KEYS {
                let pointer = format!("/{}", key.replace('.', "/"));
                let value = tree.pointer(&pointer).filter(|value| !value.is_null());
                lines.extend(value.map(|found| ((*key).to_owned(), found.to_string())));
            }
        }
        lines
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let same_address = self.listen == self.admin_listen && self.listen.port() != 0;
        require(!same_address, "admin_listen", "must differ from listen")?;
        require(!self.data_dir.as_os_str().is_empty(), "data_dir", "must name a directory")?;
        self.validate_database_url()?;
        self.validate_root_keys()?;
        let region_fits = (1..=64).contains(&self.region.len())
            && self.region.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        require(region_fits, "region", "must be 1 to 64 lower-case letters, digits or hyphens such as \"us-east-1\"")?;
        let hosts_fit = self.domains.iter().all(|domain| is_host_name(domain));
        require(hosts_fit, "domains", "must list lower-case host names without port such as \"s3.example.org\"")?;
        self.tls.validate()?;
        self.server.validate()?;
        self.database.validate()?;
        self.storage.validate()?;
        self.cache.validate(self.storage.read_window)?;
        self.gc.validate()?;
        self.auth.validate()?;
        self.log.validate()
    }

    fn validate_database_url(&self) -> Result<(), ConfigError> {
        let Some(url) = &self.database_url else { return Ok(()) };
        let text = url.expose();
        let is_url =
            ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) || text.contains('=');
        require(is_url, "database_url", "must be a URL such as postgres://user:password@host:5432/database")
    }

    fn validate_root_keys(&self) -> Result<(), ConfigError> {
        const BOTH: &str =
            "must be set together with the other root key: set root_access_key and root_secret_key, or neither";
        match (&self.root_access_key, &self.root_secret_key) {
            (None, None) => Ok(()),
            (Some(_), None) => require(false, "root_secret_key", BOTH),
            (None, Some(_)) => require(false, "root_access_key", BOTH),
            (Some(access), Some(secret)) => {
                let access_fits = (3..=128).contains(&access.len())
                    && access.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
                require(access_fits, "root_access_key", "must be 3 to 128 letters, digits or one of _ - .")?;
                let secret_fits =
                    (8..=128).contains(&secret.expose().len()) && secret.expose().chars().all(|c| c.is_ascii_graphic());
                require(secret_fits, "root_secret_key", "must be 8 to 128 printable ASCII characters without spaces")
            }
        }
    }
}

fn is_host_name(text: &str) -> bool {
    let label_fits = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(label_fits)
}
