//! S3's error document, completed.
//!
//! s3s writes `Code` and `Message`. S3 also says which bucket or key is missing, which resource was asked for and under
//! which ids the request is known; these elements are put in before the closing tag, so that nothing of what s3s wrote is
//! parsed. Where s3s's own refusals quote AWS's documentation instead of S3's sentence, the sentence is put in its place.

use http::HeaderValue;
use s3s::S3ErrorCode;

use super::request_id::RequestId;

const END: &[u8] = b"</Error>";
/// What is said of a signature for another region.
const REGION_IS_WRONG: &[u8] = b"the region ";

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

/// The bucket and the key that a request names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    bucket: Option<String>,
    key: Option<String>,
}

impl Named {
    /// Of a path, below the bucket in the host if there is one.
    pub(super) fn of(path: &str, bucket_in_host: Option<&str>) -> Self {
        let decoded = percent_encoding::percent_decode_str(path).decode_utf8_lossy();
        let path = decoded.strip_prefix('/').unwrap_or(&decoded);
        let (bucket, key) = match bucket_in_host {
            Some(bucket) => (bucket, path),
            None => path.split_once('/').unwrap_or((path, "")),
        };
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self { bucket: some(bucket), key: some(key) }
    }

    /// The bucket, which may be no name of one.
    pub(super) fn bucket(&self) -> Option<&str> {
        self.bucket.as_deref()
    }
}

/// What was asked, as far as the answer repeats it.
pub(super) struct Asked<'a> {
    pub(super) resource: &'a str,
    pub(super) named: &'a Named,
    /// By a signature in the query.
    pub(super) presigned: bool,
    /// That requests are to be signed for.
    pub(super) region: &'a str,
    pub(super) id: &'a RequestId,
}

/// Adds `BucketName` or `Key`, `Resource`, `RequestId` and `HostId`; a document of another kind stays as it is.
pub(super) fn complete(document: &[u8], asked: &Asked<'_>) -> Vec<u8> {
    let Some(open) = document.trim_ascii_end().strip_suffix(END) else { return document.to_vec() };
    let mut completed = Vec::with_capacity(document.len() + 256);
    let open = if asked.presigned { with_query_code(open) } else { open.to_vec() };
    completed.extend_from_slice(with_s3_sentence(&open).as_deref().unwrap_or(&open));
    // s3cmd and others read the right region from here and sign again.
    let misformed = ["AuthorizationHeaderMalformed", "AuthorizationQueryParametersError"];
    let wrong_region = misformed.iter().any(|code| has_code(&open, code))
        && document.windows(REGION_IS_WRONG.len()).any(|w| w == REGION_IS_WRONG);
    let missing = if wrong_region {
        Some(("Region", asked.region))
    } else if has_code(&open, "NoSuchKey") {
        asked.named.key.as_deref().map(|key| ("Key", key))
    } else if has_code(&open, "NoSuchBucket") {
        asked.named.bucket.as_deref().map(|bucket| ("BucketName", bucket))
    } else {
        None
    };
    let ids = [("Resource", asked.resource), ("RequestId", &asked.id.request_id), ("HostId", &asked.id.host_id)];
    for (name, value) in missing.into_iter().chain(ids) {
        completed.extend_from_slice(format!("<{name}>{}</{name}>", escape(value)).as_bytes());
    }
    completed.extend_from_slice(END);
    completed
}

/// A form whose fields do not satisfy its policy is denied access; to s3s the policy itself is invalid. `None` for any other
/// error. The status of the answer is 403 then.
pub(super) fn refused_by_policy(document: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(document).ok()?;
    let (code, message) = (code_element("InvalidPolicyDocument"), "<Message>Policy condition");
    if !text.contains(&code) || !text.contains(message) {
        return None;
    }
    let denied = text.replacen(&code, &code_element("AccessDenied"), 1);
    Some(denied.replacen(message, "<Message>Invalid according to Policy: Policy Condition", 1).into_bytes())
}

fn code_element(code: &str) -> String {
    format!("<Code>{code}</Code>")
}

fn has_code(document: &[u8], code: &str) -> bool {
    let element = code_element(code);
    document.windows(element.len()).any(|window| window == element.as_bytes())
}

