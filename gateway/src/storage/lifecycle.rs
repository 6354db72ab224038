//! Lifecycle rules: which versions a bucket stops keeping, and when. Pure: asked the same, they answer the same.
//!
//! Days are counted as S3 counts them: what was stored at some time of a day is due at the first midnight (UTC) after that
//! many whole days have passed (AWS: "Lifecycle configuration elements"). Invariant: a rule that is disabled, or whose
//! filter a version does not match, is as if it were not there; a delete marker has no tags and no size, so that no filter
//! on these matches it.

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime, Time};

use super::version_types::Tags;

/// What is configured on a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// All rules, in the order given.
    pub rules: Vec<Rule>,
    /// `x-amz-transition-default-minimum-object-size`, which says nothing as long as nothing moves to other storage classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transition_minimum: Option<String>,
}

/// One rule. Each of its actions stands for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Its name, unique among the bucket's rules.
    pub id: String,
    /// Whether it counts.
    pub enabled: bool,
    /// What it is about.
    pub filter: Filter,
    /// When current versions expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration: Option<Expiration>,
    /// When versions expire that newer ones took the place of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noncurrent: Option<NoncurrentExpiration>,
    /// Days after which a multipart upload that nobody finished is aborted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort_upload_days: Option<u32>,
}

/// What a rule is about: everything that matches all of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// How it was written, which is how it is shown.
    pub form: FilterForm,
    /// Keys begin with this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The object has all of these tags.
    #[serde(skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// It has more bytes than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub larger_than: Option<u64>,
    /// It has fewer bytes than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smaller_than: Option<u64>,
}

/// The ways to write a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterForm {
    /// One element in `Filter`, or none.
    #[default]
    Single,
    /// Several, in `Filter` and `And`.
    And,
    /// The rule's own `Prefix`, as in S3's first version of rules.
    RulePrefix,
}

/// When current versions expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expiration {
    /// After so many days; delete markers that nothing is left behind, too.
    Days(u32),
    /// At this moment, and whatever is stored later at once; Unix time in seconds.
    Date(i64),
    /// Never: delete markers go that nothing is left behind.
    DeleteMarkers,
    /// Nothing: said in so many words.
    Nothing,
}

/// When versions expire that newer ones took the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoncurrentExpiration {
    /// After so many days.
    pub days: u32,
    /// As many of the newest of them stay, however old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
}

/// What rules do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Current versions and delete markers expire.
    Expiration,
    /// Versions expire that newer ones took the place of.
    NoncurrentExpiration,
    /// Uploads are aborted.
    AbortUpload,
}

/// A version that rules are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its tags and its size; `None`: it is a delete marker.
    pub object: Option<(&'a Tags, u64)>,
    /// When it was stored.
    pub last_modified: OffsetDateTime,
}

impl Filter {
    fn matches_key(&self, key: &str) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix.as_str()))
    }

    fn matches(&self, candidate: &Candidate<'_>) -> bool {
        let Some((tags, size)) = candidate.object else {
            let of_objects = !self.tags.is_empty() || self.larger_than.is_some() || self.smaller_than.is_some();
            return !of_objects && self.matches_key(candidate.key);
        };
        self.matches_key(candidate.key)
            && self.tags.iter().all(|(key, value)| tags.get(key) == Some(value))
            && self.larger_than.is_none_or(|bound| size > bound)
            && self.smaller_than.is_none_or(|bound| size < bound)
    }
}

