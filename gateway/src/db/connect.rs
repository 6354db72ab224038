//! Where the database is and how it is reached: the URL, with libpq's `sslmode` and `sslrootcert` understood as libpq
//! does (the driver itself knows neither `verify-ca`, `verify-full` nor root certificates).
//!
//! `require` encrypts without checking who answers, exactly as in libpq; `verify-full` checks the certificate and the
//! host name, and is what a network one does not own needs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Why the database cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL makes no sense. The driver's message names the option, never the password.
    #[error("database_url cannot be understood: {0}")]
    Url(String),
    /// `sslrootcert` cannot be used.
    #[error("sslrootcert of database_url cannot be used: {0}")]
    RootCertificates(String),
    /// A pool could not be built.
    #[error("the connection pool cannot be built: {0}")]
    Pool(String),
    /// The server did not answer, or refused us.
    #[error(
        "cannot connect to the database at {0}: see that it runs there and lets this role in, or mend database_url"
    )]
    Server(String),
}

/// Which certificates are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verify {
    Nothing,
    Chain,
    ChainAndName,
}

/// A database to connect to.
#[derive(Clone)]
pub struct Target {
    config: Config,
    verify: Verify,
    root_certificates: Option<String>,
}

/// A server that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name, or the directory of its socket.
    pub host: Host,
    /// Where connections go: the name's address where the URL gives one (`hostaddr`), else the name.
    pub address: Host,
    /// Its port.
    pub port: u16,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("hosts", &self.config.get_hosts())
            .field("dbname", &self.config.get_dbname())
            .finish_non_exhaustive()
    }
}

impl Target {
    /// Parses a URL (`postgresql://…`) or a libpq connection string.
    ///
    /// # Errors
    /// [`ConnectError::Url`].
    pub fn parse(url: &str) -> Result<Self, ConnectError> {
        let (rest, options) = take_tls_options(url);
        let mut config: Config = rest.parse().map_err(|e: tokio_postgres::Error| {
            let why = std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
            ConnectError::Url(why)
        })?;
        if config.get_dbname().is_none() {
            return Err(ConnectError::Url("it names no database: append /NAME".into()));
        }
        let (mode, verify) = match options.sslmode.as_deref() {
            None | Some("prefer") => (SslMode::Prefer, Verify::Nothing),
            Some("disable") => (SslMode::Disable, Verify::Nothing),
            Some("require") if options.sslrootcert.is_none() => (SslMode::Require, Verify::Nothing),
            // libpq: require with a root certificate behaves like verify-ca
            Some("require" | "verify-ca") => (SslMode::Require, Verify::Chain),
            Some("verify-full") => (SslMode::Require, Verify::ChainAndName),
            Some(other) => {
                return Err(ConnectError::Url(format!(
                    "sslmode={other} is none of disable, prefer, require, verify-ca, verify-full"
                )));
            }
        };
        config.ssl_mode(mode);
        if config.get_application_name().is_none() {
            config.application_name("lobgate");
        }
        config
            .keepalives_idle(Duration::from_secs(30))
            .keepalives_interval(Duration::from_secs(10))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(60));
        Ok(Self { config, verify, root_certificates: options.sslrootcert })
    }

    /// The same server, role and TLS settings, with another database.
    #[must_use]
    pub fn on_database(&self, name: &str) -> Self {
        let mut other = self.clone();
        other.config.dbname(name);
        other
    }

    /// Where servers are looked for, in the order of the URL.
    #[must_use]
    pub fn places(&self) -> Vec<Place> {
        let (hosts, addresses) = (self.config.get_hosts(), self.config.get_hostaddrs());
        let place = |at: usize| {
            let address = addresses.get(at).map(|address| Host::Tcp(address.to_string()));
            let host = hosts.get(at).cloned().or_else(|| address.clone())?;
            Some(Place { address: address.unwrap_or_else(|| host.clone()), host, port: self.port(at) })
        };
        (0..hosts.len().max(addresses.len())).filter_map(place).collect()
    }

    fn port(&self, at: usize) -> u16 {
        let ports = self.config.get_ports();
        ports.get(at).or(ports.last()).copied().unwrap_or(5432)
    }

    pub(super) fn config(&self) -> Config {
        self.config.clone()
    }

    /// Opens one connection outside the pools.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn connect(&self, timeout: Duration) -> Result<Client, ConnectError> {
        let mut config = self.config();
        config.connect_timeout(timeout);
        let (client, connection) =
            config.connect(self.tls()?).await.map_err(|e| ConnectError::Server(self.refused(e)))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection outside the pools ended");
            }
        });
        Ok(client)
    }

    /// Where we knocked, and what was said.
    fn refused(&self, error: tokio_postgres::Error) -> String {
        let place = |(i, host): (usize, &Host)| {
            let port = self.port(i);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(directory) => format!("{} (port {port})", directory.display()),
            }
        };
        let places: Vec<_> = self.config.get_hosts().iter().enumerate().map(place).collect();
        format!("{} ({})", places.join(", "), super::DbError::from_driver(error))
    }

    pub(super) fn tls(&self) -> Result<MakeRustlsConnect, ConnectError> {
        let provider = Arc::new(ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match self.verify {
            Verify::Nothing => Arc::new(AcceptAny(Arc::clone(&provider))),
            Verify::Chain => Arc::new(ChainOnly(self.chain_verifier(&provider)?)),
            Verify::ChainAndName => self.chain_verifier(&provider)?,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| ConnectError::Pool(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(MakeRustlsConnect::new(config))
    }

    fn chain_verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, ConnectError> {
        let mut roots = RootCertStore::empty();
        match self.root_certificates.as_deref() {
            None | Some("system") => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Some(path) => {
                let certificates = CertificateDer::pem_file_iter(path)
                    .map_err(|e| ConnectError::RootCertificates(format!("{path}: {e}")))?;
                for certificate in certificates {
                    let certificate =
                        certificate.map_err(|e| ConnectError::RootCertificates(format!("{path}: {e}")))?;
                    roots.add(certificate).map_err(|e| ConnectError::RootCertificates(format!("{path}: {e}")))?;
                }
            }
        }
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|e| ConnectError::RootCertificates(e.to_string()))
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct TlsOptions {
    sslmode: Option<String>,
    sslrootcert: Option<String>,
}

impl TlsOptions {
    /// Takes the option if it is one of ours.
    fn take(&mut self, option: &str) -> bool {
        match option.split_once('=').map(|(k, v)| (k.trim(), v.trim().trim_matches('\''))) {
            Some(("sslmode", v)) => self.sslmode = Some(v.to_owned()),
            Some(("sslrootcert", v)) => {
                self.sslrootcert = Some(percent_encoding::percent_decode_str(v).decode_utf8_lossy().into_owned());
            }
            _ => return false,
        }
        true
    }
}

/// Parts `sslmode` and `sslrootcert` from the rest of a URL or connection string.
fn take_tls_options(url: &str) -> (String, TlsOptions) {
    let mut options = TlsOptions::default();
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), options) };
        let kept: Vec<_> = query.split('&').filter(|o| !o.is_empty() && !options.take(o)).collect();
        let rest = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        return (rest, options);
    }
    let kept: Vec<_> = url.split(' ').filter(|o| !options.take(o)).collect();
    (kept.join(" "), options)
}

