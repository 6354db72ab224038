//! The checks every section shares, each failing with one sentence that names the setting and the mend.
//!
//! Sections call these in the order of their fields; the first failure is reported. Invariant: a message names the
//! full key as written in the file and prints limits in the units the file accepts.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::ConfigError;
use super::units::{format_duration, format_size};

pub(super) fn require(holds: bool, key: &str, demand: &str) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Invalid { key: key.to_owned(), demand: demand.to_owned() }) }
}

pub(super) fn require_range<T: PartialOrd + Display>(
    key: &str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<(), ConfigError> {
    let demand = format!("must be from {} to {}, not {value}", range.start(), range.end());
    require(range.contains(&value), key, &demand)
}

pub(super) fn require_size(key: &str, value: u64, range: RangeInclusive<u64>) -> Result<(), ConfigError> {
    let [least, most, actual] = [*range.start(), *range.end(), value].map(format_size);
    require(range.contains(&value), key, &format!("must be from {least} to {most}, not {actual}"))
}

pub(super) fn require_multiple(key: &str, value: u64, unit: u64) -> Result<(), ConfigError> {
    require(value.is_multiple_of(unit), key, &format!("must be a multiple of {unit} bytes, not {value}"))
}

pub(super) fn require_duration(key: &str, value: Duration, range: RangeInclusive<Duration>) -> Result<(), ConfigError> {
    let [least, most, actual] = [*range.start(), *range.end(), value].map(format_duration);
    require(range.contains(&value), key, &format!("must be from {least} to {most}, not {actual}"))
}
