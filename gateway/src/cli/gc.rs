//! `lobgate gc`: how much removed content waits for its readers, and reclaiming it now.
//!
//! Running gateways do this by themselves. Invariant: `status` changes nothing.

use clap::Subcommand;

use indicatif::HumanBytes;

use crate::config::Config;
use crate::startup::Schema;
use crate::storage::maintenance::RemovalStatus;

use super::workplace::Workplace;
use super::{Outcome, output};

pub(super) const EXAMPLE: &str = "Example:\n  lobgate gc status --data-dir ./lobgate-data";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Action {
    /// Show what waits to be reclaimed
    Status,
    /// Reclaim what no reader needs any more
    Run,
}

pub(super) async fn run(args: Args, config: &Config) -> anyhow::Result<Outcome> {
    let workplace = Workplace::open(config, Schema::Require).await?;
    let outcome = match args.action {
        Action::Status => tell(&workplace.storage.removal_status().await?),
        Action::Run => reclaim(&workplace, config).await,
    };
    workplace.leave().await;
    outcome.map(|()| Outcome::Done)
}

async fn reclaim(workplace: &Workplace, config: &Config) -> anyhow::Result<()> {
    let storage = &workplace.storage;
    let (mut contents, mut bytes) = (0, 0);
    let aborted = storage.expire_uploads(config.gc.upload_expiry, u32::from(u16::MAX)).await?;
    loop {
        // Our own lease must not hold back what was removed before this round.
        workplace.renew().await?;
        match storage.reap(config.gc.batch).await? {
            None => anyhow::bail!("another reaper is at work on this database: its gateway does the same"),
            Some(reaped) if reaped.seen == 0 => break,
            Some(reaped) => {
                contents += reaped.contents;
                bytes += reaped.bytes;
            }
        }
    }
    output::line(&format!("aborted uploads:    {aborted}"))?;
    output::line(&format!("contents destroyed: {contents} ({})", HumanBytes(bytes)))?;
    tell(&storage.removal_status().await?)
}

fn tell(status: &RemovalStatus) -> anyhow::Result<()> {
    output::line(&format!("contents waiting:   {} ({})", status.contents, HumanBytes(status.bytes)))?;
    output::line(&format!("oldest entry:       {:.0} s", status.oldest_seconds))?;
    // This command is an instance too, for as long as it looks.
    output::line(&format!("running gateways:   {}", status.instances.saturating_sub(1)))?;
    Ok(())
}
