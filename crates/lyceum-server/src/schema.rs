//! JSON Schemas: generated from Rust types, or given verbatim.
//!
//! Tool schemas are served exactly as they are. Forms shown to people may use a small part of JSON
//! Schema only; [`Schema::form`] reduces a type's schema to it.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A JSON Schema as text.
#[derive(Debug, Clone)]
pub struct Schema(Box<RawValue>);

/// Why a text is not a schema for tool arguments.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is not JSON.
    #[error("the schema is not JSON")]
    Json(#[from] serde_json::Error),
    /// It describes something that is not an object.
    #[error("the schema must be an object with \"type\": \"object\"")]
    NotAnObject,
}

/// Why a type cannot be asked for in a form.
#[derive(Debug, thiserror::Error)]
#[error("a form has only text, number, boolean and choice fields; {0} is none of these")]
pub struct FormError(String);

impl Schema {
    /// The schema of an argument type (JSON Schema 2020-12).
    pub fn of<T: JsonSchema>() -> Self {
        let mut schema = schema_settings().into_generator().into_root_schema_for::<T>();
        // Enums generate a bare `anyOf`; MCP wants the root to say that arguments are an object.
        schema.insert("type".to_owned(), "object".into());
        Self::from_schemars(&schema)
    }

    /// The schema of a result type, as it is serialized.
    pub fn of_output<T: JsonSchema>() -> Self {
        let settings = schema_settings().for_serialize();
        Self::from_schemars(&settings.into_generator().into_root_schema_for::<T>())
    }

    /// A schema for tool arguments, kept verbatim.
    ///
    /// # Errors
    /// When `text` is not JSON, or its root does not say `"type": "object"`.
    pub fn from_json(text: impl Into<String>) -> Result<Self, SchemaError> {
        let schema = Self(RawValue::from_string(text.into())?);
        if schema.describes_object() { Ok(schema) } else { Err(SchemaError::NotAnObject) }
    }

    /// The schema of a form with `T`'s fields.
    ///
    /// # Errors
    /// When a field of `T` cannot be a form field.
    pub fn form<T: JsonSchema>() -> Result<Self, FormError> {
        let mut settings = SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        let schema = settings.into_generator().into_root_schema_for::<T>();
        let form = form(schema.as_value())?;
        Ok(Self(to_raw(&form)))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    pub(crate) fn describes_object(&self) -> bool {
        let root: Result<Map<String, Value>, _> = serde_json::from_str(self.0.get());
        root.is_ok_and(|root| root.get("type").is_some_and(|kind| kind == "object"))
    }

    fn from_schemars(schema: &schemars::Schema) -> Self {
        Self(to_raw(schema.as_value()))
    }
}

/// How schemas are made of types: JSON Schema 2020-12, without formats of numbers, such as `uint32`,
/// which it does not have and some clients' validators warn of.
pub fn schema_settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with_transform(RecursiveTransform(
        |schema: &mut schemars::Schema| {
            if !may_be_text(schema.get("type")) {
                schema.remove("format");
            }
        },
    ))
}

fn may_be_text(kind: Option<&Value>) -> bool {
    match kind {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => true,
    }
}

fn to_raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("JSON values serialize")
}

fn form(schema: &Value) -> Result<Value, FormError> {
    let mut properties = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object);
    for (name, field) in fields.into_iter().flatten() {
        let field = form_field(field).ok_or_else(|| FormError(format!("`{name}`")))?;
        properties.insert(name.clone(), field);
    }
    if properties.is_empty() {
        return Err(FormError("a type without named fields".to_owned()));
    }
    let mut form = Map::new();
    form.insert("type".to_owned(), "object".into());
    form.insert("properties".to_owned(), properties.into());
    if let Some(required) = schema.get("required") {
        form.insert("required".to_owned(), required.clone());
    }
    Ok(form.into())
}

/// One field, reduced to the keywords forms know; `None` when nothing sensible is left.
fn form_field(field: &Value) -> Option<Value> {
    if let Some(some) = without_null(field) {
        return form_field(&some);
    }
    let kind = plain_type(field)?;
    let kept: &[&str] = match kind {
        "string" => &["title", "description", "default", "enum", "minLength", "maxLength"],
        "number" | "integer" => &["title", "description", "default", "minimum", "maximum"],
        "boolean" => &["title", "description", "default"],
        "array" => &["title", "description", "default", "minItems", "maxItems"],
        _ => return None,
    };
    let mut form = Map::new();
    form.insert("type".to_owned(), kind.into());
    for key in kept {
        if let Some(value) = field.get(key).filter(|value| !value.is_null()) {
            form.insert((*key).to_owned(), value.clone());
        }
    }
    if let Some(format) = field.get("format").filter(|format| is_form_format(format)) {
        form.insert("format".to_owned(), format.clone());
    }
    if let Some(choices) = field.get("oneOf") {
        form.insert("oneOf".to_owned(), titled_choices(choices)?);
    }
    if kind == "array" {
        form.insert("items".to_owned(), choice_items(field.get("items")?)?);
    }
    Some(form.into())
}

/// For `anyOf: [X, null]`, which `Option` of an enum generates: X with the field's own words.
fn without_null(field: &Value) -> Option<Value> {
    let choices = field.get("anyOf")?.as_array()?;
    let is_null = |choice: &&Value| choice.get("type").is_some_and(|kind| kind == "null");
    let mut some: Vec<&Value> = choices.iter().filter(|choice| !is_null(choice)).collect();
    let mut some = match (some.pop(), some.is_empty()) {
        (Some(Value::Object(some)), true) => some.clone(),
        _ => return None,
    };
    for key in ["title", "description", "default"] {
        if let Some(value) = field.get(key) {
            some.insert(key.to_owned(), value.clone());
        }
    }
    Some(some.into())
}

fn plain_type(field: &Value) -> Option<&str> {
    match field.get("type") {
        Some(Value::String(kind)) => Some(kind),
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            let kind = kinds.next()?;
            kinds.next().is_none().then_some(kind)
        }
        // Enums with documented variants are a bare `oneOf` of string constants.
        None if field.get("oneOf").is_some() => Some("string"),
        _ => None,
    }
}

fn is_form_format(format: &Value) -> bool {
    matches!(format.as_str(), Some("email" | "uri" | "date" | "date-time"))
}

/// `[{const, title}]` from what schemars generates for documented variants.
fn titled_choices(choices: &Value) -> Option<Value> {
    let titled = choices.as_array()?.iter().map(|choice| {
        let constant = choice.get("const")?.as_str()?;
        let title = choice.get("title").or_else(|| choice.get("description"));
        let title = title.and_then(Value::as_str).unwrap_or(constant);
        Some(serde_json::json!({ "const": constant, "title": title }))
    });
    titled.collect::<Option<Vec<_>>>().map(Value::Array)
}

/// The items of a multiple choice.
fn choice_items(items: &Value) -> Option<Value> {
    if let Some(choices) = items.get("enum") {
        return Some(serde_json::json!({ "type": "string", "enum": choices }));
    }
    let choices = titled_choices(items.get("oneOf")?)?;
    Some(serde_json::json!({ "anyOf": choices }))
}

#[cfg(test)]
mod tests;
