//! Writes what was imported as TOML.

use super::{Imported, ImportedUpstream, Place};
use crate::invisible;

impl Imported {
    /// Entries for the configuration file; the notes stand above them as comments.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for note in &self.notes {
            out.push_str(&format!("# {}\n", invisible::visible(note)));
        }
        if !self.allowed_commands.is_empty() {
            start_entry(&mut out);
            out.push_str(&format!(
                "[stdio]\nallowed_commands = {}\n",
                list(&self.allowed_commands)
            ));
        }
        for upstream in &self.upstreams {
            start_entry(&mut out);
            for line in lines(upstream) {
                let start = if upstream.disabled { "# " } else { "" };
                out.push_str(&format!("{start}{line}\n"));
            }
        }
        out
    }
}

fn start_entry(out: &mut String) {
    if !out.is_empty() {
        out.push('\n');
    }
}

fn lines(upstream: &ImportedUpstream) -> Vec<String> {
    let ImportedUpstream { name, place, env, headers, directory, prefix, .. } = upstream;
    let mut lines = vec!["[[upstream]]".to_owned(), format!("name = {}", text(name))];
    lines.push(match place {
        Place::Command(words) => format!("command = {}", list(words)),
        Place::Url(url) => format!("url = {}", text(url)),
    });
    if let Some(prefix) = prefix {
        lines.push(format!("prefix = {}", text(prefix)));
    }
    if let Some(directory) = directory {
        lines.push(format!("directory = {}", text(directory)));
    }
    if !env.is_empty() {
        lines.push(format!("env = {}", list(env)));
    }
    if !headers.is_empty() {
        let headers: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{} = {}", text(name), text(value)))
            .collect();
        lines.push(format!("headers = {{ {} }}", headers.join(", ")));
    }
    lines
}

fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|entry| text(entry)).collect();
    format!("[{}]", texts.join(", "))
}

/// A basic string of TOML, which is JSON's but for one character.
fn text(text: &str) -> String {
    let mut json = Vec::new();
    lyceum_wire::encode::write_str(&mut json, text);
    String::from_utf8_lossy(&json).replace('\u{7f}', "\\u007f")
}
