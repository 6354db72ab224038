//! The reference client: the AWS SDK for Rust, path style, over plain HTTP, without retries that would hide faults.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region, StalledStreamProtectionConfig};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_http_client::Builder;

use super::DEADLINE;
use super::server::{ACCESS_KEY, SECRET_KEY};

/// The region that the gateways of the tests are in.
pub(crate) const REGION: &str = "us-east-1";

/// An SDK client of the gateway at `endpoint`.
pub(crate) fn sdk(endpoint: &str) -> Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(endpoint)
        .force_path_style(true)
        .region(Region::new(REGION))
        .credentials_provider(Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "tests"))
        .http_client(Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().operation_attempt_timeout(DEADLINE).build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        .build();
    Client::from_conf(config)
}

/// What a refused request said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    pub(crate) code: String,
}

impl Failure {
    pub(crate) fn new(status: u16, code: &str) -> Self {
        Self { status, code: code.to_owned() }
    }
}

/// The refusal that a request must have met; panics if it succeeded or never got an answer.
pub(crate) fn failure<T: std::fmt::Debug, E>(result: Result<T, SdkError<E>>) -> Failure
where
    E: ProvideErrorMetadata + std::fmt::Debug,
{
    let error = result.expect_err("a refusal");
    let Some(reply) = error.raw_response() else { panic!("no answer at all: {error:?}") };
    let status = reply.status().as_u16();
    let code = error.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default();
    Failure { status, code: code.to_owned() }
}

/// A body for the SDK.
pub(crate) fn body(data: &[u8]) -> ByteStream {
    ByteStream::from(data.to_vec())
}
