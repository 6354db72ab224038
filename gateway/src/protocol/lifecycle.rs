//! Lifecycle rules of a bucket: GetBucketLifecycleConfiguration, PutBucketLifecycleConfiguration, DeleteBucketLifecycle
//! (AWS: "Lifecycle configuration elements").
//!
//! A document is checked whole before it is stored, and shown in the form in which it was written. Invariant: what is stored
//! is done; transitions to other storage classes, of which there are none, are refused. The rules are applied in the
//! background (`gc/lifecycle.rs`).

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};
use time::{OffsetDateTime, Time};
use uuid::Uuid;

use crate::storage::bucket_settings::Setting;
use crate::storage::lifecycle::{Expiration as Expires, Filter, FilterForm, Lifecycle, NoncurrentExpiration, Rule};
use crate::storage::types::MAX_KEY_BYTES;

use super::error::{malformed_xml, not_implemented};
use super::get_object::signed;
use super::{Answer, Gateway, bucket_settings, moment, names, parties, tagging};

/// Rules of one bucket.
const MAX_RULES: usize = 1000;
/// Longest name of a rule, in characters.
const MAX_ID_LENGTH: usize = 255;
/// Most past versions that a rule keeps.
const MAX_KEPT: i32 = 100;

/// GetBucketLifecycleConfiguration.
pub(super) async fn get(
    gateway: &Gateway,
    req: S3Request<GetBucketLifecycleConfigurationInput>,
) -> Answer<GetBucketLifecycleConfigurationOutput> {
    gateway.admit(&req)?;
    let stored: Option<Lifecycle> = bucket_settings::stored(gateway, &req.input.bucket, Setting::Lifecycle).await?;
    let lifecycle =
        stored.ok_or_else(|| s3_error!(NoSuchLifecycleConfiguration, "The lifecycle configuration does not exist"))?;
    let minimum = lifecycle.transition_minimum.map_or_else(default_minimum, TransitionDefaultMinimumObjectSize::from);
    Ok(S3Response::new(GetBucketLifecycleConfigurationOutput {
        rules: Some(lifecycle.rules.into_iter().map(shown).collect()),
        transition_default_minimum_object_size: Some(minimum),
    }))
}

/// PutBucketLifecycleConfiguration.
pub(super) async fn put(
    gateway: &Gateway,
    req: S3Request<PutBucketLifecycleConfigurationInput>,
) -> Answer<PutBucketLifecycleConfigurationOutput> {
    gateway.admit(&req)?;
    let rules = req.input.lifecycle_configuration.ok_or_else(malformed_xml)?.rules;
    let minimum = req.input.transition_default_minimum_object_size;
    if let Some(given) = minimum.as_ref().filter(|given| **given != default_minimum())
        && given.as_str() != TransitionDefaultMinimumObjectSize::VARIES_BY_STORAGE_CLASS
    {
        return Err(s3_error!(InvalidArgument, "Invalid value for x-amz-transition-default-minimum-object-size"));
    }
    let transition_minimum = minimum.as_ref().map(|given| given.as_str().to_owned());
    let lifecycle = Lifecycle { rules: checked(rules)?, transition_minimum };
    bucket_settings::store(gateway, &req.input.bucket, Setting::Lifecycle, &lifecycle).await?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(PutBucketLifecycleConfigurationOutput {
        transition_default_minimum_object_size: Some(minimum.unwrap_or_else(default_minimum)),
    }))
}

/// DeleteBucketLifecycle.
pub(super) async fn delete(
    gateway: &Gateway,
    req: S3Request<DeleteBucketLifecycleInput>,
) -> Answer<DeleteBucketLifecycleOutput> {
    gateway.admit(&req)?;
    bucket_settings::remove(gateway, &req.input.bucket, Setting::Lifecycle).await?;
    parties::forget(&req.extensions, &req.input.bucket);
    Ok(S3Response::new(DeleteBucketLifecycleOutput::default()))
}

fn default_minimum() -> TransitionDefaultMinimumObjectSize {
    TransitionDefaultMinimumObjectSize::from_static(TransitionDefaultMinimumObjectSize::ALL_STORAGE_CLASSES_128K)
}

fn invalid_argument(message: &'static str) -> S3Error {
    s3_error!(InvalidArgument, "{message}")
}

fn invalid_request(message: &'static str) -> S3Error {
    s3_error!(InvalidRequest, "{message}")
}

/// The rules of a document, each with a name.
fn checked(given: Vec<LifecycleRule>) -> S3Result<Vec<Rule>> {
    if given.is_empty() || given.len() > MAX_RULES {
        return Err(malformed_xml());
    }
    let mut ids = std::collections::HashSet::new();
    given
        .into_iter()
        .map(|rule| {
            let rule = checked_rule(rule)?;
            if !ids.insert(rule.id.clone()) {
                return Err(invalid_argument("Rule ID must be unique. Found same ID for more than one rule"));
            }
            Ok(rule)
        })
        .collect()
}

