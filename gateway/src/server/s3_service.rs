//! s3s as this gateway wants it: limits, region, names, hosts, and the second pass for odd headers.

use std::sync::Arc;

use anyhow::Context as _;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::region::Region;
use s3s::service::{S3Service, S3ServiceBuilder};

use crate::auth::{Directory, Gate, Secrets};
use crate::protocol::Gateway;

use super::document::DOCUMENT_BYTES;
use super::host::Hosts;
use super::second_pass::SecondPass;
use super::signature_v2::SignatureV2;

/// Largest chunk of an aws-chunked body, which s3s holds in memory. SDKs send at most 1 MiB.
const CHUNK_BYTES: usize = 16 << 20;
/// Largest body of one PutObject or UploadPart.
const OBJECT_BYTES: u64 = 5 << 30;
/// Fields of a form together, but the file.
pub(super) const FORM_FIELDS_BYTES: usize = 64 << 10;

/// The S3 service: operations, authentication, gate. Without a directory nobody has to sign anything: for fuzzing.
pub(super) fn build(
    gateway: &Gateway,
    directory: Option<&Arc<Directory>>,
    (region, sigv2): (&str, bool),
    hosts: &Hosts,
) -> anyhow::Result<(S3Service, Option<SignatureV2>)> {
    let config = Arc::new(StaticConfigProvider::new(Arc::new(s3_config(region, sigv2)?)));
    let mut trusted = S3ServiceBuilder::new(gateway.clone());
    trusted.set_config(Arc::clone(&config) as _);
    trusted.set_host(hosts.clone());
    let Some(directory) = directory else { return Ok((trusted.build(), None)) };
    trusted.set_auth(Secrets::new(Arc::clone(directory)));
    trusted.set_access(Gate::new(Arc::clone(directory)));

    let mut service = S3ServiceBuilder::new(gateway.clone());
    service.set_config(config);
    service.set_host(hosts.clone());
    service.set_auth(Secrets::new(Arc::clone(directory)));
    service.set_access(Gate::new(Arc::clone(directory)));
    let trusted = trusted.build();
    service.set_route(SecondPass::new(trusted.clone()));
    let signature_v2 = sigv2.then(|| SignatureV2::new(Arc::clone(directory), trusted));
    Ok((service.build(), signature_v2))
}

fn s3_config(region: &str, sigv2: bool) -> anyhow::Result<S3Config> {
    let mut config = S3Config::default();
    config.xml_max_body_size = DOCUMENT_BYTES;
    config.aws_chunked_stream_max_chunk_size = CHUNK_BYTES;
    config.put_object_max_size = Some(OBJECT_BYTES);
    config.expected_region = Some(Region::new(region.into()).context("the configured region is not a region name")?);
    config.sig_v4_allowed_services = vec!["s3".to_owned()];
    config.enable_sig_v2 = sigv2;
    // An `x-id` that does not fit is ignored, as S3 ignores it: the router decides by method, path and query.
    config.operation_id_routing = false;
    // The file of a form streams, since the edge asks for a Content-Length; the fields before it are held.
    config.post_object_max_file_size = OBJECT_BYTES;
    config.form_max_fields_size = FORM_FIELDS_BYTES;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presigned_urls_live_at_most_seven_days() {
        let config = s3_config("us-east-1", false).expect("config");
        assert_eq!(config.presigned_url_max_expires_secs, 7 * 24 * 60 * 60);
        assert!(s3_config("not a region", false).is_err());
    }
}
