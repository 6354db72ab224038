//! Object lock: the configuration of buckets, retention and legal hold of versions, and the headers that set them.
//!
//! What is locked is kept by the database (triggers on `object`), not here. Whoever may bypass GOVERNANCE says so with
//! `x-amz-bypass-governance-retention: true`.

use http::HeaderMap;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::storage::types::{ObjectInfo, RangeRequest};
use crate::storage::version_types::{
    DefaultRetention as Default_, Retention, RetentionMode, RetentionPeriod, VersionSettings,
};

use super::error::{from_storage, malformed_xml, no_object_lock, not_locked};
use super::moment;
use super::{Answer, Gateway, names, tagging, versions};

/// Longest default retention: 100 years (AWS: "Object Lock considerations").
const MAX_DAYS: u32 = 36_500;
const MAX_YEARS: u32 = 100;

/// GetObjectLockConfiguration.
pub(super) async fn get_configuration(
    gateway: &Gateway,
    req: S3Request<GetObjectLockConfigurationInput>,
) -> Answer<GetObjectLockConfigurationOutput> {
    gateway.admit(&req)?;
    let bucket = gateway.storage.bucket(&names::bucket(&req.input.bucket)).await.map_err(from_storage)?;
    if !bucket.object_lock {
        return Err(s3_error!(
            ObjectLockConfigurationNotFoundError,
            "Object Lock configuration does not exist for this bucket"
        ));
    }
    let rule = bucket.default_retention.map(|default| {
        let (days, years) = match default.period {
            RetentionPeriod::Days(n) => (i32::try_from(n).ok(), None),
            RetentionPeriod::Years(n) => (None, i32::try_from(n).ok()),
        };
        let mode = Some(ObjectLockRetentionMode::from_static(default.mode.as_str()));
        ObjectLockRule { default_retention: Some(DefaultRetention { days, mode, years }) }
    });
    let enabled = Some(ObjectLockEnabled::from_static(ObjectLockEnabled::ENABLED));
    let configuration = ObjectLockConfiguration { object_lock_enabled: enabled, rule };
    Ok(S3Response::new(GetObjectLockConfigurationOutput { object_lock_configuration: Some(configuration) }))
}

/// PutObjectLockConfiguration.
pub(super) async fn put_configuration(
    gateway: &Gateway,
    req: S3Request<PutObjectLockConfigurationInput>,
) -> Answer<PutObjectLockConfigurationOutput> {
    gateway.admit(&req)?;
    let configuration = req.input.object_lock_configuration.ok_or_else(malformed_xml)?;
    if configuration.object_lock_enabled.as_ref().map(ObjectLockEnabled::as_str) != Some("Enabled") {
        return Err(malformed_xml());
    }
    let default = match configuration.rule {
        None => None,
        Some(rule) => Some(default_retention(&rule.default_retention.ok_or_else(malformed_xml)?)?),
    };
    gateway.storage.set_object_lock(&names::bucket(&req.input.bucket), default).await.map_err(from_storage)?;
    Ok(S3Response::new(PutObjectLockConfigurationOutput::default()))
}

fn default_retention(retention: &DefaultRetention) -> S3Result<Default_> {
    let mode = retention.mode.as_ref().and_then(|m| RetentionMode::parse(m.as_str())).ok_or_else(malformed_xml)?;
    let positive = |n: i32, max: u32| match u32::try_from(n) {
        Ok(n) if n > max => Err(s3_error!(InvalidArgument, "Default retention period too large")),
        Ok(n) if n > 0 => Ok(n),
        _ => Err(s3_error!(InvalidArgument, "Default retention period must be a positive integer value")),
    };
    let period = match (retention.days, retention.years) {
        (Some(days), None) => RetentionPeriod::Days(positive(days, MAX_DAYS)?),
        (None, Some(years)) => RetentionPeriod::Years(positive(years, MAX_YEARS)?),
        _ => return Err(malformed_xml()),
    };
    Ok(Default_ { mode, period })
}