fn checked_rule(rule: LifecycleRule) -> S3Result<Rule> {
    let id = rule.id.filter(|id| !id.is_empty()).unwrap_or_else(|| Uuid::new_v4().simple().to_string());
    if id.chars().count() > MAX_ID_LENGTH {
        return Err(invalid_argument("ID length should not exceed allowed limit of 255"));
    }
    let enabled = match rule.status.as_str() {
        ExpirationStatus::ENABLED => true,
        ExpirationStatus::DISABLED => false,
        _ => return Err(malformed_xml()),
    };
    let filter = match (rule.prefix, rule.filter) {
        (Some(prefix), None) => Filter { form: FilterForm::RulePrefix, prefix: Some(prefix), ..Filter::default() },
        (None, Some(filter)) => checked_filter(filter)?,
        _ => return Err(malformed_xml()),
    };
    if filter.prefix.as_ref().is_some_and(|prefix| prefix.len() > MAX_KEY_BYTES) {
        return Err(invalid_request("The maximum size of a prefix is 1024."));
    }
    let transitions = rule.transitions.unwrap_or_default();
    let past_transitions = rule.noncurrent_version_transitions.unwrap_or_default();
    for date in transitions.iter().filter_map(|transition| transition.date.clone()) {
        checked_date(date)?;
    }
    if !transitions.is_empty() || !past_transitions.is_empty() {
        return Err(not_implemented("transitions to other storage classes"));
    }
    let checked = Rule {
        id,
        enabled,
        expiration: rule.expiration.map(|expiration| checked_expiration(expiration, &filter)).transpose()?,
        noncurrent: rule.noncurrent_version_expiration.map(checked_noncurrent).transpose()?,
        abort_upload_days: rule
            .abort_incomplete_multipart_upload
            .map(|abort| checked_abort(&abort, &filter))
            .transpose()?,
        filter,
    };
    if checked.expiration.is_none() && checked.noncurrent.is_none() && checked.abort_upload_days.is_none() {
        return Err(invalid_request("At least one action needs to be specified in a rule"));
    }
    Ok(checked)
}

fn checked_filter(given: LifecycleRuleFilter) -> S3Result<Filter> {
    let LifecycleRuleFilter { and, object_size_greater_than, object_size_less_than, prefix, tag } = given;
    let predicates = [
        and.is_some(),
        object_size_greater_than.is_some(),
        object_size_less_than.is_some(),
        prefix.is_some(),
        tag.is_some(),
    ];
    if predicates.into_iter().filter(|given| *given).count() > 1 {
        return Err(malformed_xml());
    }
    if let Some(and) = and {
        return checked_and(and);
    }
    Ok(Filter {
        form: FilterForm::Single,
        prefix,
        tags: tag.map(|tag| tagging::from_set(&vec![tag])).transpose()?.unwrap_or_default(),
        larger_than: object_size_greater_than.map(checked_size).transpose()?,
        smaller_than: object_size_less_than.map(checked_size).transpose()?,
    })
}

fn checked_and(and: LifecycleRuleAndOperator) -> S3Result<Filter> {
    let given = and.tags.unwrap_or_default();
    let tags = tagging::from_set(&given)?;
    let filter = Filter {
        form: FilterForm::And,
        prefix: and.prefix,
        larger_than: and.object_size_greater_than.map(checked_size).transpose()?,
        smaller_than: and.object_size_less_than.map(checked_size).transpose()?,
        tags,
    };
    if filter.prefix.is_none()
        && filter.tags.is_empty()
        && filter.larger_than.is_none()
        && filter.smaller_than.is_none()
    {
        return Err(malformed_xml());
    }
    if let (Some(larger), Some(smaller)) = (filter.larger_than, filter.smaller_than)
        && larger >= smaller
    {
        return Err(invalid_request("'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'"));
    }
    Ok(filter)
}

fn checked_size(size: i64) -> S3Result<u64> {
    u64::try_from(size).map_err(|_| invalid_request("Object sizes in a filter have to be non-negative"))
}

fn checked_date(date: Timestamp) -> S3Result<OffsetDateTime> {
    let date = moment::of_timestamp(date)?;
    if date.time() == Time::MIDNIGHT { Ok(date) } else { Err(invalid_argument("'Date' must be at midnight GMT")) }
}

fn positive(days: i32, message: &'static str) -> S3Result<u32> {
    u32::try_from(days).ok().filter(|days| *days > 0).ok_or_else(|| invalid_argument(message))
}

