//! Patterns of policies: `*` stands for any text, `?` for one character, `${key}` for a value of the request.
//!
//! A variable's value is text, whatever it holds: a user named `*` is not everybody. `${*}`, `${?}` and `${$}` are those
//! characters themselves (AWS: "IAM policy elements: Variables and tags"). A variable without a value and without a
//! default matches nothing. Invariant: matching takes time in proportion to the lengths multiplied, never more.

use super::Context;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Literal(char),
    One,
    Any,
}

/// Whether a text is what a pattern says. `variables`: whether `${…}` means anything.
pub(super) fn matches(pattern: &str, text: &str, context: &Context, variables: bool) -> bool {
    tokens(pattern, context, variables, true).is_some_and(|tokens| fits(&tokens, text))
}

/// Whether a text is equal to a value in which only variables stand for something else.
pub(super) fn equals(value: &str, text: &str, context: &Context, variables: bool) -> bool {
    tokens(value, context, variables, false).is_some_and(|tokens| fits(&tokens, text))
}

/// Whether an action is what a pattern says; letters are the same in both cases.
pub(super) fn action_matches(pattern: &str, action: &str) -> bool {
    let (pattern, action) = (pattern.to_ascii_lowercase(), action.to_ascii_lowercase());
    matches(&pattern, &action, &Context::default(), false)
}

/// Whether two patterns without variables have a text in common, as far as a bucket's name needs it: decides by the
/// literal beginnings.
pub(super) fn may_overlap(pattern: &str, literal: &str) -> bool {
    matches(pattern, literal, &Context::default(), false)
}

fn tokens(pattern: &str, context: &Context, variables: bool, wildcards: bool) -> Option<Vec<Token>> {
    let mut tokens = Vec::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if variables && let Some((inside, after)) = rest.strip_prefix("${").and_then(|r| r.split_once('}')) {
            tokens.extend(variable(inside, context)?.chars().map(Token::Literal));
            rest = after;
            continue;
        }
        tokens.push(match c {
            '*' if wildcards => Token::Any,
            '?' if wildcards => Token::One,
            c => Token::Literal(c),
        });
        rest = &rest[c.len_utf8()..];
    }
    Some(tokens)
}

/// The text of `${inside}`.
fn variable(inside: &str, context: &Context) -> Option<String> {
    if matches!(inside, "*" | "?" | "$") {
        return Some(inside.to_owned());
    }
    let (key, default) = match inside.split_once(',') {
        Some((key, default)) => (key.trim(), Some(default.trim().trim_matches('\''))),
        None => (inside.trim(), None),
    };
    match context.values(key) {
        // More than one value has no text.
        Some([value]) => Some(value.clone()),
        _ => default.map(ToOwned::to_owned),
    }
}

fn fits(tokens: &[Token], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut read) = (0, 0);
    // Where to go on if the last `*` has to stand for one character more.
    let mut retry: Option<(usize, usize)> = None;
    while read < text.len() {
        match tokens.get(at) {
            Some(Token::Any) => {
                retry = Some((at, read));
                at += 1;
                continue;
            }
            Some(Token::One) => {
                (at, read) = (at + 1, read + 1);
                continue;
            }
            Some(Token::Literal(c)) if *c == text[read] => {
                (at, read) = (at + 1, read + 1);
                continue;
            }
            _ => {}
        }
        let Some((star, from)) = retry else { return false };
        retry = Some((star, from + 1));
        (at, read) = (star + 1, from + 1);
    }
    tokens[at..].iter().all(|token| *token == Token::Any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn context() -> Context {
        let mut context = Context::default();
        context.set("aws:username", "al*ce");
        context
    }

    #[test]
    fn wildcards_and_variables() {
        let m = |pattern, text| matches(pattern, text, &context(), true);
        assert!(m("arn:aws:s3:::b/*", "arn:aws:s3:::b/") && m("a?c", "abc") && m("*", "") && m("a*b*c", "a-b-b-c"));
        assert!(!m("a?c", "ac") && !m("a*b", "a-c") && !m("", "a"));
        assert!(m("home/${aws:username}/*", "home/al*ce/x"));
        assert!(!m("home/${aws:username}/*", "home/alice/x"), "a value is text, not a pattern");
        assert!(m("${*}${?}${$}", "*?$") && !m("${*}", "x"));
        assert!(!m("${aws:nothing}", "") && m("${aws:nothing, 'x'}", "x"));
        assert!(matches("${aws:username}", "${aws:username}", &context(), false));
        assert!(equals("a*", "a*", &context(), true) && !equals("a*", "ab", &context(), true));
        assert!(action_matches("s3:get*", "s3:GetObject") && !action_matches("s3:Put*", "s3:GetObject"));
    }

    proptest! {
        #[test]
        fn a_star_stands_for_anything(before in "[a-c]{0,5}", middle in "[a-c]{0,5}", after in "[a-c]{0,5}") {
            let pattern = format!("{before}*{after}");
            let text = format!("{before}{middle}{after}");
            prop_assert!(matches(&pattern, &text, &Context::default(), false));
        }

        #[test]
        fn a_pattern_without_marks_is_itself_alone(pattern in "[a-c]{0,4}", text in "[a-c]{0,4}") {
            prop_assert_eq!(matches(&pattern, &text, &Context::default(), true), pattern == text);
        }
    }
}
