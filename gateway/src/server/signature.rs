//! The form of a request's proof, checked before s3s parses it, so that what is wrong with it is said as S3 says it.
//!
//! Nothing is let in here: s3s verifies every signature. A proof that passes may still be refused by it, one that is refused
//! here s3s would refuse as well, in other words. Invariant: at most one proof reaches s3s.
//! Source of the rules: AWS, "Authenticating Requests (AWS Signature Version 4)"; of the sentences, what S3 answers.

use std::borrow::Cow;

use http::{HeaderMap, header};
use s3s::{S3Error, S3ErrorCode, S3Result, s3_error};
use time::format_description::FormatItem;
use time::macros::format_description;
use time::{Date, Duration, OffsetDateTime, PrimitiveDateTime};

use super::sub_resources::{self, decoded};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const LONG_DATE: &[FormatItem<'_>] = format_description!("[year][month][day]T[hour][minute][second]Z");
const SHORT_DATE: &[FormatItem<'_>] = format_description!("[year][month][day]");
/// How far clocks may be apart; s3s holds the same.
pub(super) const MAX_SKEW: Duration = Duration::minutes(15);
/// The longest life of a presigned URL, seconds.
const MAX_EXPIRES: i64 = 604_800;

/// Checks the form of whatever proof a request has; one that has none passes.
pub(super) fn check(headers: &HeaderMap, query: Option<&str>, region: &str, sigv2: bool) -> S3Result<()> {
    let query = Query(query.unwrap_or_default());
    let presigned = sub_resources::keys(query.0)
        .any(|key| matches!(&*key, "X-Amz-Algorithm" | "X-Amz-Signature" | "X-Amz-Credential"));
    match headers.get(header::AUTHORIZATION) {
        Some(_) if presigned || query.has("Signature") => Err(two_proofs()),
        None if presigned && query.has("Signature") => Err(two_proofs()),
        Some(proof) => of_header(proof.to_str().unwrap_or_default().trim(), headers, region, sigv2),
        None if presigned => of_query(&query, region),
        None => only_plain(headers),
    }
}

fn two_proofs() -> S3Error {
    s3_error!(
        InvalidArgument,
        "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string parameter or the \
         Authorization header should be specified"
    )
}

fn of_header(proof: &str, headers: &HeaderMap, region: &str, sigv2: bool) -> S3Result<()> {
    if proof.is_empty() {
        return Err(s3_error!(AccessDenied, "Access Denied"));
    }
    let Some((algorithm, fields)) = proof.split_once(' ') else {
        return Err(s3_error!(
            InvalidArgument,
            "Authorization header is invalid -- one and only one ' ' (space) required"
        ));
    };
    match algorithm {
        ALGORITHM => {}
        "AWS" if sigv2 && fields.split_once(':').is_none_or(|(key, value)| key.is_empty() || value.is_empty()) => {
            return Err(s3_error!(
                InvalidArgument,
                "AWS authorization header is invalid.  Expected AwsAccessKeyId:signature"
            ));
        }
        "AWS" if sigv2 => return only_plain(headers),
        other if other.starts_with("AWS") => {
            return Err(s3_error!(
                InvalidRequest,
                "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256."
            ));
        }
        _ => return Err(s3_error!(InvalidArgument, "Unsupported Authorization Type")),
    }
    let field = |name: &str| {
        let pairs = fields.split(',').filter_map(|pair| pair.trim().split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.trim())
    };
    let (Some(credential), Some(_), Some(_)) = (field("Credential"), field("SignedHeaders"), field("Signature")) else {
        return Err(WHERE_HEADER.malformed(
            "the authorization header requires three components: Credential, SignedHeaders, and Signature.",
        ));
    };
    let scope = Scope::parse(credential, region, &WHERE_HEADER)?;
    let date = headers.get("x-amz-date").and_then(|value| value.to_str().ok()).and_then(long_date);
    let date =
        date.ok_or_else(|| s3_error!(AccessDenied, "AWS authentication requires a valid Date or x-amz-date header"))?;
    scope.check_date(date, &WHERE_HEADER)?;
    if (OffsetDateTime::now_utc() - date).abs() > MAX_SKEW {
        return Err(s3_error!(
            RequestTimeTooSkewed,
            "The difference between the request time and the current time is too large."
        ));
    }
    check_payload_hash(headers)
}

/// Bodies in chunks of their own framing are taken apart by who verifies a signature of version 4; without one they would be
/// stored as they came.
fn only_plain(headers: &HeaderMap) -> S3Result<()> {
    match headers.get("x-amz-content-sha256") {
        Some(hash) if hash.as_bytes().starts_with(b"STREAMING-") => {
            Err(s3_error!(NotImplemented, "aws-chunked bodies need an Authorization header of AWS4-HMAC-SHA256"))
        }
        _ => Ok(()),
    }
}

fn check_payload_hash(headers: &HeaderMap) -> S3Result<()> {
    let Some(hash) = headers.get("x-amz-content-sha256") else {
        return Err(s3_error!(InvalidRequest, "Missing required header for this request: x-amz-content-sha256"));
    };
    let hash = hash.as_bytes();
    let is_sha256 = hash.len() == 64 && hash.iter().all(u8::is_ascii_hexdigit);
    if is_sha256 || hash == b"UNSIGNED-PAYLOAD" || hash.starts_with(b"STREAMING-") {
        return Ok(());
    }
    Err(s3_error!(
        InvalidArgument,
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, \
         STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value."
    ))
}

fn of_query(query: &Query<'_>, region: &str) -> S3Result<()> {
    let value = |name: &str| query.get(name).filter(|value| !value.is_empty());
    let (Some(algorithm), Some(credential), Some(_), Some(date), Some(_), Some(expires)) = (
        value("X-Amz-Algorithm"),
        value("X-Amz-Credential"),
        value("X-Amz-Signature"),
        value("X-Amz-Date"),
        value("X-Amz-SignedHeaders"),
        value("X-Amz-Expires"),
    ) else {
        return Err(WHERE_QUERY.error(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, \
             X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
        ));
    };
    if algorithm != ALGORITHM {
        return Err(WHERE_QUERY.error("X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\""));
    }
    let scope = Scope::parse(&credential, region, &WHERE_QUERY)?;
    let date = long_date(&date)
        .ok_or_else(|| WHERE_QUERY.error("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\""))?;
    let expires: i64 = expires.parse().map_err(|_| WHERE_QUERY.error("X-Amz-Expires should be a number"))?;
    if expires < 0 {
        return Err(WHERE_QUERY.error("X-Amz-Expires must be non-negative"));
    }
    if expires > MAX_EXPIRES {
        return Err(WHERE_QUERY.error(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than \
             604800 seconds",
        ));
    }
    scope.check_date(date, &WHERE_QUERY)?;
    if date - OffsetDateTime::now_utc() > MAX_SKEW {
        return Err(s3_error!(AccessDenied, "Request is not valid yet"));
    }
    Ok(())
}

/// A moment, where it can be one of a request: S3 knows none before 1970.
fn long_date(text: &str) -> Option<OffsetDateTime> {
    let date = PrimitiveDateTime::parse(text, LONG_DATE).ok()?.assume_utc();
    (date >= OffsetDateTime::UNIX_EPOCH).then_some(date)
}

/// Where a proof stands decides how its mistakes are told.
struct Place {
    code: S3ErrorCode,
    prefix: &'static str,
    credential_prefix: &'static str,
}

const WHERE_HEADER: Place = Place {
    code: S3ErrorCode::AuthorizationHeaderMalformed,
    prefix: "The authorization header is malformed; ",
    credential_prefix: "The authorization header is malformed; ",
};
const WHERE_QUERY: Place = Place {
    code: S3ErrorCode::AuthorizationQueryParametersError,
    prefix: "",
    credential_prefix: "Error parsing the X-Amz-Credential parameter; ",
};

impl Place {
    fn error(&self, message: impl std::fmt::Display) -> S3Error {
        S3Error::with_message(self.code.clone(), message.to_string())
    }

    fn malformed(&self, message: impl std::fmt::Display) -> S3Error {
        self.error(format_args!("{}{message}", self.prefix))
    }

    fn bad_credential(&self, message: impl std::fmt::Display) -> S3Error {
        self.error(format_args!("{}{message}", self.credential_prefix))
    }
}

/// What a credential is good for.
struct Scope<'a> {
    date: &'a str,
}

impl<'a> Scope<'a> {
    fn parse(credential: &'a str, region: &str, place: &Place) -> S3Result<Self> {
        // An access key may hold slashes; the scope never does.
        let mut parts = credential.rsplitn(5, '/');
        let (Some(terminal), Some(service), Some(signed_for), Some(date), Some(_)) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(place.bad_credential(
                "the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
            ));
        };
        if terminal != "aws4_request" {
            let terminal = quotable(terminal);
            return Err(place.bad_credential(format_args!(
                "incorrect terminal \"{terminal}\". This endpoint uses \"aws4_request\"."
            )));
        }
        if service != "s3" {
            let service = quotable(service);
            return Err(
                place.bad_credential(format_args!("incorrect service \"{service}\". This endpoint belongs to \"s3\"."))
            );
        }
        if Date::parse(date, SHORT_DATE).is_err() {
            let date = quotable(date);
            return Err(place.bad_credential(format_args!(
                "incorrect date format \"{date}\". This date in the credential must be in the format \"yyyyMMdd\"."
            )));
        }
        if signed_for != region {
            let signed_for = quotable(signed_for);
            return Err(place.bad_credential(format_args!("the region '{signed_for}' is wrong; expecting '{region}'")));
        }
        Ok(Self { date })
    }

    fn check_date(&self, signed_at: OffsetDateTime, place: &Place) -> S3Result<()> {
        let day = signed_at.date().format(SHORT_DATE).unwrap_or_default();
        if self.date == day {
            return Ok(());
        }
        let date = self.date;
        Err(place.malformed(format_args!(
            "Invalid credential date \"{date}\". This date is not the same as X-Amz-Date: \"{day}\"."
        )))
    }
}

