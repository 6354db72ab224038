//! Progress bars of long commands, on standard error, and only where that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::gc::sweep::Progress;

/// A bar that counts to a total.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar over bytes.
    pub(super) fn bytes(what: &'static str, total: u64) -> Self {
        Self::styled(what, total, "{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
    }

    /// A bar over things.
    pub(super) fn items(what: &'static str, total: u64) -> Self {
        Self::styled(what, total, "{msg} {bar:30} {pos}/{len} {eta}")
    }

    /// A count without a known end.
    pub(super) fn count(what: &'static str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{msg} {spinner} {pos}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }

    fn styled(what: &'static str, total: u64, template: &str) -> Self {
        let bar = ProgressBar::new(total).with_message(what);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl Progress for Bar {
    fn advance(&self, amount: u64) {
        self.0.inc(amount);
    }
}
