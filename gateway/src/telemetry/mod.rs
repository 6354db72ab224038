//! The log: where events go, in which form, and which must never be written.
//!
//! Events go to standard error, filtered by `[log] filter`. Some libraries print what must stay secret at their
//! lower levels: s3s the signing keys, tokio-postgres the parameters of statements, h2 and hyper whole headers. Their
//! events are capped by a second filter that no setting can widen.
//! Invariant: with the most talkative filter possible, no credential, header or object byte reaches the log.

use std::io::IsTerminal;

use tracing::Metadata;
use tracing_subscriber::filter::{EnvFilter, FilterExt, LevelFilter, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogConfig, LogFormat};

/// The most talkative level allowed per crate.
const CAPS: &[(&str, LevelFilter)] = &[
    // What it refuses is in the access log; its own lines quote whole documents.
    ("s3s", LevelFilter::OFF),
    // Says on every start that there is nothing to do.
    ("refinery_core", LevelFilter::WARN),
    ("tokio_postgres", LevelFilter::INFO),
    ("postgres_protocol", LevelFilter::INFO),
    ("hyper", LevelFilter::INFO),
    ("hyper_util", LevelFilter::INFO),
    ("h2", LevelFilter::INFO),
    ("rustls", LevelFilter::INFO),
];

/// Starts logging for the whole process.
///
/// # Errors
/// The filter can't be read, or logging was started before.
pub fn init(config: &LogConfig) -> anyhow::Result<()> {
    let wanted = EnvFilter::try_new(&config.filter)?;
    let allowed = wanted.and(filter_fn(is_harmless));
    let registry = tracing_subscriber::registry();
    match config.format {
        LogFormat::Text => {
            let text = tracing_subscriber::fmt::layer()
                .with_writer(std::io::stderr)
                .with_ansi(std::io::stderr().is_terminal());
            registry.with(text.with_filter(allowed)).try_init()?;
        }
        LogFormat::Json => {
            let json = tracing_subscriber::fmt::layer().json().with_writer(std::io::stderr);
            registry.with(json.with_filter(allowed)).try_init()?;
        }
    }
    Ok(())
}

fn is_harmless(metadata: &Metadata<'_>) -> bool {
    let crate_name = metadata.target().split("::").next().unwrap_or_default();
    let cap = CAPS.iter().find(|(name, _)| *name == crate_name);
    cap.is_none_or(|(_, most)| metadata.level() <= most)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_filter_brings_secrets_of_libraries_to_the_log() {
        let captured = Captured::default();
        let sink = captured.clone();
        let wanted = EnvFilter::try_new("trace,s3s=trace,s3s::auth=trace").expect("valid");
        let layer = tracing_subscriber::fmt::layer().with_writer(move || sink.clone());
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(wanted.and(filter_fn(is_harmless))));
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "s3s::auth", "secret one");
            tracing::debug!(target: "tokio_postgres::query", "secret two");
            tracing::warn!(target: "hyper::server", "fit to print");
            tracing::trace!(target: "lobgate::gc", "ours");
        });
        let text = String::from_utf8(captured.0.lock().expect("not poisoned").clone()).expect("text");
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains("fit to print") && text.contains("ours"), "{text}");
    }
}
