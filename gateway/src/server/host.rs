//! Which bucket a `Host` header names.
//!
//! Only the configured domains have buckets in front of them. Every other host, an address, a container's name, is an
//! endpoint addressed path-style: s3s's own parsers would take any unknown host for a bucket. Hosts compare without
//! regard to letter case or port.

use s3s::S3Result;
use s3s::host::{S3Host, VirtualHost};

/// The domains of the gateway.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    /// In lower case, without ports, longest first: `a.example.com` is tried before `example.com`.
    domains: Vec<String>,
}

impl Hosts {
    pub(crate) fn new(domains: &[String]) -> Self {
        let normal = |d: &String| without_port(d).trim_matches('.').to_ascii_lowercase();
        let mut domains: Vec<String> = domains.iter().map(normal).filter(|d| !d.is_empty()).collect();
        domains.sort_by_key(|d| std::cmp::Reverse(d.len()));
        Self { domains }
    }

    /// The domain and, for a virtual-hosted request, the bucket.
    fn split(&self, host: &str) -> Option<(&str, Option<String>)> {
        let host = without_port(host).trim_end_matches('.').to_ascii_lowercase();
        self.domains.iter().find_map(|domain| {
            let front = host.strip_suffix(domain.as_str())?;
            match front.strip_suffix('.') {
                _ if front.is_empty() => Some((domain.as_str(), None)),
                Some(bucket) if !bucket.is_empty() => Some((domain.as_str(), Some(bucket.to_owned()))),
                _ => None,
            }
        })
    }

    /// The bucket in a host.
    pub(crate) fn bucket(&self, host: &str) -> Option<String> {
        self.split(host).and_then(|(_, bucket)| bucket)
    }
}

impl S3Host for Hosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        Ok(match self.split(host) {
            Some((domain, Some(bucket))) => VirtualHost::new(domain).with_bucket(bucket),
            Some((domain, None)) => VirtualHost::new(domain),
            None => VirtualHost::new(host),
        })
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hosts() -> Hosts {
        Hosts::new(&["S3.Example.com".to_owned(), "eu.s3.example.com:9000".to_owned()])
    }

    #[test]
    fn only_configured_domains_have_buckets() {
        assert_eq!(hosts().bucket("photos.s3.example.com"), Some("photos".to_owned()));
        assert_eq!(hosts().bucket("PHOTOS.s3.EXAMPLE.com:9000"), Some("photos".to_owned()));
        assert_eq!(hosts().bucket("my.photos.s3.example.com"), Some("my.photos".to_owned()));
        assert_eq!(hosts().bucket("photos.eu.s3.example.com"), Some("photos".to_owned()));
        for path_style in
            ["s3.example.com", "localhost:9000", "minio", "xs3.example.com", ".s3.example.com", "[::1]:9000"]
        {
            assert_eq!(hosts().bucket(path_style), None, "{path_style}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(host in ".{0,60}") {
            let _ = hosts().bucket(&host);
        }
    }
}
