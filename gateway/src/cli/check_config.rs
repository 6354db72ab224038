//! `lobgate check-config`: reads all sources of settings, checks them and prints what is in effect.
//!
//! The check itself happens in [`Config::load`] before this runs, so a wrong setting ends with exit code 2 and its
//! sentence. Nothing is connected to, nothing is written. Invariant: secrets print as `***`.

use crate::config::Config;
use crate::db::Target;

use super::{Outcome, output};

pub(super) const EXAMPLE: &str = "Example:\n  lobgate check-config --config /etc/lobgate/lobgate.toml";

pub(super) fn run(config: &Config) -> anyhow::Result<Outcome> {
    if let Some(url) = &config.database_url {
        Target::parse(url.expose())?;
    }
    for (key, value) in config.settings() {
        output::line(&format!("{key} = {value}"))?;
    }
    output::line("# the configuration is valid")?;
    Ok(Outcome::Done)
}
