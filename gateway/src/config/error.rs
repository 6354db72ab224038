//! What can be wrong with a configuration, each as one sentence naming the setting, its source and the mend.
//!
//! Values are never repeated from secrets: messages carry keys and sources, and a value only where the type of the
//! setting can't be secret.

use std::path::PathBuf;

/// A configuration that can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The named file can't be read.
    #[error("the configuration file {} can't be read ({reason}): check --config or LOBGATE_CONFIG", path.display())]
    Unreadable {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The file is no TOML.
    #[error("{origin} is not valid TOML: {detail}")]
    Syntax {
        /// The file.
        origin: String,
        /// Where and why.
        detail: String,
    },
    /// A key nobody knows.
    #[error("unknown setting `{key}` in {origin}: remove it or correct its spelling{}", hint(suggestion.as_deref()))]
    UnknownKey {
        /// The key as written.
        key: String,
        /// File, variable or flag.
        origin: String,
        /// The nearest known key.
        suggestion: Option<String>,
    },
    /// An environment variable nobody knows.
    #[error("unknown environment variable {name}: unset it or correct its spelling{}", hint(suggestion.as_deref()))]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The nearest known variable.
        suggestion: Option<String>,
    },
    /// An environment variable that isn't text.
    #[error("environment variable {name} is not valid UTF-8: set it again")]
    NotText {
        /// The variable.
        name: String,
    },
    /// A value of the wrong type or spelling.
    #[error("setting `{key}` in {origin} can't be read: {detail}")]
    WrongValue {
        /// The full key.
        key: String,
        /// File, variable or flag.
        origin: String,
        /// What is expected.
        detail: String,
    },
    /// A value outside what makes sense.
    #[error("setting `{key}` {demand}")]
    Invalid {
        /// The full key.
        key: String,
        /// What must hold.
        demand: String,
    },
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}
