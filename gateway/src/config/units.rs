//! Sizes and durations as people write them: `"16MiB"`, `"30s"`, `"7d"`.
//!
//! Settings are plain `u64` and [`Duration`] fields marked with `#[serde(with = "units::…")]`, so the
//! code that uses them never meets a configuration type. A size may also be a plain integer (bytes); a duration
//! always carries its unit, because a bare number would leave the reader guessing.
//! Invariant: what [`format_size`] and [`format_duration`] print, the parsers read back unchanged.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};

/// Size units with their factor in bytes, largest first for printing.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

/// Duration units with their length in milliseconds, largest first for printing.
const DURATION_UNITS: &[(&str, u64)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a size such as `"64KiB"`, `"1.5 GiB"` is not accepted: whole numbers only.
///
/// # Errors
/// A sentence that shows the accepted spelling.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse_with_unit(text, SIZE_UNITS, Some(1)).ok_or_else(|| {
        format!("`{text}` is not a size: write bytes as a number or a size such as \"64KiB\" or \"16MiB\"")
    })
}

/// Reads a duration such as `"500ms"`, `"30s"`, `"5m"`, `"2h"` or `"7d"`.
///
/// # Errors
/// A sentence that shows the accepted spelling.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    parse_with_unit(text, DURATION_UNITS, None).map(Duration::from_millis).ok_or_else(|| {
        format!("`{text}` is not a duration: write a number with its unit such as \"500ms\", \"30s\", \"5m\" or \"7d\"")
    })
}

/// `bytes` in the largest binary unit that divides it.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    format_with_unit(bytes, &SIZE_UNITS[..4], "B")
}

/// `duration` in the largest unit that divides it; below one millisecond it is cut off.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 { "0s".to_owned() } else { format_with_unit(millis, &DURATION_UNITS[..4], "ms") }
}

fn parse_with_unit(text: &str, units: &[(&str, u64)], bare: Option<u64>) -> Option<u64> {
    let trimmed = text.trim();
    let digits_end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(trimmed.len());
    let (digits, unit) = trimmed.split_at(digits_end);
    let number: u64 = digits.replace('_', "").parse().ok()?;
    let unit_name = unit.trim();
    let factor = if unit_name.is_empty() {
        if number == 0 { Some(1) } else { bare }
    } else {
        units.iter().find(|(name, _)| *name == unit_name).map(|(_, factor)| *factor)
    };
    number.checked_mul(factor?)
}

fn format_with_unit(value: u64, units: &[(&str, u64)], smallest: &str) -> String {
    let unit = units.iter().find(|(_, factor)| value >= *factor && value.is_multiple_of(*factor));
    unit.map_or_else(|| format!("{value}{smallest}"), |(name, factor)| format!("{}{name}", value / factor))
}

/// Accepts an integer or a string with a unit.
struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"16MiB\" or a number of bytes")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
        Ok(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
        u64::try_from(value).map_err(|_| E::custom("a size can't be negative"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<u64, E> {
        parse_size(value).map_err(E::custom)
    }
}

/// Accepts a string with a unit.
struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit such as \"30s\"")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Duration, E> {
        parse_duration(value).map_err(E::custom)
    }
}

/// `#[serde(with = "units::size")]` for `u64` fields holding bytes.
pub(super) mod size {
    use serde::{Deserializer, Serializer};

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_any(super::SizeVisitor)
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    pub(in crate::config) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format_size(*value))
    }
}

/// `#[serde(with = "units::duration")]` for [`Duration`] fields.
pub(super) mod duration {
    use std::time::Duration;

    use serde::{Deserializer, Serializer};

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        super::deserialize_duration(deserializer)
    }

    pub(in crate::config) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format_duration(*value))
    }
}

fn deserialize_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_str(DurationVisitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_binary_and_decimal_units() {
        assert_eq!(parse_size("64KiB"), Ok(65_536));
        assert_eq!(parse_size("16 MiB"), Ok(16 << 20));
        assert_eq!(parse_size("5MB"), Ok(5_000_000));
        assert_eq!(parse_size("2048"), Ok(2048));
        for wrong in ["", "KiB", "-1", "1.5MiB", "1XB", "99999999999TiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "30", "s", "1 week", "-3s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn printed_values_read_back_unchanged() {
        for bytes in [0, 1, 1023, 1024, 65_536, 16 << 20, (1 << 30) + 1] {
            assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
        for millis in [0, 1, 999, 1000, 90_000, 1_800_000, 604_800_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }
}