/// A text of a client that an error may quote: short, and such that XML can hold it.
fn quotable(text: &str) -> String {
    text.chars().take(64).map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}

/// The parameters of a query.
struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|(key, _)| decoded(key) == name).map(|(_, value)| decoded(value))
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn today() -> (String, String) {
        let now = OffsetDateTime::now_utc();
        (now.format(LONG_DATE).expect("a date"), now.format(SHORT_DATE).expect("a date"))
    }

    fn headers(proof: &str, date: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, proof.parse().expect("a value"));
        headers.insert("x-amz-date", date.parse().expect("a value"));
        headers.insert("x-amz-content-sha256", "UNSIGNED-PAYLOAD".parse().expect("a value"));
        headers
    }

    fn outcome(headers: &HeaderMap, query: &str) -> String {
        check(headers, Some(query), "us-east-1", false).map_or_else(|e| e.code().as_str().to_owned(), |()| "ok".into())
    }

    #[test]
    fn a_sound_proof_passes_wherever_it_stands() {
        let (long, short) = today();
        for key in ["AKID", "key/with/slashes"] {
            let scope = format!("{key}/{short}/us-east-1/s3/aws4_request");
            for separator in [", ", ",", " ,  "] {
                let fields = [format!("Credential={scope}"), "SignedHeaders=host".into(), "Signature=00".into()];
                let proof = format!("AWS4-HMAC-SHA256 {}", fields.join(separator));
                assert_eq!(outcome(&headers(&proof, &long), ""), "ok", "{proof}");
            }
            let query = format!(
                "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}&X-Amz-Date={long}&X-Amz-Expires=60\
                 &X-Amz-SignedHeaders=host&X-Amz-Signature=00",
                scope.replace('/', "%2F")
            );
            assert_eq!(outcome(&HeaderMap::new(), &query), "ok", "{query}");
        }
        assert_eq!(outcome(&HeaderMap::new(), "list-type=2"), "ok");
    }

    proptest! {
        #[test]
        fn checking_never_panics(proof in "(AWS4-HMAC-SHA256 )?[ -~]{0,80}", date in "[ -~]{0,20}", query in ".{0,80}") {
            let _ = outcome(&headers(&proof, &date), &query);
            let _ = outcome(&HeaderMap::new(), &format!("X-Amz-Algorithm=AWS4-HMAC-SHA256&{query}"));
        }
    }
}
