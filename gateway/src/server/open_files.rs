//! The limit on open files: every connection is one.
//!
//! Systems give a process 1024 by default, and let it have far more if it asks. Where even that is too little for the
//! connections that are configured, it is said at start, not when the first client is turned away.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files beside the connections of clients and those to the database: log, sockets, libraries.
const OTHERS: u64 = 64;

/// Raises the limit to what `connections` need, as far as the system allows.
pub(super) fn allow(connections: usize) {
    let wanted = connections as u64 + OTHERS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft >= wanted {
        return;
    }
    let most = wanted.min(hard);
    let raised = setrlimit(Resource::RLIMIT_NOFILE, most, hard);
    if raised.is_err() || most < wanted {
        let limit = if raised.is_ok() { most } else { soft };
        tracing::warn!(
            "{connections} connections may be open at once, but the system allows {limit} open files: raise the limit \
             (LimitNOFILE=, ulimit -Hn) or lower server.max_connections"
        );
    }
}
