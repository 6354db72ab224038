//! Cases from AWS's documented examples, and what holds for all policies.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn names(name: &str) -> PrincipalNames {
    PrincipalNames {
        canonical_id: format!("canonical-{name}"),
        names: vec![name.to_owned(), format!("arn:aws:iam::111122223333:user/{name}")],
    }
}

fn ask(policy: &Value, who: Option<&str>, action: &str, path: &str, facts: &[(&str, &str)]) -> Decision {
    let policy = Policy::of_bucket(&policy.to_string(), "bucket").expect("a policy");
    let (bucket, key) = path.split_once('/').map_or((path, None), |(bucket, key)| (bucket, Some(key)));
    let mut context = Context::default();
    for (name, value) in facts {
        context.set(name, *value);
    }
    let names = who.map(names);
    policy.decide(&Question { principal: names.as_ref(), action, bucket: Some(bucket), key, context: &context })
}

fn statement(extra: Value) -> Value {
    let mut statement = json!({
        "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/*"
    });
    for (name, value) in extra.as_object().expect("fields") {
        statement[name] = value.clone();
    }
    if let Value::Object(fields) = &mut statement {
        fields.retain(|_, value| !value.is_null());
    }
    statement
}

fn policy(statements: &[Value]) -> Value {
    json!({"Version": "2012-10-17", "Statement": statements})
}

/// "Bucket policy examples" and "Examples of policies with condition keys" of the S3 user guide, one by one.
#[test]
fn documented_examples_decide_as_documented() {
    let public_read = policy(&[statement(json!({"Action": ["s3:GetObject", "s3:GetObjectVersion"]}))]);
    assert_eq!(ask(&public_read, None, "s3:GetObject", "bucket/a/b", &[]), Decision::Allow);
    assert_eq!(ask(&public_read, None, "s3:PutObject", "bucket/a/b", &[]), Decision::Neutral);
    assert_eq!(ask(&public_read, None, "s3:GetObject", "other/a", &[]), Decision::Neutral);

    let secure = policy(&[statement(json!({
        "Effect": "Deny", "Action": "s3:*", "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}}
    }))]);
    let insecure = [("aws:SecureTransport", "false")];
    assert_eq!(ask(&secure, Some("al"), "s3:ListBucket", "bucket", &insecure), Decision::Deny);
    assert_eq!(
        ask(&secure, Some("al"), "s3:GetObject", "bucket/x", &[("aws:SecureTransport", "true")]),
        Decision::Neutral
    );

    let folders = policy(&[statement(json!({
        "Principal": {"AWS": "arn:aws:iam::111122223333:user/al"}, "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket",
        "Condition": {"StringLike": {"s3:prefix": ["", "home/", "home/${aws:username}/*"]}}
    }))]);
    let prefix = |prefix| [("aws:username", "al"), ("s3:prefix", prefix)];
    assert_eq!(ask(&folders, Some("al"), "s3:ListBucket", "bucket", &prefix("home/al/x")), Decision::Allow);
    assert_eq!(ask(&folders, Some("al"), "s3:ListBucket", "bucket", &prefix("home/bo/")), Decision::Neutral);
    assert_eq!(ask(&folders, Some("bo"), "s3:ListBucket", "bucket", &prefix("home/")), Decision::Neutral);

    let addresses = policy(&[statement(json!({
        "Effect": "Deny", "Action": "s3:*",
        "Condition": {"NotIpAddress": {"aws:SourceIp": ["192.0.2.0/24", "2001:db8::/32"]}}
    }))]);
    assert_eq!(
        ask(&addresses, Some("al"), "s3:GetObject", "bucket/x", &[("aws:SourceIp", "192.0.2.9")]),
        Decision::Neutral
    );
    assert_eq!(
        ask(&addresses, Some("al"), "s3:GetObject", "bucket/x", &[("aws:SourceIp", "198.51.100.1")]),
        Decision::Deny
    );

    let referer = policy(&[statement(json!({
        "Condition": {"StringLike": {"aws:Referer": ["http://www.example.com/*", "http://example.com/*"]}}
    }))]);
    assert_eq!(
        ask(&referer, None, "s3:GetObject", "bucket/x", &[("aws:Referer", "http://example.com/p")]),
        Decision::Allow
    );
    assert_eq!(ask(&referer, None, "s3:GetObject", "bucket/x", &[]), Decision::Neutral);

    let tagged = policy(&[statement(json!({
        "Effect": "Deny", "Condition": {"StringNotEquals": {"s3:ExistingObjectTag/classification": "public"}}
    }))]);
    assert_eq!(ask(&tagged, Some("al"), "s3:GetObject", "bucket/x", &[]), Decision::Deny);
    let public = [("s3:ExistingObjectTag/classification", "public")];
    assert_eq!(ask(&tagged, Some("al"), "s3:GetObject", "bucket/x", &public), Decision::Neutral);

    let full_control = policy(&[
        statement(json!({"Principal": {"AWS": "al"}, "Action": "s3:PutObject"})),
        statement(json!({
            "Effect": "Deny", "Principal": {"AWS": "al"}, "Action": "s3:PutObject",
            "Condition": {"StringNotEquals": {"s3:x-amz-acl": "bucket-owner-full-control"}}
        })),
    ]);
    assert_eq!(ask(&full_control, Some("al"), "s3:PutObject", "bucket/x", &[]), Decision::Deny);
    let acl = [("s3:x-amz-acl", "bucket-owner-full-control")];
    assert_eq!(ask(&full_control, Some("al"), "s3:PutObject", "bucket/x", &acl), Decision::Allow);
}

