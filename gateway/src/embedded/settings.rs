//! The server's settings: durable, and tuned for large objects.
//!
//! They are written to `postgres/lobgate.conf` at every start, which `postgresql.conf` includes; an operator's own
//! wishes go to `postgres/local.conf`, which is included after it and never touched. What acknowledged writes rest on
//! ([`DURABLE`]) is passed on the command line instead, where no file can weaken it.
//! Settings that depend on how PostgreSQL was built are tried with `postgres -C` first and left out where unknown.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use super::error::{EmbeddedError, IoContext};
use super::layout::Layout;
use super::user::Launcher;

/// Passed with `-c`: stronger than every file and than `ALTER SYSTEM`.
pub(super) const DURABLE: &[&str] = &["fsync=on", "full_page_writes=on", "synchronous_commit=on"];

/// What `initdb` leaves to us in `postgresql.conf`.
pub(super) const POSTGRESQL_CONF: &str = "\
# Made by lobgate. lobgate.conf is rewritten at every start; your own settings go to local.conf in this directory.
include 'lobgate.conf'
include_if_exists 'local.conf'
";

/// Who may connect: whoever can reach the socket, which lies in a directory only the server's user and root enter.
pub(super) const PG_HBA_CONF: &str = "\
# Made by lobgate. There is no network address; the socket's directory is private.
local all         all trust
local replication all trust
";

/// Connections beyond the pools: commands beside the gateway, superuser, monitoring, autovacuum's own are apart.
const SPARE_CONNECTIONS: u32 = 64;

const MIB: u64 = 1 << 20;

/// Settings tried first: name, value, why.
const OPTIONAL: &[(&str, &str, &str)] = &[
    ("default_toast_compression", "lz4", "pages of large objects compress on write: lz4 costs a fraction of pglz"),
    (
        "wal_compression",
        "lz4",
        "full-page images; without lz4 it stays off, because pglz costs more than the log saves",
    ),
    ("recovery_init_sync_method", "syncfs", "one call instead of an open and fsync per file when recovering"),
];

/// Writes the settings for a server with `connections` pooled connections.
pub(super) fn write(
    launcher: &Launcher,
    layout: &Layout,
    socket_dir: &Path,
    connections: u32,
) -> Result<(), EmbeddedError> {
    let path = layout.pgdata().join("lobgate.conf");
    let mut text = general(socket_dir, connections, memory_bytes());
    // Without the optional ones first, so that leftovers of other binaries don't disturb the trial.
    launcher.user.write_file(&path, &text)?;
    text.push_str("\n# Known to these binaries\n");
    for (name, value, reason) in OPTIONAL {
        if is_accepted(launcher, &layout.pgdata(), name, value)? {
            let _ = writeln!(text, "{name} = '{value}' # {reason}");
        }
    }
    launcher.user.write_file(&path, &text)
}

/// Whether these binaries know `name` with `value`.
fn is_accepted(launcher: &Launcher, pgdata: &Path, name: &str, value: &str) -> Result<bool, EmbeddedError> {
    let mut launch = launcher.prepare("postgres", pgdata)?;
    launch.command.arg("-D").arg(&launch.data_argument).arg("-c").arg(format!("{name}={value}")).args(["-C", name]);
    let status = launch.command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.map(|ended| ended.success()).context("run", &launcher.binaries.program("postgres"))
}

fn general(socket_dir: &Path, connections: u32, memory: u64) -> String {
    let shared_buffers = (memory / 4).clamp(128 * MIB, 2048 * MIB) / MIB;
    let cache = (memory / 2).max(256 * MIB) / MIB;
    let max_connections = connections.saturating_add(SPARE_CONNECTIONS);
    let socket = socket_dir.display().to_string().replace('\'', "''");
    format!(
        "# Made by lobgate at every start: changes are lost. Your own settings go to local.conf in this directory.

# One private socket, no network
listen_addresses = ''
port = 5432
unix_socket_directories = '{socket}'
unix_socket_permissions = 0700
max_connections = {max_connections}

# Durable, and fit for backups and standbys
wal_level = replica

# Write-ahead log: large objects write much of it; few, long checkpoints write each page's image less often
max_wal_size = 4GB
min_wal_size = 512MB
wal_buffers = 64MB
checkpoint_timeout = 15min
checkpoint_completion_target = 0.9

# Memory
shared_buffers = {shared_buffers}MB
effective_cache_size = {cache}MB
maintenance_work_mem = 128MB
huge_pages = try

# Every unlinked large object takes a lock until commit
max_locks_per_transaction = 256

# Planner: solid-state disks; short statements gain nothing from compiling
random_page_cost = 1.1
jit = off

# Removal must not outrun vacuum
autovacuum_naptime = 15s
autovacuum_vacuum_cost_limit = 2000
autovacuum_vacuum_scale_factor = 0.05

# Logs: one file per weekday, reused
logging_collector = on
log_directory = '../logs'
log_filename = 'postgresql-%a.log'
log_file_mode = 0600
log_rotation_age = 1d
log_rotation_size = 0
log_truncate_on_rotation = on
log_line_prefix = '%m [%p] %a '
log_timezone = 'UTC'
timezone = 'UTC'
"
    )
}

/// Memory this process may count on, bytes: the machine's, or the container's where that is less.
fn memory_bytes() -> u64 {
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
    });
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limited = limits.iter().filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    limited.chain(total).min().unwrap_or(1024 * MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_scaled_within_bounds() {
        let text = |memory| general(Path::new("/run/it's"), 24, memory);
        assert!(text(64 * MIB).contains("shared_buffers = 128MB"));
        assert!(text(4096 * MIB).contains("shared_buffers = 1024MB"));
        assert!(text(1 << 40).contains("shared_buffers = 2048MB"));
        assert!(text(1 << 40).contains("max_connections = 88"));
        assert!(text(1 << 40).contains("unix_socket_directories = '/run/it''s'"));
        assert!(memory_bytes() > 0);
    }
}
