//! `Mcp-Param-*`: tool arguments that a tool's schema asks clients to repeat as headers.
//!
//! Read once per tool from its input schema, then checked on every call (server) or written on every
//! call (client). A tool with one bad annotation is invalid as a whole: no header of it is trusted.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value};

use crate::classify::Field;
use crate::error::RpcError;
use crate::mirror::{decode_value, encode_value};
use crate::number::safe_integer;
use crate::scan::{MAX_DEPTH, Scanner};
use crate::text::token_text;

const ANNOTATION: &str = "x-mcp-header";

/// Schema keywords whose value is one schema, or a list of schemas.
const SUBSCHEMAS: [&str; 16] = [
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "contentSchema",
    "propertyNames",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
];

/// Schema keywords whose value maps names to schemas.
const SCHEMA_MAPS: [&str; 4] = ["$defs", "definitions", "patternProperties", "dependentSchemas"];

/// The annotated arguments of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders(Vec<ParamHeader>);

/// One annotated argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeader {
    header: String,
    path: Vec<String>,
}

/// Why a schema's annotations cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidAnnotation(String);

impl fmt::Display for InvalidAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidAnnotation {}

impl ParamHeader {
    /// The full header name, `Mcp-Param-...`.
    pub fn header(&self) -> &str {
        &self.header
    }

    /// The property names that lead to the argument.
    pub fn path(&self) -> &[String] {
        &self.path
    }
}

impl ParamHeaders {
    /// Reads the annotations of an input schema. An error means the tool is invalid as a whole.
    pub fn from_schema(raw: &[u8]) -> Result<ParamHeaders, InvalidAnnotation> {
        // Most tools have none, and their schemas need not be read.
        if !raw.windows(ANNOTATION.len()).any(|window| window == ANNOTATION.as_bytes())
            && !raw.contains(&b'\\')
        {
            return Ok(ParamHeaders::default());
        }
        let schema: Value = serde_json::from_slice(raw)
            .map_err(|error| InvalidAnnotation(format!("the schema is not JSON: {error}")))?;
        let mut walk = Walk::default();
        walk.schema(&schema, Place::Root)?;
        Ok(ParamHeaders(walk.found))
    }

    /// Whether the tool has no annotated arguments.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The annotated arguments.
    pub fn iter(&self) -> std::slice::Iter<'_, ParamHeader> {
        self.0.iter()
    }

    /// Compares the headers of a call with its raw `arguments`; -32020 if they disagree.
    pub fn check<'h>(
        &self,
        arguments: Option<&[u8]>,
        header: impl Fn(&str) -> Field<'h>,
    ) -> Result<(), RpcError> {
        for param in &self.0 {
            let value = arguments.and_then(|arguments| find(arguments, &param.path));
            agree(value, header(&param.header))
                .map_err(|why| RpcError::header_mismatch(format!("{} {why}", param.header)))?;
        }
        Ok(())
    }

    /// The headers to send with a call that has these raw `arguments`.
    pub fn mirror(&self, arguments: Option<&[u8]>) -> Vec<(String, String)> {
        let mirrored = self.0.iter().filter_map(|param| {
            let value = find(arguments?, &param.path)?;
            Some((param.header.clone(), header_value(value)?))
        });
        mirrored.collect()
    }
}

/// Where in a schema the walk is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    /// Reached by `properties` alone.
    Property,
    /// Reached through a keyword that makes the argument conditional or repeated.
    Elsewhere,
}

#[derive(Default)]
struct Walk {
    path: Vec<String>,
    seen: HashSet<String>,
    found: Vec<ParamHeader>,
    depth: usize,
}

