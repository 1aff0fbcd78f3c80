//! The MCP endpoints of a server, checked against each other.

use lyceum_http::dialect::Dialect;

use crate::config::error::ConfigError;
use crate::config::given::Given;
use crate::config::settings::EndpointSettings;
use crate::config::values::Glob;

/// Paths that are taken, and by what.
const TAKEN: &[(&str, &str)] = &[
    ("/", "the hub"),
    ("/health", "the health check"),
    ("/metrics", "the metrics"),
    ("/sse", "HTTP+SSE clients"),
    ("/messages", "HTTP+SSE clients"),
];

/// One MCP endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) path: String,
    pub(crate) dialect: Dialect,
    pub(crate) sse: bool,
    pub(crate) explain: bool,
    /// The tools it offers; `None` means all.
    pub(crate) tools: Option<Vec<Glob>>,
    /// Whether it is served on `/sse` and `/messages` too.
    pub(crate) http_sse: bool,
}

impl Endpoint {
    /// Whether the endpoint offers a tool of this name.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|globs| globs.iter().any(|glob| glob.matches(tool)))
    }

    /// One line for people.
    pub(crate) fn summary(&self) -> String {
        let mut line = format!("{} ({}", self.path, self.dialect);
        let notes = [(!self.sse, "JSON only"), (self.http_sse, "also on /sse and /messages")];
        for (_, note) in notes.iter().filter(|(holds, _)| *holds) {
            line.push_str(", ");
            line.push_str(note);
        }
        if let Some(globs) = &self.tools {
            let globs: Vec<String> = globs.iter().map(Glob::to_string).collect();
            line.push_str(&format!(", tools {}", globs.join(" ")));
        }
        line.push(')');
        line
    }
}

/// Fills in what was left out and refuses what cannot be served.
///
/// `preset` is the dialect of endpoints that name none, `sse` whether streams are on at all.
pub(crate) fn check(
    settings: Vec<EndpointSettings>,
    preset: Option<Dialect>,
    sse: bool,
) -> Result<Vec<Endpoint>, ConfigError> {
    let dialect = preset.unwrap_or_default();
    if settings.is_empty() {
        return Ok(vec![standing(dialect, sse, preset.is_none())]);
    }
    let mut endpoints: Vec<Endpoint> = Vec::with_capacity(settings.len());
    for settings in settings {
        check_path(&settings.path)?;
        if endpoints.iter().any(|endpoint| endpoint.path == settings.path.value) {
            return Err(taken(&settings.path, "another endpoint"));
        }
        if let Some(http_sse) = settings.http_sse.as_ref().filter(|http_sse| http_sse.value)
            && let Some(other) = endpoints.iter().find(|endpoint| endpoint.http_sse)
        {
            let message = format!("{} has http_sse already; remove it here or there", other.path);
            return Err(ConfigError::at(&http_sse.source, message));
        }
        endpoints.push(Endpoint {
            path: settings.path.value,
            dialect: settings.dialect.map_or(dialect, |given| given.value.0),
            sse: sse && settings.sse.is_none_or(|given| given.value),
            explain: settings.explain.is_some_and(|given| given.value),
            tools: settings.tools.map(|given| given.value),
            http_sse: settings.http_sse.is_some_and(|given| given.value),
        });
    }
    Ok(endpoints)
}

/// The endpoint of a server nobody configured.
fn standing(dialect: Dialect, sse: bool, http_sse: bool) -> Endpoint {
    Endpoint {
        path: "/mcp".to_owned(),
        dialect,
        sse,
        explain: false,
        tools: None,
        // The 2024-11-05 transport is nothing but a stream.
        http_sse: http_sse && sse,
    }
}

fn check_path(path: &Given<String>) -> Result<(), ConfigError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let value = path.value.as_str();
    let ends_well = value.len() == 1 || !value.ends_with('/');
    if !value.starts_with('/') || !value.bytes().all(plain) || !ends_well || value.contains("//") {
        let message = format!(
            "{value:?} is no path for an endpoint; write one like \"/mcp\": a leading slash, then \
             letters, digits, - . _ ~ and single slashes, none at the end"
        );
        return Err(ConfigError::at(&path.source, message));
    }
    match TAKEN.iter().find(|(taken, _)| *taken == value) {
        Some((_, by)) => Err(taken(path, by)),
        None => Ok(()),
    }
}

fn taken(path: &Given<String>, by: &str) -> ConfigError {
    ConfigError::at(&path.source, format!("{} belongs to {by}; choose another path", path.value))
}
