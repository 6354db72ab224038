//! XML documents in request bodies: what s3s would misread is refused before it reads it.
//!
//! s3s drops the text of CDATA sections, so that a DeleteObjects document could name another key than its author meant;
//! and it calls a document that is too long an internal error. Both are MalformedXML here.

use http::Method;

/// Longest document: 1000 keys of 1024 bytes, every byte of them escaped, are below 7 MiB; 10,000 parts with their
/// checksums below 4 MiB.
pub(super) const DOCUMENT_BYTES: usize = 8 << 20;
const CDATA: &[u8] = b"<![CDATA[";

/// The document is refused.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the XML document is too long or has a CDATA section")]
pub(super) struct Refused;

/// A document that arrives.
#[derive(Debug, Default)]
pub(super) struct Document {
    seen: usize,
    /// The end of what was seen, shorter than what is looked for.
    tail: Vec<u8>,
    refused: bool,
}

impl Document {
    /// POST requests carry documents; objects come by PUT.
    pub(super) fn of(method: &Method) -> Option<Self> {
        (*method == Method::POST).then(Self::default)
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused
    }

    /// Looks at the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.seen = self.seen.saturating_add(bytes.len());
        self.tail.extend_from_slice(bytes);
        self.refused |= self.seen > DOCUMENT_BYTES || self.tail.windows(CDATA.len()).any(|window| window == CDATA);
        let kept = self.tail.len().min(CDATA.len() - 1);
        self.tail.drain(..self.tail.len() - kept);
        if self.refused { Err(Refused) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn objects_are_not_looked_at_and_long_documents_are_refused() {
        assert!(Document::of(&Method::PUT).is_none());
        let mut document = Document::of(&Method::POST).expect("a document");
        assert!(document.push(&vec![b' '; DOCUMENT_BYTES]).is_ok());
        assert!(document.push(b" ").is_err() && document.is_refused());
    }

    proptest! {
        #[test]
        fn a_section_is_found_however_the_document_is_cut(before in "[a-z<!\\[]{0,20}", cut in 0usize..40) {
            let text = format!("{before}<![CDATA[x]]>");
            let (first, second) = text.as_bytes().split_at(cut.min(text.len()));
            let mut document = Document::default();
            prop_assert!(document.push(first).is_err() || document.push(second).is_err());
        }
    }
}
