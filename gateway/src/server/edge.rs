//! The one HTTP service at the edge: everything around s3s that S3 does and s3s does not.
//!
//! A request gets its ids and its place (or `SlowDown`), is checked for what s3s would mistake, and goes to s3s with a
//! body that cannot fall silent forever. A panic becomes 500. The answer gets its ids, a completed error document, or no
//! body where HTTP forbids one; and carries the request's place until its last byte is out.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::Incoming;
use s3s::dto::CopySource;
use s3s::service::S3Service;
use s3s::{Body, HttpResponse, S3Error, S3Result, s3_error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::{Connected, OperationSlot};
use crate::protocol::list_entries::RenderedEntries;
use crate::protocol::{FormExtras, cors, error, names, unsigned_policy};
use crate::storage::Storage;

use super::ServerSettings;
use super::document_memory::DocumentMemory;
use super::error_body::{self, Asked, Named};
use super::host::Hosts;
use super::patience::Terms;
use super::request_body::RequestBody;
use super::request_id::RequestId;
use super::response_body::{Content, Exchange, ResponseBody};
use super::signature;
use super::signature_v2::SignatureV2;
use super::standing_stream::StandingStream;
use super::sub_resources::{self, Level};

const SERVER: HeaderValue = HeaderValue::from_static("lobgate");

/// The service of every connection. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Edge(Arc<Inner>, Option<Connected>);

struct Inner {
    s3: S3Service,
    /// Where signature version 2 is accepted.
    signature_v2: Option<SignatureV2>,
    /// For the rules about requests from other origins.
    storage: Storage,
    hosts: Hosts,
    /// One permit for each request under way.
    places: Arc<Semaphore>,
    body_terms: Terms,
    /// For answers on HTTP/2.
    write_terms: Terms,
    documents: DocumentMemory,
    region: Arc<str>,
    /// Whether signature version 2 is accepted.
    sigv2: bool,
}

/// What the edge remembers of a request while s3s has it.
struct Envelope {
    id: RequestId,
    method: Method,
    path: String,
    named: Named,
    presigned: bool,
    region: Arc<str>,
    operation: OperationSlot,
    started: Instant,
}

impl Edge {
    /// A service with the limits of the settings.
    pub(crate) fn new(
        (s3, signature_v2): (S3Service, Option<SignatureV2>),
        storage: Storage,
        hosts: Hosts,
        settings: &ServerSettings,
    ) -> Self {
        let places = Arc::new(Semaphore::new(settings.max_requests.min(Semaphore::MAX_PERMITS)));
        let body_terms = Terms { idle: settings.body_idle_timeout, rate: settings.min_transfer_rate };
        let write_terms = Terms { idle: settings.write_idle_timeout, rate: settings.min_transfer_rate };
        let region = settings.region.as_str().into();
        let sigv2 = settings.sigv2;
        let documents = DocumentMemory::new();
        Self(
            Arc::new(Inner {
                s3,
                signature_v2,
                storage,
                hosts,
                places,
                body_terms,
                write_terms,
                documents,
                region,
                sigv2,
            }),
            None,
        )
    }

    /// The service of one connection.
    pub(super) fn of(&self, connected: Connected) -> Self {
        Self(Arc::clone(&self.0), Some(connected))
    }

    async fn handle(self, request: Request<Incoming>) -> Response<ResponseBody> {
        let envelope = Envelope {
            id: RequestId::new(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            named: Named::of(request.uri().path(), self.0.hosts.bucket(host_of(&request)).as_deref()),
            presigned: request.uri().query().is_some_and(|q| q.contains("X-Amz-Signature=")),
            region: Arc::clone(&self.0.region),
            operation: OperationSlot::default(),
            started: Instant::now(),
        };
        let expects_continue = request.headers().contains_key(header::EXPECT);
        let version = request.version();
        let (mut parts, incoming) = request.into_parts();
        let in_host = self.0.hosts.bucket(host_in(&parts.headers, &parts.uri)).is_some();
        let level = Level::of(parts.uri.path(), in_host);
        if parts.method == Method::POST && sub_resources::is_form(&parts.headers) {
            parts.extensions.insert(FormExtras::default());
        }
        let body = RequestBody::new(incoming, &parts, level, self.0.body_terms, &self.0.documents);

        let permit = Arc::clone(&self.0.places).try_acquire_owned().ok();
        let origin = parts.headers.get(header::ORIGIN).cloned().filter(|_| permit.is_some());
        let answer = match check(&parts, level, permit.as_ref(), (&self.0.region, self.0.sigv2)) {
            Err(refusal) => refusal.to_http_response(),
            Ok(()) if parts.method == Method::OPTIONS => {
                let allowed = cors::preflight(&self.0.storage, envelope.named.bucket(), &parts.headers).await;
                allowed.map_or_else(|refusal| refusal.to_http_response(), |headers| Ok(empty_answer(headers)))
            }
            Ok(()) => {
                parts.extensions.insert(envelope.operation.clone());
                if let Some(connected) = self.1 {
                    parts.extensions.insert(connected);
                }
                let form = parts.extensions.get::<FormExtras>().cloned();
                let mut answer = self.call_s3(Request::from_parts(parts, Body::http_body(body.clone()))).await;
                let unsigned =
                    form.as_ref().and_then(FormExtras::get).is_some_and(|form| form.has_policy && !form.is_signed);
                if unsigned && answer.status() == StatusCode::FORBIDDEN {
                    // The gate sees somebody who signed nothing, and no form.
                    answer = unsigned_policy().to_http_response().unwrap_or_else(|_: S3Error| bare_internal_error());
                }
                let broken = || body.failure().filter(|_| answer.status() == StatusCode::INTERNAL_SERVER_ERROR);
                match body.refused_document().or_else(broken) {
                    Some(refusal) => refusal.to_http_response(),
                    None => Ok(answer),
                }
            }
        };
        let mut answer = answer.unwrap_or_else(|_| bare_internal_error());
        if let Some((origin, bucket)) =
            origin.zip(envelope.named.bucket()).filter(|_| envelope.method != Method::OPTIONS)
        {
            let allowed = cors::headers_for(&self.0.storage, bucket, &envelope.method, &origin).await;
            answer.headers_mut().extend(allowed);
        }
        if expects_continue && !body.was_asked_for() && version <= Version::HTTP_11 {
            // A client that waits for `100 Continue` and gets a final answer cannot know whether the next bytes would be
            // taken for a body (RFC 9110, 10.1.1); botocore misreads the next answer on such a connection.
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if answer.status().is_client_error() || answer.status().is_server_error() {
            body.drain(expects_continue).await;
        }
        let watch = (version == Version::HTTP_2).then_some(self.0.write_terms);
        finish(answer, envelope, permit, watch)
    }

    async fn call_s3(&self, request: Request<Body>) -> HttpResponse {
        let odd_query = request.uri().query().is_some_and(has_control_character);
        let answer = async {
            match self.0.signature_v2.as_ref().filter(|_| SignatureV2::signs(request.uri(), request.headers())) {
                Some(signature_v2) => {
                    let bucket = self.0.hosts.bucket(host_in(request.headers(), request.uri()));
                    let answer = signature_v2.call(request, bucket.as_deref()).await;
                    Ok(answer.unwrap_or_else(|refusal| {
                        refusal.to_http_response().unwrap_or_else(|_: S3Error| bare_internal_error())
                    }))
                }
                None => self.0.s3.call(request).await,
            }
        };
        match AssertUnwindSafe(answer).catch_unwind().await {
            Ok(Ok(answer)) => return answer,
            // The message of an error that quotes such a value cannot be written as XML.
            Ok(Err(_)) if odd_query => {
                let refusal = s3_error!(InvalidArgument, "A query parameter contains a control character");
                return refusal.to_http_response().unwrap_or_else(|_: S3Error| bare_internal_error());
            }
            Ok(Err(error)) => tracing::error!(%error, "s3s fails"),
            Err(_) => tracing::error!("an operation panics"),
        }
        error::internal().to_http_response().unwrap_or_else(|_: S3Error| bare_internal_error())
    }
}

/// Refuses what must not reach s3s.
fn check(
    parts: &http::request::Parts,
    level: Level,
    permit: Option<&OwnedSemaphorePermit>,
    (region, sigv2): (&str, bool),
) -> S3Result<()> {
    if permit.is_none() {
        return Err(error::slow_down());
    }
    if parts.method != Method::OPTIONS {
        signature::check(&parts.headers, parts.uri.query(), region, sigv2)?;
    }
    check_copy_source(&parts.method, &parts.headers)?;
    sub_resources::check(&parts.method, level, parts.uri.query(), &parts.headers)
}

fn host_of(request: &Request<Incoming>) -> &str {
    host_in(request.headers(), request.uri())
}

/// The host that a request is for: of HTTP/1's header, or of HTTP/2's authority.
fn host_in<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> &'a str {
    let host = headers.get(header::HOST).and_then(|v| v.to_str().ok());
    host.or_else(|| uri.authority().map(http::uri::Authority::as_str)).unwrap_or_default()
}

/// s3s calls a source that it cannot parse an invalid request; to S3 it is an invalid argument.
fn check_copy_source(method: &Method, headers: &HeaderMap) -> S3Result<()> {
    let Some(source) = headers.get("x-amz-copy-source").filter(|_| *method == Method::PUT) else { return Ok(()) };
    match source.to_str().ok().map(CopySource::parse) {
        Some(Ok(_)) => Ok(()),
        _ => Err(s3_error!(
            InvalidArgument,
            "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"
        )),
    }
}

fn has_control_character(query: &str) -> bool {
    percent_encoding::percent_decode_str(query).any(|byte| byte.is_ascii_control())
}

fn empty_answer(headers: HeaderMap) -> HttpResponse {
    let mut answer = HttpResponse::new(Body::empty());
    *answer.headers_mut() = headers;
    answer
}

/// What is left to say when not even an error can be serialised.
fn bare_internal_error() -> HttpResponse {
    let mut answer = HttpResponse::new(Body::empty());
    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    answer
}

/// `watch`: the terms of a client that may let the answer stand without blocking its connection.
fn finish(
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

impl hyper::service::Service<Request<Incoming>> for Edge {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let edge = self.clone();
        Box::pin(async move { Ok(edge.handle(request).await) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
