//! The table of every setting: its key in the file, and how its environment variable is read.
//!
//! The name of the variable follows from the key: `database.pool_size` is `LOBGATE_DATABASE_POOL_SIZE`. Variables
//! are text, so the table says which of them stay text (a secret of digits is not a number) and which are lists.
//! Invariant: this table, the structs and `config/lobgate.toml` name the same keys; a test compares them.

use figment::value::Value;

/// How the text of an environment variable becomes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Taken as it is.
    Text,
    /// Text that no message may repeat.
    Secret,
    /// A number or a truth value; text where it is neither.
    Scalar,
    /// Comma-separated.
    List,
}

/// Every setting in the order of the sample file.
pub(super) const KEYS: &[(&str, Kind)] = &[
    ("listen", Kind::Text),
    ("admin_listen", Kind::Text),
    ("database_url", Kind::Secret),
    ("data_dir", Kind::Text),
    ("postgres_bin", Kind::Text),
    ("root_access_key", Kind::Text),
    ("root_secret_key", Kind::Secret),
    ("region", Kind::Text),
    ("domains", Kind::List),
    ("tls.certificate", Kind::Text),
    ("tls.private_key", Kind::Text),
    ("server.max_connections", Kind::Scalar),
    ("server.max_requests", Kind::Scalar),
    ("server.header_read_timeout", Kind::Text),
    ("server.body_idle_timeout", Kind::Text),
    ("server.write_idle_timeout", Kind::Text),
    ("server.min_transfer_rate", Kind::Scalar),
    ("server.shutdown_grace", Kind::Text),
    ("database.pool_size", Kind::Scalar),
    ("database.writer_pool_size", Kind::Scalar),
    ("database.pool_wait_timeout", Kind::Text),
    ("database.connect_timeout", Kind::Text),
    ("database.statement_timeout", Kind::Text),
    ("database.pooler", Kind::Text),
    ("database.allow_standby", Kind::Scalar),
    ("database.max_connection_age", Kind::Text),
    ("storage.inline_max", Kind::Text),
    ("storage.buffer_max", Kind::Text),
    ("storage.write_chunk", Kind::Text),
    ("storage.read_window", Kind::Text),
    ("storage.read_ahead", Kind::Scalar),
    ("storage.upload_memory", Kind::Text),
    ("storage.download_memory", Kind::Text),
    ("cache.memory", Kind::Text),
    ("gc.interval", Kind::Text),
    ("gc.lease", Kind::Text),
    ("gc.batch", Kind::Scalar),
    ("gc.upload_expiry", Kind::Text),
    ("auth.sigv2", Kind::Scalar),
    ("auth.encryption_key", Kind::Secret),
    ("auth.default_object_ownership", Kind::Text),
    ("log.format", Kind::Text),
    ("log.filter", Kind::Text),
];

/// Start of every variable that is ours.
pub(super) const VARIABLE_PREFIX: &str = "LOBGATE_";
/// Start of the variables that belong to the test suite and are passed over.
pub(super) const TEST_PREFIX: &str = "LOBGATE_TEST_";
/// Names the configuration file; no key of its own.
pub(super) const CONFIG_VARIABLE: &str = "LOBGATE_CONFIG";

/// The environment variable of `key`.
pub(super) fn variable_of(key: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", key.replace('.', "_").to_ascii_uppercase())
}

/// The kind of `key`, if there is such a setting.
pub(super) fn kind_of(key: &str) -> Option<Kind> {
    KEYS.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind)
}

/// The setting behind an environment variable.
pub(super) fn key_of_variable(variable: &str) -> Option<(&'static str, Kind)> {
    KEYS.iter().find(|(key, _)| variable_of(key) == variable).copied()
}

/// The value of a variable's text.
pub(super) fn value_of(kind: Kind, text: &str) -> Value {
    let integer = || text.trim().parse::<i64>().ok().map(Value::from);
    let truth = || text.trim().parse::<bool>().ok().map(Value::from);
    match kind {
        Kind::Text | Kind::Secret => Value::from(text),
        Kind::Scalar => integer().or_else(truth).unwrap_or_else(|| Value::from(text)),
        Kind::List => {
            let items: Vec<&str> = text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect();
            Value::from(items)
        }
    }
}

/// The known name nearest to `wrong`, if one is near enough to be a slip of the fingers.
pub(super) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let budget = (wrong.len() / 4).clamp(1, 4);
    let scored = known.map(|name| (edit_distance(wrong, name), name));
    scored.filter(|(distance, _)| *distance <= budget).min().map(|(_, name)| name.to_owned())
}

/// Levenshtein distance in bytes.
fn edit_distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_belongs_to_exactly_one_key() {
        let mut variables: Vec<String> = KEYS.iter().map(|(key, _)| variable_of(key)).collect();
        variables.sort();
        variables.dedup();
        assert_eq!(variables.len(), KEYS.len());
        assert_eq!(key_of_variable("LOBGATE_DATABASE_POOL_SIZE"), Some(("database.pool_size", Kind::Scalar)));
        assert!(!variables.iter().any(|name| name.starts_with(TEST_PREFIX) || name == CONFIG_VARIABLE));
    }

    #[test]
    fn a_slip_of_the_fingers_is_recognised() {
        let known = || KEYS.iter().map(|(key, _)| *key);
        assert_eq!(nearest("databse.pool_size", known()).as_deref(), Some("database.pool_size"));
        assert_eq!(nearest("lissten", known()).as_deref(), Some("listen"));
        assert_eq!(nearest("colour", known()), None);
    }
}
