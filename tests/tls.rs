//! TLS on the endpoint: the certificate that is configured, renewed without a restart, and refused where it can't be right.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::harness::raw::Connection;
use crate::harness::{Database, Gateway, RawRequest, eventually};

/// Writes a new pair; gives its certificate.
fn renew(directory: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).expect("the key");
    fs::write(directory.join("cert.pem"), made.cert.pem()).expect("the certificate");
    made.cert.der().clone()
}

struct Scene {
    directory: tempfile::TempDir,
    database: Database,
}

impl Scene {
    async fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory"), database: Database::create().await }
    }

    fn spawn(&self) -> Gateway {
        let file = |name: &str| self.directory.path().join(name).to_str().expect("a path").to_owned();
        let (certificate, key) = (file("cert.pem"), file("key.pem"));
        let settings = [("LOBGATE_TLS_CERTIFICATE", certificate.as_str()), ("LOBGATE_TLS_PRIVATE_KEY", key.as_str())];
        Gateway::spawn(&self.database.url(), &settings)
    }
}

/// Asks for the list of buckets as a client that trusts one certificate alone.
async fn ask(gateway: &Gateway, trusted: &CertificateDer<'static>) -> Result<String, std::io::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let connector = TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
    let socket = TcpStream::connect(("127.0.0.1", gateway.port())).await?;
    let mut stream = connector.connect(ServerName::try_from("localhost").expect("a name"), socket).await?;
    let address = format!("http://localhost:{}", gateway.port());
    let (head, _) = RawRequest::new(&address, "GET", "/").unsigned_header("connection", "close").wire();
    stream.write_all(&head).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test]
async fn the_endpoint_speaks_tls_with_the_newest_certificate_that_fits() {
    let scene = Scene::new().await;
    let first = renew(scene.directory.path());
    let mut gateway = scene.spawn();
    gateway.ready().await;
    assert!(gateway.endpoint.starts_with("https://"), "{}", gateway.endpoint);
    let answer = ask(&gateway, &first).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("ListAllMyBucketsResult"), "{answer}");
    let mut plain = Connection::open(&gateway.endpoint.replace("https", "http")).await;
    assert!(plain.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await);
    assert!(!String::from_utf8_lossy(&plain.read_some(1000).await).contains("HTTP/1.1"), "no word in the clear");

    let second = renew(scene.directory.path());
    eventually("the renewed certificate is used", || async { ask(&gateway, &second).await.is_ok() }).await;
    assert!(ask(&gateway, &first).await.is_err(), "the old one no more");
    fs::write(scene.directory.path().join("cert.pem"), "no certificate").expect("a broken file");
    eventually("it is told", || async { gateway.log().contains("the certificate in use stays") }).await;
    assert!(ask(&gateway, &second).await.is_ok());
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_start() {
    let scene = Scene::new().await;
    for (broken, name) in [("cert.pem", "tls.certificate"), ("key.pem", "tls.private_key")] {
        renew(scene.directory.path());
        fs::write(scene.directory.path().join(broken), "nothing of use").expect("a broken file");
        let mut gateway = scene.spawn();
        assert!(!gateway.ended().await.success());
        assert!(gateway.log().contains(name), "{}", gateway.log());
    }
    let mut half = Gateway::spawn(&scene.database.url(), &[("LOBGATE_TLS_CERTIFICATE", "cert.pem")]);
    assert_eq!(half.ended().await.code(), Some(2));
    assert!(half.log().contains("tls.private_key"), "{}", half.log());
}
