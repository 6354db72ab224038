//! TLS of the S3 endpoint: versions 1.2 and 1.3 with the suites that rustls holds good, HTTP/2 offered.
//!
//! The files are read at start, where a fault in them is an error, and looked at every few seconds from then on: a renewed
//! pair is taken for new connections, one that does not fit is told in the log and the old one stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::config::TlsConfig;

/// Time between two looks at the files.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// What accepts connections: always the newest certificate.
#[derive(Clone)]
pub(super) struct Tls(watch::Receiver<Arc<ServerConfig>>);

impl Tls {
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.borrow()))
    }
}

/// Reads the files and goes on looking at them until shutdown; `None` where the endpoint is to speak plain HTTP.
///
/// # Errors
/// One sentence that names the file.
pub(super) fn open(config: &TlsConfig, shutdown: &CancellationToken) -> anyhow::Result<Option<Tls>> {
    let Some((certificate, key)) = config.files() else { return Ok(None) };
    let files = [certificate.clone(), key.clone()];
    let seen = modified(&files);
    let (sender, receiver) = watch::channel(load(&files)?);
    let shutdown = shutdown.clone();
    tokio::spawn(async move { shutdown.run_until_cancelled(keep_fresh(files, seen, sender)).await });
    Ok(Some(Tls(receiver)))
}

async fn keep_fresh(files: [PathBuf; 2], mut seen: [Option<SystemTime>; 2], current: watch::Sender<Arc<ServerConfig>>) {
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let now = modified(&files);
        if now == seen {
            continue;
        }
        match load(&files) {
            Ok(renewed) => {
                current.send_replace(renewed);
                tracing::info!(certificate = %files[0].display(), "the certificate has been renewed");
            }
            Err(error) => tracing::warn!("{error:#}; the certificate in use stays"),
        }
        seen = now;
    }
}

fn modified(files: &[PathBuf; 2]) -> [Option<SystemTime>; 2] {
    files.each_ref().map(|file| std::fs::metadata(file).and_then(|data| data.modified()).ok())
}

fn load(files: &[PathBuf; 2]) -> anyhow::Result<Arc<ServerConfig>> {
    let [certificate, key] = files;
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("tls.certificate: {} cannot be read as PEM", shown(certificate)))?;
    anyhow::ensure!(!chain.is_empty(), "tls.certificate: {} holds no certificate", shown(certificate));
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("tls.private_key: {} cannot be read as PEM", shown(key)))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| {
            format!("tls.private_key: {} does not fit the certificate {}", shown(key), shown(certificate))
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}