impl Walk {
    fn schema(&mut self, schema: &Value, place: Place) -> Result<(), InvalidAnnotation> {
        let Value::Object(schema) = schema else { return Ok(()) };
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(InvalidAnnotation("the schema nests too deep".to_owned()));
        }
        if let Some(annotation) = schema.get(ANNOTATION) {
            self.annotation(annotation, schema, place)?;
        }
        self.properties(schema, place)?;
        for keyword in SUBSCHEMAS {
            match schema.get(keyword) {
                Some(Value::Array(list)) => {
                    list.iter().try_for_each(|each| self.schema(each, Place::Elsewhere))?;
                }
                Some(one) => self.schema(one, Place::Elsewhere)?,
                None => {}
            }
        }
        for keyword in SCHEMA_MAPS {
            if let Some(Value::Object(map)) = schema.get(keyword) {
                map.values().try_for_each(|each| self.schema(each, Place::Elsewhere))?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn properties(
        &mut self,
        schema: &Map<String, Value>,
        place: Place,
    ) -> Result<(), InvalidAnnotation> {
        let Some(Value::Object(properties)) = schema.get("properties") else { return Ok(()) };
        let inner = if place == Place::Elsewhere { place } else { Place::Property };
        for (name, property) in properties {
            self.path.push(name.clone());
            self.schema(property, inner)?;
            self.path.pop();
        }
        Ok(())
    }

    fn annotation(
        &mut self,
        annotation: &Value,
        schema: &Map<String, Value>,
        place: Place,
    ) -> Result<(), InvalidAnnotation> {
        let invalid = |why: &str| {
            let path = self.path.join(".");
            Err(InvalidAnnotation(format!("{ANNOTATION} at \"{path}\" {why}")))
        };
        if place != Place::Property {
            return invalid("is not on a property reached by properties alone");
        }
        let Value::String(token) = annotation else { return invalid("is not a string") };
        if token.is_empty() || !token.bytes().all(is_token_byte) {
            return invalid("is not a header token");
        }
        let kind = schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return invalid("is on a property that is not a string, integer or boolean");
        }
        if !self.seen.insert(token.to_ascii_lowercase()) {
            return invalid("names a header twice");
        }
        let header = format!("Mcp-Param-{token}");
        self.found.push(ParamHeader { header, path: self.path.clone() });
        Ok(())
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The raw value at a path of property names; None if absent or null.
fn find<'a>(object: &'a [u8], path: &[String]) -> Option<&'a [u8]> {
    let mut value = object;
    for name in path {
        let mut scanner = Scanner::new(value).ok()?;
        if scanner.ahead() != b'{' {
            return None;
        }
        let mut found = None;
        let members = scanner.members(|scanner, member| {
            let (_, span) = scanner.token()?;
            if scanner.named(member, |member| member == name.as_bytes()) {
                found = Some(span);
            }
            Ok(())
        });
        members.ok()?;
        value = &value[found?.range()];
    }
    (value != b"null").then_some(value)
}

/// Whether an argument and its header say the same; the error completes a sentence.
fn agree(value: Option<&[u8]>, header: Field<'_>) -> Result<(), Cow<'static, str>> {
    // Arrays and objects cannot be mirrored; the tool will refuse them as arguments.
    let value = value.filter(|value| !matches!(value.first(), Some(b'[' | b'{')));
    let header = match header {
        Field::Repeated => return Err("was sent more than once".into()),
        Field::Absent => None,
        Field::Value(header) => Some(header),
    };
    let (value, header) = match (value, header) {
        (None, None) => return Ok(()),
        (None, Some(_)) => return Err("was sent, but the body has no such argument".into()),
        (Some(_), None) => return Err("is missing, but the body has the argument".into()),
        (Some(value), Some(header)) => (value, header),
    };
    let text = decode_value(header).map_err(|bad| format!("is malformed: {bad}"))?;
    let same = match value.first() {
        Some(b'"') => token_text(value).as_deref() == Some(&*text),
        Some(b't' | b'f') => value == text.as_bytes(),
        _ => match safe_integer(value) {
            Some(number) => safe_integer(text.as_bytes()) == Some(number),
            None => return Err("mirrors a number that is not a whole one below 2^53".into()),
        },
    };
    if same { Ok(()) } else { Err("disagrees with the body".into()) }
}

/// How an argument is written in its header; None if it cannot be.
fn header_value(value: &[u8]) -> Option<String> {
    match value.first()? {
        b'"' => Some(encode_value(&token_text(value)?).into_owned()),
        b'[' | b'{' => None,
        b't' | b'f' => String::from_utf8(value.to_vec()).ok(),
        _ => match safe_integer(value) {
            Some(number) => Some(number.to_string()),
            // Too large to be safe, but whole: the server decides.
            None if value.iter().all(|byte| matches!(byte, b'-' | b'0'..=b'9')) => {
                String::from_utf8(value.to_vec()).ok()
            }
            None => None,
        },
    }
}

#[cfg(test)]
mod tests;
