//! XML documents in request bodies: what s3s would misread is refused before it reads it, and what a request says of its
//! document is compared with what arrived.
//!
//! s3s drops the text of CDATA sections, so that a DeleteObjects document could name another key than its author meant;
//! and it calls a document that is too long an internal error. Both are MalformedXML here. It hands a document on
//! without comparing it with Content-MD5 or `x-amz-checksum-*`: a damaged one would delete other keys than were meant.
//!
//! A refusal is told when the document is read, which is after the signature has been verified.

use http::Method;
use http::request::Parts;
use s3s::{S3Error, S3Result};

use crate::protocol::checksums::DeclaredDocument;
use crate::protocol::error;

use super::stray_text::StrayText;
use super::sub_resources::{self, Level};

/// Longest document: 1000 keys of 1024 bytes, every byte of them escaped, are below 7 MiB; 10,000 parts with their
/// checksums below 4 MiB.
pub(super) const DOCUMENT_BYTES: usize = 8 << 20;
const CDATA: &[u8] = b"<![CDATA[";
/// Most tags of a document: 10,000 parts with all that can be said of each, and 1000 keys with as much. Elements take far
/// more memory than their text.
const TAGS: usize = 256 << 10;
const DELETE_TAGS: usize = 16 << 10;

/// Sub-resources of objects that are written as documents.
const OF_OBJECTS: &[&str] = &["acl", "legal-hold", "retention", "tagging"];

/// The document is refused.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the XML document is refused")]
pub(super) struct Refused;

/// A document that arrives.
#[derive(Default)]
pub(super) struct Document {
    seen: usize,
    tags: usize,
    most_tags: usize,
    /// The end of what was seen, shorter than what is looked for.
    tail: Vec<u8>,
    /// `None`: it is no XML.
    text: Option<StrayText>,
    declared: Option<DeclaredDocument>,
    /// What was wrong with the headers, until the document is read.
    invalid: Option<S3Error>,
    refusal: Option<S3Error>,
}

impl Document {
    /// What a request carries, if that is a document: with POST always, unless it is a form, with PUT everywhere but at an
    /// object itself.
    pub(super) fn of(request: &Parts, level: Level) -> Option<Self> {
        let query = request.uri.query().unwrap_or_default();
        let is_document = match request.method {
            Method::POST => !sub_resources::is_form(&request.headers),
            Method::PUT => level != Level::Object || sub_resources::keys(query).any(|key| OF_OBJECTS.contains(&&*key)),
            _ => false,
        };
        if !is_document {
            return None;
        }
        let is_delete_objects = sub_resources::keys(query).any(|key| key == "delete");
        let most_tags = if is_delete_objects { DELETE_TAGS } else { TAGS };
        // A policy is JSON.
        let is_json = sub_resources::keys(query).any(|key| key == "policy");
        let document = Self { most_tags, text: (!is_json).then(StrayText::default), ..Self::default() };
        Some(match DeclaredDocument::of(&request.headers, is_delete_objects) {
            Ok(declared) => Self { declared, ..document },
            Err(error) => Self { invalid: Some(error), ..document },
        })
    }

    /// Why it was refused.
    pub(super) fn take_refusal(&mut self) -> Option<S3Error> {
        self.refusal.take()
    }

    /// Refuses it for a reason from outside.
    pub(super) fn refuse(&mut self, reason: S3Error) -> Refused {
        self.refusal.get_or_insert(reason);
        Refused
    }

    /// Looks at the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let looked = self.look_at(bytes);
        self.or_refuse(looked)
    }

    /// It has ended.
    pub(super) fn end(&mut self) -> Result<(), Refused> {
        let verified = self.declared.take().map_or(Ok(()), DeclaredDocument::verify);
        self.or_refuse(verified)
    }

    fn look_at(&mut self, bytes: &[u8]) -> S3Result<()> {
        if let Some(error) = self.invalid.take() {
            return Err(error);
        }
        self.seen = self.seen.saturating_add(bytes.len());
        self.tags += memchr::memchr_iter(b'<', bytes).count();
        self.tail.extend_from_slice(bytes);
        if self.seen > DOCUMENT_BYTES
            || self.tags > self.most_tags
            || self.tail.windows(CDATA.len()).any(|window| window == CDATA)
            || self.text.as_mut().is_some_and(|text| !text.push(bytes))
        {
            return Err(error::malformed_xml());
        }
        let kept = self.tail.len().min(CDATA.len() - 1);
        self.tail.drain(..self.tail.len() - kept);
        if let Some(declared) = &mut self.declared {
            declared.push(bytes);
        }
        Ok(())
    }

    fn or_refuse(&mut self, looked: S3Result<()>) -> Result<(), Refused> {
        looked.map_err(|error| {
            self.refusal = Some(error);
            Refused
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn objects_are_not_looked_at_and_long_documents_are_refused() {
        let document = |method, level| {
            let request = http::Request::builder().method(method).uri("/bucket?delete").body(());
            Document::of(&request.expect("a request").into_parts().0, level)
        };
        assert!(document(Method::PUT, Level::Object).is_none());
        assert!(document(Method::PUT, Level::Bucket).is_some());
        let mut tagged = document(Method::POST, Level::Bucket).expect("a document");
        assert!(tagged.push(&vec![b'<'; DELETE_TAGS]).is_ok());
        assert!(tagged.push(b"<").is_err() && tagged.take_refusal().is_some());
        let mut document = document(Method::POST, Level::Bucket).expect("a document");
        assert!(document.push(&vec![b' '; DOCUMENT_BYTES]).is_ok());
        assert!(document.push(b" ").is_err() && document.take_refusal().is_some());
    }

    proptest! {
        #[test]
        fn a_section_is_found_however_the_document_is_cut(before in "[a-z<!\\[]{0,20}", cut in 0usize..40) {
            let text = format!("{before}<![CDATA[x]]>");
            let (first, second) = text.as_bytes().split_at(cut.min(text.len()));
            let mut document = Document { most_tags: TAGS, ..Document::default() };
            prop_assert!(document.push(first).is_err() || document.push(second).is_err());
        }
    }
}
