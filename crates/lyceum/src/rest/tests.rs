//! Addresses, arguments and the description: what can be said without a server.

use http::{Method, StatusCode};
use lyceum_kb::Code;
use serde_json::{Map, Value, json};

use super::input::{decoded, merge, parse_object};
use super::openapi::document;
use super::problem::status;
use super::route::{Access, find};
use super::router::routes;

/// Which route answers, and what stands in the place of the path; a status when none does.
fn check(method: Method, path: &str, expected: Result<(&str, Option<&str>), u16>) {
    let routes = routes();
    let found = find(&routes, &method, path);
    let found = found.map(|matched| (matched.route.pattern, matched.captured));
    assert_eq!(found.map_err(|problem| problem.status.as_u16()), expected, "{method} {path}");
}

#[test]
fn routes_are_found_by_method_and_path() {
    let document = "/documents/{path}";
    check(Method::GET, "/documents/a/b.md", Ok((document, Some("a/b.md"))));
    check(Method::HEAD, "/documents/a", Ok((document, Some("a"))));
    check(Method::PUT, "/documents/a%2Fb", Ok((document, Some("a%2Fb"))));
    check(Method::GET, "/documents/batch", Ok((document, Some("batch"))));
    check(Method::POST, "/documents/batch", Ok(("/documents/batch", None)));
    check(Method::POST, "/documents/a/b/move", Ok(("/documents/{path}/move", Some("a/b"))));
    check(Method::GET, "/documents/a/move", Ok((document, Some("a/move"))));
    check(Method::POST, "/documents/a", Err(405));
    check(Method::GET, "/documents", Err(405));
    check(Method::DELETE, "/kb/list", Err(405));
    check(Method::GET, "/kb/lists", Err(404));
    check(Method::GET, "/kb/get/a/b", Ok(("/kb/get/{path}", Some("a/b"))));
}

#[test]
fn percent_encoding_is_undone_once() {
    let rows = [
        ("a%20b", Some("a b")),
        ("a+b", Some("a+b")),
        ("a%2Fb%2fc", Some("a/b/c")),
        ("%252F", Some("%2F")),
        ("caf%C3%A9", Some("café")),
        ("%e2%82%ac", Some("€")),
        ("%", None),
        ("%4", None),
        ("%zz", None),
        ("%+1", None),
        ("%ff", None),
        ("a%c3", None),
    ];
    for (text, expected) in rows {
        assert_eq!(decoded(text, false).ok().as_deref(), expected, "{text}");
    }
    assert_eq!(decoded("a+b%2B", true).unwrap(), "a b+");
}

#[test]
fn bodies_are_objects_that_say_everything_once() {
    let rows: &[(&str, Result<Value, u16>)] = &[
        ("", Ok(json!({}))),
        ("  \n", Ok(json!({}))),
        (r#"{"a":{"b":[1]}}"#, Ok(json!({ "a": { "b": [1] } }))),
        (r#"{"a":1,"a":2}"#, Err(422)),
        (r#"{"a":1,"\u0061":2}"#, Err(422)),
        ("[]", Err(422)),
        ("3", Err(422)),
        ("{", Err(400)),
        ("{} {}", Err(400)),
        ("{\"a\":nul}", Err(400)),
    ];
    for (body, expected) in rows {
        let read = parse_object(body.as_bytes()).map(Value::Object);
        assert_eq!(read.map_err(|problem| problem.status.as_u16()), *expected, "{body}");
    }
    assert_eq!(parse_object(b"{\"\xff\":1}").unwrap_err().status, StatusCode::BAD_REQUEST);
}

/// The arguments of `GET /kb/list`, or of `POST /kb/search`, from a query.
fn arguments(pattern: &str, query: &str, body: Value) -> Result<Value, u16> {
    let routes = routes();
    let route = routes.iter().find(|route| route.pattern == pattern).unwrap();
    let body: Map<String, Value> = serde_json::from_value(body).unwrap();
    let merged = merge(route, None, Some(query), body).map(Value::Object);
    merged.map_err(|problem| problem.status.as_u16())
}

#[test]
fn queries_become_the_values_a_body_would_have() {
    let list = |query| arguments("/kb/list", query, json!({}));
    assert_eq!(list("limit=5&prefix=a%2Fb"), Ok(json!({ "limit": 5, "prefix": "a/b" })));
    assert_eq!(list("prefix=5"), Ok(json!({ "prefix": "5" })));
    assert_eq!(list("limit=five"), Ok(json!({ "limit": "five" })));
    assert_eq!(list("limit=1&limit=1&&"), Ok(json!({ "limit": 1 })));
    assert_eq!(list("limit=1&limit=2"), Err(422));
    assert_eq!(list("limit=%zz"), Err(422));
    let search = |query, body| arguments("/kb/search", query, body);
    let tags = json!({ "tags": ["a", "b"], "explain": true });
    assert_eq!(search("tags=a&tags=b&explain=true", json!({})), Ok(tags));
    assert_eq!(search("query=x", json!({ "query": "y" })), Err(422));
}

#[test]
fn every_code_has_its_status() {
    let rows = [
        (Code::InvalidArgument, 422),
        (Code::NotFound, 404),
        (Code::Conflict, 409),
        (Code::Ambiguous, 409),
        (Code::NotFoundInContent, 409),
        (Code::Forbidden, 403),
        (Code::Unavailable, 503),
        (Code::Internal, 500),
    ];
    for (code, expected) in rows {
        assert_eq!(status(code).as_u16(), expected, "{}", code.as_str());
    }
}

/// Every `$ref` in a document.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn description_has_every_route_and_every_schema() {
    let routes = routes();
    let document = document(&routes);
    for route in &routes {
        let operation = &document["paths"][route.pattern][route.method.as_str().to_lowercase()];
        assert!(operation["summary"].is_string(), "{} {}", route.method, route.pattern);
    }
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > routes.len(), "{found:?}");
    for reference in found {
        let target = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
        assert!(target.is_some(), "{reference} leads nowhere");
    }
    let put = &document["paths"]["/documents/{path}"]["put"];
    assert_eq!(put["parameters"][0]["name"], "path");
    let body = &put["requestBody"]["content"]["application/json"]["schema"];
    assert!(body["properties"]["content"].is_object() && body["properties"]["path"].is_null());
}

#[test]
fn only_health_is_open() {
    let routes = routes();
    let open = routes.iter().filter(|route| route.access == Access::Open);
    assert_eq!(open.map(|route| route.pattern).collect::<Vec<_>>(), ["/health"]);
}
