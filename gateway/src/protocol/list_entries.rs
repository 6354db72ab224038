//! The entries of a listing as XML, written by us: s3s writes the rest of the document.
//!
//! A page has up to a thousand entries of six elements, and a serialiser that goes through a value, an event and an
//! allocation for each costs more than finding the entries does. So the answer goes through s3s without entries, they
//! travel beside it in the response's extensions, and the edge puts them in before the end of the document, where AWS
//! has them too. What is written here is, byte for byte, what s3s would write of the same entries (a test compares),
//! but for characters that XML cannot hold, which become character references at once.

use std::fmt::Write as _;

use bytes::Bytes;
use percent_encoding::utf8_percent_encode;
use s3s::dto::Owner;
use time::OffsetDateTime;

use crate::storage::{ListEntry, ListedObject};

use super::metadata;
use super::names::{NameEncoding, URL_NAME, is_illegal_in_xml};

/// Room for an entry but its names: elements, ETag, date, size, class, checksum.
const ENTRY_BYTES: usize = 288;
/// The end of the documents that entries belong into.
const END: &[u8] = b"</ListBucketResult>";

/// Room before the entries for the head of most documents, so that a page of hundreds of KiB is not copied to put it there.
const HEAD_ROOM: usize = 2048;

/// The entries of a page, serialised: first the objects, then the common prefixes.
#[derive(Clone, Debug)]
pub(crate) struct RenderedEntries {
    /// Blanks, [`HEAD_ROOM`] of them, and the entries.
    text: String,
}

impl RenderedEntries {
    /// Serialises entries; the owner is written where one is given.
    pub(super) fn of(entries: &[ListEntry], encoding: NameEncoding, owner: Option<&Owner>) -> Self {
        let names: usize = entries.iter().map(|entry| entry.name().len()).sum();
        let owner = owner.map(owner_element).unwrap_or_default();
        let room = HEAD_ROOM + names + entries.len() * (ENTRY_BYTES + owner.len()) + END.len();
        let mut out = String::with_capacity(room);
        out.extend(std::iter::repeat_n(' ', HEAD_ROOM));
        for entry in entries {
            if let ListEntry::Object(object) = entry {
                push_object(&mut out, object, encoding, &owner);
            }
        }
        for entry in entries {
            if let ListEntry::CommonPrefix(prefix) = entry {
                out.push_str("<CommonPrefixes><Prefix>");
                push_name(&mut out, prefix, encoding);
                out.push_str("</Prefix></CommonPrefixes>");
            }
        }
        Self { text: out }
    }

    /// The document with the entries in it; `None` where it is no listing.
    pub(crate) fn put_into(self, document: &[u8]) -> Option<Bytes> {
        let head = document.strip_suffix(END)?;
        let mut whole = self.text.into_bytes();
        whole.extend_from_slice(END);
        let start = match HEAD_ROOM.checked_sub(head.len()) {
            Some(start) => {
                whole.get_mut(start..HEAD_ROOM)?.copy_from_slice(head);
                start
            }
            None => {
                whole.splice(..HEAD_ROOM, head.iter().copied());
                0
            }
        };
        Some(Bytes::from(whole).slice(start..))
    }
}

fn push_object(out: &mut String, object: &ListedObject, encoding: NameEncoding, owner: &str) {
    out.push_str("<Contents>");
    if let Some((algorithm, kind)) = object.checksum {
        out.push_str("<ChecksumAlgorithm>");
        out.push_str(algorithm.as_str());
        out.push_str("</ChecksumAlgorithm><ChecksumType>");
        out.push_str(kind.as_str());
        out.push_str("</ChecksumType>");
    }
    out.push_str("<ETag>\"");
    out.push_str(&object.etag);
    out.push_str("\"</ETag><Key>");
    push_name(out, &object.key, encoding);
    out.push_str("</Key><LastModified>");
    push_time(out, object.last_modified);
    out.push_str("</LastModified>");
    out.push_str(owner);
    out.push_str("<Size>");
    // Writing into a String cannot fail.
    let _ = write!(out, "{}", object.size);
    out.push_str("</Size><StorageClass>");
    push_text(out, object.storage_class.as_deref().unwrap_or(metadata::STANDARD));
    out.push_str("</StorageClass></Contents>");
}

fn owner_element(owner: &Owner) -> String {
    let mut out = String::from("<Owner>");
    for (tag, value) in [("DisplayName", &owner.display_name), ("ID", &owner.id)] {
        if let Some(value) = value {
            out.push_str(&format!("<{tag}>"));
            push_text(&mut out, value);
            out.push_str(&format!("</{tag}>"));
        }
    }
    out + "</Owner>"
}

fn push_name(out: &mut String, name: &str, encoding: NameEncoding) {
    match encoding {
        NameEncoding::Text => push_text(out, name),
        NameEncoding::Url => out.extend(utf8_percent_encode(name, URL_NAME)),
    }
}

/// Text with XML's own characters escaped, and those that XML cannot hold as character references.
fn push_text(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some((at, c)) = rest.char_indices().find(|&(_, c)| is_special(c)) {
        let (plain, tail) = rest.split_at(at);
        out.push_str(plain);
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\'' => out.push_str("&apos;"),
            '"' => out.push_str("&quot;"),
            illegal => {
                let _ = write!(out, "&#x{:04x};", u32::from(illegal));
            }
        }
        rest = &tail[c.len_utf8()..];
    }
    out.push_str(rest);
}

