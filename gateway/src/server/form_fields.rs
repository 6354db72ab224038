//! The fields of a form that s3s does not hand on.
//!
//! `tagging` has the tags of the object as a document, and `acl` is what S3's forms call `x-amz-acl`; whether a policy came
//! with a signature, and with which, is known from fields as well. The fields of a form come before its file and are short;
//! they are looked at as they pass, until the file begins, which is before any operation runs. What is found is left in a
//! [`FormExtras`] among the request's extensions.
//! Invariant: a form is taken apart by the parser that s3s itself uses, so that both read the same fields.

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, stream};
use http::{HeaderMap, header};
use s3s_multipart::{Boundary, Error, Multipart, parse_content_disposition};

use crate::protocol::{FormExtras, FormFound};

/// Longest fields that are looked at; s3s refuses forms with longer ones.
const MAX_BYTES: usize = super::s3_service::FORM_FIELDS_BYTES + 4096;

/// What ends the headers of a part.
const HEADERS_END: &[u8] = b"\r\n\r\n";

/// The fields of a form as they arrive.
pub(super) struct FormFields {
    extras: FormExtras,
    boundary: Option<Boundary>,
    seen: Vec<u8>,
}

impl FormFields {
    /// Nothing seen yet; what is found goes to `extras`.
    pub(super) fn new(extras: FormExtras, headers: &HeaderMap) -> Self {
        let mime = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()?.parse::<mime::Mime>().ok());
        let boundary = mime.as_ref().and_then(|mime| mime.get_param(mime::BOUNDARY));
        let boundary = boundary.and_then(|boundary| Boundary::new(boundary.as_str().as_bytes()).ok());
        Self { extras, boundary, seen: Vec::new() }
    }

    /// Looks at the next bytes of the body.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Some(boundary) = &self.boundary else { return };
        let before = self.seen.len();
        self.seen.extend_from_slice(bytes.get(..MAX_BYTES - before).unwrap_or(bytes));
        let new = self.seen.get(before.saturating_sub(HEADERS_END.len() - 1)..).unwrap_or_default();
        if !new.windows(HEADERS_END.len()).any(|w| w == HEADERS_END) && self.seen.len() < MAX_BYTES {
            return;
        }
        let found = read(&self.seen, boundary);
        let is_over = found.is_some() || self.seen.len() >= MAX_BYTES;
        if let Some(Ok(found)) = found {
            self.extras.set(found);
        }
        if is_over {
            self.boundary = None;
            self.seen = Vec::new();
        }
    }
}

/// The fields before the file; `None`: the file has not begun.
fn read(seen: &[u8], boundary: &Boundary) -> Option<Result<FormFound, Error>> {
    let arrived = stream::iter([Ok::<_, Error>(Bytes::copy_from_slice(seen))]);
    let mut form = Multipart::new(arrived.chain(stream::pending()), boundary, super::s3_service::FORM_FIELDS_BYTES);
    let fields = async {
        let mut found = FormFound::default();
        while let Some(mut part) = form.next_part().await? {
            let mut name = None;
            while let Some(header) = part.next_header().await? {
                if header.name.eq_ignore_ascii_case("content-disposition") {
                    let disposition = parse_content_disposition(header.value);
                    name = disposition.and_then(|found| found.name).map(|name| name.to_ascii_lowercase());
                }
            }
            let name = String::from_utf8_lossy(name.as_deref().unwrap_or_default()).into_owned();
            if name == "file" {
                break;
            }
            let mut value = Vec::new();
            while let Some(bytes) = part.next_data().await? {
                value.extend_from_slice(&bytes);
            }
            found.note(&name, String::from_utf8_lossy(&value).into_owned());
        }
        Ok(found)
    };
    fields.now_or_never()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORM: &str = "preamble\r\n--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk\r\n\
        --b\r\ncontent-disposition: form-data; NAME=\"Tagging\"\r\n\r\n<Tagging>x</Tagging>\r\n\
        --b\r\nX-Odd: ; name=\"acl\"\r\nContent-Disposition: form-data;name=policy\r\n\r\np\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n\
        \r\n--b\r\nContent-Disposition: form-data; name=\"acl\"\r\n\r\nlater\r\n--b--\r\n";

    fn found(form: &[u8], step: usize) -> Option<FormFound> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("multipart/form-data; boundary=\"b\""));
        let extras = FormExtras::default();
        let mut fields = FormFields::new(extras.clone(), &headers);
        form.chunks(step).for_each(|bytes| fields.push(bytes));
        extras.get().cloned()
    }

    #[test]
    fn fields_are_found_before_the_file_however_the_form_is_cut() {
        for step in 1..FORM.len() {
            let found = found(FORM.as_bytes(), step).expect("a form");
            assert_eq!(found.tagging.as_deref(), Some("<Tagging>x</Tagging>"), "{step}");
            assert_eq!((found.acl, found.has_policy, found.repeated), (None, true, false), "{step}");
        }
    }

    #[test]
    fn fields_that_come_twice_are_noticed() {
        let twice = FORM.replace("name=\"key\"", "name=\"tagging\"");
        assert!(found(twice.as_bytes(), 9).expect("a form").repeated);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(form in proptest::collection::vec(any::<u8>(), 0..300), step in 1_usize..50) {
            let _ = found(&form, step);
        }
    }
}
