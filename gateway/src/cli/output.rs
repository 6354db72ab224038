//! Results on standard output.
//!
//! `println!` panics when the reader is gone; a command piped into `head` should just be done. Invariant: the only
//! failure of [`line`] that is passed over is a closed pipe.

use std::io::{ErrorKind, Write};

/// Writes one line to standard output.
///
/// # Errors
/// The output can't be written, except where nobody reads it any more.
pub(super) fn line(text: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
