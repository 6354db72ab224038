//! `Secret`: a value that never shows itself by accident.
//!
//! Passwords and keys pass through structs that derive `Debug`, through error messages and through the listing
//! of `check-config`. Wrapped in [`Secret`] they print as `***` everywhere; reading one takes an explicit
//! [`Secret::expose`], which is what reviewers search for.
//! Invariant: no `Debug`, `Display` or `Serialize` of this type reveals the value.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A value hidden from `Debug`, `Display` and `Serialize`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The hidden value; never pass it to a log or an error message.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T> Serialize for Secret<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_the_value() {
        let secret = Secret::new("hunter2".to_owned());
        let shown = format!("{secret} {secret:?} {:?} {}", Some(&secret), serde_json::json!(secret));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert_eq!(secret.expose(), "hunter2");
    }
}