/// `sslmode=require` and `prefer`: encryption without identity.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        m: &[u8],
        c: &CertificateDer<'_>,
        d: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(m, c, d, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        m: &[u8],
        c: &CertificateDer<'_>,
        d: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(m, c, d, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// `sslmode=verify-ca`: a trusted chain, whatever the name.
#[derive(Debug)]
struct ChainOnly(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The name is checked last, after the chain was found good (rustls-webpki).
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        m: &[u8],
        c: &CertificateDer<'_>,
        d: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(m, c, d)
    }

    fn verify_tls13_signature(
        &self,
        m: &[u8],
        c: &CertificateDer<'_>,
        d: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(m, c, d)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_options_are_parted_from_the_url() {
        let (rest, options) =
            take_tls_options("postgresql://h/db?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fca.pem");
        assert_eq!(rest, "postgresql://h/db?connect_timeout=3");
        assert_eq!(options.sslmode.as_deref(), Some("verify-full"));
        assert_eq!(options.sslrootcert.as_deref(), Some("/ca.pem"));
        assert_eq!(take_tls_options("host=h sslmode=require dbname=d").0, "host=h dbname=d");
    }

    #[test]
    fn an_unknown_sslmode_names_the_choices() {
        let error = Target::parse("postgresql://h/db?sslmode=always").unwrap_err().to_string();
        assert!(error.contains("verify-full"), "{error}");
    }

    #[test]
    fn the_password_is_not_in_the_debug_form() {
        let target = Target::parse("postgresql://u:hunter2@h/db").unwrap();
        assert!(!format!("{target:?}").contains("hunter2"));
    }

    #[test]
    fn a_url_without_database_is_refused() {
        assert!(Target::parse("postgresql://u@h").unwrap_err().to_string().contains("/NAME"));
    }
}
