//! A URL of a database whose connections take another way: through a port of the loopback.
//!
//! Role, password, database and all options stay. The host's name stays too, beside `hostaddr`, so that a certificate is
//! still checked against it; a socket becomes a plain address. The URL is changed as text, since what it says is the
//! operator's: nothing that this program does not know gets lost.

use std::fmt::Write as _;

use tokio_postgres::config::Host;

use crate::db::{Place, Target};

use super::proxy::Upstream;

/// What says where a server is.
const PLACES: [&str; 3] = ["host", "hostaddr", "port"];
/// Name of a server's socket in its directory, before the port.
const SOCKET: &str = ".s.PGSQL.";
const LOOPBACK: &str = "127.0.0.1";

/// The server of a URL.
pub(super) struct Origin {
    /// Where it listens.
    pub(super) upstream: Upstream,
    /// The name that its certificate bears.
    name: String,
}

/// Finds the server of a URL.
///
/// # Errors
/// One sentence: the URL cannot be understood, or names several servers.
pub(super) fn origin(url: &str) -> anyhow::Result<Origin> {
    let places = Target::parse(url)?.places();
    let [Place { host, address, port }] = places.as_slice() else {
        anyhow::bail!(
            "database_url names {} servers: an outage is made of one, so name the primary alone",
            places.len()
        );
    };
    let upstream = match address {
        Host::Tcp(name) => Upstream::Tcp(name.clone(), *port),
        Host::Unix(directory) => Upstream::Unix(directory.join(format!("{SOCKET}{port}"))),
    };
    let name = match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(_) => LOOPBACK.to_owned(),
    };
    Ok(Origin { upstream, name })
}

/// The URL by way of a port of the loopback, `origin` being its server.
pub(super) fn by_way_of(url: &str, origin: &Origin, port: u16) -> String {
    let name = origin.name.as_str();
    let schemes = ["postgres://", "postgresql://"];
    match schemes.iter().find_map(|scheme| Some((scheme, url.strip_prefix(scheme)?))) {
        Some((scheme, rest)) => format!("{scheme}{}", in_url(rest, name, port)),
        None => in_words(url, name, port),
    }
}

/// `user:password@host:port/database?options`, without the scheme.
fn in_url(rest: &str, name: &str, port: u16) -> String {
    let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (credentials, behind) = base.split_once('@').map_or(("", base), |(user, behind)| (user, behind));
    let path = behind.find('/').map_or("", |at| &behind[at..]);
    let at = if credentials.is_empty() { "" } else { "@" };
    let host = if name.contains(':') { format!("[{name}]") } else { name.to_owned() };
    let mut url = format!("{credentials}{at}{host}:{port}{path}?hostaddr={LOOPBACK}");
    for option in query.split('&').filter(|option| !option.is_empty() && !is_place(option)) {
        let _ = write!(url, "&{option}");
    }
    url
}

/// `host=… user=…`; a value in quotes may hold blanks.
fn in_words(text: &str, name: &str, port: u16) -> String {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = end_of_word(rest);
        let (word, behind) = rest.split_at(end);
        if !is_place(word) {
            words.push(word.to_owned());
        }
        rest = behind.trim_start();
    }
    words.push(format!("host={name} hostaddr={LOOPBACK} port={port}"));
    words.join(" ")
}

fn end_of_word(text: &str) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

fn is_place(option: &str) -> bool {
    option.split_once('=').is_some_and(|(name, _)| PLACES.contains(&name.trim()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn every_form_of_url_is_led_by_way_of_the_port() {
        let tcp = |name: &str, port| Upstream::Tcp(name.to_owned(), port);
        let socket = |port: u16| Upstream::Unix(PathBuf::from(format!("/run/x/.s.PGSQL.{port}")));
        for (url, leads_to, kept) in [
            (
                "postgres://u:p%40w@db.example.org:5433/d?sslmode=verify-full",
                tcp("db.example.org", 5433),
                "verify-full",
            ),
            ("postgresql://u@h/d", tcp("h", 5432), "u@h:7"),
            ("postgresql://u@[::1]:6000/d", tcp("::1", 6000), "[::1]:7"),
            ("postgresql://lobgate@/d?host=%2Frun%2Fx&dbname=e", socket(5432), "dbname=e"),
            ("postgres://u@%2Frun%2Fx:5433/d", socket(5433), "u@127.0.0.1:7"),
            ("host=h port=5433 user=u password='a b\\'c' dbname=d", tcp("h", 5433), "password='a b\\'c'"),
            (
                "postgres://u@db.example.org/d?hostaddr=10.0.0.7&sslmode=require",
                tcp("10.0.0.7", 5432),
                "@db.example.org:7",
            ),
            ("user=u host=/run/x dbname=d", socket(5432), "user=u dbname=d"),
        ] {
            let origin = origin(url).unwrap();
            assert_eq!(origin.upstream, leads_to, "{url}");
            let led = by_way_of(url, &origin, 7);
            assert!(led.contains(kept), "{led}");
            let places = Target::parse(&led).unwrap().places();
            assert_eq!(
                (places.len(), &places[0].address, places[0].port),
                (1, &Host::Tcp(LOOPBACK.to_owned()), 7),
                "{led}"
            );
            let name = if matches!(leads_to, Upstream::Unix(_)) { LOOPBACK } else { origin.name.as_str() };
            assert_eq!(places[0].host, Host::Tcp(name.to_owned()), "{led}");
        }
    }

    #[test]
    fn several_servers_are_refused() {
        let error = origin("postgres://u@a,b/d").err().unwrap().to_string();
        assert!(error.contains("2 servers"), "{error}");
    }
}
