//! `lobgate policy`: what users and groups may do, in IAM's language.
//!
//! A user that no policy is attached to has full rights over its own buckets. Once one is attached, to it or to a group of
//! its, policies alone say what it may do.

use std::path::PathBuf;

use clap::Subcommand;

use crate::auth::policy::Policy;
use crate::config::Config;
use crate::startup::Schema;
use crate::storage::Storage;
use crate::storage::users::Attached;

use super::iam::{parse_name, read, told};
use super::workplace::Workplace;
use super::{Outcome, WrongUsage, output};

pub(super) const EXAMPLE: &str = "Example:
  lobgate policy put read-photos photos.json
  lobgate policy attach read-photos --user alice";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Store or replace a policy
    Put {
        /// 1 to 64 letters, digits or +=,.@_-
        #[arg(value_parser = parse_name)]
        name: String,
        /// Its document; - reads standard input
        document: PathBuf,
    },
    /// List policies
    List,
    /// Print a policy's document
    Show {
        /// Its name
        name: String,
    },
    /// Attach a policy to a user or a group
    Attach(Attachment),
    /// Take a policy away from a user or a group
    Detach(Attachment),
    /// Delete a policy that is attached to nobody
    Delete {
        /// Its name
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct Attachment {
    /// The policy
    policy: String,
    #[command(flatten)]
    to: To,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct To {
    /// A user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// A group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let document = match &args.action {
        Action::Put { document, .. } => Some(checked(document)?),
        _ => None,
    };
    let workplace = Workplace::open(config, Schema::Migrate).await?;
    let outcome = act(args.action, document, &workplace.storage).await;
    workplace.leave().await;
    outcome.map(|()| Outcome::Done)
}

/// The document, once it is known to be a policy.
fn checked(path: &std::path::Path) -> anyhow::Result<String> {
    let text = read(path)?;
    Policy::of_identity(&text).map_err(|error| WrongUsage(format!("{}: {error}", path.display())))?;
    Ok(text)
}

async fn act(action: Action, document: Option<String>, storage: &Storage) -> anyhow::Result<()> {
    match action {
        Action::Put { name, .. } => Ok(storage.put_policy(&name, &document.unwrap_or_default()).await?),
        Action::List => {
            for (name, _) in storage.policies().await? {
                output::line(&name)?;
            }
            Ok(())
        }
        Action::Show { name } => {
            let policies = storage.policies().await?;
            let found = policies.into_iter().find(|(other, _)| *other == name);
            let (_, text) = found.ok_or_else(|| anyhow::anyhow!("there is no policy {name}"))?;
            Ok(output::line(text.trim_end())?)
        }
        Action::Attach(to) => attach(storage, &to, true).await,
        Action::Detach(to) => attach(storage, &to, false).await,
        Action::Delete { name } => {
            let in_use = "is attached to users or groups: detach it first";
            told(storage.delete_policy(&name).await?, &format!("policy {name}"), in_use)
        }
    }
}

async fn attach(storage: &Storage, attachment: &Attachment, attach: bool) -> anyhow::Result<()> {
    let (to, kind) = match (&attachment.to.user, &attachment.to.group) {
        (Some(user), _) => (Attached::User(user), format!("user {user}")),
        (None, Some(group)) => (Attached::Group(group), format!("group {group}")),
        (None, None) => return Err(WrongUsage("give --user or --group".to_owned()).into()),
    };
    let change = storage.attach_policy(&attachment.policy, to, attach).await?;
    let policy = &attachment.policy;
    let what =
        if attach { format!("policy {policy}, or no {kind}") } else { format!("policy {policy} attached to {kind}") };
    told(change, &what, "")
}