/// GetObjectRetention.
pub(super) async fn get_retention(
    gateway: &Gateway,
    req: S3Request<GetObjectRetentionInput>,
) -> Answer<GetObjectRetentionOutput> {
    gateway.admit(&req)?;
    let info = locked_info(gateway, &req.input.bucket, &req.input.key, req.input.version_id.as_deref()).await?;
    let retention = info.retention.ok_or_else(not_locked)?;
    let retention = ObjectLockRetention {
        mode: Some(ObjectLockRetentionMode::from_static(retention.mode.as_str())),
        retain_until_date: Some(retention.until.into()),
    };
    Ok(S3Response::new(GetObjectRetentionOutput { retention: Some(retention) }))
}

/// PutObjectRetention; an empty one ends retention, where that may be.
pub(super) async fn put_retention(
    gateway: &Gateway,
    req: S3Request<PutObjectRetentionInput>,
) -> Answer<PutObjectRetentionOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    let retention = match req.input.retention {
        None | Some(ObjectLockRetention { mode: None, retain_until_date: None }) => None,
        Some(ObjectLockRetention { mode: Some(mode), retain_until_date: Some(until) }) => {
            let mode = RetentionMode::parse(mode.as_str()).ok_or_else(malformed_xml)?;
            Some(Retention { mode, until: in_the_future(until.into())? })
        }
        Some(_) => return Err(malformed_xml()),
    };
    let bypass = bypasses_governance(&req.headers);
    gateway.storage.set_retention(&object, retention, bypass).await.map_err(from_storage)?;
    Ok(S3Response::new(PutObjectRetentionOutput::default()))
}

/// GetObjectLegalHold.
pub(super) async fn get_legal_hold(
    gateway: &Gateway,
    req: S3Request<GetObjectLegalHoldInput>,
) -> Answer<GetObjectLegalHoldOutput> {
    gateway.admit(&req)?;
    let info = locked_info(gateway, &req.input.bucket, &req.input.key, req.input.version_id.as_deref()).await?;
    let status = hold_status(info.legal_hold.ok_or_else(not_locked)?);
    Ok(S3Response::new(GetObjectLegalHoldOutput { legal_hold: Some(ObjectLockLegalHold { status: Some(status) }) }))
}

/// PutObjectLegalHold.
pub(super) async fn put_legal_hold(
    gateway: &Gateway,
    req: S3Request<PutObjectLegalHoldInput>,
) -> Answer<PutObjectLegalHoldOutput> {
    gateway.admit(&req)?;
    let object = versions::object(&req.input.bucket, &req.input.key, req.input.version_id.as_deref())?;
    let status = req.input.legal_hold.and_then(|hold| hold.status).ok_or_else(malformed_xml)?;
    let hold = match status.as_str() {
        "ON" => true,
        "OFF" => false,
        _ => return Err(malformed_xml()),
    };
    gateway.storage.set_legal_hold(&object, hold).await.map_err(from_storage)?;
    Ok(S3Response::new(PutObjectLegalHoldOutput::default()))
}

/// A version in a bucket with object lock.
async fn locked_info(gateway: &Gateway, bucket: &str, key: &str, version: Option<&str>) -> S3Result<ObjectInfo> {
    let object = versions::object(bucket, key, version)?;
    if !gateway.storage.bucket(&object.bucket).await.map_err(from_storage)?.object_lock {
        return Err(no_object_lock());
    }
    Ok(gateway.storage.head(&object, RangeRequest::Whole).await.map_err(from_storage)?.info.clone())
}

/// What the headers of a write set on the version to be: tags, retention and legal hold.
pub(super) fn settings(headers: &HeaderMap) -> S3Result<VersionSettings> {
    let mut settings = VersionSettings::default().with_retention(retention(headers)?);
    settings.tags = tagging::of_header(headers)?;
    settings.legal_hold = hold(headers)?;
    Ok(settings)
}