impl Lifecycle {
    fn enabled(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.enabled)
    }

    /// When an object that is the current version of its key expires, and by which rule: the earliest, if any.
    #[must_use]
    pub fn expires(&self, candidate: &Candidate<'_>) -> Option<(OffsetDateTime, &str)> {
        let due = |rule: &Rule| match rule.expiration? {
            Expiration::Days(days) => Some(days_after(candidate.last_modified, days)),
            Expiration::Date(at) => OffsetDateTime::from_unix_timestamp(at).ok(),
            Expiration::DeleteMarkers | Expiration::Nothing => None,
        };
        let matching = self.enabled().filter(|rule| candidate.object.is_some() && rule.filter.matches(candidate));
        matching.filter_map(|rule| Some((due(rule)?, rule.id.as_str()))).min_by_key(|(at, _)| *at)
    }

    /// Whether a delete marker that is all that its key has is to go by `now`.
    #[must_use]
    pub fn drops_marker(&self, marker: &Candidate<'_>, now: OffsetDateTime) -> bool {
        self.enabled().filter(|rule| rule.filter.matches(marker)).any(|rule| match rule.expiration {
            Some(Expiration::DeleteMarkers) => true,
            Some(Expiration::Days(days)) => days_after(marker.last_modified, days) <= now,
            Some(Expiration::Date(_) | Expiration::Nothing) | None => false,
        })
    }

    /// Whether a version is to go by `now` which another took the place of at `since`. `newer`: how many there are between
    /// it and the current version. Gives the number of newer ones that it may go with, at the least.
    #[must_use]
    pub fn drops_noncurrent(
        &self,
        past: &Candidate<'_>,
        since: OffsetDateTime,
        newer: u64,
        now: OffsetDateTime,
    ) -> Option<u32> {
        let actions = self.enabled().filter(|rule| rule.filter.matches(past)).filter_map(|rule| rule.noncurrent);
        let due = actions.filter(|action| days_after(since, action.days) <= now);
        due.map(|action| action.keep.unwrap_or(0)).filter(|keep| newer >= u64::from(*keep)).min()
    }

    /// When an upload is aborted if nobody finishes it, and by which rule: the earliest, if any.
    #[must_use]
    pub fn aborts_upload(&self, key: &str, initiated_at: OffsetDateTime) -> Option<(OffsetDateTime, &str)> {
        let matching = self.enabled().filter(|rule| rule.filter.matches_key(key));
        matching
            .filter_map(|rule| Some((days_after(initiated_at, rule.abort_upload_days?), rule.id.as_str())))
            .min_by_key(|(at, _)| *at)
    }

    /// The prefixes of the keys that rules with an action are about: in ascending order, none of them inside another.
    #[must_use]
    pub fn prefixes(&self, action: Action) -> Vec<&str> {
        let with_action = self.enabled().filter(|rule| match action {
            Action::Expiration => rule.expiration.is_some_and(|expiration| expiration != Expiration::Nothing),
            Action::NoncurrentExpiration => rule.noncurrent.is_some(),
            Action::AbortUpload => rule.abort_upload_days.is_some(),
        });
        let mut prefixes: Vec<_> = with_action.map(|rule| rule.filter.prefix.as_deref().unwrap_or_default()).collect();
        prefixes.sort_unstable();
        // Whatever lies inside another comes after it, with nothing between that does not lie inside it, too.
        prefixes.dedup_by(|next, kept| next.starts_with(*kept));
        prefixes
    }
}

