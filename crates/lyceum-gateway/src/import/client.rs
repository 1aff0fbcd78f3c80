//! The JSON files of desktop clients and editors: `mcpServers` and its relatives.

use lyceum_wire::{Object, elements};
use serde_json::Value;

use super::{ImportError, Imported, ImportedUpstream, Place, json_with_comments, secret};
use crate::config::Target;
use crate::url_form::BadForm;

/// Where clients keep their servers; the first that is there counts.
const HOMES: &[&[&str]] = &[
    &["mcpServers"],
    &["servers"],
    &["context_servers"],
    &["mcp", "servers"],
    &["mcp"],
    &["amp.mcpServers"],
];

/// Members that mean nothing anywhere else.
const IDLE: &[&str] = &["type", "transport", "transportType", "source", "name", "description"];

/// A server as a client describes it. Names of one thing differ between clients.
struct Server<'a> {
    members: Object<'a>,
    seen: Vec<&'static str>,
}

pub(super) fn read(text: &str) -> Result<Imported, ImportError> {
    let json = json_with_comments::to_json(text);
    let unreadable = |error: String| ImportError::Json(error);
    let file = Object::parse(json.as_bytes()).map_err(unreadable)?;
    let servers = HOMES.iter().find_map(|home| {
        let (first, rest) = home.split_first()?;
        let found = rest.iter().try_fold(file.get(first)?, |raw, name| {
            Object::parse(raw.as_bytes()).ok()?.get(name)
        })?;
        found.starts_with('{').then_some(found)
    });
    let servers = servers
        .ok_or(ImportError::Nothing("an object called mcpServers, servers or context_servers"))?;
    let servers = Object::parse(servers.as_bytes()).map_err(unreadable)?;
    let mut imported = Imported::default();
    if file.get("projects").is_some_and(|projects| projects.contains("\"mcpServers\"")) {
        let note = "servers of single projects are not carried over; import their files as well";
        imported.notes.push(note.to_owned());
    }
    for (name, raw) in servers.iter().take(super::MAX_UPSTREAMS + 1) {
        match Object::parse(raw.as_bytes()) {
            Ok(members) => add(&mut imported, name, Server { members, seen: IDLE.to_vec() }),
            Err(_) => imported.notes.push(format!("{name:?} is left out: it is no object")),
        }
    }
    Ok(imported)
}

fn add(imported: &mut Imported, called: &str, mut server: Server<'_>) {
    let place = match server.place() {
        Ok(place) => place,
        Err(reason) => {
            imported.notes.push(format!("{called:?} is left out: {reason}"));
            return;
        }
    };
    let name = imported.name(called);
    let mut upstream = ImportedUpstream::new(name, place);
    let notes = &mut imported.notes;
    if let Place::Url(url) = &mut upstream.place {
        check_url(&upstream.name, url, &server.kind(), notes);
    }
    if let Place::Command(command) = &upstream.place {
        check_command(&upstream.name, command, notes);
        if server.url().is_some() {
            notes.push(format!("{}: it has a command, so its URL is not used", upstream.name));
        }
    }
    for (variable, value) in server.texts(&["env", "environment"]) {
        upstream.env.push(variable_entry(&upstream.name, &variable, &value, notes));
    }
    for (header, value) in server.texts(&["headers", "http_headers"]) {
        let value = header_value(&upstream.name, &header, value, notes);
        upstream.headers.push((header, value));
    }
    upstream.directory = server.text(&["cwd", "directory", "workingDirectory"]);
    upstream.disabled = server.is(&["disabled"], true) || server.is(&["enabled"], false);
    if upstream.disabled {
        notes
            .push(format!("{}: it was switched off, so it is written as a comment", upstream.name));
    }
    for member in server.others() {
        notes.push(format!("{}: {member:?} is not carried over", upstream.name));
    }
    imported.upstreams.push(upstream);
}