fn is_special(c: char) -> bool {
    matches!(c, '<' | '>' | '&' | '\'' | '"') || is_illegal_in_xml(c)
}

/// `2026-05-01T12:00:00.000Z`.
fn push_time(out: &mut String, time: OffsetDateTime) {
    let time = time.to_offset(time::UtcOffset::UTC);
    push_digits(out, time.year().unsigned_abs(), 4);
    for (separator, value) in [
        ('-', u8::from(time.month())),
        ('-', time.day()),
        ('T', time.hour()),
        (':', time.minute()),
        (':', time.second()),
    ] {
        out.push(separator);
        push_digits(out, u32::from(value), 2);
    }
    out.push('.');
    push_digits(out, u32::from(time.millisecond()), 3);
    out.push('Z');
}

/// The last `width` decimal digits.
fn push_digits(out: &mut String, value: u32, width: u32) {
    for place in (0..width).rev() {
        let digit = value / 10_u32.pow(place) % 10;
        out.push(char::from_digit(digit, 10).unwrap_or('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use s3s::dto::{CommonPrefix, ETag, Object, ObjectStorageClass};
    use s3s::xml::Serializer;

    use crate::protocol::checksum_fields::{checksum_algorithm, checksum_type};
    use crate::protocol::names::resolve_marks;
    use crate::storage::types::{ChecksumAlgorithm, ChecksumType};

    fn owner() -> Owner {
        Owner { display_name: Some("root & co".to_owned()), id: Some("0123".to_owned()) }
    }

    /// What s3s and the edge make of the entries.
    fn by_s3s(entries: &[ListEntry], encoding: NameEncoding, owner: Option<&Owner>) -> String {
        let mut document = Vec::new();
        let mut serializer = Serializer::new(&mut document);
        for entry in entries {
            if let ListEntry::Object(listed) = entry {
                let object = Object {
                    checksum_algorithm: listed.checksum.map(|(algorithm, _)| vec![checksum_algorithm(algorithm)]),
                    checksum_type: listed.checksum.map(|(_, kind)| checksum_type(kind)),
                    e_tag: Some(ETag::Strong(listed.etag.clone())),
                    key: Some(encoding.apply(&listed.key)),
                    last_modified: Some(listed.last_modified.into()),
                    owner: owner.cloned(),
                    restore_status: None,
                    size: i64::try_from(listed.size).ok(),
                    storage_class: Some(ObjectStorageClass::from(
                        listed.storage_class.clone().unwrap_or_else(|| "STANDARD".to_owned()),
                    )),
                };
                serializer.content("Contents", &object).expect("serialised");
            }
        }
        for entry in entries {
            if let ListEntry::CommonPrefix(prefix) = entry {
                let prefix = CommonPrefix { prefix: Some(encoding.apply(prefix)) };
                serializer.content("CommonPrefixes", &prefix).expect("serialised");
            }
        }
        let document = resolve_marks(&document).unwrap_or(document);
        String::from_utf8(document).expect("UTF-8")
    }

    fn entry() -> impl Strategy<Value = ListEntry> {
        let checksum = prop::option::of(prop::sample::select(vec![
            (ChecksumAlgorithm::Crc64Nvme, ChecksumType::FullObject),
            (ChecksumAlgorithm::Sha256, ChecksumType::Composite),
        ]));
        let name = prop_oneof!["[^\0]{1,20}", "[a-z<>&'\"\u{1}\r\t\u{fffe}é/ ]{1,12}"];
        let object =
            (name, "[0-9a-f]{32}(-[0-9]{1,4})?", 0..=i64::MAX, 0..253_402_300_800_000_i64, checksum, "[A-Z_]{0,9}")
                .prop_map(|(key, etag, size, millis, checksum, class)| {
                    ListEntry::Object(ListedObject {
                        key,
                        size: size.unsigned_abs(),
                        etag,
                        last_modified: OffsetDateTime::UNIX_EPOCH + time::Duration::milliseconds(millis),
                        storage_class: Some(class).filter(|class| !class.is_empty()),
                        checksum,
                    })
                });
        prop_oneof![3 => object, 1 => "[^\0]{1,20}".prop_map(ListEntry::CommonPrefix)]
    }

    proptest! {
        #[test]
        fn entries_are_written_as_s3s_writes_them(
            entries in prop::collection::vec(entry(), 0..6), url in any::<bool>(), owned in any::<bool>()
        ) {
            let encoding = if url { NameEncoding::Url } else { NameEncoding::Text };
            let owner = owned.then(owner);
            let written = RenderedEntries::of(&entries, encoding, owner.as_ref()).text.split_off(HEAD_ROOM);
            prop_assert_eq!(written, by_s3s(&entries, encoding, owner.as_ref()));
        }
    }

    #[test]
    fn entries_go_before_the_end_of_a_listing_and_nowhere_else() {
        let entries = RenderedEntries::of(&[ListEntry::CommonPrefix("a/".to_owned())], NameEncoding::Text, None);
        for prefix in ["", "p", &"p".repeat(3 * HEAD_ROOM)] {
            let head = format!("<ListBucketResult><Prefix>{prefix}</Prefix>");
            let listing = entries.clone().put_into(format!("{head}</ListBucketResult>").as_bytes());
            let expected = format!("{head}<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes></ListBucketResult>");
            assert_eq!(listing.as_deref(), Some(expected.as_bytes()));
        }
        assert_eq!(entries.put_into(b"<Error></Error>"), None);
    }
}
