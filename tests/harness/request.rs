//! A request built by hand: signed rightly unless told otherwise, and with anything that a test wants in it.

use time::{Duration, OffsetDateTime};

use super::chunked::Chunked;
use super::client::REGION;
use super::raw::{Connection, Reply};
use super::server::{ACCESS_KEY, SECRET_KEY};
use super::sigv4::{Canonical, Signer, encode, sha256_hex, signed_names};

/// How a request proves who sent it.
#[derive(Clone, PartialEq, Eq)]
enum Proof {
    Header,
    Presigned { seconds: i64 },
    None,
}

/// A request under construction; nothing is sent before [`RawRequest::send`].
#[derive(Clone)]
pub(crate) struct RawRequest {
    endpoint: String,
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    unsigned_headers: Vec<(String, String)>,
    body: Vec<u8>,
    content_length: Option<String>,
    payload_hash: Option<String>,
    chunked: Option<Chunked>,
    proof: Proof,
    signer: Signer,
    tamper: bool,
}

impl RawRequest {
    /// `target` is path and query as they go on the wire, percent-encoded.
    pub(crate) fn new(endpoint: &str, method: &str, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            endpoint: endpoint.to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
            unsigned_headers: Vec::new(),
            body: Vec::new(),
            content_length: None,
            payload_hash: None,
            chunked: None,
            proof: Proof::Header,
            signer: Signer {
                access_key: ACCESS_KEY.to_owned(),
                secret_key: SECRET_KEY.to_owned(),
                region: REGION.to_owned(),
                time: OffsetDateTime::now_utc(),
            },
            tamper: false,
        }
    }

    /// A signed header; a `host` given here replaces the endpoint's.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// A header that the signature does not cover.
    pub(crate) fn unsigned_header(mut self, name: &str, value: &str) -> Self {
        self.unsigned_headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn body(mut self, data: impl AsRef<[u8]>) -> Self {
        self.body = data.as_ref().to_vec();
        self
    }

    /// With the `Content-MD5` of the body that was set.
    pub(crate) fn content_md5(self) -> Self {
        use md5::Digest as _;
        let md5 = super::base64(md5::Md5::digest(&self.body));
        self.header("content-md5", &md5)
    }

    /// A `Content-Length` other than the true one.
    pub(crate) fn content_length(mut self, value: &str) -> Self {
        self.content_length = Some(value.to_owned());
        self
    }

    /// An `x-amz-content-sha256` other than the body's.
    pub(crate) fn payload_hash(mut self, value: &str) -> Self {
        self.payload_hash = Some(value.to_owned());
        self
    }

    pub(crate) fn chunked(mut self, chunked: Chunked) -> Self {
        self.chunked = Some(chunked);
        self
    }

    pub(crate) fn anonymous(mut self) -> Self {
        self.proof = Proof::None;
        self
    }

    pub(crate) fn presigned(mut self, seconds: i64) -> Self {
        self.proof = Proof::Presigned { seconds };
        self
    }

    pub(crate) fn credentials(mut self, access_key: &str, secret_key: &str) -> Self {
        access_key.clone_into(&mut self.signer.access_key);
        secret_key.clone_into(&mut self.signer.secret_key);
        self
    }

    pub(crate) fn region(mut self, region: &str) -> Self {
        region.clone_into(&mut self.signer.region);
        self
    }

    /// Signed as if at another time.
    pub(crate) fn at(mut self, offset: Duration) -> Self {
        self.signer.time += offset;
        self
    }

    /// Breaks the signature.
    pub(crate) fn tampered(mut self) -> Self {
        self.tamper = true;
        self
    }

    /// Head and body as they go on the wire.
    pub(crate) fn wire(&self) -> (Vec<u8>, Vec<u8>) {
        let payload_hash = self.payload_hash.clone().unwrap_or_else(|| match (&self.chunked, &self.proof) {
            (Some(chunked), _) => chunked.payload_hash().to_owned(),
            (None, Proof::Presigned { .. }) => "UNSIGNED-PAYLOAD".to_owned(),
            (None, _) => sha256_hex(&self.body),
        });
        let mut signed = self.headers.clone();
        if !signed.iter().any(|(name, _)| name == "host") {
            signed.push(("host".to_owned(), self.endpoint.trim_start_matches("http://").to_owned()));
        }
        if let Some(chunked) = &self.chunked {
            signed.extend(chunked.headers(self.body.len()));
        }
        let mut query = self.query.clone();
        let mut headers;
        let mut signature = String::new();
        match &self.proof {
            Proof::None => headers = signed,
            Proof::Header => {
                signed.push(("x-amz-content-sha256".to_owned(), payload_hash.clone()));
                signed.push(("x-amz-date".to_owned(), self.signer.timestamp()));
                signature = self.sign(&query, &signed, &payload_hash);
                let (scope, names) = (self.signer.scope(), signed_names(&signed));
                let credential = format!("{}/{scope}", self.signer.access_key);
                let value =
                    format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}");
                headers = signed;
                headers.push(("authorization".to_owned(), value));
            }
            Proof::Presigned { seconds } => {
                let credential = encode(&format!("{}/{}", self.signer.access_key, self.signer.scope()), false);
                let names = encode(&signed_names(&signed), false);
                let separator = if query.is_empty() { "" } else { "&" };
                query.push_str(&format!(
                    "{separator}X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={}\
                     &X-Amz-Expires={seconds}&X-Amz-SignedHeaders={names}",
                    self.signer.timestamp()
                ));
                signature = self.sign(&query, &signed, &payload_hash);
                query.push_str(&format!("&X-Amz-Signature={signature}"));
                headers = signed;
            }
        }
        let body = match &self.chunked {
            Some(chunked) => chunked.encode(&self.body, &self.signer, &signature),
            None => self.body.clone(),
        };
        headers.extend(self.unsigned_headers.iter().cloned());
        let has_length = headers.iter().any(|(name, _)| name == "content-length" || name == "transfer-encoding");
        let may_have_body = !matches!(self.method.as_str(), "GET" | "HEAD" | "DELETE") || !body.is_empty();
        if !has_length && may_have_body {
            let length = self.content_length.clone().unwrap_or_else(|| body.len().to_string());
            headers.push(("content-length".to_owned(), length));
        }
        let target = if query.is_empty() { self.path.clone() } else { format!("{}?{query}", self.path) };
        let mut head = format!("{} {target} HTTP/1.1\r\n", self.method).into_bytes();
        for (name, value) in &headers {
            head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        (head, body)
    }

    /// Path and query as they go on the wire, of a presigned request all that it takes.
    pub(crate) fn target(&self) -> String {
        let (head, _) = self.wire();
        let head = String::from_utf8(head).expect("a head of ASCII");
        head.split(' ').nth(1).expect("a target").to_owned()
    }

    /// Sends it all and reads the whole answer.
    pub(crate) async fn send(&self) -> Reply {
        let (mut head, body) = self.wire();
        head.extend_from_slice(&body);
        let connection = Connection::open(&self.endpoint).await;
        connection.exchange(&head, self.method == "HEAD").await
    }

    /// [`RawRequest::send`] to a gateway that may go away.
    pub(crate) async fn try_send(&self) -> Result<Reply, String> {
        let (mut head, body) = self.wire();
        head.extend_from_slice(&body);
        Connection::try_open(&self.endpoint).await?.try_exchange(&head, self.method == "HEAD").await
    }

    /// Sends it all and leaves the answer unread, on a connection with a small receive buffer.
    pub(crate) async fn open(&self) -> Connection {
        let (mut head, body) = self.wire();
        head.extend_from_slice(&body);
        let mut connection = Connection::open_narrow(&self.endpoint).await;
        assert!(connection.write(&head).await, "the gateway takes the request");
        connection
    }

    fn sign(&self, query: &str, headers: &[(String, String)], payload_hash: &str) -> String {
        let path = &self.path;
        let signature = self.signer.sign(&Canonical { method: &self.method, path, query, headers, payload_hash });
        if self.tamper { signature.chars().rev().collect() } else { signature }
    }
}
