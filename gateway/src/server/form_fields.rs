//! The field of a form that s3s does not hand on: `tagging`, the tags of the object as a document.
//!
//! The fields of a form come before its file and are short; they are looked at as they pass, until the file begins, which is
//! before any operation runs. What is found is left in a [`FormTags`] among the request's extensions.

use crate::protocol::FormTags;

/// Longest fields that are looked at; s3s refuses forms with longer ones.
const MAX_BYTES: usize = super::s3_service::FORM_FIELDS_BYTES + 4096;

/// What ends the headers of a part.
const HEADERS_END: &[u8] = b"\r\n\r\n";

/// The fields of a form as they arrive.
pub(super) struct FormFields {
    found: FormTags,
    seen: Vec<u8>,
    done: bool,
}

impl FormFields {
    /// Nothing seen yet; what is found goes to `found`.
    pub(super) fn new(found: FormTags) -> Self {
        Self { found, seen: Vec::new(), done: false }
    }

    /// Looks at the next bytes of the body.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.done {
            return;
        }
        let before = self.seen.len();
        self.seen.extend_from_slice(bytes.get(..MAX_BYTES - before).unwrap_or(bytes));
        let new = self.seen.get(before.saturating_sub(HEADERS_END.len() - 1)..).unwrap_or_default();
        if self.seen.len() < MAX_BYTES && !new.windows(HEADERS_END.len()).any(|w| w == HEADERS_END) {
            return;
        }
        let fields = String::from_utf8_lossy(&self.seen);
        let file_begins = parts(&fields).any(|part| part.is("file"));
        if !file_begins && self.seen.len() < MAX_BYTES {
            return;
        }
        if let Some(tagging) = parts(&fields).take_while(|part| !part.is("file")).find(|part| part.is("tagging")) {
            self.found.set(tagging.value);
        }
        self.done = true;
        self.seen = Vec::new();
    }
}

/// A part of a form whose headers have arrived.
struct Part<'a> {
    headers: &'a str,
    /// What has arrived of its value.
    value: &'a str,
}

impl Part<'_> {
    fn is(&self, name: &str) -> bool {
        self.headers.to_ascii_lowercase().contains(&format!("; name=\"{name}\""))
    }
}

/// The parts of a form that begins with its boundary.
fn parts(form: &str) -> impl Iterator<Item = Part<'_>> {
    let boundary = form.split("\r\n").next().unwrap_or_default();
    let separator = format!("\r\n{boundary}");
    let mut rest = form.strip_prefix(boundary).filter(|_| boundary.starts_with("--"));
    std::iter::from_fn(move || {
        let (headers, after) = rest?.split_once("\r\n\r\n")?;
        let value = after.split(&separator).next().unwrap_or_default();
        rest = after.get(value.len() + separator.len()..);
        Some(Part { headers, value })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n\
        --b\r\ncontent-disposition: form-data; NAME=\"Tagging\"\r\n\r\n<Tagging>x</Tagging>\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n\
        \r\n--b\r\nContent-Disposition: form-data; name=\"tagging\"\r\n\r\nlater\r\n--b--\r\n";

    fn found(form: &[u8], step: usize) -> Option<String> {
        let tags = FormTags::default();
        let mut fields = FormFields::new(tags.clone());
        form.chunks(step).for_each(|bytes| fields.push(bytes));
        tags.get().map(ToOwned::to_owned)
    }

    #[test]
    fn tags_are_found_before_the_file_however_the_form_is_cut() {
        for step in 1..FORM.len() {
            assert_eq!(found(FORM.as_bytes(), step).as_deref(), Some("<Tagging>x</Tagging>"), "{step}");
        }
        assert_eq!(
            found(FORM.replace("Tagging\"", "other\"").as_bytes(), 7),
            None,
            "what follows the file is no field"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(form in proptest::collection::vec(any::<u8>(), 0..300), step in 1_usize..50) {
            let _ = found(&form, step);
        }
    }
}
