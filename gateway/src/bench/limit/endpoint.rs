//! An S3 endpoint under test: where it is, how requests to it are signed, and a connection for single requests.
//!
//! Invariant: whatever is put at an endpoint lies in one bucket of its own, which [`Endpoint::clear`] removes.

use std::fmt;
use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;

use super::connection::{Body, Connection};
use super::http::Reply;
use super::presign::{Request, Signer, content_md5};

/// Bytes of an error that are shown.
const SHOWN: usize = 300;

/// Where another server is, as given on the command line.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) name: String,
    url: String,
    access: String,
    secret: String,
    region: String,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

impl Peer {
    /// `NAME=URL,ACCESS,SECRET[,REGION]`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write NAME=http://HOST:PORT,ACCESS_KEY,SECRET_KEY[,REGION]";
        let (name, rest) = text.split_once('=').ok_or(FORM)?;
        let fields: Vec<&str> = rest.split(',').collect();
        let (url, access, secret, region) = match fields.as_slice() {
            [url, access, secret] => (url, access, secret, &"us-east-1"),
            [url, access, secret, region] => (url, access, secret, region),
            _ => return Err(FORM.to_owned()),
        };
        if name.is_empty() || !url.starts_with("http://") {
            return Err(FORM.to_owned());
        }
        let [name, url, access, secret, region] = [name, url, access, secret, region].map(str::to_owned);
        Ok(Self { name, url, access, secret, region })
    }

    /// The keys of a gateway of our own.
    pub(crate) fn ours(url: &str, access: &str, secret: &str, region: &str) -> Self {
        let [name, url, access, secret, region] = ["lobgate", url, access, secret, region].map(str::to_owned);
        Self { name, url, access, secret, region }
    }
}

/// The authority of an `http://` URL, and its address.
pub(crate) async fn locate(url: &str) -> anyhow::Result<(String, SocketAddr)> {
    let authority = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
    let authority = authority
        .filter(|rest| !rest.contains('/'))
        .with_context(|| format!("{url} can't be measured: an address of the form http://HOST:PORT is needed"))?;
    let with_port = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    let found = tokio::net::lookup_host(&with_port).await.with_context(|| format!("{url} is nowhere"))?.next();
    Ok((authority.to_owned(), found.with_context(|| format!("{url} has no address"))?))
}

/// An endpoint, with the bucket that is measured in.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// How it is called in the report.
    pub(crate) name: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Signs requests to it.
    pub(crate) signer: Signer,
    /// The bucket.
    pub(crate) bucket: String,
}

impl Endpoint {
    /// Looks for an endpoint; nothing is sent yet.
    ///
    /// # Errors
    /// The URL names no address.
    pub(crate) async fn find(peer: &Peer, bucket: &str) -> anyhow::Result<Self> {
        let (host, address) = locate(&peer.url).await?;
        let signer = Signer::new(&host, &peer.access, &peer.secret, &peer.region)?;
        Ok(Self { name: peer.name.clone(), address, signer, bucket: bucket.to_owned() })
    }

    /// The path of a key.
    pub(crate) fn path(&self, key: &str) -> String {
        format!("/{}/{key}", self.bucket)
    }

    /// The head of a request for an object.
    pub(crate) fn head(&self, method: &str, key: &str, length: Option<u64>) -> Bytes {
        self.signer.head(&Request { method, path: &self.path(key), length, ..Request::default() })
    }

    /// The head of a request for the bucket.
    pub(crate) fn list_head(&self, query: &[(&str, &str)]) -> Bytes {
        self.signer.head(&Request { method: "GET", path: &format!("/{}", self.bucket), query, ..Request::default() })
    }

    /// A connection for single requests.
    pub(crate) async fn talk(&self) -> anyhow::Result<Talk> {
        let connection = Connection::open(self.address).await;
        let connection = connection.with_context(|| format!("{} does not listen at {}", self.name, self.address))?;
        Ok(Talk { endpoint: self.clone(), connection })
    }

    /// Deletes all objects below a prefix.
    pub(crate) async fn empty(&self, prefix: &str) -> anyhow::Result<()> {
        let mut talk = self.talk().await?;
        let query = [("list-type", "2"), ("prefix", prefix)];
        loop {
            let page = talk.ok(&self.list_head(&query), b"", "a listing").await?;
            let keys = values(&page, "Key");
            if keys.is_empty() {
                return Ok(());
            }
            talk.delete_many(&keys).await?;
        }
    }

    /// Empties and deletes the bucket.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        self.empty("").await?;
        let mut talk = self.talk().await?;
        let path = format!("/{}", self.bucket);
        let head = self.signer.head(&Request { method: "DELETE", path: &path, ..Request::default() });
        talk.ok(&head, b"", "DeleteBucket").await.map(|_| ())
    }
}

/// One connection to an endpoint, one request at a time.
pub(crate) struct Talk {
    endpoint: Endpoint,
    connection: Connection,
}

