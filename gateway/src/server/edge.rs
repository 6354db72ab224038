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

use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::Incoming;
use s3s::dto::CopySource;
use s3s::service::S3Service;
use s3s::{Body, HttpResponse, S3Error, S3Result, s3_error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::auth::{Connected, OperationSlot};
use crate::protocol::{FormExtras, cors, error, unsigned_policy};
use crate::storage::Storage;

use super::ServerSettings;
use super::answer::{Envelope, bare_internal_error, finish};
use super::document_memory::DocumentMemory;
use super::error_body::Named;
use super::host::Hosts;
use super::patience::Terms;
use super::request_body::RequestBody;
use super::request_id::RequestId;
use super::response_body::ResponseBody;
use super::signature;
use super::signature_v2::SignatureV2;
use super::sub_resources::{self, Level};

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

impl hyper::service::Service<Request<Incoming>> for Edge {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let edge = self.clone();
        Box::pin(async move { Ok(edge.handle(request).await) })
    }
}
