//! Storage errors as S3 errors: the only file that knows S3's codes for the engine's kinds.
//!
//! Every kind is named (no wildcard): a new kind does not compile until somebody has decided what a client sees. The
//! client gets S3's code, status and sentence; the cause goes to the log, once, here.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use s3s::stream::aws_chunked_stream::AwsChunkedStreamError;
use s3s::stream::upload_stream::UploadStreamError;
use s3s::{BodySizeLimitExceeded, S3Error, S3ErrorCode, s3_error};

use time::OffsetDateTime;

use crate::storage::version_types::DeleteMarker;
use crate::storage::{ErrorKind, StorageError};

/// Seconds after which a refused client may try again.
const RETRY_AFTER_SECONDS: &str = "1";

/// The body stopped: no byte arrived for as long as the configuration allows.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no byte of the request body arrived in time")]
pub(crate) struct BodyIdle;

/// Turns a failure of the engine into what the client sees.
pub(crate) fn from_storage(error: StorageError) -> S3Error {
    match error.kind() {
        ErrorKind::NoSuchBucket => s3_error!(NoSuchBucket, "The specified bucket does not exist"),
        ErrorKind::BucketAlreadyExists => s3_error!(
            BucketAlreadyExists,
            "The requested bucket name is not available. The bucket namespace is shared by all users of the system. \
             Please select a different name and try again."
        ),
        ErrorKind::BucketAlreadyOwnedByYou => s3_error!(
            BucketAlreadyOwnedByYou,
            "Your previous request to create the named bucket succeeded and you already own it."
        ),
        ErrorKind::BucketNotEmpty => s3_error!(BucketNotEmpty, "The bucket you tried to delete is not empty"),
        ErrorKind::NoSuchKey => s3_error!(NoSuchKey, "The specified key does not exist."),
        ErrorKind::NoSuchVersion => no_such_version(),
        ErrorKind::DeleteMarker => delete_marker(error.cause()),
        ErrorKind::Locked => s3_error!(AccessDenied, "Access Denied because object protected by object lock."),
        ErrorKind::NoObjectLock => no_object_lock(),
        ErrorKind::InvalidBucketState => s3_error!(
            InvalidBucketState,
            "The request is not valid for the current state of the bucket: object lock needs versioning to be enabled."
        ),
        ErrorKind::NoSuchUpload => no_such_upload(),
        ErrorKind::TokenOfAnother => custom(
            "IdempotencyParameterMismatch",
            StatusCode::BAD_REQUEST,
            "Parameters on this idempotent request are inconsistent with parameters used in previous request(s).",
        ),
        ErrorKind::PreconditionFailed => precondition_failed(),
        ErrorKind::InvalidPart => s3_error!(
            InvalidPart,
            "One or more of the specified parts could not be found. The part may not have been uploaded, or the \
             specified entity tag may not match the part's entity tag."
        ),
        ErrorKind::EntityTooSmall => {
            s3_error!(EntityTooSmall, "Your proposed upload is smaller than the minimum allowed size")
        }
        ErrorKind::EntityTooLarge => entity_too_large(),
        ErrorKind::IncompleteBody => incomplete_body(),
        ErrorKind::Body => from_body(error),
        ErrorKind::ChecksumMismatch => {
            s3_error!(BadDigest, "The checksum you specified did not match what we calculated.")
        }
        ErrorKind::SizeMismatch => {
            s3_error!(
                InvalidRequest,
                "The provided 'x-amz-mp-object-size' header value does not match what was computed"
            )
        }
        ErrorKind::BodyTimeout => request_timeout(),
        ErrorKind::Busy => slow_down(),
        ErrorKind::Unavailable => logged(&error, retry_later(S3ErrorCode::ServiceUnavailable, "Please try again.")),
        ErrorKind::NoSpace => {
            let code = S3ErrorCode::ServiceUnavailable;
            logged(&error, retry_later(code, "The service has no storage space left. Nothing was stored."))
        }
        // S3 asks clients to repeat after 500: a repeated PUT of the same bytes is right whichever way it went.
        ErrorKind::Indeterminate | ErrorKind::ReadInterrupted | ErrorKind::Internal => logged(&error, internal()),
    }
}

fn logged(error: &StorageError, answer: S3Error) -> S3Error {
    tracing::error!(error.kind = error.kind().as_str(), %error, "storage fails");
    answer
}

/// 500.
pub(crate) fn internal() -> S3Error {
    s3_error!(InternalError, "We encountered an internal error. Please try again.")
}

/// 503 for a client that may repeat at once.
pub(crate) fn slow_down() -> S3Error {
    retry_later(S3ErrorCode::SlowDown, "Please reduce your request rate.")
}

fn retry_later(code: S3ErrorCode, message: impl Into<Cow<'static, str>>) -> S3Error {
    let mut error = S3Error::with_message(code, message);
    error.set_status_code(StatusCode::SERVICE_UNAVAILABLE);
    let mut headers = empty_headers_for_error();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    error.set_headers(headers);
    error
}

/// The headers of an error that sets some of its own: s3s replaces all others with them.
pub(super) fn empty_headers_for_error() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    headers
}

/// 501 for a header or parameter that S3 knows and this release does not do.
pub(super) fn not_implemented(what: &str) -> S3Error {
    S3Error::with_message(
        S3ErrorCode::NotImplemented,
        format!("The request implies functionality that is not implemented: {what}"),
    )
}

/// A code that s3s does not know, with its status.
pub(crate) fn custom(code: &'static str, status: StatusCode, message: impl Into<Cow<'static, str>>) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(status);
    error
}

/// 412.
pub(super) fn precondition_failed() -> S3Error {
    s3_error!(PreconditionFailed, "At least one of the pre-conditions you specified did not hold")
}

