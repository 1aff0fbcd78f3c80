//! One TOML document as a layer of settings: the file, the defaults, or the environment in disguise.

use std::path::Path;

use crate::config::error::ConfigError;
use crate::config::given::{Layer, Source};
use crate::config::settings::Settings;

pub(crate) const DEFAULTS: &str = include_str!("defaults.toml");

/// The lowest layer.
pub(crate) fn defaults() -> Settings {
    parse(DEFAULTS, &|_| Source::Default).expect("the built-in defaults are valid")
}

/// The configuration file.
pub(crate) fn file(path: &Path) -> Result<Settings, ConfigError> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        ConfigError::new(format!("cannot read configuration {name}: {error}; check --config"))
    })?;
    parse(&text, &|offset| Source::Line(name.clone(), line(&text, offset)))
}

/// Reads `text`; `name` says what an offset in it is called.
pub(crate) fn parse(text: &str, name: &dyn Fn(usize) -> Source) -> Result<Settings, ConfigError> {
    match toml::from_str::<Settings>(text) {
        Ok(mut settings) => {
            settings.stamp(name);
            Ok(settings)
        }
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start);
            Err(ConfigError::at(&name(offset), wording(error.message())))
        }
    }
}

/// Says it in the words of somebody who writes a file, not of somebody who writes Rust.
fn wording(message: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        ("unknown field", "unknown key"),
        ("missing field", "missing key"),
        ("a nonzero u32", "a whole number from 1 to 4294967295"),
    ];
    let message = message.trim_end().to_owned();
    WORDS.iter().fold(message, |message, (theirs, ours)| message.replace(theirs, ours))
}

fn line(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}
