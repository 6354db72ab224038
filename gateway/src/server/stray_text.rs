//! Text where a document has elements only.
//!
//! s3s passes over it, so that `<Filter>logs/</Filter>`, which means a prefix to its author, would be a filter that holds for
//! everything. Documents of S3 have text in elements without children, and nowhere else; whoever puts text elsewhere, or into
//! an element that has only children, has sent another document than the one that would be read.

/// Elements whose children may all be left out: with a text instead of them they would look empty.
const CONTAINERS: &[&[u8]] = &[
    b"AbortIncompleteMultipartUpload",
    b"AccessControlList",
    b"AccessControlPolicy",
    b"And",
    b"CORSConfiguration",
    b"CORSRule",
    b"CompleteMultipartUpload",
    b"CreateBucketConfiguration",
    b"DefaultRetention",
    b"Delete",
    b"Expiration",
    b"Filter",
    b"LegalHold",
    b"LifecycleConfiguration",
    b"NoncurrentVersionExpiration",
    b"ObjectLockConfiguration",
    b"OwnershipControls",
    b"PublicAccessBlockConfiguration",
    b"Retention",
    b"Rule",
    b"TagSet",
    b"Tagging",
    b"Tags",
    b"VersioningConfiguration",
];
/// Longest name that is told apart.
const NAME_BYTES: usize = 64;

/// What stands before the text that is being read.
#[derive(Debug, Default, PartialEq, Eq)]
enum Before {
    /// The beginning of the document.
    #[default]
    Nothing,
    /// The start of an element, by its name.
    Start(Vec<u8>),
    /// The end of one.
    End,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Text,
    /// Within `<…>`: what it begins with, its last byte, and the quote that is open.
    Tag { begin: Vec<u8>, last: u8, quote: Option<u8> },
    /// Within `<!--…-->`: its last two bytes.
    Comment([u8; 2]),
}

/// Looks at a document as it arrives.
#[derive(Debug, Default)]
pub(super) struct StrayText {
    before: Before,
    place: Place,
    has_text: bool,
}

impl StrayText {
    /// Looks at the next bytes; false where there is text that does not belong there.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.next(*byte))
    }

    fn next(&mut self, byte: u8) -> bool {
        match &mut self.place {
            Place::Text if byte == b'<' => self.place = Place::Tag { begin: Vec::new(), last: 0, quote: None },
            Place::Text => {
                let is_mark = self.before == Before::Nothing && b"\xEF\xBB\xBF".contains(&byte);
                self.has_text |= !byte.is_ascii_whitespace() && !is_mark;
            }
            Place::Comment(last) => match (*last, byte) {
                ([b'-', b'-'], b'>') => self.place = Place::Text,
                ([_, second], byte) => *last = [second, byte],
            },
            Place::Tag { quote: Some(open), .. } if *open != byte => {}
            Place::Tag { quote, .. } if quote.is_some() => *quote = None,
            Place::Tag { begin, quote, .. } if matches!(byte, b'"' | b'\'') && !begin.starts_with(b"!") => {
                *quote = Some(byte);
            }
            Place::Tag { begin, last, .. } if byte == b'>' => {
                let (begin, last) = (std::mem::take(begin), *last);
                self.place = Place::Text;
                return self.tag(&begin, last == b'/');
            }
            Place::Tag { begin, last, .. } => {
                if begin.len() < NAME_BYTES {
                    begin.push(byte);
                }
                *last = byte;
                if begin == b"!--" {
                    self.place = Place::Comment([0, 0]);
                }
            }
        }
        true
    }

    fn tag(&mut self, begin: &[u8], is_empty: bool) -> bool {
        match begin.first() {
            Some(b'!' | b'?') => return true,
            Some(b'/') => {
                let fits = matches!(&self.before, Before::Start(name) if !CONTAINERS.contains(&&name[..]));
                let sound = !self.has_text || fits;
                (self.before, self.has_text) = (Before::End, false);
                return sound;
            }
            _ => {}
        }
        let sound = !self.has_text;
        let name = begin.split(|b| b.is_ascii_whitespace() || *b == b'/').next().unwrap_or_default();
        let name = name.rsplit(|b| *b == b':').next().unwrap_or_default();
        self.before = if is_empty { Before::End } else { Before::Start(name.to_vec()) };
        self.has_text = false;
        sound
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sound(document: &str) -> bool {
        let whole = StrayText::default().push(document.as_bytes());
        for step in 1..document.len().min(8) {
            let mut pieces = StrayText::default();
            assert_eq!(document.as_bytes().chunks(step).all(|piece| pieces.push(piece)), whole, "{document} by {step}");
        }
        whole
    }

    #[test]
    fn text_stands_in_elements_without_children_alone() {
        for document in [
            "<a/>",
            "\u{feff}<?xml version=\"1.0\"?>\n<!-- > <b>x -->\n<a xmlns='http://x/>'>\n <b>x &gt; y</b> <c/> <d></d>\n</a>\n",
            "<Filter><Prefix>logs/</Prefix></Filter>",
            "<s3:Filter> </s3:Filter>",
            "<Key>a<!-- b -->c</Key>",
            "<!DOCTYPE a><a>x</a>",
        ] {
            assert!(sound(document), "{document}");
        }
        for document in [
            "<Filter>logs/</Filter>",
            "<s3:Filter>logs/</s3:Filter>",
            "<a>x<b/></a>",
            "<a><b>x</b>y</a>",
            "<a><b/>y</a>",
            "x<a/>",
            "<Expiration a=\">\">5</Expiration>",
        ] {
            assert!(!sound(document), "{document}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(document in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = StrayText::default().push(&document);
        }
    }
}
