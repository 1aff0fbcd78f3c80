//! Whether a value is what a JSON Schema says, for the part of JSON Schema our tools use.

use serde_json::Value;

/// Why `value` is not what `schema` says; `root` is where references start.
pub(crate) fn check(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#'));
        check(root, target.ok_or(format!("no {reference}"))?, value)?;
    }
    if let Some(choices) = schema["anyOf"].as_array()
        && !choices.iter().any(|choice| check(root, choice, value).is_ok())
    {
        return Err(format!("{value} is none of {choices:?}"));
    }
    let is = |kind: &Value| match (kind.as_str(), value) {
        (Some("integer"), value) => value.is_i64() || value.is_u64(),
        (Some("number"), value) => value.is_number(),
        (Some("string"), value) => value.is_string(),
        (Some("boolean"), value) => value.is_boolean(),
        (Some("object"), value) => value.is_object(),
        (Some("array"), value) => value.is_array(),
        (Some("null"), value) => value.is_null(),
        _ => false,
    };
    let fits = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    };
    if !fits {
        return Err(format!("{value} is no {}", schema["type"]));
    }
    members(root, schema, value)?;
    for item in value.as_array().filter(|_| !schema["items"].is_null()).into_iter().flatten() {
        check(root, &schema["items"], item)?;
    }
    Ok(())
}

fn members(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let Some(object) = value.as_object() else { return Ok(()) };
    for required in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(required.as_str().unwrap()) {
            return Err(format!("{required} is missing in {value}"));
        }
    }
    for (name, member) in object {
        let schema = match (&schema["properties"][name], &schema["additionalProperties"]) {
            (Value::Null, Value::Bool(false)) => return Err(format!("{name} is not allowed")),
            // Every member of an answer is described, but for free-form metadata and details.
            (Value::Null, Value::Null) if schema["properties"].is_object() => {
                return Err(format!("{name} is not described"));
            }
            (schema, _) => schema,
        };
        check(root, schema, member).map_err(|problem| format!("{name}: {problem}"))?;
    }
    Ok(())
}

#[test]
fn values_that_do_not_fit_are_found() {
    use serde_json::json;
    let schema = json!({
        "$defs": { "N": { "type": "integer" } },
        "type": "object", "required": ["a"],
        "properties": { "a": { "$ref": "#/$defs/N" }, "b": { "type": ["string", "null"] } },
    });
    for (value, fits) in [
        (json!({ "a": 1 }), true),
        (json!({ "a": 1, "b": null }), true),
        (json!({ "a": 1, "b": 2 }), false),
        (json!({ "a": "1" }), false),
        (json!({ "b": "x" }), false),
        (json!({ "a": 1, "c": 1 }), false),
        (json!([]), false),
    ] {
        assert_eq!(check(&schema, &schema, &value).is_ok(), fits, "{value}");
    }
}
