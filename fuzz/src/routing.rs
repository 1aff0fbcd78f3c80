//! Routing headers against the body as serde_json sees it: whatever passes the checks says the same
//! in both places, and what a client writes passes.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use bytes::Bytes;
use lyceum_wire::{
    Field, Member, Message, ParamHeaders, Request, RevisionSet, Route, RoutingHeaders,
    check_modern, classify, decode_value, encode_value,
};
use serde_json::Value;

use crate::spell;

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

const SCHEMA: &[u8] = br#"{"type":"object","properties":{
    "city":{"type":"string","x-mcp-header":"City"},
    "days":{"type":"integer","x-mcp-header":"Days"},
    "deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Flag"}}}}}"#;

static ANNOTATED: LazyLock<ParamHeaders> =
    LazyLock::new(|| ParamHeaders::from_schema(SCHEMA).expect("the schema is sound"));

/// The annotated arguments of [`SCHEMA`]: header and JSON pointer.
const PARAMS: [(&str, &str); 3] =
    [("Mcp-Param-City", "/city"), ("Mcp-Param-Days", "/days"), ("Mcp-Param-Flag", "/deep/flag")];

/// Takes six lines as headers (empty: absent, `!`: repeated), the rest as the body; then six bytes
/// and the rest as spelled from the tables.
pub fn check(data: &[u8]) {
    for value in data.split(|&byte| byte == b'\n') {
        values(value);
    }
    let mut lines = data.splitn(7, |&byte| byte == b'\n');
    let headers = [(); 6].map(|()| lines.next().unwrap_or_default());
    request(headers, lines.next().unwrap_or_default());
    if let Some((picks, rest)) = data.split_first_chunk::<6>() {
        request(picks.map(spell::header), &spell::body(rest));
    }
}

fn request(headers: [&[u8]; 6], body: &[u8]) {
    let [version, method, name, params @ ..] = headers.map(|value| match value {
        b"" => Field::Absent,
        b"!" => Field::Repeated,
        value => Field::Value(value),
    });
    let headers = RoutingHeaders { version, method, name };
    let body = Bytes::copy_from_slice(body);
    let Ok(message) = Message::parse(&body) else { return };
    let route = classify(&message, &headers, RevisionSet::ALL);
    let Ok(value) = serde_json::from_slice::<Value>(&body) else { return };
    match (&message, route) {
        (Message::Request(request), Ok(Route::Modern)) => {
            modern(request, &headers, &params, &value)
        }
        (_, Ok(Route::Modern)) | (_, Err(_)) => {}
        // Nothing that says it is modern may slip past the modern checks.
        (_, Ok(_)) => assert!(!claims_modern(&message, &value)),
    }
}

/// Whether a call, or one of a batch, says that it is modern.
fn claims_modern(message: &Message, value: &Value) -> bool {
    match message {
        Message::Request(_) | Message::Notification(_) => {
            value["params"]["_meta"].get(META_VERSION).is_some()
        }
        // It has no params: what is called so is a member that nobody knows.
        Message::Response(_) => false,
        Message::Batch(messages) => {
            let values = value.as_array().expect("a batch is an array");
            assert_eq!(messages.len(), values.len());
            let mut pairs = messages.iter().zip(values);
            pairs.any(|(message, value)| message.as_ref().is_ok_and(|m| claims_modern(m, value)))
        }
    }
}

