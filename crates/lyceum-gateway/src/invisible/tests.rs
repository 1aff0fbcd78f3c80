//! What is found, what is taken out, and what is left alone.

use super::*;

fn kinds(text: &str) -> Vec<Kind> {
    hidden(text).map(|(_, _, kind)| kind).collect()
}

#[test]
fn every_kind_of_hidden_character_is_known() {
    let rows: &[(&str, &[Kind])] = &[
        ("plain\ttext\r\n", &[]),
        ("a\u{202e}b", &[Kind::Bidi]),
        ("a\u{2067}b\u{2069}", &[Kind::Bidi, Kind::Bidi]),
        ("a\u{200b}b", &[Kind::ZeroWidth]),
        ("\u{feff}a", &[Kind::ZeroWidth]),
        ("a\u{200d}b", &[Kind::ZeroWidth]),
        ("a\u{ad}b\u{2060}", &[Kind::ZeroWidth, Kind::ZeroWidth]),
        ("\u{e0041}\u{e007f}", &[Kind::Tag, Kind::Tag]),
        ("a\u{fe0f}", &[Kind::Variation]),
        ("😀\u{e0101}", &[Kind::Variation]),
        ("\u{1b}[0m\u{85}", &[Kind::Control, Kind::Control]),
        ("\u{e000}", &[Kind::PrivateUse]),
        ("\u{10fffd}", &[Kind::PrivateUse]),
    ];
    for (text, expected) in rows {
        assert_eq!(&kinds(text), expected, "{}", text.escape_unicode());
    }
}

#[test]
fn writing_of_all_kinds_is_left_alone() {
    // Emoji with selectors and joiners, key caps, Persian with a non-joiner, Sinhala with a joiner.
    let texts =
        ["⚠️ ❤️", "👨‍👩‍👧 🏳️‍🌈", "1️⃣", "می‌خواهم", "ක්‍ෂ", "日本語", "naïve — “x” …", "Ελ", "\u{fffd}"];
    for text in texts {
        assert_eq!(kinds(text), [], "{text} {}", text.escape_unicode());
        assert_eq!(visible(text), text);
    }
}

#[test]
fn findings_say_where() {
    let definition = r#"{"name":"a\u200bb","description":"x\udb40\udc41","inputSchema":
        {"properties":{"k\u202e":{"enum":["ok","\u2060"]}}}}"#;
    let findings: Vec<String> = find(definition).iter().map(Finding::to_string).collect();
    assert_eq!(
        findings,
        [
            "a zero-width character U+200B in name, character 1",
            "a tag character U+E0041 in description, character 1",
            "a bidi control U+202E in inputSchema/properties/k\\u{202e}, character 1",
            "a zero-width character U+2060 in inputSchema/properties/k\\u{202e}/enum/1, character 0",
        ]
    );
    assert_eq!(find("no JSON \u{200b}"), []);
}

#[test]
fn findings_are_bounded() {
    let hidden = "\u{200b}".repeat(10_000);
    let definition = format!(r#"{{"a":"{hidden}","b":["{hidden}"]}}"#);
    assert_eq!(find(&definition).len(), MAX_FINDINGS);
}

#[test]
fn only_prose_is_stripped_and_the_rest_stays_as_it_was() {
    let definition = r#"{"z": 1.0, "name": "a\u200b", "description": "b\u200bc",
        "inputSchema": {"properties": {"k\u200b": {"title": "\u202ex", "const": "\u200b"}}}}"#;
    assert_eq!(
        strip(definition),
        "{\"z\":1.0,\"name\":\"a\u{200b}\",\"description\":\"bc\",\"inputSchema\":{\"properties\":\
         {\"k\u{200b}\":{\"title\":\"x\",\"const\":\"\u{200b}\"}}}}"
    );
    for untouched in [r#"{ "description" : "a\nb" }"#, r#"{"name":"\u200b"}"#, "nonsense \u{200b}"]
    {
        assert!(matches!(strip(untouched), Cow::Borrowed(_)), "{untouched}");
    }
}

#[test]
fn what_is_stray_only_afterwards_goes_too() {
    let mut text = "a\u{200b}\u{200d}é\u{fe0f}\u{fe0f}".to_owned();
    assert!(clear_text(&mut text));
    assert_eq!(text, "aé");
}

#[test]
fn hidden_characters_are_spelled_out() {
    assert_eq!(visible("a\u{202e}b\n"), "a\\u{202e}b\\u{a}");
}
