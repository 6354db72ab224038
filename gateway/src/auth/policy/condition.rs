//! Conditions of a statement: operators over the request's keys (AWS: "IAM JSON policy elements: Condition operators").
//!
//! Every condition of a statement has to hold; of the values of one key, one is enough (for the operators that deny
//! something: none may be). A key that the request lacks fulfils only the negated operators, `…IfExists` and `Null`.
//! Invariant: an operator that is not known never gets into a policy, so that none is ever skipped.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Context, pattern};

/// One operator applied to one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    set: Option<Set>,
    test: Test,
    negated: bool,
    if_exists: bool,
    key: String,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    All,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Equals,
    EqualsIgnoreCase,
    Like,
    Numeric(Order),
    Date(Order),
    Bool,
    Binary,
    Ip,
    Arn,
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// Operators, what they test, and whether that is negated.
const OPERATORS: &[(&str, Test, bool)] = &[
    ("stringequals", Test::Equals, false),
    ("stringnotequals", Test::Equals, true),
    ("stringequalsignorecase", Test::EqualsIgnoreCase, false),
    ("stringnotequalsignorecase", Test::EqualsIgnoreCase, true),
    ("stringlike", Test::Like, false),
    ("stringnotlike", Test::Like, true),
    ("numericequals", Test::Numeric(Order::Equal), false),
    ("numericnotequals", Test::Numeric(Order::Equal), true),
    ("numericlessthan", Test::Numeric(Order::Less), false),
    ("numericlessthanequals", Test::Numeric(Order::LessEqual), false),
    ("numericgreaterthan", Test::Numeric(Order::Greater), false),
    ("numericgreaterthanequals", Test::Numeric(Order::GreaterEqual), false),
    ("dateequals", Test::Date(Order::Equal), false),
    ("datenotequals", Test::Date(Order::Equal), true),
    ("datelessthan", Test::Date(Order::Less), false),
    ("datelessthanequals", Test::Date(Order::LessEqual), false),
    ("dategreaterthan", Test::Date(Order::Greater), false),
    ("dategreaterthanequals", Test::Date(Order::GreaterEqual), false),
    ("bool", Test::Bool, false),
    ("binaryequals", Test::Binary, false),
    ("ipaddress", Test::Ip, false),
    ("notipaddress", Test::Ip, true),
    ("arnequals", Test::Arn, false),
    ("arnlike", Test::Arn, false),
    ("arnnotequals", Test::Arn, true),
    ("arnnotlike", Test::Arn, true),
    ("null", Test::Null, false),
];

impl Condition {
    /// Reads an operator's name; keys are the same in both cases. `None`: no such operator, or a value it can't have.
    pub(super) fn parse(operator: &str, key: &str, values: Vec<String>) -> Option<Self> {
        let name = operator.to_ascii_lowercase();
        let (set, name) = if let Some(rest) = name.strip_prefix("forallvalues:") {
            (Some(Set::All), rest)
        } else if let Some(rest) = name.strip_prefix("foranyvalue:") {
            (Some(Set::Any), rest)
        } else {
            (None, name.as_str())
        };
        let (name, if_exists) = name.strip_suffix("ifexists").map_or((name, false), |name| (name, true));
        let (_, test, negated) = OPERATORS.iter().find(|(known, ..)| *known == name)?;
        if *test == Test::Null && (if_exists || set.is_some()) {
            return None;
        }
        let sound = |value: &String| match test {
            // Variables are texts: a condition on one could never hold, and a denial by it would be none.
            Test::Numeric(_) => value.parse::<f64>().is_ok_and(f64::is_finite),
            Test::Date(_) => date(value).is_some(),
            Test::Bool | Test::Null => ["true", "false"].contains(&value.to_ascii_lowercase().as_str()),
            Test::Ip => network(value).is_some(),
            Test::Binary => BASE64_STANDARD.decode(value).is_ok(),
            _ => true,
        };
        let sound = !values.is_empty() && values.iter().all(sound);
        // The same value twice says nothing, and costs as much again.
        let values: Vec<String> = BTreeSet::from_iter(values).into_iter().collect();
        sound.then(|| Self { set, test: *test, negated: *negated, if_exists, key: key.to_ascii_lowercase(), values })
    }

    /// Its values.
    pub(super) fn values(&self) -> &[String] {
        &self.values
    }

