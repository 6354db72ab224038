//! Presigned requests: all of a request that a signature needs is in its target, so its bytes are made once and sent often.
//!
//! AWS Signature Version 4 in the query, the payload unsigned, as `aws s3 presign` makes them; every endpoint that speaks S3
//! takes them. Invariant: whatever header is added is signed: servers refuse `x-amz-*` headers that are not.

use bytes::Bytes;
use s3s_sigv4::{
    AmzDate, calculate_signature_with_key, create_presigned_canonical_request, create_string_to_sign,
    derive_signing_key,
};
use time::OffsetDateTime;
use time::macros::format_description;

/// How long the requests may be used: longer than any run.
const EXPIRES_SECONDS: &str = "604800";
const SERVICE: &str = "s3";

/// Signs requests to one endpoint.
#[derive(Clone)]
pub(crate) struct Signer {
    host: String,
    credential: String,
    region: String,
    date: AmzDate,
    key: [u8; 32],
}

/// What is asked of an endpoint.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Request<'a> {
    /// `GET`, `PUT`, …
    pub(crate) method: &'a str,
    /// The path, not encoded.
    pub(crate) path: &'a str,
    /// Names and values of the query, not encoded.
    pub(crate) query: &'a [(&'a str, &'a str)],
    /// Headers besides `host`, names in lower case.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// Bytes of the body that will follow.
    pub(crate) length: Option<u64>,
}

impl Signer {
    /// A signer for `host` (with its port, as it stands in the header), from now on.
    ///
    /// # Errors
    /// The clock shows a date that S3 has no form for.
    pub(crate) fn new(host: &str, access: &str, secret: &str, region: &str) -> anyhow::Result<Self> {
        let form = format_description!("[year][month][day]T[hour][minute][second]Z");
        let now = OffsetDateTime::now_utc().format(&form)?;
        Self::at(&now, host, access, secret, region)
    }

    fn at(now: &str, host: &str, access: &str, secret: &str, region: &str) -> anyhow::Result<Self> {
        let date = AmzDate::parse(now).map_err(|_| anyhow::anyhow!("{now} is no date that can be signed"))?;
        Ok(Self {
            host: host.to_owned(),
            credential: format!("{access}/{}/{region}/{SERVICE}/aws4_request", date.fmt_date()),
            region: region.to_owned(),
            key: derive_signing_key(secret, &date, region, SERVICE),
            date,
        })
    }

    /// The head of a request, ready to be sent.
    pub(crate) fn head(&self, request: &Request<'_>) -> Bytes {
        let target = self.target(request, EXPIRES_SECONDS);
        let mut head = format!("{} {target} HTTP/1.1\r\nhost: {}\r\n", request.method, self.host);
        for (name, value) in request.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(length) = request.length {
            head.push_str(&format!("content-length: {length}\r\n"));
        }
        head.push_str("\r\n");
        head.into()
    }

    fn target(&self, request: &Request<'_>, expires: &str) -> String {
        let mut headers = vec![("host", self.host.as_str())];
        headers.extend(request.headers);
        headers.sort_unstable_by_key(|(name, _)| *name);
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let (names, date) = (names.join(";"), self.date.fmt_iso8601());
        let mut query: Vec<(&str, &str)> = request.query.to_vec();
        query.extend([
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", &self.credential),
            ("X-Amz-Date", date.as_str()),
            ("X-Amz-Expires", expires),
            ("X-Amz-SignedHeaders", &names),
        ]);
        let canonical = create_presigned_canonical_request(request.method, request.path, &query, &headers);
        let to_sign = create_string_to_sign(&canonical, &self.date, &self.region, SERVICE);
        let signature = hex::encode(calculate_signature_with_key(&to_sign, &self.key));
        // Lines two and three of the canonical request are the path and the query, encoded as they have to be.
        let mut lines = canonical.lines().skip(1);
        let (path, query) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        format!("{path}?{query}&X-Amz-Signature={signature}")
    }
}

/// The `Content-MD5` of a body, which DeleteObjects asks for.
pub(crate) fn content_md5(body: &[u8]) -> String {
    use base64::Engine as _;
    use md5::Digest as _;
    base64::engine::general_purpose::STANDARD.encode(md5::Md5::digest(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's "Authenticating Requests: Using Query Parameters".
    #[test]
    fn the_example_of_aws_is_signed_as_aws_does() {
        let signer = Signer::at(
            "20130524T000000Z",
            "examplebucket.s3.amazonaws.com",
            "AKIAIOSFODNN7EXAMPLE",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "us-east-1",
        )
        .unwrap();
        let target = signer.target(&Request { method: "GET", path: "/test.txt", ..Request::default() }, "86400");
        assert_eq!(
            target,
            "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request\
             &X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        );
    }

    #[test]
    fn a_head_is_complete_and_its_headers_are_signed() {
        let signer = Signer::new("127.0.0.1:9000", "AK", "secret-key", "us-east-1").unwrap();
        let head = signer.head(&Request {
            method: "PUT",
            path: "/bucket/a b",
            query: &[("partNumber", "1")],
            headers: &[("x-amz-copy-source", "/bucket/c")],
            length: Some(0),
        });
        let text = std::str::from_utf8(&head).unwrap();
        assert!(text.starts_with("PUT /bucket/a%20b?"), "{text}");
        for part in ["partNumber=1", "SignedHeaders=host%3Bx-amz-copy-source", "\r\nhost: 127.0.0.1:9000\r\n"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.ends_with("\r\nx-amz-copy-source: /bucket/c\r\ncontent-length: 0\r\n\r\n"), "{text}");
    }

    #[test]
    fn the_md5_of_nothing_is_known() {
        assert_eq!(content_md5(b""), "1B2M2Y8AsgTpgAmY7PhCfg==");
    }
}
