//! The dialect table cell by cell, the vectors each dialect must reproduce, and properties of all.

use proptest::prelude::*;

use super::*;
use crate::accept::{AcceptMode, Acceptance, parse_accept};

const BOTH: &str = "application/json, text/event-stream";

fn accept(header: &str) -> Acceptance {
    parse_accept([header.as_bytes()])
}

/// The answer to a POST, in short.
fn post(dialect: Dialect, header: &str, method: &str, sse_enabled: bool) -> &'static str {
    match decide_post(dialect.policy(), &accept(header), method, sse_enabled).decision {
        Decision::Json => "json",
        Decision::Sse => "sse",
        Decision::ServersChoice => "choice",
        Decision::NotAcceptable => "406",
    }
}

/// The answer to a GET, in short.
fn get(dialect: Dialect, header: &str, sse_enabled: bool) -> &'static str {
    match decide_get(dialect.policy(), &accept(header), sse_enabled).0 {
        GetAnswer::Stream => "stream",
        GetAnswer::Info => "info",
        GetAnswer::Html => "html",
        GetAnswer::MethodNotAllowed => "405",
        GetAnswer::NotAcceptable => "406",
    }
}

/// One row of the table: the expected answers in the order of `Dialect::ALL`.
#[track_caller]
fn row<T: PartialEq + fmt::Debug>(what: &str, expected: [T; 5], answer: impl Fn(Dialect) -> T) {
    for (dialect, expected) in Dialect::ALL.into_iter().zip(expected) {
        assert_eq!(answer(dialect), expected, "{what} in {dialect}");
    }
}

#[track_caller]
fn post_row(header: &str, expected: [&str; 5]) {
    row(header, expected, |dialect| post(dialect, header, "tools/list", true));
}

#[track_caller]
fn call_row(header: &str, expected: [&str; 5]) {
    row(header, expected, |dialect| post(dialect, header, "tools/call", true));
}

#[track_caller]
fn get_row(header: &str, expected: [&str; 5]) {
    row(header, expected, |dialect| get(dialect, header, true));
}

#[test]
fn absent_or_malformed_header() {
    for header in ["", " ", ";;;", ";;;malformed", "json"] {
        post_row(header, ["json", "json", "json", "json", "406"]);
        call_row(header, ["json", "json", "json", "json", "406"]);
    }
}

#[test]
fn wildcard() {
    for header in ["*/*", "*", "*/*;q=0.1", "text/html, */*;q=0.8"] {
        post_row(header, ["choice", "json", "json", "json", "choice"]);
        call_row(header, ["choice", "json", "json", "json", "choice"]);
    }
}

#[test]
fn type_ranges() {
    call_row("application/*", ["json", "json", "json", "json", "406"]);
    call_row("text/*", ["sse", "sse", "json", "json", "406"]);
    call_row("application/*, text/*", ["choice", "json", "json", "json", "choice"]);
    call_row("text/*, application/*;q=0.5", ["sse", "sse", "json", "json", "choice"]);
}

#[test]
fn names_beside_ranges() {
    call_row("application/json, */*", ["choice", "json", "json", "json", "choice"]);
    call_row("application/json, */*;q=0.1", ["json", "json", "json", "json", "choice"]);
    call_row("text/event-stream, */*;q=0.1", ["sse", "sse", "sse", "sse", "choice"]);
    post_row("text/event-stream, */*;q=0.1", ["sse", "sse", "sse", "json", "choice"]);
    post_row("text/event-stream, application/*", ["choice", "json", "sse", "sse", "choice"]);
}

#[test]
fn json_only() {
    for header in [
        "application/json",
        "application/json;q=0.1, text/html",
        "application/json, text/event-stream;q=0",
    ] {
        post_row(header, ["json", "json", "json", "json", "406"]);
        call_row(header, ["json", "json", "json", "json", "406"]);
    }
}

#[test]
fn sse_only() {
    for header in ["text/event-stream", "text/event-stream;q=0.1, application/json;q=0"] {
        post_row(header, ["sse", "sse", "sse", "sse", "406"]);
        call_row(header, ["sse", "sse", "sse", "sse", "406"]);
    }
}

#[test]
fn both_with_sse_higher() {
    for header in [
        "application/json;q=0.5, text/event-stream",
        "text/event-stream;q=.51, application/json;q=.5",
    ] {
        post_row(header, ["sse", "sse", "sse", "json", "choice"]);
        call_row(header, ["sse", "sse", "sse", "sse", "choice"]);
    }
}