fn checked_expiration(given: LifecycleExpiration, filter: &Filter) -> S3Result<Expires> {
    match (given.days, given.date, given.expired_object_delete_marker) {
        (Some(days), None, None) => {
            Ok(Expires::Days(positive(days, "'Days' for Expiration action must be a positive integer")?))
        }
        (None, Some(date), None) => Ok(Expires::Date(checked_date(date)?.unix_timestamp())),
        (None, None, Some(_)) if !filter.tags.is_empty() => {
            Err(invalid_request("ExpiredObjectDeleteMarker cannot be specified with Tags."))
        }
        (None, None, Some(true)) => Ok(Expires::DeleteMarkers),
        (None, None, Some(false)) => Ok(Expires::Nothing),
        _ => Err(malformed_xml()),
    }
}

fn checked_noncurrent(given: NoncurrentVersionExpiration) -> S3Result<NoncurrentExpiration> {
    let days = given.noncurrent_days.ok_or_else(malformed_xml)?;
    let days = positive(days, "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer")?;
    let keep = given.newer_noncurrent_versions.map(|keep| {
        let message = "'NewerNoncurrentVersions' for NoncurrentVersionExpiration action must be between 1 and 100";
        if keep > MAX_KEPT { Err(invalid_argument(message)) } else { positive(keep, message) }
    });
    Ok(NoncurrentExpiration { days, keep: keep.transpose()? })
}

fn checked_abort(given: &AbortIncompleteMultipartUpload, filter: &Filter) -> S3Result<u32> {
    if !filter.tags.is_empty() {
        return Err(invalid_request("AbortIncompleteMultipartUpload cannot be specified with Tags."));
    }
    if filter.larger_than.is_some() || filter.smaller_than.is_some() {
        return Err(invalid_request("AbortIncompleteMultipartUpload cannot be specified with object size."));
    }
    let days = given.days_after_initiation.ok_or_else(malformed_xml)?;
    positive(days, "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer")
}

/// A rule in a document.
fn shown(rule: Rule) -> LifecycleRule {
    let (prefix, filter) = match rule.filter.form {
        FilterForm::RulePrefix => (rule.filter.prefix, None),
        FilterForm::Single | FilterForm::And => (None, Some(shown_filter(rule.filter))),
    };
    let days = |days: u32| i32::try_from(days).unwrap_or(i32::MAX);
    LifecycleRule {
        id: Some(rule.id),
        status: ExpirationStatus::from_static(if rule.enabled {
            ExpirationStatus::ENABLED
        } else {
            ExpirationStatus::DISABLED
        }),
        prefix: prefix.as_deref().map(text),
        filter,
        expiration: rule.expiration.map(|expiration| match expiration {
            Expires::Days(n) => LifecycleExpiration { days: Some(days(n)), ..Default::default() },
            Expires::Date(at) => {
                let date = OffsetDateTime::from_unix_timestamp(at).unwrap_or(OffsetDateTime::UNIX_EPOCH);
                LifecycleExpiration { date: Some(date.into()), ..Default::default() }
            }
            Expires::DeleteMarkers | Expires::Nothing => LifecycleExpiration {
                expired_object_delete_marker: Some(expiration == Expires::DeleteMarkers),
                ..Default::default()
            },
        }),
        noncurrent_version_expiration: rule.noncurrent.map(|action| NoncurrentVersionExpiration {
            noncurrent_days: Some(days(action.days)),
            newer_noncurrent_versions: action.keep.map(days),
        }),
        abort_incomplete_multipart_upload: rule
            .abort_upload_days
            .map(|n| AbortIncompleteMultipartUpload { days_after_initiation: Some(days(n)) }),
        noncurrent_version_transitions: None,
        transitions: None,
    }
}

fn shown_filter(filter: Filter) -> LifecycleRuleFilter {
    let tags = (!filter.tags.is_empty()).then(|| tagging::tag_set(&filter.tags));
    let (prefix, larger, smaller) =
        (filter.prefix.as_deref().map(text), filter.larger_than.map(signed), filter.smaller_than.map(signed));
    if filter.form == FilterForm::And {
        let and =
            LifecycleRuleAndOperator { object_size_greater_than: larger, object_size_less_than: smaller, prefix, tags };
        return LifecycleRuleFilter { and: Some(and), ..Default::default() };
    }
    LifecycleRuleFilter {
        and: None,
        object_size_greater_than: larger,
        object_size_less_than: smaller,
        prefix,
        tag: tags.and_then(|tags| tags.into_iter().next()),
    }
}

fn text(prefix: &str) -> String {
    names::xml_text(prefix).into_owned()
}
