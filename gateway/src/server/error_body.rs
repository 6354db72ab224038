//! S3's error document, completed.
//!
//! s3s writes `Code` and `Message`. S3 also says which resource was asked for and under which ids the request is known;
//! these elements are put in before the closing tag, so that nothing of what s3s wrote is parsed. Where s3s's own refusals
//! quote AWS's documentation instead of S3's sentence, the sentence is put in its place.

use s3s::S3ErrorCode;

use super::request_id::RequestId;

const END: &[u8] = b"</Error>";

/// What S3 says where s3s says something longer.
const SENTENCES: [(S3ErrorCode, &str); 2] = [
    (
        S3ErrorCode::MalformedXML,
        "The XML you provided was not well-formed or did not validate against our published schema",
    ),
    (
        S3ErrorCode::SignatureDoesNotMatch,
        "The request signature we calculated does not match the signature you provided. Check your key and signing \
         method.",
    ),
];

/// Adds `Resource`, `RequestId` and `HostId`; a document of another kind stays as it is.
pub(super) fn complete(document: &[u8], resource: &str, id: &RequestId) -> Vec<u8> {
    let Some(open) = document.trim_ascii_end().strip_suffix(END) else { return document.to_vec() };
    let mut completed = Vec::with_capacity(document.len() + 256);
    completed.extend_from_slice(with_s3_sentence(open).as_deref().unwrap_or(open));
    for (name, value) in [("Resource", resource), ("RequestId", &id.request_id), ("HostId", &id.host_id)] {
        completed.extend_from_slice(format!("<{name}>{}</{name}>", escape(value)).as_bytes());
    }
    completed.extend_from_slice(END);
    completed
}

/// The document with S3's sentence, where it has s3s's.
fn with_s3_sentence(document: &[u8]) -> Option<Vec<u8>> {
    SENTENCES.iter().find_map(|(code, sentence)| {
        let message = format!("<Message>{}</Message>", escape(code.default_message()?));
        let at = document.windows(message.len()).position(|w| w == message.as_bytes())?;
        let (before, after) = (document.get(..at)?, document.get(at + message.len()..)?);
        Some([before, format!("<Message>{sentence}</Message>").as_bytes(), after].concat())
    })
}

/// Escapes a text for an element. What XML 1.0 cannot hold becomes a question mark.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id() -> RequestId {
        RequestId { request_id: "0123456789ABCDEF".to_owned(), host_id: "host+/=".to_owned() }
    }

    #[test]
    fn the_document_says_what_was_asked_and_under_which_id() {
        let document = b"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>";
        let completed = complete(document, "/b/a&b<\"c\">", &id());
        assert_eq!(
            String::from_utf8_lossy(&completed),
            "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Resource>/b/a&amp;b&lt;&quot;c&quot;&gt;</Resource>\
             <RequestId>0123456789ABCDEF</RequestId><HostId>host+/=</HostId></Error>"
        );
    }

    #[test]
    fn s3s_speaks_with_the_sentences_of_s3() {
        let answer = s3s::S3Error::new(S3ErrorCode::MalformedXML).to_http_response().expect("serialised");
        let document = complete(&answer.into_body().bytes().expect("in memory"), "/b", &id());
        let document = String::from_utf8_lossy(&document);
        assert!(document.contains("<Message>The XML you provided was not well-formed"), "{document}");
    }

    #[test]
    fn other_documents_stay() {
        assert_eq!(complete(b"<Result/>", "/", &id()), b"<Result/>");
        assert_eq!(complete(b"", "/", &id()), b"");
    }

    proptest! {
        #[test]
        fn escaping_leaves_no_markup(text in ".{0,80}") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            prop_assert!(!escaped.chars().any(|c| c < ' ' && !matches!(c, '\t' | '\n')));
        }
    }
}
