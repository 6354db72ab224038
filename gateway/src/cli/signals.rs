//! The signals that ask lobgate to stop: SIGTERM, SIGINT (Ctrl-C) and SIGHUP (the terminal is gone).
//!
//! Invariant: from [`StopSignals::install`] on, none of them ends the process by itself; who installs them decides.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The installed handlers.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl StopSignals {
    /// Takes the signals over.
    pub(super) fn install() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next of them and returns its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}
