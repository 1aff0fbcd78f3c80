//! Annotations in schemas, and headers against bodies: tables, then many generated cases.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::ParamHeaders;
use crate::{ErrorCode, Field, encode_value};

fn param_headers(schema: &Value) -> Result<ParamHeaders, String> {
    ParamHeaders::from_schema(schema.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// A schema with one annotated property.
fn annotated(property: Value) -> Value {
    json!({"type": "object", "properties": {"p": property, "plain": {"type": "string"}}})
}

#[track_caller]
fn check_invalid(schema: Value) {
    assert!(param_headers(&schema).is_err(), "{schema}");
}

/// The headers (token, path) of a valid schema.
#[track_caller]
fn check_found(schema: Value, expected: &[(&str, &str)]) {
    let headers = param_headers(&schema).unwrap();
    let found: Vec<_> =
        headers.iter().map(|param| (param.header().to_owned(), param.path().join("."))).collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(token, path)| (format!("Mcp-Param-{token}"), (*path).to_owned()))
        .collect();
    assert_eq!(found, expected, "{schema}");
}

#[test]
fn annotations_on_plain_properties_are_found() {
    for kind in ["string", "integer", "boolean"] {
        check_found(annotated(json!({"type": kind, "x-mcp-header": "Tok-1"})), &[("Tok-1", "p")]);
    }
    check_found(annotated(json!({"type": "string", "x-mcp-header": "Method"})), &[("Method", "p")]);
    check_found(
        json!({"properties": {"a": {"type": "object", "properties": {"b": {"type": "string", "x-mcp-header": "B"}}}}}),
        &[("B", "a.b")],
    );
}

#[test]
fn schemas_without_annotations_are_empty() {
    for schema in [json!({}), json!(true), annotated(json!({"type": "number"}))] {
        assert!(param_headers(&schema).unwrap().is_empty());
    }
    // A property of that name, or data that looks like a schema, is no annotation.
    check_found(json!({"properties": {"x-mcp-header": {"type": "string"}}}), &[]);
    check_found(annotated(json!({"type": "object", "default": {"x-mcp-header": "A"}})), &[]);
    check_found(
        annotated(json!({"enum": [{"x-mcp-header": 1}], "const": {"x-mcp-header": 1}})),
        &[],
    );
}

#[test]
fn annotations_that_are_no_token_are_invalid() {
    for token in [
        json!(""),
        json!("a b"),
        json!("a:b"),
        json!("Région"),
        json!("a\t1"),
        json!("a\r\nb"),
        json!(1),
        json!(null),
        json!({}),
        json!(["a"]),
    ] {
        check_invalid(annotated(json!({"type": "string", "x-mcp-header": token})));
    }
}

#[test]
fn annotations_on_other_types_are_invalid() {
    for kind in [
        json!("object"),
        json!("array"),
        json!("null"),
        json!("number"),
        json!(["string", "null"]),
        json!(null),
    ] {
        check_invalid(annotated(json!({"type": kind, "x-mcp-header": "A"})));
    }
    check_invalid(annotated(json!({"x-mcp-header": "A"})));
}

#[test]
fn annotations_reached_by_more_than_properties_are_invalid() {
    let schema = json!({"type": "string", "x-mcp-header": "A"});
    check_invalid(schema.clone());
    for keyword in
        ["items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames"]
    {
        check_invalid(annotated(json!({keyword: schema})));
        check_invalid(annotated(json!({keyword: {"properties": {"a": schema}}})));
    }
    for keyword in ["allOf", "anyOf", "oneOf", "prefixItems"] {
        check_invalid(json!({keyword: [true, {"properties": {"a": schema}}]}));
    }
    for keyword in ["$defs", "definitions", "patternProperties", "dependentSchemas"] {
        check_invalid(json!({keyword: {"a": schema}}));
    }
}

#[test]
fn one_header_for_two_properties_is_invalid() {
    for again in ["Tok", "TOK", "tok"] {
        check_invalid(json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "Tok"},
            "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": again}}},
        }}));
    }
}

