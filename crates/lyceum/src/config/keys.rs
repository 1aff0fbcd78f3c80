//! Every key there is, read off the types of `settings`: its name, kind, variable and description.
//!
//! The environment and the reference both go by this list, so neither can know a key the other
//! does not.

use serde_json::Value;

use crate::config::settings::Settings;

/// The prefix of every environment variable.
pub(crate) const PREFIX: &str = "LYCEUM_";

/// How a value is written in the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it is.
    Text,
    /// As TOML writes it: a number, `true`.
    Literal(&'static str),
    /// Items with commas between them.
    List,
    /// A TOML array of inline tables.
    Tables,
}

/// One key.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// Dotted, as in the file: `limits.body_bytes`.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// The doc comment of its field, on one line.
    pub(crate) description: String,
    /// For tables: the keys of one table.
    pub(crate) members: Vec<Key>,
}

impl Key {
    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.path.replace('.', "_").to_uppercase())
    }
}

/// All keys, by name.
pub(crate) fn keys() -> Vec<Key> {
    let schema = schemars::schema_for!(Settings).to_value();
    members(&schema, &schema, "")
}

fn members(root: &Value, object: &Value, prefix: &str) -> Vec<Key> {
    let properties = object["properties"].as_object().into_iter().flatten();
    properties.flat_map(|(name, schema)| key(root, schema, &format!("{prefix}{name}"))).collect()
}

fn key(root: &Value, schema: &Value, path: &str) -> Vec<Key> {
    let description = schema["description"].as_str().unwrap_or_default().replace('\n', " ");
    if let Some(table) = target(root, schema) {
        return members(root, table, &format!("{path}."));
    }
    let tables = target(root, &schema["items"]);
    let kind = if tables.is_some() { Kind::Tables } else { kind(&schema["type"]) };
    let members = tables.map(|table| members(root, table, "")).unwrap_or_default();
    vec![Key { path: path.to_owned(), kind, description, members }]
}

/// What `$ref` points to.
fn target<'a>(root: &'a Value, schema: &Value) -> Option<&'a Value> {
    root.pointer(schema["$ref"].as_str()?.strip_prefix('#')?)
}

/// Optional values have a list of types, the real one first.
fn kind(types: &Value) -> Kind {
    match types.as_str().or_else(|| types[0].as_str()) {
        Some("integer") => Kind::Literal("number"),
        Some("boolean") => Kind::Literal("true or false"),
        Some("array") => Kind::List,
        Some("object") => Kind::Literal("table"),
        _ => Kind::Text,
    }
}