/// A header value has one meaning, and every text has a header value.
fn values(raw: &[u8]) {
    if let Ok(decoded) = decode_value(raw) {
        let written = encode_value(&decoded);
        assert_eq!(decode_value(written.as_bytes()).as_deref(), Ok(&*decoded));
        assert_eq!(Some(&*decoded), read(raw).as_deref());
    } else {
        assert_eq!(read(raw), None, "{raw:?}");
    }
    if let Ok(text) = std::str::from_utf8(raw) {
        let written = encode_value(text);
        assert!(written.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{written:?}");
        assert_eq!(decode_value(written.as_bytes()).as_deref(), Ok(text));
    }
}

fn modern(request: &Request, headers: &RoutingHeaders<'_>, params: &[Field<'_>; 3], value: &Value) {
    if check_modern(request, headers, RevisionSet::ALL).is_ok() {
        let told = |field| match field {
            Field::Value(raw) => Some(String::from_utf8_lossy(trim(raw)).into_owned()),
            _ => None,
        };
        assert_eq!(told(headers.version).as_deref(), Some("2026-07-28"));
        assert_eq!(
            told(headers.version).as_deref(),
            value["params"]["_meta"][META_VERSION].as_str()
        );
        assert_eq!(told(headers.method).as_deref(), value["method"].as_str());
        let name = match value["method"].as_str() {
            Some("tools/call" | "prompts/get") => Some(&value["params"]["name"]),
            Some("resources/read") => Some(&value["params"]["uri"]),
            Some("tasks/get" | "tasks/update" | "tasks/cancel") => Some(&value["params"]["taskId"]),
            _ => None,
        };
        if let (Some(name), Field::Value(raw)) = (name, headers.name) {
            assert_eq!(read(raw).as_deref(), name.as_str());
        }
        assert!(
            name.is_none_or(|name| name.is_string() == matches!(headers.name, Field::Value(_)))
        );
        assert_ne!(headers.name, Field::Repeated);
    }
    arguments(request.params.get(Member::Arguments), params, &value["params"]["arguments"]);
}

fn arguments(raw: Option<&[u8]>, params: &[Field<'_>; 3], value: &Value) {
    let annotated = &*ANNOTATED;
    let sent: HashMap<&str, Field<'_>> =
        PARAMS.iter().map(|(name, _)| *name).zip(params.iter().copied()).collect();
    if annotated.check(raw, |name| sent[name]).is_ok() {
        for (name, pointer) in PARAMS {
            let text = match sent[name] {
                Field::Value(raw) => read(raw),
                _ => None,
            };
            let same = match (value.pointer(pointer), &text) {
                (None | Some(Value::Null), None) => sent[name] == Field::Absent,
                (Some(Value::String(value)), Some(text)) => value == text,
                (Some(Value::Bool(value)), Some(text)) => value.to_string() == *text,
                (Some(Value::Number(value)), Some(text)) => {
                    value.as_f64() == text.trim_matches([' ', '\t']).parse().ok()
                }
                _ => false,
            };
            assert!(same, "{name}: {text:?} passed for {:?}", value.pointer(pointer));
        }
    }
    let mirrored: HashMap<String, String> = annotated.mirror(raw).into_iter().collect();
    let present = |pointer| value.pointer(pointer).is_some_and(|value| !value.is_null());
    // A number that two readers may see as two is sent, for other servers than this to decide upon.
    let unsafe_number = |number: f64| number.abs() >= (1u64 << 53) as f64;
    if value.pointer("/days").and_then(Value::as_f64).is_some_and(unsafe_number) {
        return;
    }
    if PARAMS.iter().all(|(name, pointer)| present(pointer) == mirrored.contains_key(*name)) {
        let checked = annotated.check(raw, |name| match mirrored.get(name) {
            Some(value) => Field::Value(value.as_bytes()),
            None => Field::Absent,
        });
        assert!(checked.is_ok(), "{mirrored:?} was refused: {checked:?}");
    }
}

/// A header value, read by the letter of the specification.
fn read(raw: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(trim(raw)).ok()?;
    if !value.chars().all(|letter| letter == '\t' || (' '..='~').contains(&letter)) {
        return None;
    }
    let encoded = value.strip_prefix("=?base64?");
    match encoded.filter(|_| value.ends_with("?=")) {
        None => Some(value.to_owned()),
        Some(rest) => {
            let payload = rest.strip_suffix("?=")?;
            let bytes = base64::engine::general_purpose::STANDARD.decode(payload).ok()?;
            String::from_utf8(bytes).ok()
        }
    }
}

fn trim(raw: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = raw.iter().position(|byte| !is_space(byte)).unwrap_or(raw.len());
    let end = raw.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &raw[start..end]
}
