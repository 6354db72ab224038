//! The layers, their order and their complaints.

use std::ffi::OsString;

use super::*;

const SAMPLE: &str = include_str!("../../../config/lobgate.toml");
const MINIMAL: &str = include_str!("../../../config/lobgate.minimal.toml");

fn env(variables: &[(&str, &str)]) -> Vec<Variable> {
    variables.iter().map(|(name, text)| (OsString::from(name), OsString::from(text))).collect()
}

fn message(result: Result<Config, ConfigError>) -> String {
    result.expect_err("the configuration was accepted").to_string()
}

/// The sample with every commented-out setting brought to life.
fn uncommented_sample() -> String {
    let is_setting = |line: &str| {
        let name = line.trim_start_matches('#').split('=').next().unwrap_or("").trim().to_owned();
        line.starts_with('#')
            && !line.starts_with("# ")
            && KEYS.iter().any(|(key, _)| key.rsplit('.').next() == Some(&name))
    };
    let uncomment = |line: &str| {
        if is_setting(line) { line[1..].to_owned() } else { line.to_owned() }
    };
    SAMPLE.lines().map(uncomment).collect::<Vec<_>>().join("\n")
}

#[test]
fn uncommented_sample_equals_defaults() {
    // The settings without a default are shown by example; everything else must be the default.
    let without_examples: Vec<String> = uncommented_sample()
        .lines()
        .filter(|line| {
            let shown = ["database_url", "postgres_bin", "root_access_key", "root_secret_key"];
            !shown.iter().chain(&["certificate", "private_key", "encryption_key"]).any(|key| line.starts_with(key))
        })
        .map(str::to_owned)
        .collect();
    assert_eq!(from_text(&without_examples.join("\n")).expect("the sample is valid"), Config::default());
    from_text(&uncommented_sample()).expect("the sample with its examples is valid");
}

#[test]
fn shipped_samples_parse_as_they_are() {
    assert_eq!(from_text(SAMPLE).expect("sample"), Config::default());
    from_text(MINIMAL).expect("minimal sample");
}

#[test]
fn sample_names_every_key() {
    let text = uncommented_sample();
    let dict = text_layer(&text, String::new()).expect("sample").dict;
    for (key, _) in KEYS {
        assert!(Value::from(dict.clone()).find_ref(key).is_some(), "config/lobgate.toml lacks {key}");
    }
}

#[test]
fn flags_beat_environment_beats_file_beats_defaults() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("lobgate.toml");
    std::fs::write(
        &path,
        "region = \"file\"\nlisten = \"127.0.0.1:1\"\n[gc]\nbatch = 7\n[storage]\ninline_max = 4096\n",
    )
    .expect("written");
    let flags = ConfigFlags { config: Some(path), listen: Some("127.0.0.1:3".to_owned()), ..ConfigFlags::default() };
    let variables = env(&[
        ("LOBGATE_LISTEN", "127.0.0.1:2"),
        ("LOBGATE_REGION", "environment"),
        ("LOBGATE_DATABASE_POOL_SIZE", "5"),
        ("LOBGATE_STORAGE_BUFFER_MAX", "8MiB"),
        ("LOBGATE_DOMAINS", "s3.example.org, localhost"),
        ("LOBGATE_ROOT_ACCESS_KEY", "0012345678"),
        ("LOBGATE_ROOT_SECRET_KEY", "1234567890"),
        ("PATH", "/bin"),
    ]);
    let config = assemble(&flags, &variables).expect("valid");
    config.validate().expect("valid");
    assert_eq!(config.listen.to_string(), "127.0.0.1:3");
    assert_eq!(config.region, "environment");
    assert_eq!((config.gc.batch, config.database.pool_size), (7, 5));
    assert_eq!((config.storage.inline_max, config.storage.buffer_max), (4096, 8 << 20));
    assert_eq!(config.domains, ["s3.example.org", "localhost"]);
    assert_eq!(config.root_access_key.as_deref(), Some("0012345678"));
    assert_eq!(config.root_secret_key.as_ref().map(|key| key.expose().as_str()), Some("1234567890"));
    assert_eq!(config.admin_listen, Config::default().admin_listen);
}

#[test]
fn environment_names_the_file() {
    let flags = ConfigFlags::default();
    let error = message(assemble(&flags, &env(&[("LOBGATE_CONFIG", "/nowhere/lobgate.toml")])));
    assert!(error.contains("/nowhere/lobgate.toml") && error.contains("LOBGATE_CONFIG"), "{error}");
}

#[test]
fn unknown_names_are_errors_that_suggest() {
    let error = message(from_text("[server]\nmax_conections = 1\n"));
    assert!(
        error.contains("`server.max_conections`") && error.contains("did you mean `server.max_connections`"),
        "{error}"
    );
    assert!(message(from_text("[servr]\nmax_requests = 1\n")).contains("`servr`"));
    let flags = ConfigFlags::default();
    let error = message(assemble(&flags, &env(&[("LOBGATE_LISTN", "x")])));
    assert!(error.contains("LOBGATE_LISTN") && error.contains("LOBGATE_LISTEN"), "{error}");
    assemble(&flags, &env(&[("LOBGATE_TEST_ANYTHING", "x")])).expect("test variables are passed over");
}

#[test]
fn wrong_values_name_key_and_source_but_no_secret() {
    let flags = ConfigFlags { listen: Some("nonsense".to_owned()), ..ConfigFlags::default() };
    let error = message(assemble(&flags, &[]));
    assert!(error.contains("`listen`") && error.contains("flag --listen"), "{error}");
    let error = message(assemble(&ConfigFlags::default(), &env(&[("LOBGATE_GC_BATCH", "many")])));
    assert!(error.contains("`gc.batch`") && error.contains("LOBGATE_GC_BATCH"), "{error}");
    let error = message(from_text("root_secret_key = 987654321\n"));
    assert!(error.contains("`root_secret_key`") && !error.contains("987654321"), "{error}");
    let error = message(from_text("root_secret_key = topsecret\n"));
    assert!(error.contains("line 1") && !error.contains("topsecret"), "{error}");
}

#[test]
fn limits_are_checked_in_one_sentence() {
    for (text, key) in [
        ("[gc]\nbatch = 0", "gc.batch"),
        ("[gc]\ninterval = \"20s\"", "gc.lease"),
        ("[storage]\nbuffer_max = \"1KiB\"", "storage.buffer_max"),
        ("[storage]\nwrite_chunk = 5000", "storage.write_chunk"),
        ("[storage]\nread_window = \"3KiB\"", "storage.read_window"),
        ("[cache]\nmemory = \"4MiB\"", "cache.memory"),
        ("[storage]\nupload_memory = \"1MiB\"", "storage.upload_memory"),
        ("[auth]\nencryption_key = \"short\"", "auth.encryption_key"),
        ("[log]\nfilter = \"a=b=c\"", "log.filter"),
        ("[server]\nmax_requests = 0", "server.max_requests"),
        ("region = \"\"", "region"),
        ("domains = [\"Not A Host\"]", "domains"),
        ("root_access_key = \"ABCDEFGH\"", "root_secret_key"),
        ("root_access_key = \"A/B\"\nroot_secret_key = \"12345678\"", "root_access_key"),
        ("database_url = \"mysql://x\"", "database_url"),
        ("admin_listen = \"127.0.0.1:9000\"", "admin_listen"),
    ] {
        let error = message(from_text(text));
        assert!(error.contains(&format!("`{key}`")) && error.lines().count() == 1, "{text}: {error}");
    }
}
