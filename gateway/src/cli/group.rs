//! `lobgate group`: users that policies are attached to together.

use clap::Subcommand;

use crate::config::Config;
use crate::startup::Schema;
use crate::storage::Storage;

use super::iam::{existing_user, listed, parse_name, told};
use super::workplace::Workplace;
use super::{Outcome, output};

pub(super) const EXAMPLE: &str = "Example:
  lobgate group create readers
  lobgate group add readers alice";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a group
    Create {
        /// 1 to 64 letters, digits or +=,.@_-
        #[arg(value_parser = parse_name)]
        name: String,
    },
    /// List groups with their members and policies
    List,
    /// Add a user to a group
    Add {
        /// The group
        group: String,
        /// The user
        user: String,
    },
    /// Take a user out of a group
    Remove {
        /// The group
        group: String,
        /// The user
        user: String,
    },
    /// Delete a group
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
        Action::Create { name } => told(storage.create_group(&name).await?, &format!("group {name}"), ""),
        Action::List => {
            for (name, members, policies) in storage.groups().await? {
                output::line(&format!("{name}  members {}  policies {}", listed(&members), listed(&policies)))?;
            }
            Ok(())
        }
        Action::Add { group, user } => {
            existing_user(storage, &user).await?;
            told(storage.set_member(&group, &user, true).await?, &format!("group {group}"), "")
        }
        Action::Remove { group, user } => {
            told(storage.set_member(&group, &user, false).await?, &format!("user {user} in group {group}"), "")
        }
        Action::Delete { name } => {
            let why = "has members and policies: take its members out or its policies away first";
            told(storage.delete_group(&name).await?, &format!("group {name}"), why)
        }
    }
}