    /// The key that is looked at, lower case.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Whether it narrows to values without a wildcard: what makes a statement for everybody not public (AWS:
    /// "The meaning of public").
    pub(super) fn pins(&self, keys: &[&str]) -> bool {
        let fixed = |value: &String| match self.test {
            // A network as wide as the world is no restriction.
            Test::Ip => network(value).is_some_and(|(_, bits)| bits >= 8),
            Test::Equals | Test::EqualsIgnoreCase | Test::Like | Test::Arn => {
                // Whoever signs nothing has this user id.
                !value.contains(['*', '?']) && !value.contains("${") && !value.eq_ignore_ascii_case("anonymous")
            }
            Test::Numeric(_) | Test::Date(_) | Test::Bool | Test::Binary | Test::Null => false,
        };
        // `ForAllValues` holds where the request has no such key at all.
        !self.negated
            && !self.if_exists
            && self.set != Some(Set::All)
            && keys.contains(&self.key.as_str())
            && self.values.iter().all(fixed)
    }

    /// Whether the request fulfils it. `allow`: of a statement that allows something: of several values of a key that has one,
    /// all have to fulfil it there, any in one that denies.
    pub(super) fn holds(&self, context: &Context, variables: bool, allow: bool) -> bool {
        let given = context.values(&self.key);
        if self.test == Test::Null {
            let absent = given.is_none().to_string();
            return self.values.iter().any(|value| value.eq_ignore_ascii_case(&absent));
        }
        let Some(given) = given.filter(|given| !given.is_empty()) else {
            return match self.set {
                Some(Set::All) => true,
                Some(Set::Any) => self.if_exists,
                None => self.if_exists || self.negated,
            };
        };
        let one = |text: &String| {
            let found = self.values.iter().any(|value| self.test.passes(value, text, context, variables));
            found != self.negated
        };
        match self.set {
            Some(Set::All) => given.iter().all(one),
            None if allow => given.iter().all(one),
            Some(Set::Any) | None => given.iter().any(one),
        }
    }
}

impl Test {
    fn passes(self, value: &str, text: &str, context: &Context, variables: bool) -> bool {
        match self {
            Self::Equals => pattern::equals(value, text, context, variables),
            Self::EqualsIgnoreCase => pattern::text_of(value, text.len(), context, variables)
                .is_some_and(|value| value.to_lowercase() == text.to_lowercase()),
            Self::Like => pattern::matches(value, text, context, variables),
            Self::Arn => arn_matches(value, text, context, variables),
            Self::Numeric(order) => match (value.parse::<f64>(), text.parse::<f64>()) {
                (Ok(value), Ok(text)) => order.holds(text.partial_cmp(&value)),
                _ => false,
            },
            Self::Date(order) => match (date(value), date(text)) {
                (Some(value), Some(text)) => order.holds(Some(text.cmp(&value))),
                _ => false,
            },
            Self::Bool => value.eq_ignore_ascii_case(text),
            Self::Binary => value == text,
            Self::Ip => match (network(value), text.parse::<IpAddr>()) {
                (Some((network, bits)), Ok(address)) => within(address.to_canonical(), network, bits),
                _ => false,
            },
            Self::Null => false,
        }
    }
}

impl Order {
    fn holds(self, found: Option<std::cmp::Ordering>) -> bool {
        found.is_some_and(|found| match self {
            Self::Equal => found.is_eq(),
            Self::Less => found.is_lt(),
            Self::LessEqual => found.is_le(),
            Self::Greater => found.is_gt(),
            Self::GreaterEqual => found.is_ge(),
        })
    }
}

/// The parts between the first five colons are compared one by one, so that a `*` does not reach over them.
fn arn_matches(value: &str, text: &str, context: &Context, variables: bool) -> bool {
    let (values, texts) = (pattern::split(value, ':', 6, variables), text.splitn(6, ':').collect::<Vec<_>>());
    value == "*"
        || values.len() == texts.len()
            && values.iter().zip(texts).all(|(value, text)| pattern::matches(value, text, context, variables))
}

/// A date of RFC 3339, or seconds since 1970.
fn date(text: &str) -> Option<OffsetDateTime> {
    if let Ok(seconds) = text.parse::<i64>() {
        return OffsetDateTime::from_unix_timestamp(seconds).ok();
    }
    if text.len() == 10 {
        return OffsetDateTime::parse(&format!("{text}T00:00:00Z"), &Rfc3339).ok();
    }
    OffsetDateTime::parse(text, &Rfc3339).ok()
}

/// An address with the length of its prefix in bits.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some((address, bits))
}

