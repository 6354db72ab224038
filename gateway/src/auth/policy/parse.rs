//! From a document to a policy, or to AWS's sentence about what is wrong with it.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::action::{self, Level};
use super::condition::Condition;
use super::{Policy, Principal, S3_ARN, Scope, Statement, condition_key, json, pattern};

/// Longest document, bytes (AWS: "Bucket policies are limited to 20 KB in size").
pub(super) const MAX_BYTES: usize = 20 * 1024;

/// What is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(String);

type Result<T> = std::result::Result<T, PolicyError>;

fn wrong<T>(message: impl Into<String>) -> Result<T> {
    Err(PolicyError(message.into()))
}

impl Policy {
    /// Reads the policy of a bucket: it names its principals, and nothing outside the bucket.
    ///
    /// # Errors
    /// AWS's sentence for `MalformedPolicy`.
    pub fn of_bucket(document: &str, bucket: &str) -> Result<Self> {
        Self::parse(document, Some(bucket))
    }

    /// Reads a policy to attach to users and groups: it names no principals.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn of_identity(document: &str) -> Result<Self> {
        Self::parse(document, None)
    }

    fn parse(document: &str, bucket: Option<&str>) -> Result<Self> {
        if document.len() > MAX_BYTES {
            return wrong("Policy exceeds the maximum allowed document size.");
        }
        if !document.trim_start().starts_with('{') {
            return wrong("Policies must be valid JSON and the first byte must be '{'");
        }
        let Some(Value::Object(fields)) = json::parse(document) else {
            return wrong("This policy contains invalid Json");
        };
        known(&fields, &["Version", "Id", "Statement"])?;
        let variables = match fields.get("Version") {
            None => false,
            Some(Value::String(version)) if version == "2008-10-17" => false,
            Some(Value::String(version)) if version == "2012-10-17" => true,
            Some(_) => return wrong("The policy must contain a valid version string"),
        };
        let statements: Vec<Statement> = match fields.get("Statement") {
            None => return wrong("Missing required field Statement"),
            Some(Value::Array(statements)) if statements.is_empty() => {
                return wrong("Could not parse the policy: Statement is empty!");
            }
            Some(Value::Array(statements)) => statements.iter().map(|s| statement(s, bucket)).collect::<Result<_>>()?,
            Some(one) => vec![statement(one, bucket)?],
        };
        check_ids(fields.get("Statement"))?;
        Ok(Self { statements, variables })
    }
}

/// A document in which principals are called otherwise: each name that is in the list, by what stands beside it. Of one that
/// names none of them, `None`.
#[must_use]
pub fn with_principals(document: &str, names: &BTreeMap<String, String>) -> Option<String> {
    let mut value = json::parse(document).filter(|_| !names.is_empty())?;
    let rename = |value: &mut Value| {
        if let Some(name) = value.as_str().and_then(|text| names.get(text)) {
            *value = Value::String(name.clone());
        }
    };
    let each = |value: &mut Value| match value {
        Value::Array(values) => values.iter_mut().for_each(rename),
        one => rename(one),
    };
    let statements: Vec<&mut Value> = match value.get_mut("Statement") {
        Some(Value::Array(statements)) => statements.iter_mut().collect(),
        one => one.into_iter().collect(),
    };
    for statement in statements {
        for element in ["Principal", "NotPrincipal"] {
            match statement.get_mut(element) {
                Some(Value::Object(kinds)) => kinds.get_mut("AWS").into_iter().for_each(each),
                other => other.into_iter().for_each(each),
            }
        }
    }
    Some(value.to_string())
}

fn known(fields: &Map<String, Value>, names: &[&str]) -> Result<()> {
    match fields.keys().find(|name| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => wrong(format!("Unknown field {}", name.escape_default())),
    }
}

/// Each statement that has an id has one of its own.
fn check_ids(statements: Option<&Value>) -> Result<()> {
    let statements = statements.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut seen = HashSet::new();
    for id in statements.iter().filter_map(|statement| statement.get("Sid")) {
        match id.as_str() {
            Some(id) if id.is_empty() || seen.insert(id) => {}
            Some(_) => return wrong("Statement IDs (SID) in a single policy must be unique."),
            None => return wrong("Invalid policy syntax."),
        }
    }
    Ok(())
}

fn statement(value: &Value, bucket: Option<&str>) -> Result<Statement> {
    let Value::Object(fields) = value else { return wrong("Invalid policy syntax.") };
    let names =
        ["Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"];
    known(fields, &names)?;
    let allow = match fields.get("Effect").and_then(Value::as_str) {
        Some("Allow") => true,
        Some("Deny") => false,
        Some(other) => return wrong(format!("Invalid effect: {}", other.escape_default())),
        None => return wrong("Missing required field Effect"),
    };
    let principals = match (bucket, element(fields, "Principal", "NotPrincipal")?) {
        (Some(_), None) => return wrong("Missing required field Principal"),
        (Some(_), Some((value, negated))) => Some(scope(principals(value)?, negated)),
        (None, None) => None,
        (None, Some(_)) => return wrong("A policy for users and groups names no Principal"),
    };
    let Some((actions, actions_negated)) = element(fields, "Action", "NotAction")? else {
        return wrong("Missing required field Action");
    };
    let actions = texts(actions).ok_or_else(|| PolicyError("Policy has invalid action".into()))?;
    let Some((resources, resources_negated)) = element(fields, "Resource", "NotResource")? else {
        return wrong("Missing required field Resource");
    };
    let resources = texts(resources).ok_or_else(|| PolicyError("Policy has invalid resource".into()))?;
    check_resources(&resources, bucket)?;
    check_actions(&actions, (!actions_negated && !resources_negated).then_some(&resources[..]), bucket.is_some())?;
    Ok(Statement {
        allow,
        principals,
        actions: scope(actions, actions_negated),
        resources: scope(resources, resources_negated),
        conditions: fields
            .get("Condition")
            .map(|found| conditions(found, bucket.is_none()))
            .transpose()?
            .unwrap_or_default(),
    })
}

