//! The `Range` header and `partNumber`: which bytes a reader asks for.
//!
//! S3 serves one byte range per request. A header that does not name exactly one well-formed range (another unit, several
//! ranges, `5-2`, garbage) is ignored and the whole object is sent with 200, as RFC 9110, 14.2 allows and S3 does.
//! Positions beyond 64 bits saturate: they lie beyond the end of every object. Parsing never fails.

use http::{HeaderMap, HeaderValue, header};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};

use crate::storage::types::{MAX_PART_NUMBER, RangeRequest};

use super::error::empty_headers_for_error;

/// Parses the value of a `Range` header; [`RangeRequest::Whole`] for one that S3 ignores.
pub(crate) fn parse(value: &str) -> RangeRequest {
    parse_single(value).unwrap_or(RangeRequest::Whole)
}

fn parse_single(value: &str) -> Option<RangeRequest> {
    let (unit, spec) = value.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = spec.trim().split_once('-')?;
    match (first.trim(), last.trim()) {
        ("", "") => None,
        ("", length) => Some(RangeRequest::Suffix { length: position(length)? }),
        (first, "") => Some(RangeRequest::From { first: position(first)? }),
        (first, last) => {
            let (first, last) = (position(first)?, position(last)?);
            (first <= last).then_some(RangeRequest::Between { first, last })
        }
    }
}

/// Digits only; a number too large for 64 bits is the largest one.
fn position(digits: &str) -> Option<u64> {
    let well_formed = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    well_formed.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// What a GetObject or HeadObject asks for.
pub(super) fn requested(headers: &HeaderMap, part_number: Option<i32>) -> S3Result<RangeRequest> {
    let range = headers.get(header::RANGE);
    match (range, part_number) {
        (Some(_), Some(_)) => {
            Err(s3_error!(InvalidRequest, "Cannot specify both Range header and partNumber query parameter"))
        }
        (None, Some(number)) => self::part_number(number).map(RangeRequest::Part),
        (Some(value), None) => Ok(value.to_str().map_or(RangeRequest::Whole, parse)),
        (None, None) => Ok(RangeRequest::Whole),
    }
}

/// Checks a part number: 1 to 10,000.
pub(super) fn part_number(number: i32) -> S3Result<u32> {
    match u32::try_from(number) {
        Ok(number @ 1..=MAX_PART_NUMBER) => Ok(number),
        _ => Err(s3_error!(InvalidArgument, "Part number must be an integer between 1 and 10000, inclusive")),
    }
}

/// The range of `x-amz-copy-source-range`, which must be complete: both ends, in order.
pub(super) fn copy_source_range(value: &str) -> S3Result<RangeRequest> {
    match parse_single(value) {
        Some(range @ RangeRequest::Between { .. }) => Ok(range),
        _ => Err(s3_error!(
            InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the \
             zero-based offsets of the first and last bytes to copy"
        )),
    }
}

/// 416 for a range outside an object of this size.
pub(super) fn not_satisfiable(request: RangeRequest, size: u64) -> S3Error {
    let mut error = match request {
        RangeRequest::Part(_) => {
            let code = S3ErrorCode::Custom("InvalidPartNumber".into());
            S3Error::with_message(code, "The requested partnumber is not satisfiable")
        }
        _ => s3_error!(InvalidRange, "The requested range is not satisfiable"),
    };
    error.set_status_code(http::StatusCode::RANGE_NOT_SATISFIABLE);
    let mut headers = empty_headers_for_error();
    if let Ok(value) = HeaderValue::try_from(format!("bytes */{size}")) {
        headers.insert(header::CONTENT_RANGE, value);
    }
    error.set_headers(headers);
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_well_formed_range_is_taken() {
        assert_eq!(parse("bytes=0-4"), RangeRequest::Between { first: 0, last: 4 });
        assert_eq!(parse("Bytes= 7-7 "), RangeRequest::Between { first: 7, last: 7 });
        assert_eq!(parse("bytes=9-"), RangeRequest::From { first: 9 });
        assert_eq!(parse("bytes=-5"), RangeRequest::Suffix { length: 5 });
        assert_eq!(parse("bytes=-0"), RangeRequest::Suffix { length: 0 });
        let beyond = parse("bytes=1-99999999999999999999999");
        assert_eq!(beyond, RangeRequest::Between { first: 1, last: u64::MAX });
    }

    #[test]
    fn everything_else_is_ignored() {
        for value in
            ["", "bytes", "bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,3-4", "items=0-1", "bytes=a-b", "bytes=+1-2"]
        {
            assert_eq!(parse(value), RangeRequest::Whole, "{value}");
        }
    }

    #[test]
    fn copy_source_ranges_need_both_ends() {
        assert!(copy_source_range("bytes=0-0").is_ok());
        for value in ["bytes=0-", "bytes=-1", "0-2", "bytes=hello-world", "bytes=0-bar", "bytes=3-1"] {
            assert!(copy_source_range(value).is_err(), "{value}");
        }
    }

    #[test]
    fn part_numbers_are_1_to_10000() {
        assert!(part_number(0).is_err() && part_number(-1).is_err() && part_number(10_001).is_err());
        assert!(part_number(1).is_ok_and(|n| n == 1) && part_number(10_000).is_ok());
    }

    proptest! {
        #[test]
        fn parsing_never_panics(value in ".{0,60}", digits in "bytes=[0-9]{0,30}-[0-9]{0,30}(,[0-9]+-)?") {
            let _ = (parse(&value), parse(&digits));
        }
    }
}
