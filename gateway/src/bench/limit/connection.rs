//! A connection to an endpoint: requests that are bytes already, bodies that no server has seen before.
//!
//! Invariant: a connection that its server will not use again is replaced before the next request.

use std::io;
use std::net::SocketAddr;

use bytes::Buf;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::http::{Reader, Reply};

/// What follows a head.
pub(crate) enum Body<'a> {
    /// These bytes.
    Exactly(&'a [u8]),
    /// Bytes that no other request has.
    Stamped(&'a mut Upload),
}

/// The body of requests: some bytes, over and over until `length` are sent. Every turn and every request has others, so
/// that no server can pass for fast because it keeps equal bytes once.
#[derive(Clone)]
pub(crate) struct Upload {
    bytes: Vec<u8>,
    length: u64,
    stamp: u64,
}

/// How far apart the bytes lie that make bodies differ: less than any block that a server compares.
const STAMPED: usize = 64 << 10;

impl Upload {
    /// A body of so many bytes; `bytes` must not be empty where `length` isn't 0.
    pub(crate) fn new(bytes: &[u8], length: u64) -> Self {
        let (stamp, _) = uuid::Uuid::new_v4().as_u64_pair();
        Self { bytes: take(bytes, length).to_vec(), length, stamp }
    }

    /// No body.
    pub(crate) fn none() -> Self {
        Self { bytes: Vec::new(), length: 0, stamp: 0 }
    }

    /// Its length.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    fn restamp(&mut self) {
        self.stamp = self.stamp.wrapping_add(1);
        let stamp = self.stamp.to_le_bytes();
        for block in self.bytes.chunks_mut(STAMPED) {
            let length = stamp.len().min(block.len());
            block[..length].copy_from_slice(&stamp[..length]);
        }
    }
}

/// A connection to an endpoint.
pub(crate) struct Connection {
    address: SocketAddr,
    stream: TcpStream,
    reader: Reader,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there.
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { address, stream: connect(address).await?, reader: Reader::new() })
    }

    /// Sends a request with its body and reads the response, whose body is added to `kept`.
    ///
    /// # Errors
    /// The connection broke, or the answer is no HTTP.
    pub(crate) async fn exchange(
        &mut self,
        head: &[u8],
        body: Body<'_>,
        kept: Option<&mut Vec<u8>>,
    ) -> io::Result<Reply> {
        let reply = self.exchange_last(head, body, kept).await?;
        if !reply.keep_alive {
            self.stream = connect(self.address).await?;
            self.reader.clear();
        }
        Ok(reply)
    }

    /// Sends a request and reads the response, as [`Connection::exchange`]; where that does not keep the connection alive,
    /// no other request may follow.
    ///
    /// # Errors
    /// As [`Connection::exchange`].
    pub(crate) async fn exchange_last(
        &mut self,
        head: &[u8],
        body: Body<'_>,
        kept: Option<&mut Vec<u8>>,
    ) -> io::Result<Reply> {
        // A server that refuses a body answers before it has it, and may close the way in.
        let sent = self.send(head, body).await;
        match (self.reader.reply(&mut self.stream, kept).await, sent) {
            (Ok(reply), Ok(())) => Ok(reply),
            (Ok(reply), Err(_)) => Ok(Reply { keep_alive: false, ..reply }),
            (Err(_), Err(error)) | (Err(error), Ok(())) => Err(error),
        }
    }

    async fn send(&mut self, head: &[u8], body: Body<'_>) -> io::Result<()> {
        let upload = match body {
            Body::Exactly(bytes) => return self.stream.write_all_buf(&mut Buf::chain(head, bytes)).await,
            Body::Stamped(upload) => upload,
        };
        upload.restamp();
        let first = take(&upload.bytes, upload.length);
        self.stream.write_all_buf(&mut Buf::chain(head, first)).await?;
        let mut left = upload.length - first.len() as u64;
        while left > 0 && !upload.bytes.is_empty() {
            upload.restamp();
            let next = take(&upload.bytes, left);
            self.stream.write_all(next).await?;
            left -= next.len() as u64;
        }
        Ok(())
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The first `length` bytes, or all there are.
pub(crate) fn take(body: &[u8], length: u64) -> &[u8] {
    &body[..usize::try_from(length).unwrap_or(usize::MAX).min(body.len())]
}