/// 400 for a document that is none of S3's.
pub(crate) fn malformed_xml() -> S3Error {
    s3_error!(MalformedXML, "The XML you provided was not well-formed or did not validate against our published schema")
}

/// 404 for an upload id that names nothing.
pub(super) fn no_such_upload() -> S3Error {
    s3_error!(
        NoSuchUpload,
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or \
         completed."
    )
}

/// What is there is a delete marker: 404 where it is the latest version, 405 where it was named.
fn delete_marker(marker: Option<&DeleteMarker>) -> S3Error {
    let mut headers = empty_headers_for_error();
    headers.insert("x-amz-delete-marker", HeaderValue::from_static("true"));
    if let Some(version) = marker.and_then(|m| HeaderValue::from_str(&m.version.to_string()).ok()) {
        headers.insert("x-amz-version-id", version);
    }
    let mut error = match marker {
        Some(DeleteMarker { named: false, .. }) => s3_error!(NoSuchKey, "The specified key does not exist."),
        _ => {
            headers.insert(header::ALLOW, HeaderValue::from_static("DELETE"));
            s3_error!(MethodNotAllowed, "The specified method is not allowed against this resource.")
        }
    };
    if let Some(time) = marker.filter(|m| m.named).and_then(|m| http_date(m.last_modified)) {
        headers.insert(header::LAST_MODIFIED, time);
    }
    error.set_headers(headers);
    error
}

fn http_date(time: OffsetDateTime) -> Option<HeaderValue> {
    let format = time::macros::format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    HeaderValue::from_str(&time.to_offset(time::UtcOffset::UTC).format(format).ok()?).ok()
}

/// 400 for a lock in a bucket that has none.
pub(super) fn no_object_lock() -> S3Error {
    s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration")
}

/// 404 for a lock that a version does not have.
pub(super) fn not_locked() -> S3Error {
    s3_error!(NoSuchObjectLockConfiguration, "The specified object does not have a ObjectLock configuration")
}

/// 404 for a version that is not there.
pub(super) fn no_such_version() -> S3Error {
    s3_error!(NoSuchVersion, "The specified version does not exist.")
}

fn entity_too_large() -> S3Error {
    s3_error!(EntityTooLarge, "Your proposed upload exceeds the maximum allowed size")
}

/// 400 for a body that ends before its time.
pub(crate) fn incomplete_body() -> S3Error {
    s3_error!(IncompleteBody, "You did not provide the number of bytes specified by the Content-Length HTTP header")
}

/// 400 for a client that was waited for too long.
pub(crate) fn request_timeout() -> S3Error {
    s3_error!(
        RequestTimeout,
        "Your socket connection to the server was not read from or written to within the timeout period."
    )
}

/// The error of a body stream: s3s's own verification, a limit, the idle timeout, or a connection that ended.
fn from_body(error: StorageError) -> S3Error {
    let Some(source) = error.into_source() else { return incomplete_body() };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(source.as_ref());
    while let Some(current) = cause {
        if let Some(answer) = body_cause(current) {
            return answer;
        }
        cause = current.source();
    }
    tracing::info!(error = %source, "request body ends early");
    incomplete_body()
}

fn body_cause(cause: &(dyn std::error::Error + 'static)) -> Option<S3Error> {
    if let Some(error) = cause.downcast_ref::<UploadStreamError>() {
        return match error {
            UploadStreamError::Underlying(_) => None,
            UploadStreamError::Sha256Mismatch => Some(custom(
                "XAmzContentSHA256Mismatch",
                StatusCode::BAD_REQUEST,
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            )),
            UploadStreamError::LengthMismatch | UploadStreamError::Incomplete => Some(incomplete_body()),
        };
    }
    if let Some(error) = cause.downcast_ref::<AwsChunkedStreamError>() {
        return match error {
            AwsChunkedStreamError::Underlying(_) => None,
            other => Some(chunked(&other.to_s3_error_code())),
        };
    }
    if cause.is::<BodySizeLimitExceeded>() {
        return Some(entity_too_large());
    }
    cause.is::<BodyIdle>().then(request_timeout)
}

fn chunked(code: &S3ErrorCode) -> S3Error {
    match code {
        S3ErrorCode::SignatureDoesNotMatch => s3_error!(
            SignatureDoesNotMatch,
            "The request signature we calculated does not match the signature you provided. Check your key and signing \
             method."
        ),
        S3ErrorCode::EntityTooLarge => entity_too_large(),
        _ => incomplete_body(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body_error(source: impl std::error::Error + Send + Sync + 'static) -> (String, Option<StatusCode>) {
        let error = from_storage(StorageError::new(ErrorKind::Body, source));
        (error.code().as_str().to_owned(), error.status_code())
    }

    #[test]
    fn body_errors_tell_what_was_wrong_with_the_body() {
        let sha256 = body_error(UploadStreamError::Sha256Mismatch);
        assert_eq!(sha256, ("XAmzContentSHA256Mismatch".into(), Some(StatusCode::BAD_REQUEST)));
        assert_eq!(body_error(AwsChunkedStreamError::SignatureMismatch).1, Some(StatusCode::FORBIDDEN));
        assert_eq!(body_error(AwsChunkedStreamError::Incomplete).0, "IncompleteBody");
        assert_eq!(body_error(UploadStreamError::Underlying(Box::new(BodyIdle))).0, "RequestTimeout");
        assert_eq!(body_error(std::io::Error::other("connection reset")).0, "IncompleteBody");
    }

    #[test]
    fn overload_asks_to_come_back() {
        let error = from_storage(ErrorKind::Busy.into());
        assert_eq!(error.status_code(), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert!(error.headers().is_some_and(|h| h.contains_key(header::RETRY_AFTER)));
    }
}
