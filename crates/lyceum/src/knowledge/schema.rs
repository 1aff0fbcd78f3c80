//! JSON Schemas of tools, trimmed to what every client understands.

use lyceum_server::{Schema, schema_settings};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::knowledge::refusal::Refusal;

/// The schema of a tool's arguments.
///
/// An argument that may be left out is not shown as nullable: some clients do not understand a list
/// of types, and a null is accepted anyway.
pub(crate) fn of_arguments<A: JsonSchema>() -> Schema {
    let mut settings = schema_settings();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    schema.remove("description");
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(without_null);
    }
    to_schema(schema.as_value())
}

/// The schema of a tool's results: what a success holds, or an error.
pub(crate) fn of_answers<R: JsonSchema>() -> Schema {
    let mut answer = root_of::<R>();
    let mut refusal = root_of::<Refusal>();
    let required = answer.remove("required").unwrap_or_else(|| json!([]));
    for part in ["properties", "$defs"] {
        let Some(Value::Object(more)) = refusal.remove(part) else { continue };
        let members = answer.entry(part).or_insert_with(|| json!({}));
        members.as_object_mut().into_iter().for_each(|members| members.extend(more.clone()));
    }
    answer.insert("anyOf".into(), json!([{ "required": required }, { "required": ["error"] }]));
    to_schema(&Value::Object(answer))
}

fn root_of<T: JsonSchema>() -> Map<String, Value> {
    let settings = schema_settings().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    match schema.to_value() {
        Value::Object(root) => root,
        _ => Map::new(),
    }
}

fn without_null(property: &mut Value) {
    let Value::Object(property) = property else { return };
    if let Some(Value::Array(kinds)) = property.get("type")
        && let [kind, null] = kinds.as_slice()
        && null == "null"
    {
        let kind = kind.clone();
        property.insert("type".into(), kind);
    }
    if property.get("default").is_some_and(Value::is_null) {
        property.remove("default");
    }
}

fn to_schema(value: &Value) -> Schema {
    Schema::from_json(value.to_string()).expect("arguments and answers are objects")
}
