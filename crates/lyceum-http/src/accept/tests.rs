//! What headers are read as: a table, then properties over all headers.

use proptest::prelude::*;

use super::*;

/// Reads lines separated by `\n` and shows what they say about JSON and SSE: `quality@position`, with
/// `-` for a type no range matches.
fn read(lines: &str) -> String {
    let acceptance = parse_accept(lines.split('\n').map(str::as_bytes));
    let told = |offer: Offer| match offer.specificity {
        Specificity::None => "-".to_owned(),
        _ => format!("{}@{}", offer.quality, offer.position),
    };
    format!("{} {} {}", told(acceptance.json), told(acceptance.sse), acceptance.mode())
}

#[track_caller]
fn check(lines: &str, expected: &str) {
    assert_eq!(read(lines), expected, "Accept: {lines}");
}

#[test]
fn types_are_read_in_order_with_quality_one() {
    check("application/json", "1@0 - json-only");
    check("text/event-stream", "- 1@0 sse-only");
    check("application/json, text/event-stream", "1@0 1@1 both");
    check("text/event-stream,application/json", "1@1 1@0 both");
    check("text/html, application/xml, application/json", "1@2 - json-only");
}

#[test]
fn several_lines_are_one_header() {
    check("application/json\ntext/event-stream", "1@0 1@1 both");
    check("text/html,\n\n, text/event-stream;q=0.5\napplication/json", "1@3 0.5@2 both");
}

#[test]
fn case_and_space_do_not_matter() {
    check("APPLICATION/Json ,\tText/Event-Stream;Q=0.5", "1@0 0.5@1 both");
    check("  application / json\t; q = .25 ,text/event-stream ; ; q=.75", "0.25@0 0.75@1 both");
}

