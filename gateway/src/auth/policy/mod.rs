//! Policies: documents in IAM's language that allow or deny actions on resources.
//!
//! [`Policy::parse`] reads a document once and refuses whatever it does not understand, in AWS's words; what it returns can
//! be evaluated without fail. [`Policy::decide`] is pure: a request's facts in, a [`Decision`] out. A statement has a say where
//! its principal, action and resource fit and all its conditions hold; of all statements that have a say, one that denies
//! decides (AWS: "Policy evaluation logic").
//! Invariant: no statement that fits means [`Decision::Neutral`], never access.

mod action;
mod condition;
mod condition_key;
mod context;
mod json;
mod parse;
mod pattern;

use condition::Condition;

pub use context::Context;
pub use parse::{PolicyError, with_principals};

/// How every resource of S3 is named.
const S3_ARN: &str = "arn:aws:s3:::";

/// What a policy says about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A statement allows it, and none denies it.
    Allow,
    /// A statement denies it.
    Deny,
    /// No statement has a say.
    Neutral,
}

impl Decision {
    /// The decision of two policies together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Deny, _) | (_, Self::Deny) => Self::Deny,
            (Self::Allow, _) | (_, Self::Allow) => Self::Allow,
            _ => Self::Neutral,
        }
    }
}

/// What a request wants to do.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// Names of who asks; `None`: nobody signed the request.
    pub principal: Option<&'a PrincipalNames>,
    /// `s3:GetObject`, …
    pub action: &'a str,
    /// The bucket, or `None` for all of them.
    pub bucket: Option<&'a str>,
    /// The key, where it is about an object.
    pub key: Option<&'a str>,
    /// Facts for conditions.
    pub context: &'a Context,
}

impl Question<'_> {
    fn resource(&self) -> String {
        match (self.bucket, self.key) {
            (None, _) => "*".to_owned(),
            (Some(bucket), None) => format!("{S3_ARN}{bucket}"),
            (Some(bucket), Some(key)) => format!("{S3_ARN}{bucket}/{key}"),
        }
    }
}

/// Whatever a policy may call somebody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrincipalNames {
    /// The canonical user id.
    pub canonical_id: String,
    /// ARNs, account number, user name.
    pub names: Vec<String>,
}

/// A policy that can be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    statements: Vec<Statement>,
    /// Whether `${…}` are variables: from version 2012-10-17 on.
    variables: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Statement {
    allow: bool,
    /// Of a bucket's policy; `None` in one that is attached to somebody.
    principals: Option<Scope<Principal>>,
    actions: Scope<String>,
    resources: Scope<String>,
    conditions: Vec<Condition>,
}

/// An element or its `Not` form.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope<T> {
    In(Vec<T>),
    NotIn(Vec<T>),
}

impl<T> Scope<T> {
    fn covers(&self, fits: impl Fn(&T) -> bool) -> bool {
        match self {
            Self::In(values) => values.iter().any(fits),
            Self::NotIn(values) => !values.iter().any(fits),
        }
    }

    fn values(&self) -> &[T] {
        let (Self::In(values) | Self::NotIn(values)) = self;
        values
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Principal {
    Everybody,
    Aws(String),
    Canonical(String),
    /// A service or a federated identity; nobody here is one.
    Nobody,
}

impl Policy {
    /// What the policy says.
    #[must_use]
    pub fn decide(&self, question: &Question<'_>) -> Decision {
        let resource = question.resource();
        let fitting = self.statements.iter().filter(|s| s.fits(question, &resource, self.variables));
        fitting.fold(Decision::Neutral, |decision, statement| {
            decision.and(if statement.allow { Decision::Allow } else { Decision::Deny })
        })
    }

    /// Whether it allows something to everybody (AWS: "The meaning of public").
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.statements.iter().any(Statement::is_public)
    }

    /// Whether a condition or a variable looks at a key that begins so (lower case).
    #[must_use]
    pub fn looks_at(&self, key: &str) -> bool {
        let variable = format!("${{{key}");
        let names = |text: &String| self.variables && text.to_ascii_lowercase().contains(&variable);
        let conditions = || self.statements.iter().flat_map(|s| &s.conditions);
        conditions().any(|c| c.key().starts_with(key) || c.values().iter().any(names))
            || self.statements.iter().any(|s| s.resources.values().iter().any(names))
    }

    /// The principals that it names by an AWS name or a canonical id.
    pub fn principals(&self) -> impl Iterator<Item = &str> {
        let all = self.statements.iter().filter_map(|s| s.principals.as_ref()).flat_map(Scope::values);
        all.filter_map(|principal| match principal {
            Principal::Aws(name) | Principal::Canonical(name) => Some(name.as_str()),
            Principal::Everybody | Principal::Nobody => None,
        })
    }
}

/// Conditions that tie a statement to somebody or some place.
const PINNING: &[&str] = &[
    "aws:principalarn",
    "aws:principalaccount",
    "aws:principalorgid",
    "aws:userid",
    "aws:username",
    "aws:sourceip",
    "aws:sourcearn",
    "aws:sourceaccount",
    "aws:sourcevpc",
    "aws:sourcevpce",
    "s3:dataaccesspointarn",
];

impl Statement {
    fn fits(&self, question: &Question<'_>, resource: &str, variables: bool) -> bool {
        let principal = self.principals.as_ref().is_none_or(|p| p.covers(|one| one.is(question.principal)));
        principal
            && self.actions.covers(|pattern| pattern::action_matches(pattern, question.action))
            && self.resources.covers(|pattern| pattern::matches(pattern, resource, question.context, variables))
            && self.conditions.iter().all(|condition| condition.holds(question.context, variables, self.allow))
    }

    fn is_public(&self) -> bool {
        let everybody = match &self.principals {
            None => false,
            Some(Scope::In(principals)) => principals.contains(&Principal::Everybody),
            Some(Scope::NotIn(_)) => true,
        };
        self.allow && everybody && !self.conditions.iter().any(|condition| condition.pins(PINNING))
    }
}

impl Principal {
    fn is(&self, asking: Option<&PrincipalNames>) -> bool {
        match (self, asking) {
            (Self::Everybody, _) => true,
            (Self::Aws(name), Some(asking)) => asking.names.contains(name) || asking.canonical_id == *name,
            (Self::Canonical(id), Some(asking)) => asking.canonical_id == *id,
            (Self::Nobody, _) | (_, None) => false,
        }
    }
}

#[cfg(test)]
mod tests;
