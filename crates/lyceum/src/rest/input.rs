//! Arguments from the three places HTTP has for them: the path, the query, the body.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use lyceum_kb::Error;
use lyceum_work::{MAX_PARSED_INLINE, run_bulk};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::problem::Problem;
use super::route::Route;

/// The argument the path of a document becomes.
const PATH: &str = "path";

/// A JSON object that says everything once: a proxy that reads the first of two and a server that
/// reads the last would not mean the same.
struct Once(Map<String, Value>);

/// Reads a body; an empty one says nothing.
pub(super) async fn object(body: Bytes) -> Result<Map<String, Value>, Problem> {
    if body.len() <= MAX_PARSED_INLINE {
        return parse_object(&body);
    }
    let parsed = run_bulk(move || parse_object(&body)).await;
    parsed.unwrap_or_else(|_| Err(Error::internal("the body could not be read").into()))
}

pub(super) fn parse_object(body: &[u8]) -> Result<Map<String, Value>, Problem> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    let text =
        std::str::from_utf8(body).map_err(|_| Problem::malformed("the body is not UTF-8"))?;
    match serde_json::from_str::<Once>(text) {
        Ok(Once(object)) => Ok(object),
        Err(error) if error.is_data() => Err(Error::invalid(format!("body: {error}")).into()),
        Err(error) => Err(Problem::malformed(format!("the body is not JSON: {error}"))),
    }
}

/// All arguments of a request. The same one in two places must say the same.
pub(super) fn merge(
    route: &Route,
    captured: Option<&str>,
    query: Option<&str>,
    body: Map<String, Value>,
) -> Result<Map<String, Value>, Problem> {
    let mut arguments = body;
    for (name, value) in parameters(route, query.unwrap_or_default())? {
        put(&mut arguments, &name, value)?;
    }
    if let Some(captured) = captured {
        put(&mut arguments, PATH, decoded(captured, false)?.into())?;
    }
    Ok(arguments)
}

fn put(arguments: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), Problem> {
    match arguments.insert(name.to_owned(), value.clone()) {
        Some(other) if other != value => {
            Err(Error::invalid(format!("{name} is given twice and not the same; give it once"))
                .into())
        }
        _ => Ok(()),
    }
}

/// The query's parameters, as the kind of value the route takes.
fn parameters(route: &Route, query: &str) -> Result<Vec<(String, Value)>, Problem> {
    let mut read: Vec<(String, Value)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name, true)?, decoded(value, true)?);
        let kinds = &route.arguments["properties"][&name]["type"];
        let is = |kind: &str| {
            *kinds == *kind || kinds.as_array().is_some_and(|all| all.contains(&kind.into()))
        };
        if is("array") {
            let item = Value::String(value);
            match read.iter_mut().find(|(known, _)| *known == name) {
                Some((_, Value::Array(items))) => items.push(item),
                _ => read.push((name, Value::Array(vec![item]))),
            }
            continue;
        }
        // What is no number stays text, so that the complaint is the one a body would get.
        let parsed = if is("integer") || is("boolean") || is("number") {
            serde_json::from_str(&value).ok()
        } else {
            None
        };
        read.push((name, parsed.unwrap_or(Value::String(value))));
    }
    Ok(read)
}

/// Undoes percent-encoding, once; in a query a plus is a space.
pub(super) fn decoded(text: &str, query: bool) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'%' => {
                let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
                let digits =
                    digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                bytes.push(
                    byte.ok_or_else(|| bad("a % is not followed by two hexadecimal digits"))?,
                );
                rest = &tail[2..];
            }
            b'+' if query => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| bad("what is percent-encoded is not UTF-8"))
}

fn bad(message: &str) -> Problem {
    Error::invalid(format!("address: {message}")).into()
}

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Once;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Once, M::Error> {
                let mut object = Map::new();
                while let Some(name) = members.next_key::<Cow<'de, str>>()? {
                    if object.contains_key(&*name) {
                        return Err(de::Error::custom(format!("{name} is given twice")));
                    }
                    object.insert(name.into_owned(), members.next_value()?);
                }
                Ok(Once(object))
            }
        }
        deserializer.deserialize_map(Members)
    }
}