/// The first midnight after so many days. What lies beyond all calendars never comes.
fn days_after(start: OffsetDateTime, days: u32) -> OffsetDateTime {
    let midnight = start.to_offset(time::UtcOffset::UTC).replace_time(Time::MIDNIGHT);
    midnight.checked_add(Duration::days(i64::from(days) + 1)).unwrap_or(time::macros::datetime!(9999-12-31 00:00 UTC))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use time::macros::datetime;

    const STORED: OffsetDateTime = datetime!(2014-01-15 10:30 UTC);

    fn rule(filter: Filter, expiration: Expiration) -> Lifecycle {
        let rule = Rule { id: "r".into(), enabled: true, filter, expiration: Some(expiration), ..Rule::default() };
        Lifecycle { rules: vec![rule], ..Lifecycle::default() }
    }

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn days_end_at_the_next_midnight() {
        // AWS's own example: stored on 15 January at 10:30, three days: 19 January, 00:00.
        assert_eq!(days_after(STORED, 3), datetime!(2014-01-19 00:00 UTC));
        assert_eq!(days_after(datetime!(2014-01-15 00:00 UTC), 1), datetime!(2014-01-17 00:00 UTC));
        assert_eq!(days_after(datetime!(2014-01-15 23:30 -1), 1), datetime!(2014-01-18 00:00 UTC));
        assert_eq!(days_after(STORED, u32::MAX), datetime!(9999-12-31 00:00 UTC));
    }

    #[test]
    fn all_of_a_filter_has_to_match() {
        let filter = Filter {
            prefix: Some("logs/".into()),
            tags: tags(&[("a", "1"), ("b", "2")]),
            larger_than: Some(10),
            smaller_than: Some(20),
            ..Filter::default()
        };
        let lifecycle = rule(filter, Expiration::Days(1));
        let expires = |key: &str, tags: &Tags, size| {
            lifecycle.expires(&Candidate { key, object: Some((tags, size)), last_modified: STORED }).is_some()
        };
        let both = tags(&[("a", "1"), ("b", "2"), ("c", "3")]);
        assert!(expires("logs/x", &both, 11));
        assert!(!expires("log/x", &both, 11));
        assert!(!expires("logs/x", &tags(&[("a", "1"), ("b", "3")]), 11));
        assert!(!expires("logs/x", &both, 10) && !expires("logs/x", &both, 20));
        let marker = Candidate { key: "logs/x", object: None, last_modified: STORED };
        assert!(!lifecycle.drops_marker(&marker, datetime!(2030-01-01 00:00 UTC)));
    }

    #[test]
    fn the_earliest_rule_counts() {
        let mut lifecycle = rule(Filter::default(), Expiration::Days(30));
        let date = datetime!(2014-01-20 00:00 UTC);
        lifecycle.rules.push(Rule {
            id: "date".into(),
            enabled: true,
            expiration: Some(Expiration::Date(date.unix_timestamp())),
            ..Rule::default()
        });
        lifecycle.rules.push(Rule {
            id: "off".into(),
            enabled: false,
            expiration: Some(Expiration::Days(1)),
            ..Rule::default()
        });
        let none = Tags::new();
        let candidate = Candidate { key: "k", object: Some((&none, 1)), last_modified: STORED };
        assert_eq!(lifecycle.expires(&candidate), Some((date, "date")));
    }

    #[test]
    fn the_newest_past_versions_may_be_kept() {
        let lifecycle = Lifecycle {
            rules: vec![Rule {
                enabled: true,
                noncurrent: Some(NoncurrentExpiration { days: 2, keep: Some(3) }),
                ..Rule::default()
            }],
            ..Lifecycle::default()
        };
        let past = Candidate { key: "k", object: None, last_modified: STORED };
        let drops = |newer, now| lifecycle.drops_noncurrent(&past, STORED, newer, now).is_some();
        assert!(drops(3, datetime!(2014-01-18 00:00 UTC)));
        assert!(!drops(2, datetime!(2014-01-18 00:00 UTC)));
        assert!(!drops(3, datetime!(2014-01-17 23:59 UTC)));
    }

    #[test]
    fn only_the_keys_of_rules_are_gone_through() {
        let of = |prefix: Option<&str>, enabled| Rule {
            enabled,
            filter: Filter { prefix: prefix.map(str::to_owned), ..Filter::default() },
            abort_upload_days: Some(1),
            ..Rule::default()
        };
        let rules = vec![of(Some("b/"), true), of(Some("a/x"), true), of(Some("a/"), true), of(Some("c"), false)];
        let mut lifecycle = Lifecycle { rules, ..Lifecycle::default() };
        assert_eq!(lifecycle.prefixes(Action::AbortUpload), ["a/", "b/"]);
        assert!(lifecycle.prefixes(Action::Expiration).is_empty());
        lifecycle.rules.push(of(None, true));
        assert_eq!(lifecycle.prefixes(Action::AbortUpload), [""]);
    }

    proptest! {
        #[test]
        fn nothing_expires_before_its_days_have_passed(seconds in 0_i64..4_000_000_000, days in 1_u32..4000) {
            let stored = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(STORED);
            let due = days_after(stored, days);
            prop_assert!(due - stored > Duration::days(days.into()));
            prop_assert!(due - stored <= Duration::days(i64::from(days) + 1));
            prop_assert_eq!(due.time(), Time::MIDNIGHT);
        }

        #[test]
        fn what_is_stored_is_read_back(days in 1_u32.., keep in proptest::option::of(1_u32..100), prefix in ".{0,20}") {
            let filter = Filter { prefix: Some(prefix), form: FilterForm::RulePrefix, ..Filter::default() };
            let mut lifecycle = rule(filter, Expiration::Days(days));
            lifecycle.rules.iter_mut().for_each(|r| r.noncurrent = Some(NoncurrentExpiration { days, keep }));
            let text = serde_json::to_string(&lifecycle).unwrap_or_default();
            prop_assert_eq!(serde_json::from_str::<Lifecycle>(&text).ok(), Some(lifecycle));
        }
    }
}
