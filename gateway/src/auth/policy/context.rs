//! What is known of a request, by condition key.

use std::collections::BTreeMap;

/// Values by key; keys are the same in both cases.
#[derive(Clone, Debug, Default)]
pub struct Context(BTreeMap<String, Vec<String>>);

impl Context {
    /// Notes the value of a key.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.insert(key.to_ascii_lowercase(), vec![value.into()]);
    }

    /// Notes one more value of a key: what S3 keeps apart may be one key here, and none of it may hide the other.
    pub fn add(&mut self, key: &str, value: impl Into<String>) {
        self.0.entry(key.to_ascii_lowercase()).or_default().push(value.into());
    }

    /// Forgets every key that begins so (lower case).
    pub fn forget(&mut self, start: &str) {
        self.0.retain(|key, _| !key.starts_with(start));
    }

    /// Notes all values of a key that may have several.
    pub fn set_all(&mut self, key: &str, values: Vec<String>) {
        self.0.insert(key.to_ascii_lowercase(), values);
    }

    /// The values of a key; `None` where the request has none.
    #[must_use]
    pub(in crate::auth) fn values(&self, key: &str) -> Option<&[String]> {
        self.0.get(&key.to_ascii_lowercase()).map(Vec::as_slice)
    }
}
