//! Whether an aws-chunked body ends as it must: with a chunk of no bytes.
//!
//! s3s takes a signed body whose chunks add up to the declared length as complete, whether or not the final chunk came.
//! S3 does not: a body without its end was cut off. Bodies with trailers need no look, the announced trailer would be
//! missing from them.

use http::HeaderMap;

/// `x-amz-content-sha256` of a chunked body with signed chunks and no trailer.
const SIGNED_CHUNKS: &[u8] = b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
/// How the final chunk begins (AWS: "Signature calculations for the Authorization header, multiple chunks").
const FINAL_CHUNK: &[u8] = b"0;chunk-signature=";
/// Length of the final chunk: the above, 64 hexadecimal digits, two line ends.
const FINAL_CHUNK_BYTES: usize = FINAL_CHUNK.len() + 64 + 4;

/// The body ended without its final chunk.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the final chunk of the body is missing")]
pub(super) struct FinalChunkMissing;

/// The last bytes of a body.
#[derive(Debug, Default)]
pub(super) struct Tail(Vec<u8>);

impl Tail {
    /// Keeps the tail of a body that has to end with a final chunk; `None` for any other.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let kind = headers.get("x-amz-content-sha256")?;
        (kind.as_bytes() == SIGNED_CHUNKS).then(Self::default)
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(FINAL_CHUNK_BYTES);
        let dropped = (self.0.len() + kept).saturating_sub(FINAL_CHUNK_BYTES);
        self.0.drain(..dropped);
        self.0.extend_from_slice(&bytes[bytes.len() - kept..]);
    }

    /// Some clients leave out the empty line at the very end.
    pub(super) fn is_final_chunk(&self) -> bool {
        self.0.windows(FINAL_CHUNK.len()).any(|window| window == FINAL_CHUNK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn tail(pieces: &[&[u8]]) -> Tail {
        let mut tail = Tail::default();
        for piece in pieces {
            tail.push(piece);
        }
        tail
    }

    #[test]
    fn only_signed_chunks_without_trailer_are_looked_at() {
        let mut headers = HeaderMap::new();
        assert!(Tail::of(&headers).is_none());
        headers.insert("x-amz-content-sha256", HeaderValue::from_static("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"));
        assert!(Tail::of(&headers).is_none());
        headers.insert("x-amz-content-sha256", HeaderValue::from_static("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"));
        assert!(Tail::of(&headers).is_some());
    }

    proptest! {
        #[test]
        fn the_end_is_found_however_the_body_is_cut(data in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..500) {
            let signature = "a".repeat(64);
            let last = format!("\r\n0;chunk-signature={signature}\r\n\r\n");
            let body = [data.as_slice(), last.as_bytes()].concat();
            let cut = cut.min(body.len());
            prop_assert!(tail(&[&body[..cut], &body[cut..]]).is_final_chunk());
            prop_assert!(!tail(&[&data]).is_final_chunk());
        }
    }
}