fn retention(headers: &HeaderMap) -> S3Result<Option<Retention>> {
    let text = |name: &str| headers.get(name).map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
    match (text("x-amz-object-lock-mode"), text("x-amz-object-lock-retain-until-date")) {
        (None, None) => Ok(None),
        (Some(mode), Some(until)) => {
            let unknown = || s3_error!(InvalidArgument, "Unknown wormMode directive.");
            let mode = RetentionMode::parse(&mode).ok_or_else(unknown)?;
            let invalid = |_| s3_error!(InvalidArgument, "The retain until date must be provided in ISO 8601 format");
            let until = OffsetDateTime::parse(&until, &Rfc3339).map_err(invalid)?;
            Ok(Some(Retention { mode, until: in_the_future(until)? }))
        }
        _ => Err(s3_error!(
            InvalidArgument,
            "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"
        )),
    }
}

fn hold(headers: &HeaderMap) -> S3Result<Option<bool>> {
    match headers.get("x-amz-object-lock-legal-hold").map(http::HeaderValue::as_bytes) {
        None => Ok(None),
        Some(b"ON") => Ok(Some(true)),
        Some(b"OFF") => Ok(Some(false)),
        Some(_) => Err(s3_error!(InvalidArgument, "Legal Hold must be either of 'ON' or 'OFF'")),
    }
}

fn in_the_future(until: OffsetDateTime) -> S3Result<OffsetDateTime> {
    match moment::moment(until) {
        Some(until) if until > OffsetDateTime::now_utc() => Ok(until),
        Some(_) => Err(s3_error!(InvalidArgument, "The retain until date must be in the future!")),
        None => Err(s3_error!(InvalidArgument, "The retain until date must lie before the year 9999")),
    }
}

/// Whether the client asks to bypass retention in GOVERNANCE mode.
pub(super) fn bypasses_governance(headers: &HeaderMap) -> bool {
    headers.get("x-amz-bypass-governance-retention").is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"true"))
}

/// A legal hold as S3 writes it.
pub(super) fn hold_status(hold: bool) -> ObjectLockLegalHoldStatus {
    ObjectLockLegalHoldStatus::from_static(if hold { "ON" } else { "OFF" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn code(pairs: &[(&'static str, &'static str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        settings(&headers).map_or_else(|e| e.code().as_str().to_owned(), |s| s.has_lock().to_string())
    }

    #[test]
    fn a_lock_has_a_mode_and_a_future_end() {
        let (mode, until) = ("x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date");
        assert_eq!(code(&[]), "false");
        assert_eq!(code(&[(mode, "GOVERNANCE"), (until, "2999-01-01T00:00:00Z")]), "true");
        assert_eq!(code(&[(mode, "COMPLIANCE"), (until, "2999-01-01T00:00:00.123+02:00")]), "true");
        assert_eq!(code(&[(mode, "governance"), (until, "2999-01-01T00:00:00Z")]), "InvalidArgument");
        assert_eq!(code(&[(mode, "GOVERNANCE"), (until, "2001-01-01T00:00:00Z")]), "InvalidArgument");
        assert_eq!(code(&[(mode, "GOVERNANCE"), (until, "tomorrow")]), "InvalidArgument");
        assert_eq!(code(&[(mode, "GOVERNANCE")]), "InvalidArgument");
        assert_eq!(code(&[("x-amz-object-lock-legal-hold", "OFF")]), "true");
        assert_eq!(code(&[("x-amz-object-lock-legal-hold", "off")]), "InvalidArgument");
    }

    #[test]
    fn default_retention_has_one_positive_period() {
        let with = |days, years| {
            let mode = Some(ObjectLockRetentionMode::from_static("GOVERNANCE"));
            default_retention(&DefaultRetention { days, mode, years }).map_err(|e| e.code().as_str().to_owned())
        };
        let one_day = Default_ { mode: RetentionMode::Governance, period: RetentionPeriod::Days(1) };
        assert_eq!(with(Some(1), None), Ok(one_day));
        assert_eq!(with(Some(1), Some(1)), Err("MalformedXML".to_owned()));
        assert_eq!(with(None, None), Err("MalformedXML".to_owned()));
        assert_eq!(with(Some(0), None), Err("InvalidArgument".to_owned()));
        assert_eq!(with(None, Some(-1)), Err("InvalidArgument".to_owned()));
        assert_eq!(with(None, Some(101)), Err("InvalidArgument".to_owned()));
    }
}
