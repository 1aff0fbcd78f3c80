//! What an operator says about an upstream, as plain data.
//!
//! Reading it from a file is the business of the binary. Two equal configurations are the same
//! upstream, so a reload leaves it alone.

use std::path::PathBuf;
use std::time::Duration;

use lyceum_wire::Era;

use crate::glob::Filter;
use crate::oauth::OAuthConfig;

/// A server behind the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// What clients know it by: `[a-z0-9-]{1,32}`.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// Which eras are tried.
    pub era: EraChoice,
    /// Who shares a connection.
    pub share: Share,
    /// Headers sent to it, from the environment, a file or as they are.
    pub headers: Vec<(String, HeaderSource)>,
    /// How we get tokens for it; `None` finds out, if it is an https server that asks for them.
    pub oauth: Option<OAuthConfig>,
    /// Environment variables a child process inherits besides the usual few.
    pub env: Vec<String>,
    /// Where a child process starts; `None` is where we are.
    pub directory: Option<PathBuf>,
    /// How long a call may hear nothing.
    pub call_timeout: Duration,
    /// How long a connection nobody uses is kept; `None` is for ever, and half an hour for
    /// connections of sessions.
    pub idle_timeout: Option<Duration>,
    /// How old a connection may become; `None` is as old as it likes.
    pub max_lifetime: Option<Duration>,
    /// Connections of their own that sessions may have at once; of a shared upstream, how many calls
    /// may wait for their clients on a connection of their own.
    pub max_connections: usize,
    /// Which of its tools are shown, by their own names.
    pub tools: Filter,
    /// What its names begin with; `None` is its name, and nothing leaves names and URIs as they are.
    pub prefix: Option<String>,
    /// Names its tools are known by besides: public alias, own name.
    pub aliases: Vec<(String, String)>,
    /// Whether invisible characters are taken out of descriptions.
    pub strip_invisible: bool,
}

/// Where an upstream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A child process that speaks over its standard streams.
    Command(Vec<String>),
    /// Streamable HTTP, or whatever an `http(s)` URL turns out to be.
    Http(String),
    /// HTTP+SSE: the URL of the stream.
    HttpSse(String),
    /// A stream at `<base>/sse` and messages to `<base>/message`.
    CustomSse(String),
}

/// Which eras are tried with an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EraChoice {
    /// Modern, then legacy.
    #[default]
    Auto,
    /// Only the handshake revisions.
    Legacy,
    /// Only 2026-07-28.
    Modern,
}

impl From<Era> for EraChoice {
    fn from(era: Era) -> EraChoice {
        match era {
            Era::Legacy => EraChoice::Legacy,
            Era::Modern => EraChoice::Modern,
        }
    }
}

/// Who shares a connection to an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Share {
    /// Everybody.
    #[default]
    Shared,
    /// Each legacy session has its own, and so has each principal of modern clients.
    PerSession,
}

/// Where the value of a header comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum HeaderSource {
    /// An environment variable.
    Env(String),
    /// A file, read anew for each connection.
    File(PathBuf),
    /// As it is.
    Text(String),
}

impl UpstreamConfig {
    /// An upstream with the defaults of everything else.
    pub fn new(name: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            target,
            era: EraChoice::default(),
            share: Share::default(),
            headers: Vec::new(),
            oauth: None,
            env: Vec::new(),
            directory: None,
            call_timeout: Duration::from_secs(60),
            idle_timeout: None,
            max_lifetime: None,
            max_connections: 64,
            tools: Filter::default(),
            prefix: None,
            aliases: Vec::new(),
            strip_invisible: false,
        }
    }

    /// What its names begin with; empty leaves them as they are.
    pub fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(&self.name)
    }
}

impl std::fmt::Debug for HeaderSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeaderSource::Env(name) => write!(f, "env:{name}"),
            HeaderSource::File(path) => write!(f, "file:{}", path.display()),
            // It may be a secret.
            HeaderSource::Text(_) => f.write_str("text"),
        }
    }
}
