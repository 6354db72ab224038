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
