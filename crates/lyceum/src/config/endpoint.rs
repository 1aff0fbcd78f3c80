//! The MCP endpoints of a server, checked against each other.

use lyceum_gateway::glob::{Filter, Glob, Rule};
use lyceum_http::dialect::Dialect;

use crate::config::environment::Environment;
use crate::config::error::ConfigError;
use crate::config::given::Given;
use crate::config::profile::{PROFILES, Profile};
use crate::config::secret::Secret;
use crate::config::settings::EndpointSettings;
use crate::config::values::ToolRule;

/// The place of a secret in a path.
const TOKEN: &str = "{token}";

/// Paths that are taken, and by what.
const TAKEN: &[(&str, &str)] = &[
    ("/", "the hub"),
    ("/health", "the health check"),
    ("/metrics", "the metrics"),
    ("/info", "the HTTP API"),
    ("/openapi.json", "the HTTP API"),
    ("/documents", "the HTTP API"),
    ("/kb", "the HTTP API"),
    ("/sse", "HTTP+SSE clients"),
    ("/messages", "HTTP+SSE clients"),
];

/// Paths everything below which is taken too.
const TAKEN_WHOLLY: &[&str] = &["/documents", "/kb"];

/// One MCP endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// With `{token}` in the place of a secret, so it can be shown to anyone.
    pub(crate) path: String,
    pub(crate) dialect: Dialect,
    pub(crate) sse: bool,
    pub(crate) explain: bool,
    /// The tools it offers.
    pub(crate) tools: Filter,
    /// Whether 2024-11-05 clients reach it, too.
    pub(crate) http_sse: bool,
    /// The names of the keys that may enter; `None` means any.
    pub(crate) keys: Option<Vec<String>>,
    /// What stands in the path where clients put their token.
    pub(crate) token: Option<Secret>,
    /// Whether it shows upstreams only, with the paths of the Knox proxy below its own.
    pub(crate) is_knox: bool,
}

/// What endpoints take from the rest of the configuration.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    /// The dialect of endpoints that name none.
    pub(crate) preset: Option<Dialect>,
    /// Where the paths of the Knox proxy are, if they are served.
    pub(crate) knox: Option<&'a Given<String>>,
    /// Whether streams are on at all.
    pub(crate) sse: bool,
    /// Whether other machines can reach the server.
    pub(crate) public: bool,
    pub(crate) environment: &'a Environment,
}

impl Endpoint {
    /// Whether the endpoint offers a tool of this name.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.tools.admits(tool)
    }

    /// Where 2024-11-05 clients open their stream, and where they send.
    pub(crate) fn http_sse_paths(&self) -> Option<[String; 2]> {
        let base = if self.path == "/mcp" { "" } else { &self.path };
        self.http_sse.then(|| [format!("{base}/sse"), format!("{base}/messages")])
    }

    /// The name of the profile at its path; other endpoints are named after their path.
    pub(crate) fn profile_name(&self) -> &str {
        Profile::at(&self.path).map_or(self.path.trim_start_matches('/'), |profile| profile.name)
    }

    /// One line for people.
    pub(crate) fn summary(&self) -> String {
        let mut line = format!("{} ({}", self.path, self.dialect);
        let notes = [
            (!self.sse, "JSON only"),
            (self.http_sse, "also over HTTP+SSE"),
            (self.is_knox, "upstreams only, with the paths of Knox below"),
        ];
        for (_, note) in notes.iter().filter(|(holds, _)| *holds) {
            line.push_str(", ");
            line.push_str(note);
        }
        if !self.tools.is_everything() {
            line.push_str(&format!(", tools {}", self.tools));
        }
        if let Some(keys) = &self.keys {
            line.push_str(&format!(", keys {}", keys.join(" ")));
        }
        line.push(')');
        line
    }
}

/// Fills in what was left out and refuses what cannot be served.
pub(crate) fn check(
    settings: Vec<EndpointSettings>,
    around: &Surroundings<'_>,
) -> Result<Vec<Endpoint>, ConfigError> {
    if let Some(prefix) = around.knox {
        check_prefix(prefix)?;
    }
    if settings.is_empty() {
        return Ok(standing(around));
    }
    let mut endpoints: Vec<Endpoint> = Vec::with_capacity(settings.len());
    for settings in settings {
        check_path(&settings.path)?;
        check_beside_knox(&settings, around)?;
        if endpoints.iter().any(|endpoint| endpoint.path == settings.path.value) {
            return Err(taken(&settings.path, "another endpoint"));
        }
        let is_stream = |endpoint: &Endpoint| {
            endpoint.http_sse_paths().is_some_and(|paths| paths.contains(&settings.path.value))
        };
        if endpoints.iter().any(is_stream) {
            return Err(taken(&settings.path, "the HTTP+SSE clients of another endpoint"));
        }
        endpoints.push(configured(settings, around)?);
    }
    if !endpoints.iter().any(|endpoint| endpoint.is_knox) {
        endpoints.extend(knox(around));
    }
    Ok(endpoints)
}

/// The endpoints of a server nobody configured.
fn standing(around: &Surroundings<'_>) -> Vec<Endpoint> {
    let served = PROFILES.iter().filter(|profile| profile.public || !around.public);
    let mut endpoints: Vec<Endpoint> =
        served.map(|profile| unnamed(profile.path, Some(profile), around)).collect();
    for endpoint in &mut endpoints {
        // The 2024-11-05 transport is nothing but a stream.
        endpoint.http_sse = around.preset.is_none() && around.sse;
    }
    endpoints.extend(knox(around));
    endpoints
}

