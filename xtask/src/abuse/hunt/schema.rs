//! Reads JSON Schemas as far as the hunt needs: which arguments there are, of which kind, and what a
//! harmless value of each is.

use serde_json::{Map, Value, json};

/// What an argument wants.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ArgumentKind {
    Text,
    Number,
    Flag,
    /// A list of such items; objects with their members.
    List(Vec<ToolArgument>),
    Object,
}

/// One argument of a tool or route.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolArgument {
    pub(super) name: String,
    pub(super) kind: ArgumentKind,
    pub(super) required: bool,
}

/// All arguments of an object's schema.
pub(super) fn arguments(schema: &Value) -> Vec<ToolArgument> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let argument = |(name, schema): (String, Value)| ToolArgument {
        kind: kind(&schema),
        required: required.contains(&name.as_str().into()),
        name,
    };
    properties.into_iter().map(argument).collect()
}

/// What a schema wants; a text if it does not say.
pub(super) fn kind(schema: &Value) -> ArgumentKind {
    let alternatives = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
    if let Some(first) = alternatives.into_iter().flatten().find(|one| one["type"] != "null") {
        return kind(first);
    }
    let name = match &schema["type"] {
        Value::Array(names) => names.iter().find(|name| *name != "null"),
        name => Some(name),
    };
    match name.and_then(Value::as_str) {
        Some("integer" | "number") => ArgumentKind::Number,
        Some("boolean") => ArgumentKind::Flag,
        Some("array") => ArgumentKind::List(arguments(&schema["items"])),
        Some("object") => ArgumentKind::Object,
        _ => ArgumentKind::Text,
    }
}

/// Harmless values for what a call needs besides `except`.
pub(super) fn harmless(arguments: &[ToolArgument], except: &str) -> Map<String, Value> {
    let wanted = |argument: &&ToolArgument| {
        argument.name != except && (argument.required || goes_along(&argument.name, except))
    };
    let needed = arguments.iter().filter(wanted);
    needed.map(|argument| (argument.name.clone(), sample(argument))).collect()
}

/// Whether an optional argument must be there for another to be read at all.
fn goes_along(name: &str, except: &str) -> bool {
    match name {
        "document_id" => except != "path",
        "old_str" => except == "new_str",
        "new_str" => except == "old_str",
        "upsert" => true,
        _ => false,
    }
}

/// A harmless value of an argument.
pub(super) fn sample(argument: &ToolArgument) -> Value {
    match (argument.name.as_str(), &argument.kind) {
        ("path" | "document_id", _) => json!(super::TARGET),
        ("upsert", _) => json!(true),
        ("old_str", _) => json!("river"),
        ("paths", _) => json!([super::TARGET]),
        (_, ArgumentKind::Text) => json!("a river"),
        (_, ArgumentKind::Number) => json!(1),
        (_, ArgumentKind::Flag) => json!(false),
        (_, ArgumentKind::List(members)) if members.is_empty() => json!(["a"]),
        (_, ArgumentKind::List(members)) => {
            let item: Map<String, Value> =
                members.iter().map(|member| (member.name.clone(), sample(member))).collect();
            json!([item])
        }
        (_, ArgumentKind::Object) => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch() -> Vec<ToolArgument> {
        arguments(&json!({
            "properties": {
                "path": { "type": "string" },
                "old_str": { "type": ["string", "null"] },
                "new_str": { "type": ["string", "null"] },
                "revision": { "anyOf": [{ "type": "null" }, { "type": "integer" }] },
                "edits": { "type": ["array", "null"], "items": {
                    "type": "object",
                    "properties": { "old_str": { "type": "string" } },
                    "required": ["old_str"],
                } },
                "metadata": { "type": "object" },
                "upsert": { "type": "boolean" },
            },
            "required": ["path"],
        }))
    }

    #[test]
    fn kinds_are_read_through_null_and_alternatives() {
        let of = |name: &str| {
            patch().into_iter().find(|argument| argument.name == name).map(|found| found.kind)
        };
        assert_eq!(of("old_str"), Some(ArgumentKind::Text));
        assert_eq!(of("revision"), Some(ArgumentKind::Number));
        assert_eq!(of("metadata"), Some(ArgumentKind::Object));
        assert_eq!(of("upsert"), Some(ArgumentKind::Flag));
        let Some(ArgumentKind::List(members)) = of("edits") else { panic!("edits is a list") };
        assert_eq!(members[0].name, "old_str");
    }

    #[test]
    fn a_call_has_what_is_required_and_what_goes_along() {
        let harmless = |except| {
            let mut names: Vec<String> = harmless(&patch(), except).keys().cloned().collect();
            names.sort();
            names
        };
        assert_eq!(harmless("new_str"), ["old_str", "path", "upsert"]);
        assert_eq!(harmless("path"), ["upsert"]);
        assert_eq!(harmless("edits"), ["path", "upsert"]);
    }
}
