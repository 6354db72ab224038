//! The end of an answer: what S3 says and s3s does not.
//!
//! Every answer gets its ids; an error's document is completed, a listing gets its entries, and where HTTP forbids a body
//! there is none. What is sent carries the request's place until its last byte is out.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use s3s::{Body, HttpResponse};
use tokio::sync::OwnedSemaphorePermit;

use crate::auth::OperationSlot;
use crate::protocol::list_entries::RenderedEntries;
use crate::protocol::names;

use super::error_body::{self, Asked, Named};
use super::patience::Terms;
use super::request_id::RequestId;
use super::response_body::{Content, Exchange, ResponseBody};
use super::standing_stream::StandingStream;

const SERVER: HeaderValue = HeaderValue::from_static("lobgate");

/// What the edge remembers of a request while s3s has it.
pub(super) struct Envelope {
    pub(super) id: RequestId,
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) named: Named,
    pub(super) presigned: bool,
    pub(super) region: Arc<str>,
    pub(super) operation: OperationSlot,
    pub(super) started: Instant,
}

/// What is left to say when not even an error can be serialised.
pub(super) fn bare_internal_error() -> HttpResponse {
    let mut answer = HttpResponse::new(Body::empty());
    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    answer
}

/// Finishes an answer. `watch`: the terms of a client that may let the answer stand without blocking its connection.
pub(super) fn finish(
    answer: HttpResponse,
    envelope: Envelope,
    permit: Option<OwnedSemaphorePermit>,
    watch: Option<Terms>,
) -> Response<ResponseBody> {
    let (mut parts, body) = answer.into_parts();
    let body = finish_body(body, &mut parts, &envelope);
    envelope.id.write(&mut parts.headers);
    parts.headers.insert(header::SERVER, SERVER);
    let exchange = Exchange {
        request_id: envelope.id.request_id,
        method: envelope.method,
        path: envelope.path,
        operation: envelope.operation,
        status: parts.status,
        started: envelope.started,
    };
    let content = match watch.filter(|_| !http_body::Body::is_end_stream(&body)) {
        Some(terms) => Content::Watched(StandingStream::new(body, permit, terms)),
        None => Content::Plain { body, _permit: permit },
    };
    Response::from_parts(parts, ResponseBody::new(content, exchange))
}

fn finish_body(body: Body, parts: &mut http::response::Parts, envelope: &Envelope) -> Body {
    // s3s answers a HEAD of a range with 200, whatever its handler says; S3 with 206, as it would answer GET.
    if envelope.method == Method::HEAD
        && parts.status == StatusCode::OK
        && parts.headers.contains_key(header::CONTENT_RANGE)
    {
        parts.status = StatusCode::PARTIAL_CONTENT;
    }
    let bodiless_status = matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if bodiless_status {
        // The length of a 304 would be that of the representation, which s3s does not know here.
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.headers.remove(header::CONTENT_TYPE);
    }
    if bodiless_status || envelope.method == Method::HEAD {
        parts.headers.remove(header::TRANSFER_ENCODING);
        return Body::empty();
    }
    let is_error = parts.status.is_client_error() || parts.status.is_server_error();
    let is_document = parts.headers.get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes() == b"application/xml");
    // Documents of s3s are in memory; an object's content never is, whatever its type.
    let Some(document) = body.bytes().filter(|_| is_document) else { return body };
    let created = parts.status == StatusCode::CREATED;
    let relocated = parts
        .headers
        .get(header::LOCATION)
        .filter(|_| created)
        .map(|location| Bytes::from(error_body::with_location(&document, location)));
    let document = relocated.clone().unwrap_or(document);
    let rewritten = if is_error {
        let by_policy = error_body::refused_by_policy(&document);
        if by_policy.is_some() {
            parts.status = StatusCode::FORBIDDEN;
        }
        error_body::complete(by_policy.as_deref().unwrap_or(&document), &Asked::of(envelope)).into()
    } else {
        let entries = parts.extensions.remove::<RenderedEntries>();
        match (names::resolve_marks(&document), entries) {
            (None, None) => match relocated {
                Some(relocated) => relocated,
                None => return body,
            },
            (Some(resolved), None) => resolved.into(),
            (resolved, Some(entries)) => match entries.put_into(resolved.as_deref().unwrap_or(&document)) {
                Some(listing) => listing,
                None => {
                    // A listing without its entries must never look like one.
                    tracing::error!("the document of a listing has an unknown form");
                    parts.status = StatusCode::INTERNAL_SERVER_ERROR;
                    Bytes::new()
                }
            },
        }
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Body::from(rewritten)
}

impl<'a> Asked<'a> {
    fn of(envelope: &'a Envelope) -> Self {
        Self {
            resource: &envelope.path,
            named: &envelope.named,
            presigned: envelope.presigned,
            region: &envelope.region,
            id: &envelope.id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::error;

    fn envelope(method: Method) -> Envelope {
        Envelope {
            id: RequestId::new(),
            method,
            path: "/bucket/key".to_owned(),
            named: Named::of("/bucket/key", None),
            presigned: false,
            region: "eu-west-1".into(),
            operation: OperationSlot::default(),
            started: Instant::now(),
        }
    }

    fn refusal() -> HttpResponse {
        error::slow_down().to_http_response().unwrap_or_else(|_| bare_internal_error())
    }

    #[test]
    fn errors_name_the_request() {
        let envelope = envelope(Method::GET);
        let request_id = envelope.id.request_id.clone();
        let (mut parts, body) = refusal().into_parts();
        let body = finish_body(body, &mut parts, &envelope);
        let document = String::from_utf8_lossy(&body.bytes().unwrap_or_default()).into_owned();
        assert!(document.contains("<Code>SlowDown</Code>") && document.contains("<Resource>/bucket/key</Resource>"));
        assert!(document.contains(&format!("<RequestId>{request_id}</RequestId>")));
        assert_eq!(parts.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(parts.headers.contains_key(header::RETRY_AFTER));
    }

    #[test]
    fn an_answer_to_head_has_no_body() {
        let (mut parts, body) = refusal().into_parts();
        let body = finish_body(body, &mut parts, &envelope(Method::HEAD));
        assert!(http_body::Body::is_end_stream(&body));
    }
}