/// The endpoint that clients of the Knox proxy find.
fn knox(around: &Surroundings<'_>) -> Option<Endpoint> {
    around.knox.map(|prefix| unnamed(&prefix.value, None, around))
}

/// The endpoint at `path` as it is when nothing else is said about it.
fn unnamed(path: &str, profile: Option<&Profile>, around: &Surroundings<'_>) -> Endpoint {
    let dialect = profile.map(|profile| profile.dialect);
    let tools = profile.and_then(Profile::tools).map(|names| names.map(Glob::name));
    Endpoint {
        path: path.to_owned(),
        dialect: around.preset.or(dialect).unwrap_or_default(),
        sse: around.sse,
        explain: false,
        tools: tools.map(|names| names.map(Rule::Allow).collect()).unwrap_or_default(),
        http_sse: false,
        keys: None,
        token: None,
        is_knox: around.knox.is_some_and(|prefix| prefix.value == path),
    }
}

fn configured(
    settings: EndpointSettings,
    around: &Surroundings<'_>,
) -> Result<Endpoint, ConfigError> {
    let token = check_token(&settings, around.environment)?;
    let tools: Option<Filter> =
        settings.tools.map(|given| given.value.into_iter().map(|ToolRule(rule)| rule).collect());
    let path = settings.path.value;
    let base = unnamed(&path, Profile::at(&path), around);
    Ok(Endpoint {
        dialect: settings.dialect.map_or(base.dialect, |given| given.value.0),
        sse: base.sse && settings.sse.is_none_or(|given| given.value),
        explain: settings.explain.is_some_and(|given| given.value),
        // Denials alone take from what would be there without them, so that they hand out nothing.
        tools: tools.unwrap_or_default().within(base.tools),
        http_sse: settings.http_sse.is_some_and(|given| given.value),
        keys: settings.keys.map(|given| given.value),
        token,
        is_knox: base.is_knox,
        path,
    })
}

/// The secret of the path, if the path has a place for one.
fn check_token(
    settings: &EndpointSettings,
    environment: &Environment,
) -> Result<Option<Secret>, ConfigError> {
    let (env, file) = (settings.token_env.clone(), settings.token_file.clone());
    let token = Secret::given(env, file, ["token_env", "token_file"], environment)?;
    let path = &settings.path;
    let wrong = |message: String| Err(ConfigError::at(&path.source, message));
    match (path.value.contains(TOKEN), &token) {
        (true, None) => wrong(format!("{} needs token_env or token_file as well", path.value)),
        (false, Some(_)) => wrong(format!(
            "{} has no place for a token; write one like \"/gpt-mcp/{{token}}/mcp\"",
            path.value
        )),
        (true, Some(_)) if settings.keys.is_some() => {
            wrong("whoever has the token may enter; remove keys, or the token".to_owned())
        }
        (true, Some(_)) if settings.http_sse.as_ref().is_some_and(|given| given.value) => {
            wrong("HTTP+SSE has no place for a token; remove http_sse".to_owned())
        }
        _ => Ok(token),
    }
}

fn check_path(path: &Given<String>) -> Result<(), ConfigError> {
    let value = path.value.as_str();
    if !is_path(value) {
        let message = format!(
            "{value:?} is no path for an endpoint; write one like \"/mcp\": a leading slash, then \
             letters, digits, - . _ ~ and single slashes, none at the end"
        );
        return Err(ConfigError::at(&path.source, message));
    }
    let below = |root: &str| value.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    if TAKEN_WHOLLY.iter().any(|root| below(root)) {
        return Err(taken(path, "the HTTP API"));
    }
    match TAKEN.iter().find(|(taken, _)| *taken == value) {
        Some((_, by)) => Err(taken(path, by)),
        None => Ok(()),
    }
}

/// Where the Knox paths are must be free below, too.
fn check_prefix(prefix: &Given<String>) -> Result<(), ConfigError> {
    if prefix.value.contains(TOKEN) {
        let message = format!("{} has a place for a token; Knox's paths have none", prefix.value);
        return Err(ConfigError::at(&prefix.source, message));
    }
    if Profile::at(&prefix.value).is_some() {
        return Err(taken(prefix, "a profile"));
    }
    check_path(prefix)
}

/// An endpoint at the Knox prefix speaks for it; none can be below it.
fn check_beside_knox(
    settings: &EndpointSettings,
    around: &Surroundings<'_>,
) -> Result<(), ConfigError> {
    let Some(below) = around.knox.and_then(|knox| settings.path.value.strip_prefix(&knox.value))
    else {
        return Ok(());
    };
    if below.starts_with('/') {
        return Err(taken(&settings.path, "the paths of Knox"));
    }
    match settings.http_sse.as_ref().filter(|given| given.value && below.is_empty()) {
        Some(given) => {
            let message = "it has its own stream at sse and message below; remove http_sse";
            Err(ConfigError::at(&given.source, message))
        }
        None => Ok(()),
    }
}

fn is_path(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let Some(rest) = value.strip_prefix('/') else { return false };
    let is_token = |segment: &&str| *segment == TOKEN;
    let n_tokens = rest.split('/').filter(is_token).count();
    let good = |segment: &str| !segment.is_empty() && segment.bytes().all(plain);
    n_tokens <= 1
        && (value == "/" || rest.split('/').all(|segment| is_token(&segment) || good(segment)))
}

fn taken(path: &Given<String>, by: &str) -> ConfigError {
    ConfigError::at(&path.source, format!("{} belongs to {by}; choose another path", path.value))
}