impl<'a> Server<'a> {
    fn get(&mut self, names: &[&'static str]) -> Option<&'a str> {
        self.seen.extend(names);
        names.iter().find_map(|name| self.members.get(name)).filter(|raw| *raw != "null")
    }

    fn text(&mut self, names: &[&'static str]) -> Option<String> {
        serde_json::from_str(self.get(names)?).ok()
    }

    fn is(&mut self, names: &[&'static str], wanted: bool) -> bool {
        self.get(names).and_then(|raw| serde_json::from_str(raw).ok()) == Some(wanted)
    }

    /// An object of texts; numbers and switches are texts too.
    fn texts(&mut self, names: &[&'static str]) -> Vec<(String, String)> {
        // Zed once kept a command, its arguments and its variables in one object.
        let own = self.get(names);
        let raw = own.or_else(|| {
            let command = Object::parse(self.members.get("command")?.as_bytes()).ok()?;
            names.iter().find_map(|name| command.get(name))
        });
        let Some(Ok(object)) = raw.map(|raw| Object::parse(raw.as_bytes())) else {
            return Vec::new();
        };
        let text = |raw: &str| match serde_json::from_str(raw) {
            Ok(Value::String(text)) => text,
            _ => raw.to_owned(),
        };
        let given = object.iter().filter(|(_, raw)| *raw != "null");
        given.map(|(name, raw)| (name.to_owned(), text(raw))).collect()
    }

    fn kind(&self) -> String {
        let names = ["type", "transport", "transportType"];
        names.iter().find_map(|name| self.members.text(name)).unwrap_or_default()
    }

    fn place(&mut self) -> Result<Place, String> {
        if let Some(command) = self.command().filter(|words| !words.is_empty()) {
            return Ok(Place::Command(command));
        }
        let url = self.url().ok_or("it has neither a command nor a URL")?;
        match Target::parse(&url) {
            // The rest of it may be a secret.
            Err(BadForm::Scheme(_)) => {
                let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
                Err(BadForm::Scheme(format!("{scheme}://...")).to_string())
            }
            _ => Ok(Place::Url(url)),
        }
    }

    fn url(&mut self) -> Option<String> {
        self.text(&["url", "serverUrl", "httpUrl", "endpoint"])
    }

    fn command(&mut self) -> Option<Vec<String>> {
        let raw = self.get(&["command"]);
        let mut arguments = words(self.get(&["args", "arguments"]));
        let raw = raw?;
        let mut command = match serde_json::from_str(raw).ok()? {
            // One text without arguments is how people type it into a shell, unless it is a path.
            Value::String(text)
                if arguments.is_empty() && !text.starts_with('/') && !text.contains('\\') =>
            {
                text.split_whitespace().map(str::to_owned).collect()
            }
            Value::String(text) => vec![text],
            Value::Array(_) => words(Some(raw)),
            Value::Object(_) => {
                let object = Object::parse(raw.as_bytes()).ok()?;
                let mut command = vec![object.text("path")?];
                command.extend(words(object.get("args")));
                command
            }
            _ => return None,
        };
        command.append(&mut arguments);
        Some(command)
    }

    /// Members nobody asked about.
    fn others(&self) -> Vec<String> {
        let members = self.members.iter().map(|(name, _)| name);
        members.filter(|name| !self.seen.contains(name)).map(str::to_owned).collect()
    }
}

fn words(raw: Option<&str>) -> Vec<String> {
    let elements = raw.and_then(elements).unwrap_or_default();
    let text = |raw: &serde_json::value::RawValue| {
        serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
    };
    elements.into_iter().map(text).collect()
}

/// Servers of the 2024-11-05 transport have a form of URL of their own, if their stream is where
/// everybody's is.
fn check_url(upstream: &str, url: &mut String, kind: &str, notes: &mut Vec<String>) {
    if secret::in_url(url) {
        notes.push(format!("{upstream}: its URL seems to hold a secret, and is copied as it is"));
    }
    if url.contains("${") {
        notes
            .push(format!("{upstream}: its URL holds a ${{variable}}, which nobody fills in here"));
    }
    let path = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let (http, https) = (url.strip_prefix("http://"), url.strip_prefix("https://"));
    match (kind.eq_ignore_ascii_case("sse"), path.ends_with("/sse"), http, https) {
        (true, true, Some(rest), _) => *url = format!("sse://{rest}"),
        (true, true, _, Some(rest)) => *url = format!("sses://{rest}"),
        (true, false, ..) => notes.push(format!(
            "{upstream}: it was said to speak HTTP+SSE; what it speaks is found out here"
        )),
        _ => {}
    }
}

fn check_command(upstream: &str, command: &[String], notes: &mut Vec<String>) {
    if let Some(n) = secret::in_arguments(command) {
        notes.push(format!(
            "{upstream}: argument {n} seems to be a secret, and is copied as it is; everybody on \
             the machine can read arguments"
        ));
    }
    if command.iter().any(|word| word.contains("${")) {
        let reason = "which nobody fills in here";
        notes.push(format!("{upstream}: its command holds a ${{variable}}, {reason}"));
    }
}

fn variable_entry(upstream: &str, name: &str, value: &str, notes: &mut Vec<String>) -> String {
    // What stands beside a placeholder may be half a secret.
    let whole = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    if let Some(placeholder) = whole.filter(|inner| !inner.contains('}')) {
        notes
            .push(format!("{upstream}: set {name} where Lyceum starts; it was ${{{placeholder}}}"));
        return name.to_owned();
    }
    if secret::is_secret(name, value) || value.contains("${") {
        notes.push(format!("{upstream}: set {name} where Lyceum starts; secrets are not copied"));
        return name.to_owned();
    }
    format!("{name}={value}")
}

fn header_value(upstream: &str, name: &str, value: String, notes: &mut Vec<String>) -> String {
    if let Some(variable) = variable_of(&value) {
        return format!("env:{variable}");
    }
    if secret::is_open_header(name) && !value.contains("${") {
        return value;
    }
    let variable: String = format!("{upstream}_{name}")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    notes.push(format!(
        "{upstream}: set {variable} to the value of its header {name:?}; secrets are not copied"
    ));
    format!("env:{variable}")
}

/// The variable that `${env:NAME}` or `${NAME}` stands for.
fn variable_of(value: &str) -> Option<&str> {
    let inner = value.strip_prefix("${")?.strip_suffix('}')?;
    let name = inner.strip_prefix("env:").unwrap_or(inner);
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(fits)).then_some(name)
}
