//! HTTP/1.1 on a bare socket, for what no well-behaved client sends: short bodies, odd paths, readers that dawdle.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::DEADLINE;

/// A connection to a gateway.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// The status line and the headers of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: Head,
    pub(crate) body: Vec<u8>,
    /// False where the connection ended before the announced end of the body.
    pub(crate) complete: bool,
}

impl Connection {
    pub(crate) async fn open(endpoint: &str) -> Self {
        Self::try_open(endpoint).await.expect("connect to the gateway")
    }

    /// [`Connection::open`] for a gateway that may be gone.
    pub(crate) async fn try_open(endpoint: &str) -> Result<Self, String> {
        let address = endpoint.trim_start_matches("http://");
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).expect("no delay");
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Like [`Connection::open`], with a receive buffer so small that an unread answer soon stops the gateway.
    pub(crate) async fn open_narrow(endpoint: &str) -> Self {
        let address: std::net::SocketAddr = endpoint.trim_start_matches("http://").parse().expect("an address");
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small receive buffer");
        let stream = socket.connect(address).await.expect("connect to the gateway");
        Self { stream, buffer: Vec::new() }
    }

    /// Writes; false if the gateway no longer listens.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// No more will be written; answers can still be read.
    pub(crate) async fn finish_writing(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Writes while it reads, so that an early refusal of a long body is not lost.
    pub(crate) async fn exchange(self, bytes: &[u8], is_head: bool) -> Reply {
        self.try_exchange(bytes, is_head).await.unwrap_or_else(|why| panic!("{why}"))
    }

    /// [`Connection::exchange`] with a gateway that may go away; the error says what was received till then.
    pub(crate) async fn try_exchange(mut self, bytes: &[u8], is_head: bool) -> Result<Reply, String> {
        let (mut reader, mut writer) = self.stream.split();
        let mut received = Vec::new();
        let write = async {
            let _ = writer.write_all(bytes).await;
            std::future::pending::<()>().await;
        };
        let read = async {
            let mut chunk = vec![0; 64 * 1024];
            loop {
                if let Some(reply) = parse(&received, is_head, false) {
                    return Ok(reply);
                }
                match reader.read(&mut chunk).await {
                    Ok(count) if count > 0 => received.extend_from_slice(&chunk[..count]),
                    ended => {
                        let why = format!("no answer: {ended:?}, received {}", String::from_utf8_lossy(&received));
                        return parse(&received, is_head, true).ok_or(why);
                    }
                }
            }
        };
        tokio::select! {
            () = write => unreachable!("writing never ends the exchange"),
            reply = read => reply,
            () = tokio::time::sleep(DEADLINE) => panic!("no whole answer within {DEADLINE:?}"),
        }
    }

    /// Reads the head of the answer, leaving the body on the wire.
    pub(crate) async fn read_head(&mut self) -> Head {
        loop {
            if let Some((head, rest)) = split_head(&self.buffer) {
                self.buffer = self.buffer.split_off(rest);
                return head;
            }
            assert!(self.fill().await > 0, "the gateway closed the connection without an answer");
        }
    }

    /// Reads up to `count` bytes of the body; fewer only at its end.
    pub(crate) async fn read_some(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count && self.fill().await > 0 {}
        let rest = self.buffer.split_off(count.min(self.buffer.len()));
        std::mem::replace(&mut self.buffer, rest)
    }

    async fn fill(&mut self) -> usize {
        let read = self.stream.read_buf(&mut self.buffer);
        tokio::time::timeout(DEADLINE, read).await.expect("bytes before the deadline").unwrap_or(0)
    }
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Reply {
    /// A header's value; `name` in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The text of the first XML element of this name, unescaped.
    pub(crate) fn xml(&self, element: &str) -> Option<String> {
        self.xml_all(element).into_iter().next()
    }

    /// The texts of all XML elements of this name, in order.
    pub(crate) fn xml_all(&self, element: &str) -> Vec<String> {
        let text = self.text();
        let (open, close) = (format!("<{element}>"), format!("</{element}>"));
        let pieces = text.split(&open).skip(1);
        pieces.filter_map(|piece| Some(unescape(piece.split_once(&close)?.0))).collect()
    }

    /// Status and code of a refusal, to compare in one go.
    pub(crate) fn refusal(&self) -> (u16, String) {
        (self.status, self.xml("Code").unwrap_or_default())
    }
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&#34;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}

fn split_head(bytes: &[u8]) -> Option<(Head, usize)> {
    let mut start = 0;
    loop {
        let end = start + bytes[start..].windows(4).position(|window| window == b"\r\n\r\n")?;
        let text = String::from_utf8_lossy(&bytes[start..end]).into_owned();
        let mut lines = text.split("\r\n");
        let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        start = end + 4;
        if status == 100 {
            continue;
        }
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        return Some((Head { status, headers }, start));
    }
}

/// The answer in `bytes`, if it is whole or `at_end` says that no more will come.
fn parse(bytes: &[u8], is_head: bool, at_end: bool) -> Option<Reply> {
    let (head, start) = split_head(bytes)?;
    let rest = &bytes[start..];
    let bodyless = is_head || head.status == 204 || head.status == 304;
    let (body, complete) = if bodyless {
        (rest.to_vec(), true)
    } else if let Some(length) = head.header("content-length") {
        let length: usize = length.parse().expect("a number in content-length");
        (rest[..length.min(rest.len())].to_vec(), rest.len() >= length)
    } else if head.header("transfer-encoding") == Some("chunked") {
        unchunk(rest)
    } else {
        (rest.to_vec(), at_end)
    };
    (complete || at_end).then_some(Reply { status: head.status, head, body, complete })
}

fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|window| window == b"\r\n") else {
            return (body, false);
        };
        let size = String::from_utf8_lossy(&rest[..end]).into_owned();
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
            return (body, false);
        };
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, rest.ends_with(b"\r\n"));
        }
        if rest.len() < size + 2 {
            body.extend_from_slice(&rest[..size.min(rest.len())]);
            return (body, false);
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}
