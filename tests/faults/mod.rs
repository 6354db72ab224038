//! Things break on purpose: gateways, backends, servers, the network between them. What was acknowledged is there, what was
//! not is there whole or not at all, and nothing else is left.

mod backups;
mod crash;
mod history;
mod injector;
mod kills;
mod outage;
mod removal_race;
mod server;

/// A number that makes a run longer, from the environment.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}
