//! What an earlier run left behind: a running server, or its stale pid file.
//!
//! When lobgate is killed its server lives on, safe but ownerless; the next start stops it in order and starts its
//! own. When the server is killed, its backends end by themselves within moments; until then nothing may start on the
//! same files. Both are seen by looking at which `postgres` processes have the cluster as their working directory,
//! which unlike the number in `postmaster.pid` can't belong to somebody else by now.
//! Invariant: after [`settle`] no process works on the cluster, and no pid file names a live stranger.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::error::{EmbeddedError, IoContext};
use super::layout::Layout;

/// Time for an orderly stop (a checkpoint may be due) before the server is told to drop everything.
const ORDERLY: Duration = Duration::from_secs(90);
/// Time after which processes that still run are reported.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);

/// Waits until nothing works on the cluster, stopping a left-behind server.
pub(super) async fn settle(layout: &Layout) -> Result<(), EmbeddedError> {
    let pgdata = layout.pgdata();
    let pid_file = pgdata.join("postmaster.pid");
    let started = Instant::now();
    let mut sent: Option<Signal> = None;
    loop {
        let server = server_pid(&pid_file);
        let alive = processes_on(&pgdata, server);
        let Some(first) = alive.first().copied() else {
            return remove_if_misleading(&pid_file, server);
        };
        let wanted = if started.elapsed() < ORDERLY { Signal::SIGINT } else { Signal::SIGQUIT };
        if let Some(pid) = server.filter(|pid| alive.contains(pid) && sent != Some(wanted)) {
            tracing::warn!(
                postgres.pid = pid,
                signal = wanted.as_str(),
                "stopping the PostgreSQL server an earlier lobgate left behind"
            );
            // A refusal shows in the processes staying alive.
            let _ = kill(Pid::from_raw(pid), wanted);
            sent = Some(wanted);
        }
        if started.elapsed() > PATIENCE {
            return Err(EmbeddedError::Orphan { data_dir: layout.root.clone(), process: first });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The process that `postmaster.pid` names.
fn server_pid(pid_file: &Path) -> Option<i32> {
    let text = std::fs::read_to_string(pid_file).ok()?;
    text.lines().next()?.trim().parse::<i32>().ok().filter(|pid| *pid > 1)
}

/// The `postgres` processes that work in `pgdata`. Without a `/proc`, the named server if it lives.
fn processes_on(pgdata: &Path, server: Option<i32>) -> Vec<i32> {
    let (Ok(entries), Ok(cluster)) = (std::fs::read_dir("/proc"), pgdata.metadata()) else {
        return server.filter(|pid| kill(Pid::from_raw(*pid), None).is_ok()).into_iter().collect();
    };
    let works_there = |pid: &i32| {
        let cwd = std::fs::metadata(format!("/proc/{pid}/cwd"));
        let same_dir = cwd.is_ok_and(|dir| (dir.dev(), dir.ino()) == (cluster.dev(), cluster.ino()));
        let name = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        same_dir && matches!(name().trim(), "postgres" | "postmaster")
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(works_there).collect()
}

/// PostgreSQL takes a live process of the same user for a running server, whatever it is: in containers the numbers
/// come around quickly. A file naming a dead process is left to it, since it also guards shared memory.
fn remove_if_misleading(pid_file: &Path, server: Option<i32>) -> Result<(), EmbeddedError> {
    let names_a_stranger = server.is_some_and(|pid| kill(Pid::from_raw(pid), None).is_ok());
    if names_a_stranger && Path::new("/proc/self/cwd").exists() {
        tracing::warn!(path = %pid_file.display(), "removing a pid file that names another program");
        std::fs::remove_file(pid_file).context("remove", pid_file)?;
    }
    Ok(())
}