#[test]
fn schemas_that_are_no_json_or_too_deep_are_invalid() {
    assert!(ParamHeaders::from_schema(br#"{"x-mcp-header""#).is_err());
    let mut deep = json!({"type": "string", "x-mcp-header": "A"});
    for _ in 0..70 {
        deep = json!({"properties": {"a": deep}});
    }
    check_invalid(deep);
    // So deep that the walk itself must stop, but not the JSON parser before it.
    let mut deep = json!({});
    for _ in 0..100 {
        deep = json!({"items": deep});
    }
    check_invalid(
        json!({"properties": {"p": {"type": "string", "x-mcp-header": "A"}}, "items": deep}),
    );
}

#[test]
fn escaped_annotations_are_seen() {
    let schema = br#"{"properties":{"p":{"type":"string","\u0078-mcp-header":"A"}}}"#;
    assert!(!ParamHeaders::from_schema(schema).unwrap().is_empty());
}

const SCHEMA: &str = r#"{"type":"object","properties":{
    "text":{"type":"string","x-mcp-header":"Text"},
    "count":{"type":"integer","x-mcp-header":"Count"},
    "flag":{"type":"boolean","x-mcp-header":"Flag"},
    "outer":{"type":"object","properties":{"inner":{"type":"string","x-mcp-header":"Inner"}}}}}"#;

static PARAMS: LazyLock<ParamHeaders> =
    LazyLock::new(|| ParamHeaders::from_schema(SCHEMA.as_bytes()).unwrap());

/// Checks `arguments` against one header, all others absent.
#[track_caller]
fn check(arguments: &str, name: &str, header: Field<'_>, agrees: bool) {
    let arguments = (!arguments.is_empty()).then_some(arguments.as_bytes());
    let full = format!("Mcp-Param-{name}");
    let checked = PARAMS
        .check(arguments, |asked| if asked == full { header } else { Field::Absent })
        .map_err(|error| assert_eq!(error.code, ErrorCode::HEADER_MISMATCH));
    assert_eq!(checked.is_ok(), agrees, "{arguments:?} {name} {header:?}");
}

