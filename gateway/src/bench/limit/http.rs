//! Responses of HTTP/1.1, read in as few instructions as measuring allows: where each ends, and what it said.
//!
//! Bodies are drained into one buffer that is used again for every response, or kept where they are compared. Invariant:
//! after a response that may be followed by another, not a byte of it is left unread, and none of the next is lost.

use std::io;
use std::ops::Range;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::connection::take;

/// Bytes read at once, and more than the head of a response has.
const BUFFER: usize = 256 << 10;

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Its status.
    pub(crate) status: u16,
    /// Bytes of its body.
    pub(crate) bytes: u64,
    /// Whether the connection can be used again.
    pub(crate) keep_alive: bool,
}

/// Reads responses, one after another.
pub(crate) struct Reader {
    buffer: Box<[u8]>,
    /// What came and was not used yet.
    ready: Range<usize>,
}

/// How a body ends.
enum Framing {
    Length(u64),
    Chunked,
    /// With the connection.
    Close,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; BUFFER].into_boxed_slice(), ready: 0..0 }
    }

    /// Forgets what was read of a connection that is given up.
    pub(crate) fn clear(&mut self) {
        self.ready = 0..0;
    }

    /// Reads the next response; its body is added to `kept`.
    ///
    /// # Errors
    /// The connection broke, or this is no HTTP.
    pub(crate) async fn reply(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        mut kept: Option<&mut Vec<u8>>,
    ) -> io::Result<Reply> {
        let (status, framing, mut keep_alive) = loop {
            let end = self.until(stream, b"\r\n\r\n").await?;
            let head = parse(&self.buffer[self.ready.start..end])?;
            self.ready.start = end;
            // 100 Continue and its like come before the response.
            if head.0 >= 200 {
                break head;
            }
        };
        let bytes = match framing {
            Framing::Length(length) => self.drain(stream, length, &mut kept).await?,
            Framing::Chunked => self.chunks(stream, &mut kept).await?,
            Framing::Close => {
                keep_alive = false;
                self.rest(stream, &mut kept).await?
            }
        };
        Ok(Reply { status, bytes, keep_alive })
    }

    /// Reads until a mark is there, and says where it ends.
    async fn until(&mut self, stream: &mut (impl AsyncRead + Unpin), mark: &[u8]) -> io::Result<usize> {
        let mut looked = self.ready.start;
        loop {
            let unread = &self.buffer[looked..self.ready.end];
            if let Some(at) = unread.windows(mark.len()).position(|bytes| bytes == mark) {
                return Ok(looked + at + mark.len());
            }
            // The mark may begin in what is there.
            let behind = self.ready.end.saturating_sub(mark.len() - 1).max(self.ready.start) - self.ready.start;
            self.fill(stream).await?;
            looked = self.ready.start + behind;
        }
    }

    /// Reads more behind what is ready.
    async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        if self.ready.is_empty() {
            self.clear();
        }
        if self.ready.end == self.buffer.len() {
            if self.ready.start == 0 {
                return Err(malformed("a line of the response is too long"));
            }
            self.buffer.copy_within(self.ready.clone(), 0);
            self.ready = 0..self.ready.len();
        }
        match stream.read(&mut self.buffer[self.ready.end..]).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended within a response")),
            got => {
                self.ready.end += got;
                Ok(())
            }
        }
    }

    /// Uses up so many bytes of a body.
    async fn drain(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        length: u64,
        kept: &mut Option<&mut Vec<u8>>,
    ) -> io::Result<u64> {
        let mut left = length;
        while left > 0 {
            if self.ready.is_empty() {
                self.fill(stream).await?;
            }
            left -= self.use_up(left, kept);
        }
        Ok(length)
    }

    fn use_up(&mut self, most: u64, kept: &mut Option<&mut Vec<u8>>) -> u64 {
        let part = take(&self.buffer[self.ready.clone()], most);
        if let Some(kept) = kept {
            kept.extend_from_slice(part);
        }
        let used = part.len();
        self.ready.start += used;
        used as u64
    }

    async fn chunks(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        kept: &mut Option<&mut Vec<u8>>,
    ) -> io::Result<u64> {
        let mut total = 0;
        loop {
            let end = self.until(stream, b"\r\n").await?;
            let line = &self.buffer[self.ready.start..end - 2];
            let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
            let text = std::str::from_utf8(digits).unwrap_or_default().trim();
            let size = u64::from_str_radix(text, 16).map_err(|_| malformed("a chunk has no size"))?;
            self.ready.start = end;
            if size == 0 {
                return self.trailers(stream).await.map(|()| total);
            }
            total += self.drain(stream, size, kept).await?;
            if self.until(stream, b"\r\n").await? != self.ready.start + 2 {
                return Err(malformed("a chunk does not end where it should"));
            }
            self.ready.start += 2;
        }
    }

    async fn trailers(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        loop {
            let end = self.until(stream, b"\r\n").await?;
            let empty = end - self.ready.start == 2;
            self.ready.start = end;
            if empty {
                return Ok(());
            }
        }
    }

    /// A body that ends with the connection.
    async fn rest(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        kept: &mut Option<&mut Vec<u8>>,
    ) -> io::Result<u64> {
        let mut total = 0;
        loop {
            total += self.use_up(u64::MAX, kept);
            match self.fill(stream).await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(total),
                more => more?,
            }
        }
    }
}

