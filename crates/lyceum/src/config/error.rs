//! Why a configuration was refused: the place, what is wrong, what to write instead.

use std::fmt;

use crate::config::given::Source;

/// A configuration nobody should serve with.
#[derive(Debug)]
pub(crate) struct ConfigError {
    place: Option<String>,
    message: String,
}

impl ConfigError {
    /// About a value given somewhere.
    pub(crate) fn at(source: &Source, message: impl Into<String>) -> Self {
        Self { place: Some(source.to_string()), message: message.into() }
    }

    /// About something that is missing everywhere.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for ConfigError {}
