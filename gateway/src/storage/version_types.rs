//! The vocabulary of versions: which one, what locks it, and what a client sets on it beside its attributes.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

/// A version of an object, as S3 names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VersionId {
    /// `null`: what was stored while the bucket was not versioned, or versioning was suspended.
    Null,
    /// 32 hexadecimal digits: the id of the write that made it.
    Id(Uuid),
}

impl VersionId {
    /// Parses `null` or 32 hexadecimal digits, the only forms that are ever given out.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "null" {
            return Some(Self::Null);
        }
        let is_ours = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase());
        let id = Uuid::try_parse(text).ok().filter(|id| is_ours && !id.is_nil())?;
        Some(Self::Id(id))
    }

    /// As a parameter of the schema's functions, where NULL stands for the latest version.
    pub(super) fn parameter(self) -> Uuid {
        match self {
            Self::Null => Uuid::nil(),
            Self::Id(id) => id,
        }
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Id(id) => write!(f, "{}", id.simple()),
        }
    }
}

/// Whether new versions are kept beside old ones. A bucket that never had versioning has no such state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioning {
    /// Every write makes a version.
    Enabled,
    /// Writes replace the null version; those made before stay.
    Suspended,
}

impl Versioning {
    /// The name in S3's API and in the index.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "Enabled",
            Self::Suspended => "Suspended",
        }
    }

    /// Parses the API name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Enabled, Self::Suspended].into_iter().find(|state| state.as_str() == name)
    }
}

/// Who may end a retention early (AWS: "Object Lock retention modes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RetentionMode {
    /// Those who may bypass it.
    Governance,
    /// Nobody.
    Compliance,
}

impl RetentionMode {
    /// The name in S3's API and in the index.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Governance => "GOVERNANCE",
            Self::Compliance => "COMPLIANCE",
        }
    }

    /// Parses the API name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Governance, Self::Compliance].into_iter().find(|mode| mode.as_str() == name)
    }
}

/// A version's retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Who may end it early.
    pub mode: RetentionMode,
    /// Until when the version cannot be deleted.
    pub until: OffsetDateTime,
}

/// How long a bucket's new versions are retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionPeriod {
    /// Days.
    Days(u32),
    /// Calendar years.
    Years(u32),
}

/// What a bucket's new versions are retained by, unless they bring their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRetention {
    /// Who may end it early.
    pub mode: RetentionMode,
    /// How long.
    pub period: RetentionPeriod,
}

/// Tags of an object.
pub type Tags = BTreeMap<String, String>;

/// What a client sets on a version beside its attributes. Its JSON form is the parameter `p_settings` of the publishing
/// functions and the column `upload.settings`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VersionSettings {
    /// `x-amz-tagging`.
    #[serde(skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// Who was granted what; the protocol's form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acl: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_mode: Option<RetentionMode>,
    #[serde(skip_serializing_if = "Option::is_none", with = "time::serde::rfc3339::option")]
    retain_until: Option<OffsetDateTime>,
    /// `x-amz-object-lock-legal-hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub legal_hold: Option<bool>,
    /// Of an upload: who will own the object, where that is not who began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

impl VersionSettings {
    /// The same with a retention, or without.
    #[must_use]
    pub fn with_retention(self, retention: Option<Retention>) -> Self {
        Self { retention_mode: retention.map(|r| r.mode), retain_until: retention.map(|r| r.until), ..self }
    }

    /// Whether the version is locked in any way from the beginning.
    #[must_use]
    pub fn has_lock(&self) -> bool {
        self.retention_mode.is_some() || self.legal_hold.is_some()
    }
}

/// A version published.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// When, by the database server's clock.
    pub last_modified: OffsetDateTime,
    /// Which; `None` where the bucket never was versioned.
    pub version: Option<VersionId>,
}

/// What was found is a delete marker.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("version {version} is a delete marker")]
pub struct DeleteMarker {
    /// Its version.
    pub version: VersionId,
    /// When it was made.
    pub last_modified: OffsetDateTime,
    /// Whether it was named, else it is the latest version.
    pub named: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_ids_are_null_or_32_digits() {
        let id = "0190a0b0c0d07e0f8a1b2c3d4e5f6071";
        assert_eq!(VersionId::parse("null"), Some(VersionId::Null));
        assert_eq!(VersionId::parse(id).map(|v| v.to_string()).as_deref(), Some(id));
        for other in ["", "Null", "0190A0B0C0D07E0F8A1B2C3D4E5F6071", "0190a0b0-c0d0-7e0f-8a1b-2c3d4e5f6071", "0"] {
            assert_eq!(VersionId::parse(other), None, "{other}");
        }
        assert_eq!(VersionId::parse("00000000000000000000000000000000"), None);
    }

    #[test]
    fn settings_are_written_only_where_they_are_set() {
        assert_eq!(serde_json::to_string(&VersionSettings::default()).ok().as_deref(), Some("{}"));
        let until = time::macros::datetime!(2030-01-02 03:04:05 UTC);
        let retention = Retention { mode: RetentionMode::Governance, until };
        let settings = VersionSettings { legal_hold: Some(true), ..VersionSettings::default() };
        let settings = settings.with_retention(Some(retention));
        let json = serde_json::to_value(&settings).ok();
        let expected = serde_json::json!({
            "retention_mode": "GOVERNANCE", "retain_until": "2030-01-02T03:04:05Z", "legal_hold": true });
        assert_eq!(json.as_ref(), Some(&expected));
        assert_eq!(serde_json::from_value::<VersionSettings>(expected).ok(), Some(settings));
    }
}
