//! The identities of a request that S3 answers with: `x-amz-request-id` and `x-amz-id-2`.
//!
//! Both are random, to be unique and not to be secret: they come from a generator of the thread, without a system call.
//! The first is in the access log, so that a client's report finds its line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderMap, HeaderName, HeaderValue};

/// What names one request.
#[derive(Clone, Debug)]
pub(crate) struct RequestId {
    /// 16 hexadecimal digits in upper case.
    pub(crate) request_id: String,
    /// Base64, as long as S3's.
    pub(crate) host_id: String,
}

impl RequestId {
    pub(crate) fn new() -> Self {
        let (mut request, mut host) = ([0; 8], [0; 48]);
        fastrand::fill(&mut request);
        fastrand::fill(&mut host);
        Self { request_id: hex::encode_upper(request), host_id: BASE64.encode(host) }
    }

    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in [("x-amz-request-id", &self.request_id), ("x-amz-id-2", &self.host_id)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_look_like_those_of_s3() {
        let (one, other) = (RequestId::new(), RequestId::new());
        assert_eq!(one.request_id.len(), 16);
        assert_eq!(one.host_id.len(), 64);
        assert_ne!(one.request_id, other.request_id);
    }
}
