//! Making the cluster: all of it or none.
//!
//! `initdb` works in `postgres.init-<pid>`; the finished directory is synced and renamed to `postgres`. A lobgate
//! killed half-way leaves only the former, which the next start removes and makes anew.
//! Invariant: `postgres/` either doesn't exist or is complete.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use super::error::{EmbeddedError, IoContext};
use super::layout::Layout;
use super::logs::tail;
use super::settings::{PG_HBA_CONF, POSTGRESQL_CONF};
use super::user::Launcher;

/// The superuser of the cluster; lobgate itself uses an ordinary role.
pub(super) const SUPERUSER: &str = "postgres";
/// Start of the names of unfinished clusters.
const UNFINISHED: &str = "postgres.init-";

/// Makes the cluster of `layout`; the caller holds the owner lock.
pub(super) async fn create(launcher: &Launcher, layout: &Layout) -> Result<(), EmbeddedError> {
    remove_unfinished(layout)?;
    let pgdata = layout.pgdata();
    // Nothing of ours, for ours has a PG_VERSION: an empty directory is no loss, a full one stops us here.
    if pgdata.exists() {
        std::fs::remove_dir(&pgdata).context("replace (it is no PostgreSQL data directory)", &pgdata)?;
    }
    let fresh = layout.root.join(format!("{UNFINISHED}{}", std::process::id()));
    launcher.user.own_dir(&fresh)?;
    tracing::info!(data_dir = %layout.root.display(), postgres.version = launcher.binaries.major, "creating the private PostgreSQL cluster");
    run_initdb(launcher, layout, &fresh).await?;
    launcher.user.write_file(&fresh.join("pg_hba.conf"), PG_HBA_CONF)?;
    launcher.user.write_file(&fresh.join("lobgate.conf"), "")?;
    launcher.user.write_file(&fresh.join("postgresql.conf"), POSTGRESQL_CONF)?;
    sync_dir(&fresh)?;
    std::fs::rename(&fresh, &pgdata).context("finish", &pgdata)?;
    sync_dir(&layout.root)
}

async fn run_initdb(launcher: &Launcher, layout: &Layout, fresh: &Path) -> Result<(), EmbeddedError> {
    let log_path = layout.logs().join("initdb.log");
    let log = File::create(&log_path).context("write", &log_path)?;
    let log_too = log.try_clone().context("write", &log_path)?;
    let mut launch = launcher.prepare("initdb", fresh)?;
    launch.command.arg("-D").arg(&launch.data_argument);
    launch.command.args(["--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions"]);
    launch.command.args(["--auth-local=trust", "--auth-host=reject", "--username", SUPERUSER]);
    launch.command.stdout(log).stderr(log_too).stdin(Stdio::null());
    let program = launcher.binaries.program("initdb");
    let mut command = tokio::process::Command::from(launch.command);
    let status = command.kill_on_drop(true).status().await.context("run", &program)?;
    if status.success() { Ok(()) } else { Err(EmbeddedError::Initdb { detail: tail(&log_path, 3) }) }
}

fn remove_unfinished(layout: &Layout) -> Result<(), EmbeddedError> {
    for entry in std::fs::read_dir(&layout.root).context("read", &layout.root)?.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            continue;
        }
        tracing::warn!(path = %entry.path().display(), "removing a cluster that was not finished");
        // An initdb whose lobgate was killed may still be adding files for a moment.
        let removed = (0..20).any(|_| {
            let done = std::fs::remove_dir_all(entry.path()).is_ok();
            if !done {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            done
        });
        if !removed {
            std::fs::remove_dir_all(entry.path()).context("remove", &entry.path())?;
        }
    }
    Ok(())
}

fn sync_dir(dir: &Path) -> Result<(), EmbeddedError> {
    File::open(dir).and_then(|file| file.sync_all()).context("sync", dir)
}
