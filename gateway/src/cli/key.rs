//! `lobgate key`: access keys of users. Secrets are encrypted before they reach the database, and shown once.
//!
//! To rotate a key: create a second one, let clients change over (`list` shows when each was used last), disable the
//! first, delete it.

use clap::Subcommand;
use time::OffsetDateTime;

use crate::auth::Cipher;
use crate::config::{Config, Secret};
use crate::embedded::{RootCredentials, encryption_key, new_pair};
use crate::startup::Schema;
use crate::storage::Storage;

use super::iam::{existing_user, parse_access_key, parse_time, shown, told};
use super::workplace::Workplace;
use super::{Outcome, WrongUsage, output};

pub(super) const EXAMPLE: &str = "Examples:
  lobgate key create --user alice --expires 90d
  lobgate key create --user alice --access-key AKIAALICE --secret-key \"$SECRET\"";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create an access key and show it with its secret
    Create {
        /// Whose
        #[arg(long, value_name = "NAME")]
        user: String,
        /// Take this access key instead of a random one
        #[arg(long, value_name = "KEY", value_parser = parse_access_key, requires = "secret_key")]
        access_key: Option<String>,
        /// Take this secret, 8 to 128 characters
        #[arg(long, value_name = "SECRET", requires = "access_key", value_parser = parse_secret)]
        secret_key: Option<Secret<String>>,
        /// When it ends: a day, a time, or how long from now (90d)
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        expires: Option<OffsetDateTime>,
    },
    /// List access keys, and when each was used last
    List {
        /// Only this user's
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
    },
    /// Refuse an access key until it is enabled again
    Disable {
        /// The access key
        access_key: String,
    },
    /// Accept a disabled access key again
    Enable {
        /// The access key
        access_key: String,
    },
    /// Set when an access key ends, or that it does not
    #[command(group = clap::ArgGroup::new("when").required(true))]
    Expire {
        /// The access key
        access_key: String,
        /// A day, a time, or how long from now: 2030-01-31, 2030-01-31T12:00:00Z, 90d
        #[arg(long, value_name = "TIME", group = "when", value_parser = parse_time)]
        at: Option<OffsetDateTime>,
        /// It never ends
        #[arg(long, group = "when")]
        never: bool,
    },
    /// Delete an access key
    Delete {
        /// The access key
        access_key: String,
    },
}

fn parse_secret(text: &str) -> Result<Secret<String>, String> {
    // The message must not repeat it.
    if !(8..=128).contains(&text.chars().count()) || text.contains(char::is_control) {
        return Err("a secret key is 8 to 128 characters long".to_owned());
    }
    Ok(Secret::new(text.to_owned()))
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let workplace = Workplace::open(config, Schema::Migrate).await?;
    let outcome = act(args.action, &workplace.storage, config).await;
    workplace.leave().await;
    outcome.map(|()| Outcome::Done)
}

async fn act(action: Action, storage: &Storage, config: &Config) -> anyhow::Result<()> {
    match action {
        Action::Create { user, access_key, secret_key, expires } => {
            let chosen = access_key.zip(secret_key);
            let is_ours = chosen.is_some();
            let (access_key, secret) = match chosen {
                Some(pair) => pair,
                None => new_pair().map(|(access_key, secret)| (access_key, Secret::new(secret)))?,
            };
            create(storage, config, (&user, &access_key), &secret, expires).await?;
            output::line(&format!("access key: {access_key}"))?;
            if !is_ours {
                output::line(&format!("secret key: {}", secret.expose()))?;
            }
            Ok(())
        }
        Action::List { user } => {
            if let Some(user) = &user {
                existing_user(storage, user).await?;
            }
            for key in storage.keys(user.as_deref()).await? {
                let ended = key.expires_at.is_some_and(|at| at <= OffsetDateTime::now_utc());
                let state = match (key.enabled, ended) {
                    (false, _) => "disabled",
                    (true, true) => "expired",
                    (true, false) => "enabled",
                };
                output::line(&format!(
                    "{}  user {}  {state}  created {}  expires {}  last used {}",
                    key.access_key,
                    key.user,
                    shown(Some(key.created_at)),
                    shown(key.expires_at),
                    shown(key.last_used_at)
                ))?;
            }
            Ok(())
        }
        Action::Disable { access_key } => told(storage.enable_key(&access_key, false).await?, &named(&access_key), ""),
        Action::Enable { access_key } => told(storage.enable_key(&access_key, true).await?, &named(&access_key), ""),
        Action::Expire { access_key, at, never: _ } => {
            told(storage.expire_key(&access_key, at).await?, &named(&access_key), "")
        }
        Action::Delete { access_key } => told(storage.delete_key(&access_key).await?, &named(&access_key), ""),
    }
}

fn named(access_key: &str) -> String {
    format!("access key {access_key}")
}

async fn create(
    storage: &Storage,
    config: &Config,
    (user, access_key): (&str, &str),
    secret: &Secret<String>,
    expires: Option<OffsetDateTime>,
) -> anyhow::Result<()> {
    if RootCredentials::access_key(config)?.as_deref() == Some(access_key) {
        return Err(WrongUsage(format!("{access_key} is root's access key: choose another")).into());
    }
    let stored = storage.any_secret().await?;
    // With secrets in the database there is a key already; a new one would be another.
    let text = encryption_key(config, stored.is_none())?;
    let cipher = text.map(|text| Cipher::new(text.expose())).transpose()?;
    let readable = match (&cipher, &stored) {
        (Some(cipher), Some((other, secret))) => cipher.decrypt(other, secret).is_ok(),
        (Some(_), None) => true,
        (None, _) => false,
    };
    let Some(cipher) = cipher.filter(|_| readable) else {
        anyhow::bail!(
            "the secrets in this database are encrypted with another key: set auth.encryption_key \
             (LOBGATE_AUTH_ENCRYPTION_KEY) to that one, or name the --data-dir that holds it"
        );
    };
    let sealed = cipher.encrypt(access_key, secret.expose())?;
    let change = storage.create_key(user, access_key, &sealed, expires).await?;
    if change == crate::storage::users::Change::Missing {
        anyhow::bail!("there is no user {user}: lobgate user create {user}");
    }
    told(change, &named(access_key), "")
}
