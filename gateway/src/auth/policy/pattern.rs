//! Patterns of policies: `*` stands for any text, `?` for one character, `${key}` for a value of the request.
//!
//! A variable's value is text, whatever it holds: a user named `*` is not everybody. `${*}`, `${?}` and `${$}` are those
//! characters themselves (AWS: "IAM policy elements: Variables and tags"). A variable without a value and without a
//! default matches nothing.
//! Invariant: matching takes time and memory in proportion to the lengths of pattern and text, whatever a request brings
//! for its variables; only what lies between two `*` and holds a `?` is searched 64 characters at a time.

use std::collections::HashMap;

use super::Context;

/// What a pattern has between two `*`: literal characters, `None` for any one of them.
type Segment = Vec<Option<char>>;

/// Whether a text is what a pattern says. `variables`: whether `${…}` means anything.
pub(super) fn matches(pattern: &str, text: &str, context: &Context, variables: bool) -> bool {
    let text: Vec<char> = text.chars().collect();
    segments(pattern, text.len(), context, variables, true).is_some_and(|segments| fits(&segments, &text))
}

/// Whether a text is equal to a value in which only variables stand for something else.
pub(super) fn equals(value: &str, text: &str, context: &Context, variables: bool) -> bool {
    let text: Vec<char> = text.chars().collect();
    segments(value, text.len(), context, variables, false).is_some_and(|segments| fits(&segments, &text))
}

/// A value with its variables in place. `None`: one has no value, or there is more than a text of `most` bytes holds.
pub(super) fn text_of(value: &str, most: usize, context: &Context, variables: bool) -> Option<String> {
    let segments = segments(value, most, context, variables, false)?;
    segments.into_iter().flatten().collect()
}

/// The pieces between separators, at most `most`; one within a variable separates nothing.
pub(super) fn split(pattern: &str, separator: char, most: usize, variables: bool) -> Vec<&str> {
    let (mut pieces, mut begin, mut at) = (Vec::new(), 0, 0);
    while let Some(c) = pattern.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = pattern.get(at..).unwrap_or_default();
        let variable = rest.strip_prefix("${").and_then(|inside| inside.find('}')).filter(|_| variables);
        if let Some(end) = variable {
            at += "${".len() + end + "}".len();
            continue;
        }
        if c == separator && pieces.len() + 1 < most {
            pieces.push(pattern.get(begin..at).unwrap_or_default());
            begin = at + c.len_utf8();
        }
        at += c.len_utf8();
    }
    pieces.push(pattern.get(begin..).unwrap_or_default());
    pieces
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

/// The pieces between the stars. `None`: a variable has no value, or there is more than a text of `most` characters holds.
fn segments(pattern: &str, most: usize, context: &Context, variables: bool, wildcards: bool) -> Option<Vec<Segment>> {
    let mut segments = vec![Segment::new()];
    let mut held = 0;
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        if variables && let Some((inside, after)) = rest.strip_prefix("${").and_then(|r| r.split_once('}')) {
            let value = variable(inside, context)?;
            held += value.chars().count();
            if held > most {
                return None;
            }
            segments.last_mut()?.extend(value.chars().map(Some));
            rest = after;
            continue;
        }
        match c {
            '*' if wildcards => segments.push(Segment::new()),
            c => {
                held += 1;
                if held > most {
                    return None;
                }
                segments.last_mut()?.push((c != '?' || !wildcards).then_some(c));
            }
        }
        rest = rest.get(c.len_utf8()..)?;
    }
    Some(segments)
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

/// Whether a text begins with the first piece, ends with the last, and has the others in between, one after the other.
fn fits(segments: &[Segment], text: &[char]) -> bool {
    let same = |segment: &Segment, at: &[char]| segment.iter().zip(at).all(|(s, c)| s.is_none_or(|s| s == *c));
    let (Some((first, others)), true) = (segments.split_first(), text.len() >= segments.iter().map(Vec::len).sum())
    else {
        return false;
    };
    let Some((last, middle)) = others.split_last() else { return first.len() == text.len() && same(first, text) };
    let (beginning, rest) = text.split_at(first.len());
    let (mut between, end) = rest.split_at(rest.len() - last.len());
    if !same(first, beginning) || !same(last, end) {
        return false;
    }
    // The leftmost place is as good as any other: it leaves the most for those that follow.
    for segment in middle {
        let Some(after) = find(segment, between) else { return false };
        between = between.get(after..).unwrap_or_default();
    }
    true
}

