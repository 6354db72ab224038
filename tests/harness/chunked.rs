//! Bodies in `aws-chunked` framing: signed or not, with trailers or not, and wrong in chosen ways.

use super::sigv4::Signer;

/// How a body is cut into chunks.
#[derive(Clone)]
pub(crate) struct Chunked {
    pub(crate) signed: bool,
    /// Trailing headers, (name, value); announced in `x-amz-trailer`.
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) chunk_size: usize,
    pub(crate) defect: Option<Defect>,
}

/// One thing that is wrong with the framing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Defect {
    /// The second chunk's signature is not its own.
    ChunkSignature,
    /// The trailer's signature is wrong.
    TrailerSignature,
    /// The body ends without the chunk of size zero.
    NoFinalChunk,
    /// The trailing header comes again with another value.
    TrailerTwice,
    /// `x-amz-trailer` announces a header that never comes.
    TrailerMissing,
    /// `x-amz-decoded-content-length` is one more than what comes.
    DeclaredTooLong,
    /// `x-amz-decoded-content-length` is one less than what comes.
    DeclaredTooShort,
}

impl Chunked {
    pub(crate) fn unsigned() -> Self {
        Self { signed: false, trailers: Vec::new(), chunk_size: 64 * 1024, defect: None }
    }

    pub(crate) fn signed() -> Self {
        Self { signed: true, ..Self::unsigned() }
    }

    pub(crate) fn trailer(mut self, name: &str, value: &str) -> Self {
        self.trailers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn chunk_size(mut self, size: usize) -> Self {
        self.chunk_size = size;
        self
    }

    pub(crate) fn defect(mut self, defect: Defect) -> Self {
        self.defect = Some(defect);
        self
    }

    /// The value of `x-amz-content-sha256`.
    pub(crate) fn payload_hash(&self) -> &'static str {
        match (self.signed, self.trailers.is_empty()) {
            (true, true) => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            (true, false) => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
            (false, _) => "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        }
    }

    /// The headers that announce the framing of `length` bytes.
    pub(crate) fn headers(&self, length: usize) -> Vec<(String, String)> {
        let declared = match self.defect {
            Some(Defect::DeclaredTooLong) => length + 1,
            Some(Defect::DeclaredTooShort) => length - 1,
            _ => length,
        };
        let mut headers = vec![("x-amz-decoded-content-length".to_owned(), declared.to_string())];
        let names: Vec<&str> = self.trailers.iter().map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            headers.push(("x-amz-trailer".to_owned(), names.join(",")));
        }
        headers
    }

    /// The bytes on the wire. `seed` is the signature of the request's headers.
    pub(crate) fn encode(&self, data: &[u8], signer: &Signer, seed: &str) -> Vec<u8> {
        let mut wire = Vec::with_capacity(data.len() + 1024);
        let mut previous = seed.to_owned();
        let mut chunks: Vec<&[u8]> = data.chunks(self.chunk_size).collect();
        if self.defect != Some(Defect::NoFinalChunk) {
            chunks.push(&[]);
        }
        for (number, chunk) in chunks.iter().enumerate() {
            wire.extend_from_slice(format!("{:x}", chunk.len()).as_bytes());
            if self.signed {
                previous = signer.sign_chunk(&previous, chunk);
                let wrong = self.defect == Some(Defect::ChunkSignature) && number == 1;
                let shown = if wrong { "0".repeat(64) } else { previous.clone() };
                wire.extend_from_slice(format!(";chunk-signature={shown}").as_bytes());
            }
            wire.extend_from_slice(b"\r\n");
            wire.extend_from_slice(chunk);
            if !chunk.is_empty() {
                wire.extend_from_slice(b"\r\n");
            }
        }
        if self.defect != Some(Defect::NoFinalChunk) {
            self.end(&mut wire, signer, &previous);
        }
        wire
    }

    fn end(&self, wire: &mut Vec<u8>, signer: &Signer, previous: &str) {
        if self.defect != Some(Defect::TrailerMissing) {
            for (name, value) in &self.trailers {
                wire.extend_from_slice(format!("{name}:{value}\r\n").as_bytes());
                if self.defect == Some(Defect::TrailerTwice) {
                    wire.extend_from_slice(format!("{name}:AAAAAA==\r\n").as_bytes());
                }
            }
        }
        if self.signed && !self.trailers.is_empty() {
            let lines: String = self.trailers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
            let wrong = self.defect == Some(Defect::TrailerSignature);
            let signature = if wrong { "0".repeat(64) } else { signer.sign_trailer(previous, &lines) };
            wire.extend_from_slice(format!("x-amz-trailer-signature:{signature}\r\n").as_bytes());
        }
        wire.extend_from_slice(b"\r\n");
    }
}
