//! Reading the layers: defaults < TOML file < `LOBGATE_*` environment < flags.
//!
//! Every variable and flag is a layer of its own, so that a message about a wrong value can say where it came
//! from. Unknown keys and variables are refused before anything is merged; `LOBGATE_TEST_*` is passed over.
//! Invariant: nothing in here reads the process environment except [`process_environment`], so tests pass theirs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Error, Figment, Metadata, Profile, Provider};

use super::error::ConfigError;
use super::keys::{
    CONFIG_VARIABLE, KEYS, Kind, TEST_PREFIX, VARIABLE_PREFIX, key_of_variable, kind_of, nearest, value_of, variable_of,
};
use super::{Config, ConfigFlags};

/// One variable of the environment.
pub(super) type Variable = (OsString, OsString);

/// The environment of this process.
pub(super) fn process_environment() -> Vec<Variable> {
    std::env::vars_os().collect()
}

/// Merges all layers and reads the settings from them; validation is the caller's.
pub(super) fn assemble(flags: &ConfigFlags, environment: &[Variable]) -> Result<Config, ConfigError> {
    let variables = our_variables(environment)?;
    let mut figment = Figment::new();
    if let Some(path) = config_file(flags, &variables) {
        figment = figment.merge(file_layer(&path)?);
    }
    for (name, text) in &variables {
        if let Some((key, kind)) = key_of_variable(name) {
            figment = figment.merge(Layer::single(format!("environment variable {name}"), key, value_of(kind, text)));
        }
    }
    for (flag, key, text) in flags.given() {
        figment = figment.merge(Layer::single(format!("flag {flag}"), key, Value::from(text)));
    }
    figment.extract().map_err(|error| explain(&error))
}

/// A named source of values.
struct Layer {
    origin: String,
    dict: Dict,
}

impl Layer {
    fn single(origin: String, key: &str, value: Value) -> Self {
        let dict = figment::util::nest(key, value).into_dict().unwrap_or_default();
        Self { origin, dict }
    }
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Profile::Default.collect(self.dict.clone()))
    }
}

/// Those of `environment` that are ours, as text; unknown ones are errors.
fn our_variables(environment: &[Variable]) -> Result<Vec<(String, String)>, ConfigError> {
    let mut ours = Vec::new();
    for (raw_name, raw_text) in environment {
        let name = raw_name.to_string_lossy().into_owned();
        if !name.starts_with(VARIABLE_PREFIX) || name.starts_with(TEST_PREFIX) {
            continue;
        }
        if name != CONFIG_VARIABLE && key_of_variable(&name).is_none() {
            let known: Vec<String> = KEYS.iter().map(|(key, _)| variable_of(key)).collect();
            let suggestion = nearest(&name, known.iter().map(String::as_str).chain([CONFIG_VARIABLE]));
            return Err(ConfigError::UnknownVariable { name, suggestion });
        }
        match raw_text.clone().into_string() {
            Ok(text) => ours.push((name, text)),
            Err(_) => return Err(ConfigError::NotText { name }),
        }
    }
    Ok(ours)
}

fn config_file(flags: &ConfigFlags, variables: &[(String, String)]) -> Option<PathBuf> {
    let named = || variables.iter().find(|(name, _)| name == CONFIG_VARIABLE).map(|(_, text)| PathBuf::from(text));
    flags.config.clone().or_else(named).filter(|path| !path.as_os_str().is_empty())
}

fn file_layer(path: &Path) -> Result<Layer, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|reason| ConfigError::Unreadable { path: path.to_owned(), reason })?;
    text_layer(&text, format!("file {}", path.display()))
}

/// The configuration of a file's text alone.
#[cfg(any(test, fuzzing))]
pub(crate) fn from_text(text: &str) -> Result<Config, ConfigError> {
    let config: Config =
        Figment::from(text_layer(text, "file sample.toml".to_owned())?).extract().map_err(|error| explain(&error))?;
    config.validate()?;
    Ok(config)
}

/// The layer of a TOML text; unknown keys are errors.
fn text_layer(text: &str, origin: String) -> Result<Layer, ConfigError> {
    let parsed = Toml::string(text).data().map_err(|error| syntax_error(&error, &origin))?;
    let dict = parsed.into_values().next().unwrap_or_default();
    refuse_unknown_keys(&dict, "", &origin)?;
    Ok(Layer { origin, dict })
}

/// Only the first and last line of the parser's message: those between quote the file, secrets included.
fn syntax_error(error: &Error, origin: &str) -> ConfigError {
    let message = error.kind.to_string();
    let lines: Vec<&str> = message.lines().filter(|line| !line.trim().is_empty()).collect();
    let detail = match lines.as_slice() {
        [] => "it can't be parsed".to_owned(),
        [only] => (*only).to_owned(),
        [first, .., last] => format!("{first}, {last}"),
    };
    ConfigError::Syntax { origin: origin.to_owned(), detail }
}

fn refuse_unknown_keys(dict: &Dict, section: &str, origin: &str) -> Result<(), ConfigError> {
    for (name, value) in dict {
        let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        let is_section =
            KEYS.iter().any(|(known, _)| known.strip_prefix(&key).is_some_and(|rest| rest.starts_with('.')));
        match value {
            Value::Dict(_, inner) if is_section => refuse_unknown_keys(inner, &key, origin)?,
            _ if kind_of(&key).is_some() => {}
            _ if is_section => {
                let detail = "this is a section: write its settings below a line such as [server]".to_owned();
                return Err(ConfigError::WrongValue { key, origin: origin.to_owned(), detail });
            }
            _ => {
                let suggestion = nearest(&key, KEYS.iter().map(|(known, _)| *known));
                return Err(ConfigError::UnknownKey { key, origin: origin.to_owned(), suggestion });
            }
        }
    }
    Ok(())
}

/// A typed reading error as one sentence that never repeats a secret.
fn explain(error: &Error) -> ConfigError {
    let key = error.path.join(".");
    let origin =
        error.metadata.as_ref().map_or_else(|| "the configuration".to_owned(), |source| source.name.to_string());
    if let figment::error::Kind::UnknownField(name, _) = &error.kind {
        let full = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        return ConfigError::UnknownKey { key: full, origin, suggestion: None };
    }
    let detail = match kind_of(&key) {
        Some(Kind::Secret) => "a text in quotes is expected".to_owned(),
        _ => match error.kind.to_string() {
            text if text.contains("socket address") => "write an address and a port such as 127.0.0.1:9000".to_owned(),
            text => text,
        },
    };
    ConfigError::WrongValue { key, origin, detail }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
