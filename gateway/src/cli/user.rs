//! `lobgate user`: accounts beside root. What is changed takes effect at once on every gateway.

use clap::Subcommand;

use crate::auth::account_of;
use crate::config::Config;
use crate::startup::Schema;
use crate::storage::Storage;

use super::iam::{listed, parse_name, shown, told};
use super::workplace::Workplace;
use super::{Outcome, output};

pub(super) const EXAMPLE: &str = "Example:
  lobgate user create alice
  lobgate key create --user alice";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a user: it owns the buckets it creates, and gets at others by policies and lists
    Create {
        /// 1 to 64 letters, digits or +=,.@_-
        #[arg(value_parser = parse_name)]
        name: String,
    },
    /// List users with their ids, groups and policies
    List,
    /// Delete a user that owns no bucket, with its access keys
    Delete {
        /// Its name
        name: String,
    },
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let workplace = Workplace::open(config, Schema::Migrate).await?;
    let outcome = act(args.action, &workplace.storage).await;
    workplace.leave().await;
    outcome.map(|()| Outcome::Done)
}

async fn act(action: Action, storage: &Storage) -> anyhow::Result<()> {
    match action {
        Action::Create { name } => {
            // Two UUIDs are 244 random bits; the form is that of S3's canonical ids.
            let id = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
            let account = account_of(&id);
            told(storage.create_user(&name, &id, &account).await?, &format!("user {name}"), "")?;
            Ok(output::line(&format!("user:         {name}\ncanonical id: {id}\naccount:      {account}"))?)
        }
        Action::List => {
            for (user, policies, groups) in storage.users().await? {
                output::line(&format!(
                    "{}  created {}  account {}  id {}  groups {}  policies {}",
                    user.name,
                    shown(Some(user.created_at)),
                    user.account,
                    user.canonical_id,
                    listed(&groups),
                    listed(&policies)
                ))?;
            }
            Ok(())
        }
        Action::Delete { name } => {
            told(storage.delete_user(&name).await?, &format!("user {name}"), "still owns buckets: delete those first")
        }
    }
}