impl Talk {
    /// Sends a request.
    pub(crate) async fn ask(&mut self, head: &[u8], body: &[u8]) -> anyhow::Result<(Reply, Vec<u8>)> {
        let mut kept = Vec::new();
        let reply = self.connection.exchange(head, Body::Exactly(body), Some(&mut kept)).await;
        let reply = reply.with_context(|| format!("{} broke off", self.endpoint.name))?;
        Ok((reply, kept))
    }

    /// Sends a request that has to succeed.
    pub(crate) async fn ok(&mut self, head: &[u8], body: &[u8], what: &str) -> anyhow::Result<Vec<u8>> {
        let (reply, kept) = self.ask(head, body).await?;
        let name = &self.endpoint.name;
        anyhow::ensure!(
            (200..300).contains(&reply.status),
            "{name} answered {what} with {}: {}",
            reply.status,
            shown(&kept)
        );
        // CompleteMultipartUpload and CopyObject may fail after their status was sent.
        anyhow::ensure!(!kept.windows(7).take(200).any(|part| part == b"<Error>"), "{name}: {what}: {}", shown(&kept));
        Ok(kept)
    }

    /// Makes the bucket.
    pub(crate) async fn create_bucket(&mut self) -> anyhow::Result<()> {
        let path = format!("/{}", self.endpoint.bucket);
        let head =
            self.endpoint.signer.head(&Request { method: "PUT", path: &path, length: Some(0), ..Request::default() });
        self.ok(&head, b"", "CreateBucket").await.map(|_| ())
    }

    /// Stores an object.
    pub(crate) async fn put(&mut self, key: &str, body: &[u8]) -> anyhow::Result<()> {
        let head = self.endpoint.head("PUT", key, Some(body.len() as u64));
        self.ok(&head, body, "PutObject").await.map(|_| ())
    }

    /// Reads an object and compares it with what was stored.
    pub(crate) async fn compare(&mut self, key: &str, body: &[u8]) -> anyhow::Result<()> {
        let got = self.ok(&self.endpoint.head("GET", key, None), b"", "GetObject").await?;
        self.same(&got, body, key)
    }

    pub(crate) fn same(&self, got: &[u8], body: &[u8], key: &str) -> anyhow::Result<()> {
        let name = &self.endpoint.name;
        anyhow::ensure!(
            got == body,
            "{name} gave other bytes than were put: {} of {} bytes of {key}",
            got.len(),
            body.len()
        );
        Ok(())
    }

    /// DeleteObjects.
    pub(crate) async fn delete_many(&mut self, keys: &[String]) -> anyhow::Result<()> {
        let (head, body) = delete_many(&self.endpoint, keys);
        self.ok(&head, &body, "DeleteObjects").await.map(|_| ())
    }
}

/// A DeleteObjects request.
pub(crate) fn delete_many(endpoint: &Endpoint, keys: &[String]) -> (Bytes, Vec<u8>) {
    let mut body = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>".to_owned();
    for key in keys {
        body.push_str(&format!("<Object><Key>{key}</Key></Object>"));
    }
    body.push_str("</Delete>");
    let head = endpoint.signer.head(&Request {
        method: "POST",
        path: &format!("/{}", endpoint.bucket),
        query: &[("delete", "")],
        headers: &[("content-md5", &content_md5(body.as_bytes()))],
        length: Some(body.len() as u64),
    });
    (head, body.into_bytes())
}

/// What stands in the elements of a name. Keys of a bench need no entities.
pub(crate) fn values(xml: &[u8], element: &str) -> Vec<String> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let text = String::from_utf8_lossy(xml);
    let parts = text.split(open.as_str()).skip(1);
    parts.filter_map(|part| part.split(close.as_str()).next().map(str::to_owned)).collect()
}

/// How often a text stands in a body.
pub(crate) fn count(body: &[u8], text: &str) -> usize {
    body.windows(text.len()).filter(|part| *part == text.as_bytes()).count()
}

/// The beginning of an error document, on one line.
pub(crate) fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned();
    if text.is_empty() { "(no body)".to_owned() } else { text.split_whitespace().collect::<Vec<_>>().join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_a_name_an_address_and_keys() {
        let peer = Peer::parse("garage=http://127.0.0.1:3900,GK1,secret,garage").unwrap();
        assert_eq!((peer.name.as_str(), peer.region.as_str()), ("garage", "garage"));
        assert_eq!(Peer::parse("x=http://h:1,a,b").unwrap().region, "us-east-1");
        assert!(!format!("{peer:?}").contains("secret"));
        for wrong in ["http://h:1,a,b", "x=https://h:1,a,b", "x=http://h:1,a", "x=http://h,a,b,c,d", "=http://h:1,a,b"]
        {
            assert!(Peer::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_taken_from_a_listing() {
        let page = b"<r><Key>a/1</Key><Size>1</Size><Key>b</Key><IsTruncated>true</IsTruncated></r>";
        assert_eq!(values(page, "Key"), ["a/1", "b"]);
        assert_eq!(values(page, "IsTruncated"), ["true"]);
        assert_eq!(count(page, "<Key>"), 2);
        assert!(values(page, "Prefix").is_empty());
    }
}