/// What is wrong with a signature in the header has another code where the signature is in the query.
fn with_query_code(document: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(document);
    let (header, query) = ("AuthorizationHeaderMalformed", "AuthorizationQueryParametersError");
    text.replacen(&code_element(header), &code_element(query), 1).into_bytes()
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

/// The document of a form's answer, with the place that the header names: s3s knows no more of it than the path.
pub(super) fn with_location(document: &[u8], location: &HeaderValue) -> Vec<u8> {
    let (open, close) = ("<Location>", "</Location>");
    let text = String::from_utf8_lossy(document);
    match (text.split_once(open), text.split_once(close), location.to_str()) {
        (Some((before, _)), Some((_, after)), Ok(location)) => {
            format!("{before}{open}{}{close}{after}", escape(location)).into_bytes()
        }
        _ => document.to_vec(),
    }
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

    fn completed(document: &[u8], path: &str, presigned: bool) -> Vec<u8> {
        let asked = Asked { resource: path, named: &Named::of(path, None), presigned, region: "eu-west-1", id: &id() };
        complete(document, &asked)
    }

    #[test]
    fn the_bucket_is_named_wherever_it_stands() {
        let named = |path, host| Named::of(path, host);
        assert_eq!(named("/b/k%20/x", None).key.as_deref(), Some("k /x"));
        assert_eq!(named("/k", Some("b")), Named { bucket: Some("b".into()), key: Some("k".into()) });
        let document = completed(b"<Error><Code>NoSuchBucket</Code></Error>", "/b/k", false);
        assert!(String::from_utf8_lossy(&document).contains("<BucketName>b</BucketName>"));
    }

    #[test]
    fn the_right_region_is_named_where_the_wrong_one_was_signed() {
        let document =
            b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region is wrong</Message></Error>";
        let document = completed(document, "/b", false);
        assert!(String::from_utf8_lossy(&document).contains("<Region>eu-west-1</Region>"));
    }

    #[test]
    fn a_malformed_signature_in_the_query_has_its_own_code() {
        let document = completed(b"<Error><Code>AuthorizationHeaderMalformed</Code></Error>", "/b", true);
        assert!(String::from_utf8_lossy(&document).contains("<Code>AuthorizationQueryParametersError</Code>"));
    }

    #[test]
    fn the_document_says_what_was_asked_and_under_which_id() {
        let document = b"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>";
        let completed = completed(document, "/b/a&b<\"c\">", false);
        assert_eq!(
            String::from_utf8_lossy(&completed),
            "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Key>a&amp;b&lt;&quot;c&quot;&gt;</Key><Resource>/b/a&amp;b&lt;&quot;c&quot;&gt;</Resource>\
             <RequestId>0123456789ABCDEF</RequestId><HostId>host+/=</HostId></Error>"
        );
    }

    #[test]
    fn s3s_speaks_with_the_sentences_of_s3() {
        let answer = s3s::S3Error::new(S3ErrorCode::MalformedXML).to_http_response().expect("serialised");
        let document = completed(&answer.into_body().bytes().expect("in memory"), "/b", false);
        let document = String::from_utf8_lossy(&document);
        assert!(document.contains("<Message>The XML you provided was not well-formed"), "{document}");
    }

    #[test]
    fn other_documents_stay() {
        assert_eq!(completed(b"<Result/>", "/", true), b"<Result/>");
        assert_eq!(completed(b"", "/", true), b"");
    }

    proptest! {
        #[test]
        fn escaping_leaves_no_markup(text in ".{0,80}") {
            let escaped = escape(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            prop_assert!(!escaped.chars().any(|c| c < ' ' && !matches!(c, '\t' | '\n')));
        }
    }

    #[test]
    fn a_form_that_its_policy_does_not_allow_is_denied() {
        let failed =
            b"<Error><Code>InvalidPolicyDocument</Code><Message>Policy condition &apos;eq&apos;</Message></Error>";
        let denied = refused_by_policy(failed).map(|d| String::from_utf8_lossy(&d).into_owned());
        assert!(
            denied
                .is_some_and(|d| d.contains("<Code>AccessDenied</Code>") && d.contains("Invalid according to Policy"))
        );
        let invalid =
            b"<Error><Code>InvalidPolicyDocument</Code><Message>failed to parse POST policy</Message></Error>";
        assert!(refused_by_policy(invalid).is_none());
    }
}
