//! The decision procedure, and its edge cases by name.

use bytes::Bytes;

use super::{Field, Route, RoutingHeaders, batch_allowed, classify, is_modern_get};
use crate::{
    Message, Refusal, Revision, RevisionSet, check_modern, check_modern_notification, negotiate,
    removed_in_modern,
};

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// A body with this method and these params (raw JSON, or empty for none).
fn body(method: &str, params: &str) -> String {
    let params = if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"{params}}}"#)
}

/// Complete modern params that name this version.
fn meta(version: &str) -> String {
    format!(
        r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{version}",
           "io.modelcontextprotocol/clientCapabilities":{{}}}}}}"#
    )
}

fn initialize(version: &str) -> String {
    body("initialize", &format!(r#"{{"protocolVersion":"{version}","capabilities":{{}}}}"#))
}

fn headers<'a>(version: &'a str, method: &'a str) -> RoutingHeaders<'a> {
    let field = |value: &'a str| match value {
        "" => Field::Absent,
        "repeated" => Field::Repeated,
        value => Field::Value(value.as_bytes()),
    };
    RoutingHeaders { version: field(version), method: field(method), name: Field::Absent }
}

/// Where a body goes, or `status code [id]` of its refusal: by classification, or by the modern
/// checks that follow it.
fn outcome(body: &str, version: &str, served: RevisionSet) -> String {
    let message = match Message::parse(&Bytes::copy_from_slice(body.as_bytes())) {
        Ok(message) => message,
        Err(error) => return refused(&Refusal::from(error)),
    };
    let method = message.method().map(|method| method.to_string()).unwrap_or_default();
    let headers = headers(version, &method);
    let route = match classify(&message, &headers, served) {
        Ok(route) => route,
        Err(refusal) => return refused(&refusal),
    };
    let checked = match (&message, route) {
        (Message::Request(request), Route::Modern) => {
            check_modern(request, &headers, served).map(|_| ())
        }
        (Message::Notification(notification), Route::Modern) => {
            check_modern_notification(notification, &headers, served)
        }
        _ => Ok(()),
    };
    match (checked, route) {
        (Err(refusal), _) => refused(&refusal),
        (Ok(()), Route::Legacy { header: Some(revision) }) => format!("legacy {revision}"),
        (Ok(()), Route::Legacy { header: None }) => "legacy".to_owned(),
        (Ok(()), Route::Initialize) => "initialize".to_owned(),
        (Ok(()), Route::Modern) => "modern".to_owned(),
    }
}

fn refused(refusal: &Refusal) -> String {
    let id = refusal.id.as_ref().map(|id| format!(" id {id}")).unwrap_or_default();
    format!("{} {}{id}", refusal.status, refusal.error.code)
}

#[track_caller]
fn check(body: &str, version: &str, expected: &str) {
    assert_eq!(outcome(body, version, RevisionSet::ALL), expected, "{version:?} {body}");
}

#[test]
fn initialize_that_asks_for_the_modern_version_gets_the_newest_legacy_one() {
    check(&initialize(MODERN), "", "initialize");
    assert_eq!(negotiate(MODERN, RevisionSet::ALL), Some(Revision::V2025_11_25));
}

#[test]
fn initialize_with_the_modern_header_lacks_meta_and_learns_the_versions() {
    check(&initialize(MODERN), MODERN, "400 -32602 id 7");
    let Ok(Message::Request(request)) = Message::parse(&Bytes::from(initialize(MODERN))) else {
        panic!("a request")
    };
    let headers = headers(MODERN, "initialize");
    let refusal = check_modern(&request, &headers, RevisionSet::ALL).unwrap_err();
    assert!(refusal.error.message.contains("2026-07-28, 2025-11-25"), "{refusal:?}");
}

#[test]
fn initialize_with_complete_modern_meta_is_a_removed_method() {
    check(&body("initialize", &meta(MODERN)), MODERN, "modern");
    assert!(removed_in_modern("initialize"));
}

#[test]
fn initialize_with_the_same_legacy_header_is_fine() {
    check(&initialize(LEGACY), LEGACY, "initialize");
}

#[test]
fn initialize_with_another_legacy_header_ignores_the_header() {
    check(&initialize("2025-06-18"), LEGACY, "initialize");
}

#[test]
fn modern_header_without_meta_is_invalid_params_with_the_id() {
    check(&body("tools/list", "{}"), MODERN, "400 -32602 id 7");
    check(&body("tools/list", r#"{"_meta":{}}"#), MODERN, "400 -32602 id 7");
    check(&body("tools/list", r#"{"_meta":1}"#), MODERN, "400 -32602 id 7");
}

#[test]
fn complete_meta_without_header_is_a_header_mismatch() {
    check(&body("tools/list", &meta(MODERN)), "", "400 -32020 id 7");
}

#[test]
fn modern_meta_with_a_legacy_header_is_a_header_mismatch() {
    check(&body("tools/list", &meta(MODERN)), LEGACY, "400 -32020 id 7");
}

#[test]
fn legacy_version_in_meta_and_header_is_unsupported_statelessly() {
    check(&body("tools/list", &meta(LEGACY)), LEGACY, "400 -32022 id 7");
}

#[test]
fn garbage_header_is_a_bad_request() {
    for garbage in ["v999.0.0", "2026-07-29", "2025-11-25, 2025-11-25", "latest", "1"] {
        check(&body("tools/list", ""), garbage, "400 -32602 id 7");
        check(&body("tools/list", &meta(garbage)), garbage, "400 -32022 id 7");
    }
}

#[test]
fn any_legacy_header_is_accepted_in_a_session() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        check(&body("tools/list", ""), version, &format!("legacy {version}"));
        check(&body("tools/list", ""), &format!(" {version}\t"), &format!("legacy {version}"));
    }
}

#[test]
fn no_header_and_no_meta_is_legacy() {
    check(&body("tools/list", ""), "", "legacy");
    check(&body("ping", r#"{"_meta":{"progressToken":1}}"#), "", "legacy");
}

#[test]
fn repeated_version_header_is_a_bad_request() {
    check(&body("tools/list", ""), "repeated", "400 -32020 id 7");
    check(&initialize(LEGACY), "repeated", "400 -32020 id 7");
    check(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "repeated", "400 -32020");
    check("[1]", "repeated", "400 -32020");
}

#[test]
fn modern_notification_of_a_served_version_is_accepted() {
    check(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#, MODERN, "modern");
}

#[test]
fn modern_notification_of_an_unknown_version_is_refused_without_id() {
    check(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "v999", "400 -32022");
}

#[test]
fn modern_notification_that_contradicts_its_header_is_refused() {
    let body =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{}}}"#, meta(MODERN));
    check(&body, MODERN, "modern");
    check(&body, "", "400 -32020");
    check(&body, LEGACY, "400 -32020");
}

#[test]
fn legacy_notification_goes_to_its_session() {
    check(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, LEGACY, "legacy 2025-11-25");
    check(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "", "legacy");
}

#[test]
fn null_id_is_malformed_and_not_a_notification() {
    check(r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#, MODERN, "400 -32600");
}

#[test]
fn missing_params_are_missing_meta() {
    check(&body("server/discover", ""), MODERN, "400 -32602 id 7");
    check(&body("tools/list", ""), MODERN, "400 -32602 id 7");
}

#[test]
fn meta_and_header_that_agree_on_an_unknown_version_are_unsupported() {
    let message = Message::parse(&Bytes::from(body("tools/list", &meta("v999.0.0")))).unwrap();
    let Message::Request(request) = message else { panic!("a request") };
    let headers = headers("v999.0.0", "tools/list");
    let refusal = check_modern(&request, &headers, RevisionSet::ALL).unwrap_err();
    let data = String::from_utf8(refusal.error.data.unwrap().to_vec()).unwrap();
    let supported = r#"["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]"#;
    assert_eq!(data, format!(r#"{{"supported":{supported},"requested":"v999.0.0"}}"#));
}

#[test]
fn header_that_contradicts_meta_is_reported_before_an_unknown_version() {
    check(&body("tools/list", &meta("v999")), MODERN, "400 -32020 id 7");
}

#[test]
fn meta_version_of_any_type_means_modern() {
    let params = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":1,
        "io.modelcontextprotocol/clientCapabilities":{}}}"#;
    check(&body("tools/list", params), "", "400 -32602 id 7");
    check(&body("initialize", params), LEGACY, "400 -32602 id 7");
}

#[test]
fn methods_that_only_the_modern_era_has_get_modern_answers() {
    for method in ["server/discover", "subscriptions/listen"] {
        check(&body(method, ""), "", "400 -32602 id 7");
        check(&body(method, &meta(MODERN)), "", "400 -32020 id 7");
        check(&body(method, &meta(MODERN)), MODERN, "modern");
    }
}

#[test]
fn responses_are_for_sessions_only() {
    let response = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    check(response, "", "legacy");
    check(response, LEGACY, "legacy 2025-11-25");
    check(response, MODERN, "400 -32600");
    check(response, "v999", "400 -32600");
    assert_eq!(outcome(response, "", RevisionSet::MODERN), "400 -32600");
}

#[test]
fn batches_are_left_to_the_session_unless_they_are_modern() {
    let batch = format!("[{}]", body("tools/list", ""));
    check(&batch, "", "legacy");
    check(&batch, "2025-03-26", "legacy 2025-03-26");
    check(&batch, LEGACY, "legacy 2025-11-25");
    check(&batch, MODERN, "400 -32600");
    check(&batch, "v999", "400 -32600");
    check("[]", "", "400 -32600");
    assert_eq!(outcome(&batch, "", RevisionSet::MODERN), "400 -32600");
    let allowed: Vec<_> = Revision::ALL.into_iter().filter(|r| batch_allowed(*r)).collect();
    assert_eq!(allowed, [Revision::V2025_03_26]);
}

#[test]
fn batches_never_hold_a_handshake_or_a_stateless_request() {
    check(&format!("[{}]", initialize("2025-03-26")), "", "400 -32600");
    let mixed = format!("[{},{}]", body("ping", ""), body("tools/list", &meta(MODERN)));
    check(&mixed, "2025-03-26", "400 -32600");
}

#[test]
fn get_and_delete_belong_to_sessions_unless_the_header_is_modern() {
    for (field, expected) in [
        (Field::Absent, false),
        (Field::Value(b"2025-11-25"), false),
        (Field::Value(b" 2024-11-05 "), false),
        (Field::Value(b"2026-07-28"), true),
        (Field::Value(b"2027-01-01"), true),
        (Field::Value(b"\xff"), true),
        (Field::Value(b""), true),
        (Field::Repeated, true),
    ] {
        assert_eq!(is_modern_get(&field), expected, "{field:?}");
    }
}

#[test]
fn legacy_only_endpoint_tells_modern_clients_what_it_serves() {
    let check = |body: &str, version: &str, expected: &str| {
        assert_eq!(outcome(body, version, RevisionSet::LEGACY), expected, "{version:?} {body}");
    };
    check(&body("tools/list", &meta(MODERN)), MODERN, "400 -32022 id 7");
    check(&body("tools/list", ""), MODERN, "400 -32022 id 7");
    check(&body("tools/list", &meta(MODERN)), "", "400 -32022 id 7");
    check(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, MODERN, "400 -32022");
    // Without any version it is a method like any other, and unknown.
    check(&body("server/discover", ""), "", "legacy");
    check(&body("tools/list", ""), LEGACY, "legacy 2025-11-25");
    check(&initialize(MODERN), "", "initialize");
}

#[test]
fn modern_only_endpoint_tells_old_clients_what_it_serves() {
    let check = |body: &str, version: &str, expected: &str| {
        assert_eq!(outcome(body, version, RevisionSet::MODERN), expected, "{version:?} {body}");
    };
    check(&initialize(LEGACY), "", "400 -32022 id 7");
    check(&initialize(MODERN), MODERN, "400 -32022 id 7");
    check(&initialize(LEGACY), LEGACY, "400 -32022 id 7");
    check(&body("initialize", "{}"), "", "400 -32602 id 7");
    let both = meta(MODERN).replacen('{', r#"{"protocolVersion":"2025-11-25","#, 1);
    check(&body("initialize", &both), MODERN, "modern");
    check(&body("tools/list", ""), LEGACY, "400 -32022 id 7");
    check(&body("tools/list", ""), "", "400 -32602 id 7");
    check(&body("tools/list", &meta(MODERN)), MODERN, "modern");
    check(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, "", "400 -32020");
    check(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, LEGACY, "400 -32022");
}

#[test]
fn routing_headers_of_old_clients_are_not_looked_at() {
    let message = Message::parse(&Bytes::from(body("tools/list", ""))).unwrap();
    let headers = RoutingHeaders {
        version: Field::Value(b"2025-11-25"),
        method: Field::Value(b"tools/call"),
        name: Field::Repeated,
    };
    let route = classify(&message, &headers, RevisionSet::ALL);
    assert_eq!(route, Ok(Route::Legacy { header: Some(Revision::V2025_11_25) }));
}