#[test]
fn present_arguments_need_an_equal_header() {
    let value = |text: &'static str| Field::Value(text.as_bytes());
    check(r#"{"text":"us"}"#, "Text", value("us"), true);
    check(r#"{"text":"us"}"#, "Text", value(" us "), true);
    check(r#"{"text":"Hello"}"#, "Text", value("=?base64?SGVsbG8=?="), true);
    check(r#"{"text":"SGVsbG8="}"#, "Text", value("SGVsbG8="), true);
    check(r#"{"text":"=?base64?SGVsbG8="}"#, "Text", value("=?base64?SGVsbG8="), true);
    check(r#"{"t\u0065xt":"\u0075s"}"#, "Text", value("us"), true);
    check(r#"{"text":""}"#, "Text", value(""), true);
    check(r#"{"outer":{"inner":"x"}}"#, "Inner", value("x"), true);
    check(r#"{"flag":true}"#, "Flag", value("true"), true);
    for wrong in ["eu", "US", "us,us", "us, us", "", "=?base64?dXM?=", "=?base64?d!M=?="] {
        check(r#"{"text":"us"}"#, "Text", value(wrong), false);
    }
    for wrong in ["false", "True", "1", ""] {
        check(r#"{"flag":true}"#, "Flag", value(wrong), false);
    }
    check(r#"{"text":"us"}"#, "Text", Field::Absent, false);
    check(r#"{"text":"us"}"#, "Text", Field::Repeated, false);
    check(r#"{"outer":{"inner":"x"}}"#, "Inner", Field::Absent, false);
}

#[test]
fn absent_or_null_arguments_need_no_header() {
    for arguments in [
        "",
        "{}",
        r#"{"text":null}"#,
        r#"{"other":"us"}"#,
        r#"{"outer":1}"#,
        r#"{"outer":{}}"#,
        "[]",
        "null",
    ] {
        check(arguments, "Text", Field::Absent, true);
        check(arguments, "Text", Field::Value(b"us"), false);
        check(arguments, "Inner", Field::Value(b""), false);
    }
    check("{}", "Text", Field::Repeated, false);
    check("{}", "Unknown", Field::Value(b"ignored"), true);
}

#[test]
fn arguments_that_cannot_be_mirrored_are_left_to_the_tool() {
    check(r#"{"text":["us"]}"#, "Text", Field::Absent, true);
    check(r#"{"text":{}}"#, "Text", Field::Value(b"{}"), false);
}

#[test]
fn integers_are_compared_as_numbers() {
    for (body, header) in
        [("42", "42"), ("42", "42.0"), ("42.0", "42"), ("-7", "-7"), ("4e1", "40"), ("0", "-0")]
    {
        check(&format!(r#"{{"count":{body}}}"#), "Count", Field::Value(header.as_bytes()), true);
    }
    for (body, header) in [
        ("42", "43"),
        ("42", "+42"),
        ("42", "042"),
        ("42", "0x2a"),
        ("42", "42 0"),
        ("42", ""),
        ("42", "-42"),
    ] {
        check(&format!(r#"{{"count":{body}}}"#), "Count", Field::Value(header.as_bytes()), false);
    }
}

#[test]
fn integers_beyond_two_to_the_53_are_refused() {
    let max = "9007199254740991";
    check(&format!(r#"{{"count":{max}}}"#), "Count", Field::Value(max.as_bytes()), true);
    for body in ["9007199254740992", "9007199254740993", "-9007199254740992", "1e400", "1.5"] {
        check(&format!(r#"{{"count":{body}}}"#), "Count", Field::Value(body.as_bytes()), false);
        check(&format!(r#"{{"count":{max}}}"#), "Count", Field::Value(body.as_bytes()), false);
    }
}

#[test]
fn clients_mirror_what_is_there() {
    let headers = &*PARAMS;
    let mirror = |arguments: &str| {
        let mirrored = headers.mirror(Some(arguments.as_bytes()));
        mirrored.into_iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
    };
    assert_eq!(
        mirror(r#"{"text":"世","count":42.0,"flag":false,"outer":{"inner":""},"other":1}"#),
        [
            "Mcp-Param-Count: 42",
            "Mcp-Param-Flag: false",
            "Mcp-Param-Inner: ",
            "Mcp-Param-Text: =?base64?5LiW?="
        ],
    );
    assert!(mirror(r#"{"text":null,"count":1.5,"flag":[],"outer":null}"#).is_empty());
    assert_eq!(
        mirror(r#"{"count":12345678901234567890}"#),
        ["Mcp-Param-Count: 12345678901234567890"]
    );
    assert!(headers.mirror(None).is_empty());
}

/// Values an argument may have: every type, and texts that look like other types or sentinels.
fn values() -> Vec<Value> {
    const LIMIT: i64 = 1 << 53;
    let texts = [
        "us",
        "US",
        "",
        " us",
        "us ",
        "a b",
        "a,b",
        "a\tb",
        "a\nb",
        "\t",
        "\u{0}",
        "\u{7f}",
        "é",
        "世界😀",
        "true",
        "false",
        "null",
        "0",
        "1",
        "42",
        "1.0",
        "-1",
        "1e",
        "=?base64?dXM=?=",
        "=?base64?dXM?=",
        "=?base64?dXM=",
        "dXM=",
        "=?base64?=",
        "=?base64??=",
        "?=",
    ];
    let integers = (-36..=36).chain(LIMIT - 3..LIMIT + 3).chain(-LIMIT - 2..-LIMIT + 3);
    let others = [json!(null), json!(true), json!(false), json!([]), json!({}), json!(1.5)];
    texts.into_iter().map(Value::from).chain(integers.map(Value::from)).chain(others).collect()
}

fn sentinel(text: &str) -> String {
    format!("=?base64?{}?=", STANDARD.encode(text))
}

/// What honest, sloppy and hostile senders make of a value.
fn spellings(value: &Value) -> [String; 10] {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let honest = encode_value(&text).into_owned();
    [
        format!(" \t{honest} "),
        format!("{honest}.0"),
        format!("-{honest}"),
        format!("+{honest}"),
        format!("{honest}, {honest}"),
        format!("\"{honest}\""),
        sentinel(&text),
        sentinel(&text).replace("=?=", "?="),
        text,
        honest,
    ]
}

/// The headers a value may arrive with, by the rules written a second time and simply.
fn allowed(value: &Value) -> Vec<String> {
    let plain = match value {
        Value::Bool(flag) => vec![flag.to_string()],
        Value::Number(number) => match number.as_i64() {
            Some(0) => ["0", "0.0", "-0", "-0.0"].map(str::to_owned).to_vec(),
            Some(n) if n.unsigned_abs() < 1 << 53 => vec![n.to_string(), format!("{n}.0")],
            _ => vec![],
        },
        Value::String(text) => {
            let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
            let visible = text.chars().all(|c| c == '\t' || (' '..='~').contains(&c));
            let literal = visible && !looks_encoded && text.trim() == text;
            let literal = literal.then(|| text.clone());
            return literal.into_iter().chain([sentinel(text)]).collect();
        }
        _ => vec![],
    };
    let encoded: Vec<String> = plain.iter().map(|text| sentinel(text)).collect();
    plain.into_iter().chain(encoded).collect()
}

#[test]
fn a_header_passes_only_if_it_says_what_the_body_says() {
    let values = values();
    let headers: Vec<String> = values.iter().flat_map(spellings).collect();
    let (mut n_pairs, mut n_passed) = (0, 0);
    for value in &values {
        let raw = value.to_string();
        let body = (!value.is_null()).then_some(raw.as_bytes());
        let allowed = allowed(value);
        for header in &headers {
            let passes = super::agree(body, Field::Value(header.as_bytes())).is_ok();
            let trimmed = header.trim_matches([' ', '\t']);
            assert_eq!(passes, allowed.iter().any(|text| text == trimmed), "{value} {header:?}");
            n_pairs += 1;
            n_passed += usize::from(passes);
        }
        let needs_none = value.is_null() || value.is_array() || value.is_object();
        assert_eq!(super::agree(body, Field::Absent).is_ok(), needs_none, "{value}");
        assert!(super::agree(body, Field::Repeated).is_err(), "{value}");
    }
    assert!(n_pairs > 100_000 && n_passed > 300, "{n_passed} of {n_pairs}");
}

#[test]
fn what_clients_mirror_servers_accept() {
    for value in values() {
        let safe = value.as_i64().is_none_or(|n| n.unsigned_abs() < 1 << 53) && value != json!(1.5);
        for arguments in [json!({"text": value}), json!({"outer": {"inner": value}})] {
            let raw = arguments.to_string();
            let sent: HashMap<_, _> = PARAMS.mirror(Some(raw.as_bytes())).into_iter().collect();
            let checked = PARAMS.check(Some(raw.as_bytes()), |name| {
                sent.get(name).map_or(Field::Absent, |value| Field::Value(value.as_bytes()))
            });
            assert_eq!(checked.is_ok(), safe, "{raw} {sent:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_schema_and_arguments_are_survived(
        schema in "[ -~]{0,60}",
        arguments in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let _ = ParamHeaders::from_schema(schema.as_bytes());
        let _ = PARAMS.check(Some(&arguments), |_| Field::Value(&arguments));
        let _ = PARAMS.mirror(Some(&arguments));
    }
}
