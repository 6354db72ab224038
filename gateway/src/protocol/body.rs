//! Bodies between s3s and the engine.
//!
//! Inwards: the last bytes of a body are followed by its verification (SHA-256, chunk signatures, trailers), which the
//! stream reports only when it is polled to its end. [`Received`] remembers that this happened, and an upload whose body
//! was not read to the end is never published. Outwards: an error of the engine ends the body with an error, on which
//! hyper aborts the connection; a client never sees a clean but short answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use http::HeaderMap;
use http_body::Frame;
use http_body_util::StreamBody;
use s3s::dto::StreamingBlob;
use s3s::{Body, S3Result, TrailingHeaders};

use crate::storage::types::{BucketName, ChecksumAlgorithm, ObjectKey};
use crate::storage::{BodyStream, ByteStream, StageOptions, Staged, Storage};

use super::checksums::Declared;
use super::error::{from_storage, internal};

/// Largest body of one PutObject or UploadPart (AWS: "Amazon S3 multipart upload limits").
pub(super) const MAX_BODY_BYTES: u64 = 5 << 30;

/// Whether a body's end was reached.
#[derive(Clone, Default)]
struct Received(Arc<AtomicBool>);

/// A body on its way in.
pub(super) struct Upload<'a> {
    pub(super) headers: &'a HeaderMap,
    /// Headers after the body.
    pub(super) trailers: Option<&'a TrailingHeaders>,
    pub(super) content: Option<StreamingBlob>,
    /// What the request says of the bytes.
    pub(super) declared: Declared,
    /// The checksums to compute, the declared one among them.
    pub(super) algorithms: Vec<ChecksumAlgorithm>,
    /// The object that the bytes are to become.
    pub(super) replaces: Option<(BucketName, ObjectKey)>,
}

/// Receives the body of an upload and verifies everything that the request declares of it.
pub(super) async fn stage(storage: &Storage, upload: Upload<'_>) -> S3Result<Staged> {
    let received = Received::default();
    let options = StageOptions {
        length: content_length(upload.headers),
        checksums: upload.algorithms,
        signed_sha256: signed_sha256(upload.headers),
        max_length: MAX_BODY_BYTES,
        replaces: upload.replaces,
    };
    let staged = storage.stage(incoming(upload.content, received.clone()), options).await.map_err(from_storage)?;
    if !received.0.load(Ordering::Acquire) {
        tracing::error!("a staged body was not read to its end");
        return Err(internal());
    }
    upload.declared.verify(staged.digests(), upload.trailers)?;
    Ok(staged)
}

fn incoming(body: Option<StreamingBlob>, received: Received) -> BodyStream {
    let mut body = body.unwrap_or_else(|| StreamingBlob::from(Body::empty()));
    Box::pin(futures::stream::poll_fn(move |cx| {
        let next = body.poll_next_unpin(cx);
        if let std::task::Poll::Ready(None) = next {
            received.0.store(true, Ordering::Release);
        }
        next
    }))
}

/// The length of the body itself: s3s has replaced that of an aws-chunked transfer by the decoded one.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// `x-amz-content-sha256` where it is the hash of the body and not a keyword.
fn signed_sha256(headers: &HeaderMap) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    hex::decode_to_slice(headers.get("x-amz-content-sha256")?.as_bytes(), &mut hash).ok()?;
    Some(hash)
}

/// A body of the engine for s3s.
pub(super) fn outgoing(stream: ByteStream) -> StreamingBlob {
    let frames = stream.map(|chunk| chunk.map(Frame::data).inspect_err(log_interrupted));
    StreamingBlob::from(Body::http_body_unsync(StreamBody::new(frames)))
}

fn log_interrupted(error: &crate::storage::StorageError) {
    tracing::error!(error.kind = error.kind().as_str(), %error, "a response body is cut off");
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[tokio::test]
    async fn the_end_of_a_body_is_remembered() {
        let received = Received::default();
        let mut body = incoming(Some(StreamingBlob::from_bytes("abc".into())), received.clone());
        assert!(body.next().await.is_some() && !received.0.load(Ordering::Acquire));
        assert!(body.next().await.is_none() && received.0.load(Ordering::Acquire));
    }

    #[test]
    fn keywords_are_no_hashes() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-content-sha256", HeaderValue::from_static("UNSIGNED-PAYLOAD"));
        assert_eq!(signed_sha256(&headers), None);
        let zeros = "00".repeat(32);
        headers.insert("x-amz-content-sha256", HeaderValue::from_str(&zeros).expect("hex"));
        assert_eq!(signed_sha256(&headers), Some([0; 32]));
    }
}
