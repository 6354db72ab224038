//! `[tls]`: the certificate of the S3 endpoint.
//!
//! Both files or neither: without them the endpoint speaks plain HTTP, for a proxy in front that does TLS. The files are
//! looked at again while the gateway runs, so a renewed certificate needs no restart.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::ConfigError;
use super::validate::require;

/// Files of the certificate, PEM.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// Certificate chain, the server's own first. Default none: plain HTTP.
    pub certificate: Option<PathBuf>,
    /// Its private key: PKCS#8, PKCS#1 or SEC1. Default none.
    pub private_key: Option<PathBuf>,
}

impl TlsConfig {
    /// The two files, where TLS is wanted.
    #[must_use]
    pub fn files(&self) -> Option<(&PathBuf, &PathBuf)> {
        self.certificate.as_ref().zip(self.private_key.as_ref())
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        const BOTH: &str =
            "must be set together with the other one: set tls.certificate and tls.private_key, or neither";
        require(self.certificate.is_some() || self.private_key.is_none(), "tls.certificate", BOTH)?;
        require(self.private_key.is_some() || self.certificate.is_none(), "tls.private_key", BOTH)
    }
}
