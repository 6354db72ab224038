//! Moments that clients name.
//!
//! They may stand at any offset from UTC and have more digits than a second is counted in here; at the ends of time the one or
//! the other leads to a year that neither `time` nor the database's protocol can hold. Invariant: what goes on from here is
//! UTC, of the years 1 to 9998, in whole milliseconds (S3 shows no more).

use s3s::dto::Timestamp;
use s3s::{S3Result, s3_error};
use time::{OffsetDateTime, UtcOffset};

/// A moment as it is used; `None`: out of range.
pub(super) fn moment(given: impl Into<OffsetDateTime>) -> Option<OffsetDateTime> {
    let moment = given.into().checked_to_offset(UtcOffset::UTC)?;
    let millisecond = moment.millisecond();
    let moment = moment.replace_millisecond(millisecond).ok()?;
    (1..=9998).contains(&moment.year()).then_some(moment)
}

/// As [`moment`], of a document or a header that s3s has read.
///
/// # Errors
/// `InvalidArgument`.
pub(super) fn of_timestamp(given: Timestamp) -> S3Result<OffsetDateTime> {
    moment(OffsetDateTime::from(given))
        .ok_or_else(|| s3_error!(InvalidArgument, "A date has to lie between the years 1 and 9998"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use s3s::dto::TimestampFormat;
    use time::format_description::well_known::Rfc3339;

    fn shown(text: &str) -> Option<String> {
        let moment = moment(OffsetDateTime::parse(text, &Rfc3339).ok()?)?;
        moment.format(&Rfc3339).ok()
    }

    #[test]
    fn moments_are_utc_and_whole_milliseconds() {
        assert_eq!(shown("2030-01-01T00:00:00.1239999+02:00").as_deref(), Some("2029-12-31T22:00:00.123Z"));
        for text in ["9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59-23:00", "0000-01-01T00:00:00+23:00"] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_can_be_written_is_held_or_refused(text in "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])") {
            if let Ok(given) = Timestamp::parse(TimestampFormat::DateTime, &text) {
                let held = of_timestamp(given);
                prop_assert!(held.map_or(true, |moment| moment.offset().is_utc() && moment.nanosecond() % 1_000_000 == 0));
            }
        }
    }
}
