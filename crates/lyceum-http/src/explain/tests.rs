//! What is told about decisions.

use super::*;

fn told(accept: Option<&str>, dialect: Dialect, method: Method, rpc_method: &str) -> String {
    explain(accept, dialect, &method, rpc_method, true).to_string()
}

#[test]
fn a_call_is_explained_line_by_line() {
    let accept = "application/json;q=0.9, text/*;q=.95";
    insta::assert_snapshot!(told(Some(accept), Dialect::Standard, Method::POST, "tools/call"), @r"
    request  POST tools/call
    accept   application/json;q=0.9, text/*;q=.95
    mode     both
    json     q=0.9, named in place 1
    sse      q=0.95, by text/* in place 2
    html     q=0.95, by text/* in place 2
    dialect  standard
    streams  on
    rule     sse-higher
    answer   sse
    ");
}

#[test]
fn an_absent_header_is_named_as_such() {
    insta::assert_snapshot!(told(None, Dialect::Strict, Method::GET, "tools/call"), @r"
    request  GET
    accept   (absent)
    mode     absent
    json     not mentioned
    sse      not mentioned
    html     not mentioned
    dialect  strict
    streams  on
    rule     get-other
    answer   406 Not Acceptable
    ");
}

#[test]
fn every_answer_has_words() {
    let answer = |accept, dialect, method, sse| explain(accept, dialect, &method, "", sse).answer;
    let both = Some("application/json, text/event-stream");
    let rows = [
        (answer(both, Dialect::Standard, Method::POST, true), "json, or sse once"),
        (answer(both, Dialect::Standard, Method::POST, false), "json"),
        (answer(Some("text/event-stream"), Dialect::Standard, Method::POST, true), "sse"),
        (answer(None, Dialect::Strict, Method::POST, true), "406"),
        (answer(both, Dialect::Standard, Method::GET, true), "sse: the session's stream"),
        (answer(both, Dialect::Standard, Method::GET, false), "405"),
        (answer(None, Dialect::Standard, Method::GET, true), "json: the server info"),
        (answer(Some("text/html"), Dialect::Standard, Method::GET, true), "html"),
        (answer(None, Dialect::Turul, Method::GET, true), "406"),
    ];
    for (answer, expected) in rows {
        assert!(answer.starts_with(expected), "{answer} instead of {expected}");
    }
}

#[test]
fn the_response_header_names_era_dialect_rule_and_answer() {
    let header = decision_header("modern", Dialect::AgentData, "sse-only", "sse");
    assert_eq!(header, "modern; agent-data; sse-only -> sse");
}
