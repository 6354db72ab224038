//! AWS Signature Version 4, written down once more so that the gateway is not checked against its own library.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use time::macros::format_description;

/// Who signs, for where and when.
#[derive(Clone)]
pub(crate) struct Signer {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) region: String,
    pub(crate) time: OffsetDateTime,
}

impl Signer {
    /// `20150830T123600Z`
    pub(crate) fn timestamp(&self) -> String {
        let format = format_description!("[year][month][day]T[hour][minute][second]Z");
        self.time.format(format).expect("a printable time")
    }

    pub(crate) fn scope(&self) -> String {
        format!("{}/{}/s3/aws4_request", &self.timestamp()[..8], self.region)
    }

    /// Signs a request whose headers are (lower-case name, value) and whose query is as it goes on the wire.
    pub(crate) fn sign(&self, request: &Canonical<'_>) -> String {
        let headers = sorted(request.headers);
        let canonical_headers: String =
            headers.iter().map(|(name, value)| format!("{name}:{}\n", collapsed(value))).collect();
        let canonical = format!(
            "{}\n{}\n{}\n{canonical_headers}\n{}\n{}",
            request.method,
            request.path,
            canonical_query(request.query),
            signed_names(request.headers),
            request.payload_hash,
        );
        let scope = self.scope();
        self.seal(&format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{}", self.timestamp(), sha256_hex(canonical.as_bytes())))
    }

    /// The signature of one chunk of a signed `aws-chunked` body.
    pub(crate) fn sign_chunk(&self, previous: &str, data: &[u8]) -> String {
        let (time, scope, empty) = (self.timestamp(), self.scope(), sha256_hex(b""));
        self.seal(&format!("AWS4-HMAC-SHA256-PAYLOAD\n{time}\n{scope}\n{previous}\n{empty}\n{}", sha256_hex(data)))
    }

    /// The signature of the trailer of a signed `aws-chunked` body: `lines` are `name:value\n`.
    pub(crate) fn sign_trailer(&self, previous: &str, lines: &str) -> String {
        let (time, scope) = (self.timestamp(), self.scope());
        self.seal(&format!("AWS4-HMAC-SHA256-TRAILER\n{time}\n{scope}\n{previous}\n{}", sha256_hex(lines.as_bytes())))
    }

    /// The signature of a text: of the policy of a form, for one.
    pub(crate) fn seal(&self, text: &str) -> String {
        let mut key = hmac(format!("AWS4{}", self.secret_key).as_bytes(), &self.timestamp().as_bytes()[..8]);
        for part in [self.region.as_str(), "s3", "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        hex::encode(hmac(&key, text.as_bytes()))
    }
}

/// What a signature covers.
pub(crate) struct Canonical<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) payload_hash: &'a str,
}

/// The `SignedHeaders` list.
pub(crate) fn signed_names(headers: &[(String, String)]) -> String {
    let names: Vec<String> = sorted(headers).into_iter().map(|(name, _)| name).collect();
    names.join(";")
}

pub(crate) fn sha256_hex(data: &[u8]) -> String {
    hex::encode(Sha256::digest(data))
}

fn sorted(headers: &[(String, String)]) -> Vec<(String, String)> {
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
    headers.sort();
    headers
}

/// Without outer spaces, and inner ones made one: as values are signed.
fn collapsed(value: &str) -> String {
    value.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn canonical_query(query: &str) -> String {
    // A name may be written as oddly as it likes; what is signed is the name.
    let name = |text: &str| encode(&percent_encoding::percent_decode_str(text).decode_utf8_lossy(), false);
    let mut pairs: Vec<(String, &str)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (name(key), value))
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let mut padded = [0u8; BLOCK];
    if key.len() > BLOCK {
        padded[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        padded[..key.len()].copy_from_slice(key);
    }
    let keyed = |pad: u8| -> Vec<u8> { padded.iter().map(|byte| byte ^ pad).collect() };
    let inner = Sha256::new().chain_update(keyed(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(keyed(0x5c)).chain_update(inner).finalize().to_vec()
}

/// Percent-encoding as S3 signs it: everything but unreserved characters; `/` stays where `keep_slash`.
pub(crate) fn encode(text: &str, keep_slash: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (keep_slash && byte == b'/') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[test]
fn signer_agrees_with_the_documented_example() {
    // "Example: GET Object" of the S3 documentation of signature version 4.
    let signer = Signer {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        region: "us-east-1".to_owned(),
        time: time::macros::datetime!(2013-05-24 00:00 UTC),
    };
    let empty = sha256_hex(b"");
    let headers = [
        ("host", "examplebucket.s3.amazonaws.com"),
        ("range", "bytes=0-9"),
        ("x-amz-content-sha256", &empty),
        ("x-amz-date", "20130524T000000Z"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let signature = signer.sign(&Canonical {
        method: "GET",
        path: "/test.txt",
        query: "",
        headers: &headers,
        payload_hash: &empty,
    });
    assert_eq!(signature, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}
