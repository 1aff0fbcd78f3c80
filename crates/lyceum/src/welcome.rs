//! What `serve` prints once it listens: always where, and on the first start how to go on.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use crate::app::App;

/// The text.
pub(crate) struct Welcome<'a> {
    url: String,
    others: Vec<&'a str>,
    sse: Option<String>,
    health: String,
    metrics: String,
    data: &'a Path,
    program: &'a Path,
    first_start: bool,
}

impl<'a> Welcome<'a> {
    /// The text for `app`, whose binary is `program`.
    pub(crate) fn new(app: &'a App, program: &'a Path) -> Self {
        let endpoints = &app.config.endpoints;
        let mut paths = endpoints.iter().map(|endpoint| endpoint.path.as_str());
        Self {
            url: paths.next().map(|path| app.url(path)).unwrap_or_default(),
            others: paths.collect(),
            sse: endpoints
                .iter()
                .find_map(|endpoint| Some(app.url(&endpoint.http_sse_paths()?[0]))),
            health: app.url("/health"),
            metrics: app.url("/metrics"),
            data: &app.config.data,
            program,
            first_start: app.first_start,
        }
    }

    fn clients(&self) -> Vec<(&'static str, String)> {
        let url = &self.url;
        let servers = |server: Value| json!({ "mcpServers": { "lyceum": server } }).to_string();
        let program = self.program.display().to_string();
        vec![
            ("Claude Code", format!("claude mcp add --transport http lyceum {url}")),
            (
                "VS Code",
                format!(
                    "code --add-mcp '{}'",
                    json!({ "name": "lyceum", "type": "http", "url": url })
                ),
            ),
            ("Cursor", format!("~/.cursor/mcp.json: {}", servers(json!({ "url": url })))),
            ("others", servers(json!({ "type": "http", "url": url }))),
            ("over stdio", servers(json!({ "command": program, "args": ["stdio"] }))),
        ]
    }
}

impl fmt::Display for Welcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lyceum {} listens on {}", env!("CARGO_PKG_VERSION"), self.url)?;
        if !self.others.is_empty() {
            write!(f, "\n  and on       {}", self.others.join(" "))?;
        }
        if !self.first_start {
            return Ok(());
        }
        if let Some(sse) = &self.sse {
            write!(f, "\n  and on       {sse} for clients of 2024-11-05")?;
        }
        write!(f, "\n  watch        {} {}", self.health, self.metrics)?;
        write!(f, "\n  data         {}", self.data.display())?;
        write!(f, "\n\nTo add it to a client:")?;
        for (client, how) in self.clients() {
            write!(f, "\n  {client:<11}  {how}")?;
        }
        let program = self.program.display();
        write!(f, "\n\nTo see how it answers: {program} doctor {}", self.url)
    }
}