#[test]
fn both_with_json_higher() {
    for header in [
        "application/json, text/event-stream;q=0.5",
        "text/event-stream;q=.5, application/json;q=.51",
    ] {
        post_row(header, ["json", "json", "json", "json", "choice"]);
        call_row(header, ["json", "json", "json", "sse", "choice"]);
    }
}

#[test]
fn both_equal() {
    post_row(BOTH, ["choice", "json", "json", "json", "choice"]);
    call_row(BOTH, ["choice", "json", "json", "sse", "choice"]);
    let turned = "text/event-stream, application/json";
    post_row(turned, ["choice", "json", "sse", "json", "choice"]);
    call_row(turned, ["choice", "json", "sse", "sse", "choice"]);
}

#[test]
fn only_other_types() {
    for header in ["application/xml", "text/html, image/*", "*/*;q=0", "application/json;q=0"] {
        post_row(header, ["406", "406", "json", "json", "406"]);
        call_row(header, ["406", "406", "json", "json", "406"]);
    }
    row("406", [-32600, -32700, -32600, -32600, -32600], |dialect| {
        dialect.policy().not_acceptable_code
    });
}

#[test]
fn content_type() {
    use ContentTypeRule::*;
    let expected = [Required415, AnyIfParses, AnyIfParses, Required415, Required400];
    row("Content-Type", expected, |dialect| dialect.policy().content_type);
}

#[test]
fn accepted_notifications() {
    let status = |method| move |dialect: Dialect| dialect.policy().notification_status(method);
    row("initialized", [202, 204, 204, 202, 202], status("initialized"));
    row("others", [202, 204, 202, 202, 202], status("notifications/initialized"));
    row("others", [202, 204, 202, 202, 202], status("notifications/cancelled"));
}

#[test]
fn sessions() {
    let column = |dialect: Dialect| dialect.policy();
    row("minted", [true, false, true, true, true], |dialect| column(dialect).mints_session);
    row("echoed", [false, false, true, false, false], |dialect| column(dialect).echoes_session);
    row("required", [false, false, false, true, true], |dialect| column(dialect).sessions_required);
}

#[test]
fn unknown_tools() {
    row("code", [-32602, -32601, -32603, -32602, -32602], |dialect| {
        dialect.policy().unknown_tool.code()
    });
}

#[test]
fn unparsable_bodies() {
    row("status", [400, 200, 200, 400, 400], |dialect| dialect.policy().parse_error_status);
}

#[test]
fn what_only_knox_does() {
    row("invalid", [400, 400, 200, 400, 400], |dialect| dialect.policy().invalid_request_status);
    row("explained", [false, false, true, false, false], |dialect| {
        dialect.policy().explains_errors
    });
    let assumed = Some(lyceum_wire::Revision::V2024_11_05);
    row("assumed", [None, None, assumed, None, None], |dialect| dialect.policy().assumed_revision);
}

#[test]
fn get_that_accepts_sse() {
    get_row("text/event-stream", ["stream", "405", "stream", "stream", "stream"]);
    get_row(BOTH, ["stream", "info", "info", "stream", "stream"]);
    get_row(
        "text/event-stream, application/json",
        ["stream", "info", "stream", "stream", "stream"],
    );
    get_row("*/*", ["stream", "info", "info", "406", "stream"]);
    get_row("text/*", ["stream", "405", "info", "406", "stream"]);
    get_row("text/html, text/event-stream", ["stream", "405", "stream", "stream", "stream"]);
    get_row("text/*, text/event-stream;q=0.5", ["stream", "405", "stream", "stream", "stream"]);
}

#[test]
fn get_that_does_not_accept_sse() {
    for header in
        ["", ";;;", "application/json", "application/*", "application/xml", "text/event-stream;q=0"]
    {
        get_row(header, ["info", "info", "info", "406", "406"]);
    }
    get_row("text/html, application/json", ["info", "info", "info", "406", "406"]);
}

#[test]
fn get_preferring_html() {
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8";
    for header in [
        browser,
        "text/html",
        "text/html, */*",
        "text/html, text/*",
        "text/html;q=0.6, application/json;q=0.5",
    ] {
        get_row(header, ["html", "html", "html", "406", "406"]);
    }
}

#[test]
fn agent_data_vectors() {
    let check = |header, expected| {
        assert_eq!(post(Dialect::AgentData, header, "tools/call", true), expected, "{header}");
    };
    check("application/json", "json");
    check(BOTH, "json");
    check("text/event-stream", "sse");
    check("application/json;q=.5, text/event-stream;q=1", "sse");
    check("application/json;q=1, text/event-stream;q=.5", "json");
    check("", "json");
    check(";;;malformed", "json");
    check("*/*", "json");
    check("*", "json");
    check("application/xml", "406");
    assert_eq!(get(Dialect::AgentData, "text/event-stream", true), "405");
    assert_eq!(get(Dialect::AgentData, "application/json", true), "info");
    assert_eq!(get(Dialect::AgentData, "", true), "info");
}

