//! Trouble that lasts is told when it begins and when it ends, not ten times a second in between.

use std::fmt::Display;

/// Something that is done over and over, and whether it works.
pub(super) struct Trouble {
    what: &'static str,
    lasts: bool,
}

impl Trouble {
    pub(super) fn with(what: &'static str) -> Self {
        Self { what, lasts: false }
    }

    /// It failed.
    pub(super) fn begins(&mut self, error: &impl Display) {
        if std::mem::replace(&mut self.lasts, true) {
            tracing::debug!(%error, "{} still fails", self.what);
        } else {
            tracing::warn!(%error, "{} fails, and is tried again", self.what);
        }
    }

    /// It succeeded.
    pub(super) fn ends(&mut self) {
        if std::mem::take(&mut self.lasts) {
            tracing::info!("{} works again", self.what);
        }
    }
}