#[test]
fn the_not_forms_mean_everything_else() {
    let others = policy(&[statement(json!({"Effect": "Deny", "Principal": null, "NotPrincipal": {"AWS": "al"}}))]);
    assert_eq!(ask(&others, Some("al"), "s3:GetObject", "bucket/x", &[]), Decision::Neutral);
    assert_eq!(ask(&others, None, "s3:GetObject", "bucket/x", &[]), Decision::Deny);
    let actions = policy(&[statement(json!({"Action": null, "NotAction": "s3:Delete*"}))]);
    assert_eq!(ask(&actions, None, "s3:PutObject", "bucket/x", &[]), Decision::Allow);
    assert_eq!(ask(&actions, None, "s3:DeleteObject", "bucket/x", &[]), Decision::Neutral);
    let resources = policy(&[statement(json!({"Resource": null, "NotResource": "arn:aws:s3:::bucket/private/*"}))]);
    assert_eq!(ask(&resources, None, "s3:GetObject", "bucket/x", &[]), Decision::Allow);
    assert_eq!(ask(&resources, None, "s3:GetObject", "bucket/private/x", &[]), Decision::Neutral);
}

#[test]
fn malformed_policies_are_told_what_is_wrong() {
    let cases = [
        (json!({"Statement": []}), "Could not parse the policy: Statement is empty!"),
        (json!({"Version": "2012-10-17"}), "Missing required field Statement"),
        (
            policy(&[statement(json!({"Sid": "one"})), statement(json!({"Sid": "one"}))]),
            "Statement IDs (SID) in a single policy must be unique.",
        ),
        (policy(&[statement(json!({"Sid": 1}))]), "Invalid policy syntax."),
        (json!({"Version": "1999", "Statement": []}), "The policy must contain a valid version string"),
        (policy(&[statement(json!({"Principal": null}))]), "Missing required field Principal"),
        (policy(&[statement(json!({"Principal": {"Nobody": "x"}}))]), "Invalid principal in policy"),
        (policy(&[statement(json!({"Principal": []}))]), "Invalid principal in policy"),
        (policy(&[statement(json!({"Effect": "allow"}))]), "Invalid effect: allow"),
        (policy(&[statement(json!({"Effect": null}))]), "Missing required field Effect"),
        (policy(&[statement(json!({"Action": "s3:Nothing"}))]), "Policy has invalid action"),
        (policy(&[statement(json!({"Action": "GetObject"}))]), "Policy has invalid action"),
        (policy(&[statement(json!({"Action": null}))]), "Missing required field Action"),
        (policy(&[statement(json!({"Resource": "arn:aws:s3:::other/*"}))]), "Policy has invalid resource"),
        (policy(&[statement(json!({"Resource": "bucket/*"}))]), "Policy has invalid resource"),
        (policy(&[statement(json!({"Resource": null}))]), "Missing required field Resource"),
        (
            policy(&[statement(json!({"Action": "s3:ListBucket"}))]),
            "Action does not apply to any resource(s) in statement",
        ),
        (
            policy(&[statement(json!({"Resource": "arn:aws:s3:::bucket"}))]),
            "Action does not apply to any resource(s) in statement",
        ),
        (
            policy(&[statement(json!({"Condition": {"StringMatches": {"s3:prefix": "x"}}}))]),
            "Invalid Condition type : StringMatches",
        ),
        (policy(&[statement(json!({"Surprise": 1}))]), "Unknown field Surprise"),
        (
            policy(&[statement(json!({"Condition": {"StringEquals": {"s3:nonsense": "x"}}}))]),
            "Policy has an invalid condition key",
        ),
        (
            policy(&[statement(json!({"Condition": {"StringEquals": {"prefix": "x"}}}))]),
            "Policy has an invalid condition key",
        ),
        (
            policy(&[statement(json!({"Condition": {"NumericEquals": {"s3:max-keys": "NaN"}}}))]),
            "Invalid Condition type : NumericEquals",
        ),
        (
            policy(&[statement(json!({"Condition": {"Bool": {"aws:SecureTransport": "${aws:username}"}}}))]),
            "Invalid Condition type : Bool",
        ),
    ];
    for (document, message) in cases {
        let error = Policy::of_bucket(&document.to_string(), "bucket").expect_err("malformed");
        assert_eq!(error.to_string(), message, "{document}");
    }
    let text = |text: &str| Policy::of_bucket(text, "bucket").expect_err("malformed").to_string();
    assert_eq!(text("[]"), "Policies must be valid JSON and the first byte must be '{'");
    assert_eq!(text("{,}"), "This policy contains invalid Json");
    assert_eq!(text(r#"{"Statement": [], "Statement": []}"#), "This policy contains invalid Json");
    assert!(text(&format!("{{{}}}", " ".repeat(parse::MAX_BYTES))).contains("size"));
    assert!(Policy::of_identity(&policy(&[statement(json!({}))]).to_string()).is_err(), "it names a principal");
}

#[test]
fn principals_are_called_by_other_names() {
    let names = [("al".to_owned(), "arn:aws:iam::1:user/al".to_owned())].into();
    let renamed = |principal: Value| {
        let document = policy(&[statement(json!({"Principal": principal}))]).to_string();
        let renamed = with_principals(&document, &names).expect("a policy");
        serde_json::from_str::<Value>(&renamed).expect("JSON")["Statement"][0]["Principal"].clone()
    };
    assert_eq!(renamed(json!("*")), json!("*"));
    assert_eq!(renamed(json!({"AWS": "al"})), json!({"AWS": "arn:aws:iam::1:user/al"}));
    assert_eq!(renamed(json!({"AWS": ["x", "al"]})), json!({"AWS": ["x", "arn:aws:iam::1:user/al"]}));
    assert_eq!(renamed(json!({"CanonicalUser": "al"})), json!({"CanonicalUser": "al"}));
    assert_eq!(with_principals("{}", &std::collections::BTreeMap::new()), None);
}

#[test]
fn public_is_what_anybody_can_use() {
    let public = |document: &Value| Policy::of_bucket(&document.to_string(), "bucket").expect("a policy").is_public();
    assert!(public(&policy(&[statement(json!({}))])));
    assert!(public(&policy(&[statement(json!({"Principal": {"AWS": "*"}}))])));
    assert!(!public(&policy(&[statement(json!({"Principal": {"AWS": "al"}}))])));
    assert!(!public(&policy(&[statement(json!({"Effect": "Deny"}))])));
    let when = |condition: Value| policy(&[statement(json!({"Condition": condition}))]);
    assert!(!public(&when(json!({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}))));
    assert!(public(&when(json!({"IpAddress": {"aws:SourceIp": "0.0.0.0/0"}}))));
    assert!(public(&when(json!({"StringEquals": {"s3:prefix": "x"}}))));
    assert!(public(&when(json!({"StringLike": {"aws:PrincipalArn": "*"}}))));
    assert!(public(&when(json!({"ForAllValues:StringEquals": {"aws:PrincipalArn": "arn:aws:iam::1:user/al"}}))));
    assert!(!public(&when(json!({"ForAnyValue:StringEquals": {"aws:PrincipalArn": "arn:aws:iam::1:user/al"}}))));
    assert!(public(&when(json!({"Null": {"aws:PrincipalArn": "true"}}))));
    assert!(public(&when(json!({"Null": {"aws:SourceIp": "false"}}))));
    assert!(public(&when(json!({"StringEquals": {"aws:userid": "anonymous"}}))));
}

const ACTIONS: &[&str] = &["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:Get*", "s3:*"];
const RESOURCES: &[&str] = &["arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/a*", "arn:aws:s3:::bucket/a"];
const WHO: &[&str] = &["*", "al", "bo"];

prop_compose! {
    fn any_statement()(allow: bool, who in 0..WHO.len(), action in 0..ACTIONS.len(), resource in 0..RESOURCES.len()) -> Value {
        statement(json!({
            "Effect": if allow { "Allow" } else { "Deny" }, "Principal": {"AWS": WHO[who]},
            "Action": ACTIONS[action], "Resource": RESOURCES[resource]
        }))
    }
}

proptest! {
    #[test]
    fn an_explicit_deny_always_wins(statements in prop::collection::vec(any_statement(), 1..6), at: prop::sample::Index, who in 0..3_usize) {
        let who = [None, Some("al"), Some("bo")][who];
        let mut statements = statements;
        statements.insert(at.index(statements.len()), statement(json!({"Effect": "Deny", "Action": "s3:*"})));
        prop_assert_eq!(ask(&policy(&statements), who, "s3:GetObject", "bucket/a", &[]), Decision::Deny);
    }

    #[test]
    fn no_statement_that_fits_means_no_access(statements in prop::collection::vec(any_statement(), 1..6)) {
        prop_assert_eq!(ask(&policy(&statements), Some("al"), "s3:ListBucket", "elsewhere", &[]), Decision::Neutral);
    }

    #[test]
    fn order_does_not_matter(statements in prop::collection::vec(any_statement(), 1..6), who in 0..3_usize) {
        let who = [None, Some("al"), Some("bo")][who];
        let reversed: Vec<Value> = statements.iter().rev().cloned().collect();
        let asked = |statements: &[Value]| ask(&policy(statements), who, "s3:GetObject", "bucket/a", &[]);
        prop_assert_eq!(asked(&statements), asked(&reversed));
    }

    #[test]
    fn a_statement_more_never_lifts_a_deny(statements in prop::collection::vec(any_statement(), 1..6), more in any_statement()) {
        let before = ask(&policy(&statements), Some("al"), "s3:GetObject", "bucket/a", &[]);
        let mut all = statements;
        all.push(more);
        let after = ask(&policy(&all), Some("al"), "s3:GetObject", "bucket/a", &[]);
        prop_assert!(before != Decision::Deny || after == Decision::Deny);
    }

    #[test]
    fn no_document_brings_the_parser_down(text in "\\PC{0,80}") {
        let _ = Policy::of_bucket(&text, "bucket");
        let _ = Policy::of_bucket(&format!("{{\"Statement\":{text}}}"), "bucket");
    }
}