#[test]
fn knox_vectors_are_the_same_on_get_and_post() {
    let check = |header, expected| {
        assert_eq!(post(Dialect::Knox, header, "tools/call", true), expected, "{header}");
        let stream_or_info = if expected == "sse" { "stream" } else { "info" };
        assert_eq!(get(Dialect::Knox, header, true), stream_or_info, "{header}");
    };
    check("application/json", "json");
    check("text/event-stream", "sse");
    check("application/json, text/event-stream", "json");
    check("text/event-stream, application/json", "sse");
    check("application/json;q=.9, text/event-stream;q=.5", "json");
    check("application/json;q=.5, text/event-stream;q=.9", "sse");
    let several = "text/html;q=0.8, application/json;q=0.9, text/event-stream;q=0.7, */*;q=0.1";
    check(several, "json");
}

#[test]
fn turul_vectors() {
    let check = |header, method, sse_enabled, expected| {
        let answer = post(Dialect::Turul, header, method, sse_enabled);
        assert_eq!(answer, expected, "{header} {method} {sse_enabled}");
    };
    check(BOTH, "tools/call", true, "sse");
    check(BOTH, "tools/list", true, "json");
    check(BOTH, "tools/call", false, "json");
    check("application/json", "tools/call", true, "json");
    check("text/event-stream", "tools/call", true, "sse");
    check("text/event-stream", "tools/list", true, "sse");
    check("text/event-stream", "tools/call", false, "json");
    check("*/*", "tools/call", true, "json");
    check("", "tools/call", true, "json");
}

#[test]
fn strict_vectors() {
    let check = |header, expected| {
        assert_eq!(post(Dialect::Strict, header, "tools/call", true), expected, "{header}");
    };
    check("", "406");
    check("application/json", "406");
    check(BOTH, "choice");
    assert_eq!(get(Dialect::Strict, "application/json", true), "406");
    assert_eq!(get(Dialect::Strict, "", true), "406");
}

#[test]
fn sse_off_forces_json_for_whoever_takes_either() {
    let headers = [BOTH, "application/json", "text/event-stream", "*/*", "text/*", "application/*"];
    for header in headers {
        row(header, ["json"; 5], |dialect| post(dialect, header, "tools/call", false));
    }
}

#[test]
fn sse_off_keeps_refusals_that_are_not_about_sse() {
    let off = |header: &'static str| move |dialect| post(dialect, header, "tools/call", false);
    row("absent", ["json", "json", "json", "json", "406"], off(""));
    row("other types", ["406", "406", "json", "json", "406"], off("application/xml"));
}

#[test]
fn sse_off_leaves_no_stream_to_get() {
    let off = |header: &'static str| move |dialect| get(dialect, header, false);
    row("SSE", ["405", "405", "info", "405", "405"], off("text/event-stream"));
    row("both", ["405", "info", "info", "405", "405"], off(BOTH));
    row("anything", ["info", "info", "info", "406", "406"], off("*/*"));
    row("JSON", ["info", "info", "info", "406", "406"], off("application/json"));
    row("HTML", ["html", "html", "html", "406", "406"], off("text/html"));
}

#[test]
fn listening_needs_a_stream_in_every_dialect() {
    let listen = |header: &'static str, sse_enabled| {
        move |dialect| post(dialect, header, "subscriptions/listen", sse_enabled)
    };
    for header in
        [BOTH, "text/event-stream", "*/*", "text/*", "application/json, text/event-stream;q=0.1"]
    {
        row(header, ["sse"; 5], listen(header, true));
        row(header, ["406"; 5], listen(header, false));
    }
    for header in ["", "application/json", "application/xml", "text/event-stream;q=0"] {
        row(header, ["406"; 5], listen(header, true));
    }
}

#[test]
fn a_stream_is_possible_whenever_sse_is_accepted_at_all() {
    let can_stream = |header: &'static str, sse_enabled| {
        move |dialect: Dialect| {
            decide_post(dialect.policy(), &accept(header), "tools/call", sse_enabled).can_stream
        }
    };
    for header in [BOTH, "*/*", "application/json, text/event-stream;q=0.001"] {
        row(header, [true; 5], can_stream(header, true));
        row(header, [false; 5], can_stream(header, false));
    }
    for header in ["", "application/json", "application/json, text/event-stream;q=0"] {
        row(header, [false; 5], can_stream(header, true));
    }
}