/// An element in one of its forms, and whether that is the negated one.
fn element<'a>(fields: &'a Map<String, Value>, name: &str, negated: &str) -> Result<Option<(&'a Value, bool)>> {
    match (fields.get(name), fields.get(negated)) {
        (Some(_), Some(_)) => wrong(format!("A statement has either {name} or {negated}")),
        (Some(value), None) => Ok(Some((value, false))),
        (None, Some(value)) => Ok(Some((value, true))),
        (None, None) => Ok(None),
    }
}

fn scope<T>(values: Vec<T>, negated: bool) -> Scope<T> {
    if negated { Scope::NotIn(values) } else { Scope::In(values) }
}

/// A text or a list of texts, at least one.
fn texts(value: &Value) -> Option<Vec<String>> {
    let texts = match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(values) => values.iter().map(|v| v.as_str().map(ToOwned::to_owned)).collect::<Option<_>>()?,
        _ => return None,
    };
    (!texts.is_empty()).then_some(texts)
}

fn principals(value: &Value) -> Result<Vec<Principal>> {
    let invalid = || PolicyError("Invalid principal in policy".into());
    let aws = |name: String| if name == "*" { Principal::Everybody } else { Principal::Aws(name) };
    let Value::Object(kinds) = value else {
        // AWS takes `*` alone; a list is what several other servers take.
        return Ok(texts(value).ok_or_else(invalid)?.into_iter().map(aws).collect());
    };
    let mut found = Vec::new();
    for (kind, names) in kinds {
        let names = texts(names).ok_or_else(invalid)?;
        match kind.as_str() {
            "AWS" => found.extend(names.into_iter().map(aws)),
            "CanonicalUser" => found.extend(names.into_iter().map(Principal::Canonical)),
            "Service" | "Federated" => found.extend(names.into_iter().map(|_| Principal::Nobody)),
            _ => return Err(invalid()),
        }
    }
    if found.is_empty() { Err(invalid()) } else { Ok(found) }
}

/// Resources of S3; those of a bucket's policy lie in the bucket.
fn check_resources(resources: &[String], bucket: Option<&str>) -> Result<()> {
    for resource in resources {
        let sound = match (resource.strip_prefix(S3_ARN), bucket) {
            (Some(""), _) => false,
            (Some(path), Some(bucket)) => {
                let name = path.split_once('/').map_or(path, |(name, _)| name);
                // A pattern without a slash reaches into the bucket as well: `bucket*`.
                name == bucket || pattern::may_overlap(name, bucket)
            }
            (Some(_), None) => true,
            (None, None) => resource == "*",
            (None, Some(_)) => false,
        };
        if !sound {
            return wrong("Policy has invalid resource");
        }
    }
    Ok(())
}

/// Every action is one of S3, and is done to one of the resources.
fn check_actions(actions: &[String], resources: Option<&[String]>, bucket: bool) -> Result<()> {
    let reaches = |level: Level| {
        resources.is_none_or(|resources| {
            resources.iter().any(|resource| match level {
                Level::Account => resource == "*",
                Level::Bucket => !resource.contains('/') || !bucket && resource.ends_with('*'),
                Level::Object => resource.contains('/') || resource.contains('*'),
            })
        })
    };
    for pattern in actions {
        let levels = action::levels(pattern);
        // Policies for users may speak of other services; that does no harm.
        let foreign = !bucket && pattern.split_once(':').is_some_and(|(service, _)| service != "s3");
        if levels.is_empty() && !foreign {
            return wrong("Policy has invalid action");
        }
        if bucket && !levels.iter().any(|level| reaches(*level)) {
            return wrong("Action does not apply to any resource(s) in statement");
        }
    }
    Ok(())
}

/// `foreign`: whether keys of other services count.
fn conditions(value: &Value, foreign: bool) -> Result<Vec<Condition>> {
    let Value::Object(operators) = value else { return wrong("Invalid policy syntax.") };
    let mut found = Vec::new();
    for (operator, keys) in operators {
        let Value::Object(keys) = keys else { return wrong("Invalid policy syntax.") };
        for (key, values) in keys {
            if !condition_key::is_known(key, foreign) {
                return wrong("Policy has an invalid condition key");
            }
            let values = condition_values(values).ok_or_else(|| PolicyError("Invalid policy syntax.".into()))?;
            let condition = Condition::parse(operator, key, values);
            let shown = operator.escape_default();
            found.push(condition.ok_or_else(|| PolicyError(format!("Invalid Condition type : {shown}")))?);
        }
    }
    Ok(found)
}

/// Texts, numbers and truth values, one or a list.
fn condition_values(value: &Value) -> Option<Vec<String>> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    };
    match value {
        Value::Array(values) => values.iter().map(one).collect(),
        other => one(other).map(|value| vec![value]),
    }
}
