//! The modern checks: each rung of the ladder, and that earlier rungs win.

use bytes::Bytes;

use super::{check_modern, check_modern_meta, removed_in_modern};
use crate::{
    ClientCapabilities, Field, LogLevel, Message, Request, Revision, RevisionSet, RoutingHeaders,
};

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

fn request(method: &str, params: &str) -> Request {
    let body = format!(r#"{{"jsonrpc":"2.0","id":"x","method":"{method}","params":{params}}}"#);
    match Message::parse(&Bytes::from(body)) {
        Ok(Message::Request(request)) => request,
        other => panic!("not a request: {other:?}"),
    }
}

/// The code with which a request is refused, or 0.
fn code(request: &Request, version: Field<'_>, method: Field<'_>, name: Field<'_>) -> i32 {
    let headers = RoutingHeaders { version, method, name };
    match check_modern(request, &headers, RevisionSet::ALL) {
        Ok(_) => 0,
        Err(refusal) => {
            assert_eq!(refusal.status, 400);
            assert_eq!(refusal.id.as_ref(), Some(&request.id));
            refusal.error.code.0
        }
    }
}

const VERSION: Field<'_> = Field::Value(b"2026-07-28");

/// Refusal of `tools/call` of the tool `echo` with these two headers.
#[track_caller]
fn check_headers(method: Field<'_>, name: Field<'_>, expected: i32) {
    let request = request("tools/call", &format!(r#"{{"name":"echo","_meta":{{{META}}}}}"#));
    assert_eq!(code(&request, VERSION, method, name), expected, "{method:?} {name:?}");
}

/// Refusal of a `tools/list` with right headers and this `_meta`.
#[track_caller]
fn check_meta(meta: &str, expected: i32) {
    let request = request("tools/list", &format!(r#"{{"_meta":{meta}}}"#));
    let method = Field::Value(b"tools/list");
    assert_eq!(code(&request, VERSION, method, Field::Absent), expected, "{meta}");
    let meta_only = check_modern_meta(&request, RevisionSet::ALL);
    assert_eq!(meta_only.map_or_else(|refusal| refusal.error.code.0, |_| 0), expected, "{meta}");
}

#[test]
fn routing_headers_must_repeat_the_body() {
    let (method, name) = (Field::Value(b"tools/call"), Field::Value(b"echo"));
    check_headers(method, name, 0);
    check_headers(Field::Value(b"  tools/call\t"), Field::Value(b"  echo  "), 0);
    for bad in
        ["tools/list", "TOOLS/CALL", "tools/call,tools/call", "", "=?base64?dG9vbHMvY2FsbA==?="]
    {
        check_headers(Field::Value(bad.as_bytes()), name, -32020);
    }
    check_headers(Field::Absent, name, -32020);
    check_headers(Field::Repeated, name, -32020);
    for bad in ["wrong", "Echo", "echo, echo", "", "ec ho"] {
        check_headers(method, Field::Value(bad.as_bytes()), -32020);
    }
    check_headers(method, Field::Absent, -32020);
    check_headers(method, Field::Repeated, -32020);
}

#[test]
fn mcp_name_may_use_the_base64_form() {
    let method = Field::Value(b"tools/call");
    check_headers(method, Field::Value(b"=?base64?ZWNobw==?="), 0);
    for bad in [
        "=?base64?ZWNobw?=",
        "=?base64?ZWNobx==?=",
        "=?base64?ZW!obw==?=",
        "=?base64?/w==?=",
        "ZWNobw==",
    ] {
        check_headers(method, Field::Value(bad.as_bytes()), -32020);
    }
}

#[test]
fn each_named_method_mirrors_its_own_member() {
    let rows = [
        ("prompts/get", "name", "p"),
        ("resources/read", "uri", "file:///a%20b?c=1"),
        ("tasks/get", "taskId", "t"),
        ("tasks/update", "taskId", "t"),
        ("tasks/cancel", "taskId", "t"),
    ];
    for (method, member, value) in rows {
        let request = request(method, &format!(r#"{{"{member}":"{value}","_meta":{{{META}}}}}"#));
        let code = |name| code(&request, VERSION, Field::Value(method.as_bytes()), name);
        assert_eq!(code(Field::Value(value.as_bytes())), 0, "{method}");
        assert_eq!(code(Field::Value(b"other")), -32020, "{method}");
        assert_eq!(code(Field::Absent), -32020, "{method}");
    }
}

#[test]
fn a_name_the_body_lacks_is_left_to_the_handler_unless_the_header_has_one() {
    for params in
        [format!(r#"{{"_meta":{{{META}}}}}"#), format!(r#"{{"name":1,"_meta":{{{META}}}}}"#)]
    {
        let request = request("tools/call", &params);
        let method = Field::Value(b"tools/call");
        assert_eq!(code(&request, VERSION, method, Field::Absent), 0);
        assert_eq!(code(&request, VERSION, method, Field::Value(b"1")), -32020);
    }
}

#[test]
fn methods_without_a_name_ignore_mcp_name_but_not_two_of_them() {
    let request = request("tools/list", &format!(r#"{{"_meta":{{{META}}}}}"#));
    let method = Field::Value(b"tools/list");
    assert_eq!(code(&request, VERSION, method, Field::Value(b"x")), 0);
    assert_eq!(code(&request, VERSION, method, Field::Repeated), -32020);
}

#[test]
fn required_metadata_is_required() {
    check_meta(&format!("{{{META}}}"), 0);
    check_meta("{}", -32602);
    check_meta("1", -32602);
    check_meta("[]", -32602);
    check_meta(r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#, -32602);
    check_meta(r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#, -32602);
    let typed = |version: &str, capabilities: &str| {
        format!(
            r#"{{"io.modelcontextprotocol/protocolVersion":{version},
               "io.modelcontextprotocol/clientCapabilities":{capabilities}}}"#
        )
    };
    check_meta(&typed("20260728", "{}"), -32602);
    check_meta(&typed("null", "{}"), -32602);
    for capabilities in ["1", "null", "[]", "\"{}\"", "true"] {
        check_meta(&typed("\"2026-07-28\"", capabilities), -32602);
    }
}

#[test]
fn log_level_must_be_a_level() {
    let level = |level: &str| format!(r#"{{{META},"io.modelcontextprotocol/logLevel":{level}}}"#);
    for known in LogLevel::ALL {
        check_meta(&level(&format!("\"{known}\"")), 0);
        assert_eq!(LogLevel::parse(known.as_str()), Some(known));
    }
    for bad in ["\"loud\"", "\"Info\"", "3", "null", "\"\""] {
        check_meta(&level(bad), -32602);
    }
}

#[test]
fn what_a_request_says_about_itself_is_read() {
    let params = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},
        "io.modelcontextprotocol/logLevel":"warning"}}"#;
    let request = request("tools/list", params);
    let checked = check_modern_meta(&request, RevisionSet::ALL).unwrap();
    assert_eq!(checked.revision, Revision::V2026_07_28);
    assert_eq!(checked.capabilities, ClientCapabilities::ELICITATION_FORM);
    assert_eq!(checked.log_level, Some(LogLevel::Warning));
}

#[test]
fn earlier_checks_win() {
    let (wrong, right) = (Field::Value(b"nope".as_slice()), Field::Value(b"tools/list".as_slice()));
    let unknown = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"v9","io.modelcontextprotocol/clientCapabilities":1}}"#;
    let unknown = request("tools/list", unknown);
    // Metadata, then the version header, then the version, then the routing headers, then types.
    let bare = request("tools/list", "{}");
    assert_eq!(code(&bare, Field::Absent, wrong, Field::Repeated), -32602);
    assert_eq!(code(&unknown, Field::Absent, wrong, Field::Absent), -32020);
    assert_eq!(code(&unknown, Field::Value(b"v8"), wrong, Field::Absent), -32020);
    assert_eq!(code(&unknown, Field::Value(b"v9"), wrong, Field::Absent), -32022);
    let typed = format!(r#"{{"_meta":{{{META},"io.modelcontextprotocol/logLevel":1}}}}"#);
    let typed = request("tools/list", &typed);
    assert_eq!(code(&typed, VERSION, wrong, Field::Absent), -32020);
    assert_eq!(code(&typed, VERSION, right, Field::Absent), -32602);
}

#[test]
fn modern_revision_that_is_not_served_is_refused() {
    let request = request("tools/list", &format!(r#"{{"_meta":{{{META}}}}}"#));
    let headers = RoutingHeaders {
        version: VERSION,
        method: Field::Value(b"tools/list"),
        name: Field::Absent,
    };
    let refusal = check_modern(&request, &headers, RevisionSet::LEGACY).unwrap_err();
    assert_eq!(refusal.error.code.0, -32022);
}

#[test]
fn meta_that_is_no_object_is_called_that() {
    for meta in ["1", "[]", "null", r#""x""#] {
        let request = request("tools/list", &format!(r#"{{"_meta":{meta}}}"#));
        let refusal = check_modern_meta(&request, RevisionSet::ALL).unwrap_err();
        assert_eq!(refusal.error.message, "params._meta must be an object", "{meta}");
    }
}

#[test]
fn escape_in_the_body_is_not_the_same_characters_in_a_header() {
    let method = Field::Value(b"tools/call");
    for (in_body, header, expected) in [
        (r"a\\b", r"a\b", 0),
        (r"a\\b", r"a\\b", -32020),
        (r"\u0061", "a", 0),
        (r"\u0061", r"\u0061", -32020),
    ] {
        let params = format!(r#"{{"name":"{in_body}","_meta":{{{META}}}}}"#);
        let request = request("tools/call", &params);
        let name = Field::Value(header.as_bytes());
        assert_eq!(code(&request, VERSION, method, name), expected, "{in_body} {header}");
    }
}

#[test]
fn removed_methods_are_removed() {
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "notifications/initialized",
    ] {
        assert!(removed_in_modern(method), "{method}");
    }
    for method in ["tools/call", "tasks/get", "server/discover", "notifications/cancelled", "Ping"]
    {
        assert!(!removed_in_modern(method), "{method}");
    }
}