/// As [`find`], of a piece that fits a word: what nearly all do.
fn find_short(segment: &[Option<char>], text: &[char]) -> Option<usize> {
    let (mut any, mut ascii, mut others) = (0_u64, [0_u64; 128], HashMap::<char, u64>::new());
    for (at, c) in segment.iter().enumerate() {
        let mask = match c {
            None => &mut any,
            Some(c) => match ascii.get_mut(*c as usize) {
                Some(mask) => mask,
                None => others.entry(*c).or_default(),
            },
        };
        *mask |= 1 << at;
    }
    let last = 1_u64 << (segment.len() - 1);
    let mut state = 0_u64;
    for (at, c) in text.iter().enumerate() {
        let mask = ascii.get(*c as usize).or_else(|| others.get(c)).copied().unwrap_or(0);
        state = (state << 1 | 1) & (any | mask);
        if state & last != 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Where a piece ends that is found first in a text.
fn find(segment: &[Option<char>], text: &[char]) -> Option<usize> {
    if segment.is_empty() {
        return Some(0);
    }
    if segment.len() <= 64 {
        return find_short(segment, text);
    }
    // Shift-and: bit n tells whether the text up to here ends with the first n + 1 characters of the piece.
    let words = segment.len().div_ceil(64);
    let (mut any, mut masks) = (vec![0_u64; words], HashMap::<char, Vec<u64>>::new());
    for (at, c) in segment.iter().enumerate() {
        let mask = match c {
            None => &mut any,
            Some(c) => masks.entry(*c).or_insert_with(|| vec![0; words]),
        };
        mask[at / 64] |= 1 << (at % 64);
    }
    let mut state = vec![0_u64; words];
    for (at, c) in text.iter().enumerate() {
        let mask = masks.get(c);
        let mut carry = 1;
        for (word, bits) in state.iter_mut().enumerate() {
            let next = *bits >> 63;
            *bits = (*bits << 1 | carry) & (any[word] | mask.map_or(0, |mask| mask[word]));
            carry = next;
        }
        let end = segment.len() - 1;
        if state[end / 64] >> (end % 64) & 1 == 1 {
            return Some(at + 1);
        }
    }
    None
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

    /// What the words above say, without regard to time.
    fn fits_slowly(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), _) => (0..=text.len()).any(|n| fits_slowly(rest, &text[n..])),
            (Some(('?', rest)), Some((_, text))) => fits_slowly(rest, text),
            (Some((p, rest)), Some((c, text))) => p == c && fits_slowly(rest, text),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    #[test]
    fn long_pieces_are_found_across_words() {
        let piece = "ab?".repeat(60);
        let text = format!("{}{}", "ab".repeat(100), "abc".repeat(61));
        assert!(matches(&format!("*{piece}*"), &text, &Context::default(), false));
        assert!(!matches(&format!("*{piece}d*"), &text, &Context::default(), false));
    }

    #[test]
    fn no_value_makes_a_pattern_longer_than_its_text() {
        let mut context = Context::default();
        context.set("aws:Referer", "x".repeat(60_000));
        let pattern = format!("b/{}", "${aws:Referer}".repeat(1000));
        assert!(segments(&pattern, 1024, &context, true, true).is_none());
    }

    proptest! {
        #[test]
        fn patterns_fit_what_they_say(pattern in "[ab*?]{0,10}", text in "[abc]{0,12}") {
            let slowly = fits_slowly(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>());
            prop_assert_eq!(matches(&pattern, &text, &Context::default(), false), slowly);
        }

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