fn within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, width: u32| bits == 0 || (a ^ b) >> (width - u32::from(bits)) == 0;
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => same(u32::from(a).into(), u32::from(n).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(n)) => same(a.into(), n.into(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(operator: &str, key: &str, values: &[&str]) -> bool {
        let mut context = Context::default();
        context.set("aws:SourceIp", "203.0.113.7");
        context.set("s3:prefix", "home/al");
        context.set("s3:max-keys", "10");
        context.set("aws:CurrentTime", "2026-07-01T12:00:00Z");
        context.set("aws:SecureTransport", "false");
        context.set("aws:PrincipalArn", "arn:aws:iam::111122223333:user/al");
        context.set("aws:username", "al");
        context.set_all("s3:RequestObjectTagKeys", ["a", "b"].map(String::from).to_vec());
        let values = values.iter().map(|v| (*v).to_owned()).collect();
        Condition::parse(operator, key, values).expect("an operator").holds(&context, true, false)
    }

    #[test]
    fn operators_do_what_their_names_say() {
        assert!(holds("StringEquals", "S3:Prefix", &["x", "home/${aws:username}"]));
        assert!(!holds("StringEquals", "s3:prefix", &["home/*"]) && holds("StringLike", "s3:prefix", &["home/*"]));
        assert!(holds("StringNotEquals", "s3:prefix", &["x"]) && !holds("StringNotLike", "s3:prefix", &["x", "h*"]));
        assert!(holds("StringEqualsIgnoreCase", "s3:prefix", &["HOME/AL"]));
        assert!(
            holds("NumericLessThanEquals", "s3:max-keys", &["10"]) && !holds("NumericLessThan", "s3:max-keys", &["10"])
        );
        assert!(
            holds("NumericGreaterThan", "s3:max-keys", &["9.5"]) && !holds("NumericNotEquals", "s3:max-keys", &["10"])
        );
        assert!(holds("DateLessThan", "aws:CurrentTime", &["2027-01-01T00:00:00Z"]));
        assert!(
            holds("DateGreaterThan", "aws:CurrentTime", &["2026-01-01"])
                && !holds("DateEquals", "aws:CurrentTime", &["0"])
        );
        assert!(holds("Bool", "aws:SecureTransport", &["false"]) && !holds("Bool", "aws:SecureTransport", &["true"]));
        assert!(
            holds("IpAddress", "aws:SourceIp", &["203.0.113.0/24"])
                && !holds("IpAddress", "aws:SourceIp", &["203.0.112.0/24"])
        );
        assert!(
            holds("NotIpAddress", "aws:SourceIp", &["10.0.0.0/8", "2001:db8::/32"])
                && holds("IpAddress", "aws:SourceIp", &["0.0.0.0/0"])
        );
        assert!(holds("ArnLike", "aws:PrincipalArn", &["arn:aws:iam::*:user/a?"]));
        assert!(!holds("ArnLike", "aws:PrincipalArn", &["arn:aws:*:user/al"]), "a star stays between its colons");
    }

    #[test]
    fn absent_keys_fulfil_only_what_asks_for_nothing() {
        for operator in
            ["StringEquals", "StringLike", "ArnLike", "ForAnyValue:StringEquals", "ForAnyValue:StringNotEquals"]
        {
            assert!(!holds(operator, "s3:nothing", &["x"]), "{operator}");
        }
        for operator in ["StringNotEquals", "StringEqualsIfExists", "ForAllValues:StringEquals", "StringNotLike"] {
            assert!(holds(operator, "s3:nothing", &["x"]), "{operator}");
        }
        assert!(holds("Null", "s3:nothing", &["true"]) && !holds("Null", "s3:nothing", &["false"]));
        assert!(holds("Null", "s3:prefix", &["false"]) && !holds("Null", "s3:prefix", &["true"]));
        assert!(!holds("StringEqualsIfExists", "s3:prefix", &["x"]));
    }

    #[test]
    fn sets_are_compared_value_by_value() {
        assert!(holds("ForAllValues:StringEquals", "s3:RequestObjectTagKeys", &["a", "b", "c"]));
        assert!(!holds("ForAllValues:StringEquals", "s3:RequestObjectTagKeys", &["a"]));
        assert!(holds("ForAnyValue:StringEquals", "s3:RequestObjectTagKeys", &["a"]));
        assert!(!holds("ForAnyValue:StringNotEquals", "s3:RequestObjectTagKeys", &["a", "b"]));
        assert!(!holds("ForAllValues:StringNotEquals", "s3:RequestObjectTagKeys", &["a"]));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let parse = |operator, value: &str| Condition::parse(operator, "k", vec![value.to_owned()]);
        assert!(parse("StringMatches", "x").is_none() && parse("NullIfExists", "true").is_none());
        assert!(parse("NumericEquals", "ten").is_none() && parse("IpAddress", "1.2.3.4/33").is_none());
        assert!(parse("Bool", "yes").is_none() && parse("DateEquals", "soon").is_none());
        assert!(Condition::parse("StringEquals", "k", Vec::new()).is_none());
    }
}
