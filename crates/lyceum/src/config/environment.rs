//! The process environment, read here and nowhere else, through a map that tests can make up.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use crate::config::document;
use crate::config::error::ConfigError;
use crate::config::given::Source;
use crate::config::keys::{Key, Kind, PREFIX, keys};
use crate::config::settings::Settings;

/// Names the configuration file; the one variable that is not a key of that file.
pub(crate) const CONFIG: &str = "LYCEUM_CONFIG";

/// Variables by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process.
    pub(crate) fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    #[cfg(test)]
    pub(crate) fn made_of(variables: &[(&str, &str)]) -> Self {
        Self(variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// The value of `name`; an empty variable counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The configuration file it names, if it names one.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        self.get(CONFIG).map(PathBuf::from)
    }

    /// `LYCEUM_` variables that set nothing. Worth a word, not a refusal: some schedulers make up
    /// variables such as `LYCEUM_SERVICE_HOST`.
    pub(crate) fn strangers(&self) -> Vec<&str> {
        let known: Vec<String> = keys().iter().map(Key::variable).collect();
        let names = self.0.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX));
        names.filter(|name| *name != CONFIG && !known.iter().any(|known| known == name)).collect()
    }

    /// Where data lives unless somebody says otherwise.
    pub(crate) fn data_home(&self) -> Option<PathBuf> {
        let absolute = |path: &str| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
        let home = self.get("HOME").and_then(absolute).map(|home| home.join(".local/share"));
        let base = self.get("XDG_DATA_HOME").and_then(absolute).or(home)?;
        Some(base.join("lyceum"))
    }

    /// The layer the variables make, written as a document so that both are read alike.
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let mut text = String::new();
        let mut places: Vec<(Range<usize>, String)> = Vec::new();
        for key in keys() {
            let variable = key.variable();
            let Some(value) = self.get(&variable) else { continue };
            let start = text.len();
            text.push_str(&format!("{} = {}\n", key.path, toml_value(key.kind, value)));
            places.push((start..text.len(), variable));
        }
        document::parse(&text, &|offset| {
            let place = places.iter().find(|(range, _)| range.contains(&offset));
            Source::Variable(place.map_or("environment", |(_, variable)| variable).to_owned())
        })
    }
}

fn toml_value(kind: Kind, value: &str) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    match kind {
        Kind::Text => quoted(value),
        Kind::Literal(_) | Kind::Tables => value.to_owned(),
        Kind::List => {
            let items = value.split(',').map(str::trim).filter(|item| !item.is_empty());
            format!("[{}]", items.map(quoted).collect::<Vec<_>>().join(", "))
        }
    }
}