#[test]
fn quality_is_read_as_meant() {
    let rows = [
        ("0", "0"),
        ("1", "1"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("1.", "1"),
        ("0.", "0"),
        ("00.5", "0.5"),
        ("0.123456", "0.123456"),
        ("0.9999999999", "0.999999999"),
        ("0.0000000000001", "0.000000001"),
        ("0.00000000000000", "0"),
        ("1.5", "1"),
        ("99999999999999999999", "1"),
        ("-1", "0"),
        ("-0.5", "0"),
        ("+0.5", "0.5"),
        ("\"0.5\"", "0.5"),
        // Not numbers: as if nothing had been said.
        ("", "1"),
        (".", "1"),
        ("-", "1"),
        ("abc", "1"),
        ("0.5x", "1"),
        ("0x1", "1"),
        ("1e-3", "1"),
        ("0.5.5", "1"),
        ("NaN", "1"),
        ("-inf", "1"),
        ("\u{0665}", "1"),
    ];
    for (value, expected) in rows {
        check(&format!("text/html, text/event-stream;q={value}"), &{
            let mode = if expected == "0" { "invalid" } else { "sse-only" };
            format!("- {expected}@1 {mode}")
        });
    }
}

#[test]
fn other_parameters_are_ignored_and_the_first_quality_counts() {
    check("application/json;charset=utf-8;q=0.5;q=0.9", "0.5@0 - json-only");
    check("application/json;level=1", "1@0 - json-only");
    check("application/json;q", "1@0 - json-only");
    check("application/json;qq=0.1;xq=0.2", "1@0 - json-only");
}

#[test]
fn quoted_strings_hide_their_separators() {
    check(r#"application/json;x="a,b;q=0.1";q=0.5, text/event-stream"#, "0.5@0 1@1 both");
    check(r#"application/json;x="\",\"", text/event-stream"#, "1@0 1@1 both");
    check(r#"application/json;x="never closed, text/event-stream"#, "1@0 1@1 both");
    check(r#"application/json;x="\"#, "1@0 - json-only");
}

/// Quadratic reading of either would take hours.
#[test]
fn time_to_read_a_header_is_linear_in_its_length() {
    for junk in ["\"\\\"", "a/b;x=\"\\\",", ",", ";", "\"", " ,"] {
        let line = junk.repeat(4_000_000 / junk.len());
        let line = format!("{line},text/event-stream");
        assert!(parse_accept([line.as_bytes()]).sse.accepted() || junk == ";", "{junk}");
    }
}

#[test]
fn the_more_specific_range_speaks_for_a_type() {
    check("*/*;q=0.1, application/json", "1@1 0.1@0 both");
    check("application/json;q=0.2, */*", "0.2@0 1@1 both");
    check("application/*;q=0.3, */*;q=0.7, application/json;q=0.5", "0.5@2 0.7@1 both");
    check("text/*, text/event-stream;q=0", "- 0@1 invalid");
    check("application/json;q=0, */*", "0@0 1@1 sse-only");
    check("application/json;q=0.1, application/json;q=0.9", "0.9@0 - json-only");
}

#[test]
fn ranges_cover_their_types() {
    check("*/*", "1@0 1@0 wildcard");
    check("*", "1@0 1@0 wildcard");
    check("*;q=0.5", "0.5@0 0.5@0 wildcard");
    check("application/*", "1@0 - json-only");
    check("text/*", "- 1@0 sse-only");
    check("application/*, text/*", "1@0 1@1 both");
    check("*/*;q=0", "0@0 0@0 invalid");
}

#[test]
fn headers_without_a_media_range_are_absent() {
    let junk = ["", " ", "\t", ",", ",,,", ";;;", ";;;malformed", ";q=1", "json", "/", "a/", "/b"];
    let more = ["*/json", "a/b/c", "appli cation/json", "application/js\u{f6}n", "@/@", "**"];
    for header in junk.into_iter().chain(more) {
        check(header, "- - absent");
        check(&format!("{header}, text/event-stream"), &{
            let elements = header.split(',').count();
            format!("- 1@{elements} sse-only")
        });
    }
    assert_eq!(parse_accept([]).mode(), AcceptMode::Absent);
}

#[test]
fn headers_with_other_types_only_are_invalid() {
    check("application/xml", "- - invalid");
    check("text/html, image/*", "- - invalid");
    check("application/jsonp, text/event-streams, application/json+x", "- - invalid");
    check("application/json;q=0, text/event-stream;q=0", "0@0 0@1 invalid");
}

#[test]
fn html_is_told_apart_from_the_range_that_covers_it() {
    let html = |header: &str| parse_accept([header.as_bytes()]).html;
    assert!(html("text/html").named());
    assert!(html("*/*").accepted() && !html("*/*").named());
    assert!(!html("text/html;q=0, */*").accepted());
}

/// Elements that say something about JSON or SSE, and some that do not.
fn element() -> impl Strategy<Value = String> {
    let range = prop::sample::select(vec![
        "application/json",
        "text/event-stream",
        "application/*",
        "text/*",
        "*/*",
        "*",
        "text/html",
        "image/png",
        ";;;",
        "junk",
        "",
    ]);
    let parameters =
        prop::sample::select(vec!["", ";q=0", ";q=0.5", ";q=.7", ";q=1", ";q=x", ";a=b"]);
    (range, parameters).prop_map(|(range, parameters)| format!("{range}{parameters}"))
}

fn header() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(element(), 0..8)
}

fn without_places(lines: &str) -> String {
    let mut acceptance = parse_accept(lines.split('\n').map(str::as_bytes));
    for offer in [&mut acceptance.json, &mut acceptance.sse, &mut acceptance.html] {
        offer.position = 0;
    }
    format!("{acceptance:?}")
}

proptest! {
    #[test]
    fn any_bytes_are_read(lines: Vec<Vec<u8>>) {
        let acceptance = parse_accept(lines.iter().map(Vec::as_slice));
        prop_assert!(acceptance.json.quality <= Quality::ONE);
        prop_assert!(acceptance.sse.quality <= Quality::ONE);
        prop_assert_eq!(acceptance.mode() == AcceptMode::Absent, !acceptance.present);
    }

    #[test]
    fn lines_and_commas_are_alike(elements in header()) {
        prop_assert_eq!(without_places(&elements.join(",")), without_places(&elements.join("\n")));
    }

    #[test]
    fn space_and_case_never_matter(elements in header()) {
        let plain = elements.join(",");
        let spaced = format!(" {}\t", elements.join(" ,\t ").replace(';', " ;\t").replace('=', " = "));
        prop_assert_eq!(read(&plain), read(&spaced));
        prop_assert_eq!(read(&plain), read(&plain.to_ascii_uppercase()));
    }

    #[test]
    fn order_changes_places_only(elements in header(), seed: prop::sample::Index) {
        let mut turned = elements.clone();
        turned.rotate_left(seed.index(elements.len().max(1)).min(elements.len()));
        prop_assert_eq!(without_places(&elements.join(",")), without_places(&turned.join(",")));
        turned.reverse();
        prop_assert_eq!(without_places(&elements.join(",")), without_places(&turned.join(",")));
    }
}