/// Status, framing, and whether another response may follow.
fn parse(head: &[u8]) -> io::Result<(u16, Framing, bool)> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    let number = first.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let (true, Some(status)) = (first.starts_with(b"HTTP/1."), number) else {
        return Err(malformed("the answer is no HTTP/1.1"));
    };
    let mut keep_alive = first.starts_with(b"HTTP/1.1");
    let bodiless = status < 200 || status == 204 || status == 304;
    let mut framing = if bodiless { Framing::Length(0) } else { Framing::Close };
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"connection") {
            keep_alive = !value.eq_ignore_ascii_case(b"close");
        } else if bodiless || matches!(framing, Framing::Chunked) {
            // Neither header counts any more.
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            framing = Framing::Length(length.ok_or_else(|| malformed("Content-Length is no number"))?);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
            framing = Framing::Chunked;
        }
    }
    Ok((status, framing, keep_alive))
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Reads as many responses as are expected, from a stream that gives `step` bytes at a time.
    async fn read(text: &'static str, step: usize, count: usize) -> io::Result<Vec<(Reply, String)>> {
        let (mut near, mut far) = tokio::io::duplex(step);
        let writing = tokio::spawn(async move {
            // The reader may stop before the end.
            let _ = far.write_all(text.as_bytes()).await;
        });
        let (mut reader, mut replies) = (Reader::new(), Vec::new());
        for _ in 0..count {
            let mut kept = Vec::new();
            let reply = reader.reply(&mut near, Some(&mut kept)).await?;
            replies.push((reply, String::from_utf8(kept).unwrap()));
        }
        drop(near);
        writing.await.unwrap();
        Ok(replies)
    }

    fn reply(status: u16, body: &str, keep_alive: bool) -> (Reply, String) {
        (Reply { status, bytes: body.len() as u64, keep_alive }, body.to_owned())
    }

    #[tokio::test]
    async fn responses_follow_each_other_however_they_are_split() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
                    HTTP/1.1 204 No Content\r\n\r\n\
                    HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n3;x=y\r\nefg\r\n0\r\nx-crc: 1\r\n\r\n\
                    HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 Forbidden\r\nConnection: close\r\ncontent-length: 2\r\n\r\nno";
        for step in [1, 2, 3, 7, 64, 4096] {
            let replies = read(text, step, 4).await.unwrap();
            let expected =
                [reply(200, "hello", true), reply(204, "", true), reply(200, "abcdefg", true), reply(403, "no", false)];
            assert_eq!(replies, expected, "{step} bytes at a time");
        }
    }

    #[tokio::test]
    async fn a_body_longer_than_the_buffer_is_drained() {
        let (mut near, mut far) = tokio::io::duplex(64 << 10);
        let length = 3 * BUFFER + 17;
        tokio::spawn(async move {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            far.write_all(head.as_bytes()).await.unwrap();
            far.write_all(&vec![7; length]).await.unwrap();
            far.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        });
        let mut reader = Reader::new();
        assert_eq!(reader.reply(&mut near, None).await.unwrap().bytes, length as u64);
        assert_eq!(reader.reply(&mut near, None).await.unwrap().status, 204);
    }

    #[tokio::test]
    async fn a_body_may_end_with_the_connection() {
        let replies = read("HTTP/1.1 200 OK\r\n\r\nall of it", 3, 1).await.unwrap();
        assert_eq!(replies, [reply(200, "all of it", false)]);
    }

    #[tokio::test]
    async fn what_is_cut_off_or_no_http_is_an_error() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\ncontent-le",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcdX\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n",
            "SSH-2.0-OpenSSH_9.6\r\n\r\n",
        ] {
            assert!(read(text, 5, 1).await.is_err(), "{text}");
        }
    }
}
