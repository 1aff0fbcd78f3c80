//! Knox topologies: the services that put MCP servers behind Knox.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use super::{ImportError, Imported, ImportedUpstream, Place, secret};
use crate::config::Target;
use crate::names;
use crate::url_form::{self, Listed};

/// Elements within elements; a topology has five.
const MAX_DEPTH: usize = 16;
/// The role of services that are meant.
const ROLE: &str = "MCPPROXY";

/// A service or a provider.
#[derive(Debug, Default)]
struct Part {
    is_service: bool,
    role: String,
    name: String,
    params: Vec<(String, String)>,
}

pub(super) fn read(text: &str) -> Result<Imported, ImportError> {
    let parts = parts(text)?;
    let mut imported = Imported::default();
    let mut found = false;
    for part in parts {
        if !part.is_service {
            let Part { role, name, .. } = part;
            let reason = "keys and origins are configured here instead";
            imported
                .notes
                .push(format!("the provider {role} ({name}) is not carried over: {reason}"));
        } else if part.role.eq_ignore_ascii_case(ROLE) {
            found = true;
            part.params.iter().for_each(|(name, value)| take(&mut imported, name, value));
        } else {
            imported.notes.push(format!("the service {} does not speak MCP", part.role));
        }
    }
    if found {
        return Ok(imported);
    }
    Err(ImportError::Nothing("a topology with a service of the role MCPPROXY"))
}

fn take(imported: &mut Imported, param: &str, value: &str) {
    match param {
        "mcp.servers" => {
            let (servers, malformed) = url_form::parse_servers(value);
            for entry in malformed {
                imported.notes.push(format!("{entry:?} is left out: it is not name:url"));
            }
            for listed in servers.iter().take(super::MAX_UPSTREAMS + 1) {
                add(imported, listed);
            }
        }
        "mcp.stdio.allowed.commands" => {
            let commands = value.split(',').map(str::trim).filter(|command| !command.is_empty());
            imported.allowed_commands.extend(commands.map(str::to_owned));
        }
        "mcp.debug" => {
            let note = "mcp.debug is not carried over; set the log level instead";
            imported.notes.push(note.to_owned());
        }
        _ => imported.notes.push(format!("the parameter {param} is not carried over")),
    }
}

fn add(imported: &mut Imported, listed: &Listed<'_>) {
    let place = match Target::parse(listed.url) {
        Ok(Target::Command(words)) => Place::Command(words),
        Ok(_) => Place::Url(listed.url.to_owned()),
        Err(error) => {
            imported.notes.push(format!("{:?} is left out: {error}", listed.name));
            return;
        }
    };
    let hidden = match &place {
        Place::Command(words) => secret::in_arguments(words).is_some(),
        Place::Url(url) => secret::in_url(url),
    };
    let mut upstream = ImportedUpstream::new(imported.name(listed.name), place);
    if hidden {
        let name = &upstream.name;
        imported.notes.push(format!("{name}: it seems to hold a secret, and is copied as it is"));
    }
    // Clients know the tools by the names they have in Knox.
    if upstream.name != listed.name {
        let prefix = names::sanitise(listed.name);
        let is_it = |other: &ImportedUpstream| {
            other.prefix.as_ref().unwrap_or(&other.name).as_str() == prefix
        };
        if imported.upstreams.iter().any(is_it) {
            let name = &upstream.name;
            let note = format!("{prefix:?} is there twice; names of the second begin with {name}");
            imported.notes.push(note);
        } else {
            upstream.prefix = Some(prefix);
        }
    }
    imported.upstreams.push(upstream);
}

/// Every service and provider of a topology.
fn parts(text: &str) -> Result<Vec<Part>, ImportError> {
    let damaged = |error: String| ImportError::Xml(error);
    let mut reader = Reader::from_str(text);
    let mut parts: Vec<Part> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut content = String::new();
    loop {
        match reader.read_event().map_err(|error| damaged(error.to_string()))? {
            Event::Start(start) => {
                path.push(start.local_name().into_inner().to_owned());
                content.clear();
                if path.len() > MAX_DEPTH {
                    return Err(damaged(format!("elements are nested more than {MAX_DEPTH} deep")));
                }
                open(&path, &mut parts);
            }
            Event::End(_) => {
                close(&path, content.trim(), &mut parts);
                path.pop();
                content.clear();
            }
            Event::Text(text) => content.push_str(&text.xml10_content()),
            Event::CData(text) => content.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                Ok(Some(c)) => content.push(c),
                _ => match resolve_predefined_entity(&reference.xml10_content()) {
                    Some(text) => content.push_str(text),
                    None => return Err(damaged("it uses entities of its own".to_owned())),
                },
            },
            // This is where entities that multiply are declared, and topologies declare nothing.
            Event::DocType(_) => return Err(damaged("it has a document type".to_owned())),
            Event::Eof if path.is_empty() => return Ok(parts),
            Event::Eof => return Err(damaged("it ends too early".to_owned())),
            _ => {}
        }
    }
}

fn open(path: &[String], parts: &mut Vec<Part>) {
    match path.last().map(String::as_str) {
        Some("service") => parts.push(Part { is_service: true, ..Part::default() }),
        Some("provider") => parts.push(Part::default()),
        Some("param") => {
            if let Some(part) = parts.last_mut() {
                part.params.push(Default::default());
            }
        }
        _ => {}
    }
}

fn close(path: &[String], content: &str, parts: &mut [Part]) {
    let Some(part) = parts.last_mut() else { return };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path.as_slice() {
        [.., "param", "name" | "n"] => {
            if let Some((name, _)) = part.params.last_mut() {
                *name = content.to_owned();
            }
        }
        [.., "param", "value"] => {
            if let Some((_, value)) = part.params.last_mut() {
                *value = content.to_owned();
            }
        }
        [.., "service" | "provider", "role"] => part.role = content.to_owned(),
        [.., "service" | "provider", "name" | "n"] => part.name = content.to_owned(),
        _ => {}
    }
}
