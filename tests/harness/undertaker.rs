//! Cleans up after the test process, however it ends.
//!
//! A shell waits on a pipe whose only writer is this process. The kernel closes the pipe when the process exits, panics or
//! is killed with SIGKILL, and the shell then kills the gateways that still run, stops the PostgreSQL clusters and removes
//! their directories. Nothing is polled while the tests run, and nothing survives them.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
pids=' '
dirs=''
while read -r verb what; do
  case "$verb" in
    kill) pids="$pids$what " ;;
    forget) case "$pids" in *" $what "*) pids="${pids%% "$what" *} ${pids#* "$what" }" ;; esac ;;
    cluster) dirs="$dirs $what" ;;
  esac
done
for pid in $pids; do kill -9 "$pid"; done
for dir in $dirs; do
  [ -d "$dir" ] || continue
  pid=$(head -n 1 "$dir/data/postmaster.pid") && kill -QUIT "$pid"
  n=0
  while [ -e "$dir/data/postmaster.pid" ] && [ "$n" -lt 200 ]; do sleep 0.05; n=$((n + 1)); done
  rm -rf "$dir"
done
"#;

static UNDERTAKER: OnceLock<Mutex<Child>> = OnceLock::new();

fn tell(line: &str) {
    let undertaker = UNDERTAKER.get_or_init(|| {
        let child = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("start the shell that cleans up");
        Mutex::new(child)
    });
    let mut child = undertaker.lock().expect("the undertaker's pipe");
    let pipe = child.stdin.as_mut().expect("a piped stdin");
    writeln!(pipe, "{line}").expect("tell the undertaker");
}

/// Kills process `pid` when the tests end, unless it is forgotten first.
pub(crate) fn kill_at_end(pid: u32) {
    tell(&format!("kill {pid}"));
}

/// Process `pid` has ended and its number may be used again.
pub(crate) fn forget(pid: u32) {
    tell(&format!("forget {pid}"));
}

/// Stops the cluster in `dir/data` and removes `dir` when the tests end.
pub(crate) fn remove_cluster_at_end(dir: &Path) {
    tell(&format!("cluster {}", dir.display()));
}
