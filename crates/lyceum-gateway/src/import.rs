//! Reads how others configure MCP servers, and writes it as our own configuration.
//!
//! Understands Knox topologies and the JSON files of desktop clients and editors. Secrets in them are
//! not copied: the configuration names an environment variable, and a note says what to put there.
//! Nothing is read from disk, started or asked here.

mod client;
mod json_with_comments;
mod knox;
mod render;
mod secret;
#[cfg(test)]
mod tests;

use crate::names;

/// Bytes of a file; real ones are a few thousand.
const MAX_FILE: usize = 1 << 20;
/// Upstreams of a file.
const MAX_UPSTREAMS: usize = 256;

/// What a file says, as far as it means something here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Imported {
    /// The servers, in the order of the file.
    pub upstreams: Vec<ImportedUpstream>,
    /// The commands that may run; empty if the file does not say.
    pub allowed_commands: Vec<String>,
    /// What could not be carried over, and what is left to do, for people.
    pub notes: Vec<String>,
}

/// A server somebody else configured. Values are written as in our configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedUpstream {
    /// A valid name for it.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// Variables for a child: `NAME` or `NAME=value`.
    pub env: Vec<String>,
    /// Headers: a name, and `env:VAR` or a text.
    pub headers: Vec<(String, String)>,
    /// Where a child starts.
    pub directory: Option<String>,
    /// What public names begin with, if not with its name.
    pub prefix: Option<String>,
    /// Whether it was switched off.
    pub disabled: bool,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A program and its arguments.
    Command(Vec<String>),
    /// One of the forms of `url_form`.
    Url(String),
}

/// Why a file cannot be taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It is larger than any such file.
    #[error("the file is larger than {MAX_FILE} bytes")]
    TooLarge,
    /// It lists more servers than anybody has.
    #[error("the file has more than {MAX_UPSTREAMS} servers")]
    TooMany,
    /// It is no topology.
    #[error("the XML cannot be read: {0}")]
    Xml(String),
    /// It is no JSON, not even with comments.
    #[error("the JSON cannot be read: {0}")]
    Json(String),
    /// Nobody configured a server there.
    #[error("no MCP servers in it; wanted is {0}")]
    Nothing(&'static str),
}

/// Reads a file of any kind it knows.
pub fn import(text: &str) -> Result<Imported, ImportError> {
    if text.len() > MAX_FILE {
        return Err(ImportError::TooLarge);
    }
    let text = text.trim_start_matches('\u{feff}').trim();
    let imported = if text.starts_with('<') { knox::read(text) } else { client::read(text) }?;
    if imported.upstreams.len() > MAX_UPSTREAMS {
        return Err(ImportError::TooMany);
    }
    Ok(imported)
}

impl Imported {
    /// A valid name for what is called `wanted` there; a note tells of every change.
    fn name(&mut self, wanted: &str) -> String {
        let taken: Vec<String> =
            self.upstreams.iter().map(|upstream| upstream.name.clone()).collect();
        let name = names::upstream_name(wanted, &taken);
        if name != wanted {
            self.notes.push(format!("{wanted:?} is called {name} here"));
        }
        name
    }
}

impl ImportedUpstream {
    fn new(name: String, place: Place) -> Self {
        Self {
            name,
            place,
            env: Vec::new(),
            headers: Vec::new(),
            directory: None,
            prefix: None,
            disabled: false,
        }
    }
}