#[test]
fn rules_have_names() {
    let rule = |header, method, sse_enabled| {
        decide_post(Dialect::Standard.policy(), &accept(header), method, sse_enabled).rule
    };
    assert_eq!(rule("", "", true), "absent");
    assert_eq!(rule("*/*", "", true), "wildcard");
    assert_eq!(rule("application/json", "", true), "json-only");
    assert_eq!(rule("text/*", "", true), "sse-only");
    assert_eq!(rule("application/json;q=0.1, text/event-stream", "", true), "sse-higher");
    assert_eq!(rule("application/json, */*;q=0.1", "", true), "json-higher");
    assert_eq!(rule(BOTH, "", true), "both-equal");
    assert_eq!(rule("text/html", "", true), "other-types");
    assert_eq!(rule("text/html", "", false), "other-types");
    assert_eq!(rule(BOTH, "", false), "sse-off");
    assert_eq!(rule("application/json", "subscriptions/listen", true), "listen");
    let rule = |header, sse_enabled| {
        decide_get(Dialect::Standard.policy(), &accept(header), sse_enabled).1
    };
    assert_eq!(rule("text/html", true), "get-html");
    assert_eq!(rule(BOTH, true), "get-sse");
    assert_eq!(rule(BOTH, false), "sse-off");
    assert_eq!(rule("application/json", true), "get-other");
}

#[test]
fn names_read_back() {
    for dialect in Dialect::ALL {
        assert_eq!(dialect.as_str().parse(), Ok(dialect));
    }
    let error = "Knox".parse::<Dialect>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown dialect \"Knox\"; write one of standard, agent-data, knox, turul, strict"
    );
}

fn element() -> impl Strategy<Value = String> {
    let ranges = vec![
        "application/json",
        "text/event-stream",
        "application/*",
        "text/*",
        "*/*",
        "text/html",
        "junk",
    ];
    let parameters = vec!["", ";q=0", ";q=0.3", ";q=0.6", ";q=bad"];
    (prop::sample::select(ranges), prop::sample::select(parameters))
        .prop_map(|(range, parameters)| format!("{range}{parameters}"))
}

fn header() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(element(), 0..6)
}

fn dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select(Dialect::ALL.to_vec())
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(bytes: Vec<u8>, dialect in dialect(), sse_enabled: bool, method: String) {
        let acceptance = parse_accept([bytes.as_slice()]);
        let verdict = decide_post(dialect.policy(), &acceptance, &method, sse_enabled);
        prop_assert!(sse_enabled || verdict.decision != Decision::Sse);
        let (answer, _) = decide_get(dialect.policy(), &acceptance, sse_enabled);
        prop_assert!(sse_enabled || answer != GetAnswer::Stream);
    }

    #[test]
    fn an_unrelated_type_changes_nothing(
        elements in header(),
        dialect in dialect(),
        at: prop::sample::Index,
        sse_enabled: bool,
    ) {
        let plain = elements.join(", ");
        let mode = accept(&plain).mode();
        prop_assume!(!matches!(mode, AcceptMode::Absent | AcceptMode::Invalid));
        for unrelated in ["application/xml", "image/*;q=0.9", "text/plain", "application/json-seq"] {
            let mut more = elements.clone();
            more.insert(at.index(elements.len() + 1), unrelated.to_owned());
            let more = more.join(", ");
            for method in ["tools/call", "tools/list", "subscriptions/listen"] {
                prop_assert_eq!(
                    decide_post(dialect.policy(), &accept(&plain), method, sse_enabled),
                    decide_post(dialect.policy(), &accept(&more), method, sse_enabled)
                );
            }
            prop_assert_eq!(get(dialect, &plain, sse_enabled), get(dialect, &more, sse_enabled));
        }
    }

    #[test]
    fn order_matters_in_knox_only(elements in header(), dialect in dialect(), sse_enabled: bool) {
        prop_assume!(dialect != Dialect::Knox);
        let plain = elements.join(", ");
        let turned: Vec<String> = elements.into_iter().rev().collect();
        let turned = turned.join(", ");
        for method in ["tools/call", "tools/list"] {
            prop_assert_eq!(
                decide_post(dialect.policy(), &accept(&plain), method, sse_enabled),
                decide_post(dialect.policy(), &accept(&turned), method, sse_enabled)
            );
        }
        prop_assert_eq!(get(dialect, &plain, sse_enabled), get(dialect, &turned, sse_enabled));
    }
}
