//! Outlines of documents as agents write them.

use proptest::prelude::*;
use serde_json::json;
use tokio::time::{Duration, Instant};

use super::*;

const GUIDE: &str = "\
intro

# Guide

text

## Set up

### Linux

apt

### macOS

brew

## Run `it`

### Linux

go

Appendix
========
end
";

fn outline(body: &str) -> Outline {
    Outline::new(body, MimeType::Markdown)
}

/// `body`'s headings as "level text line".
#[track_caller]
fn check(body: &str, expected: &[&str]) {
    let outline = outline(body);
    let found: Vec<String> = outline
        .headings()
        .iter()
        .map(|heading| format!("{} {} {}", heading.level, heading.text, heading.line))
        .collect();
    assert_eq!(found, expected, "{body:?}");
}

#[test]
fn headings_have_level_text_and_line() {
    check(
        GUIDE,
        &[
            "1 Guide 3",
            "2 Set up 7",
            "3 Linux 9",
            "3 macOS 13",
            "2 Run it 17",
            "3 Linux 19",
            "1 Appendix 23",
        ],
    );
    check("", &[]);
    check("# A\r\n\r\n## *B* [c](d) ##\r\n", &["1 A 1", "2 B c 3"]);
    check("two\nlines\n---\n", &["2 two lines 1"]);
    check("   # indented", &["1 indented 1"]);
    check("#no space\n\n####### seven", &[]);
    check("#", &["1  1"]);
}

#[test]
fn only_real_headings_count() {
    check("```sh\n# comment\n```\n\n    # code\n", &[]);
    check("~~~\n# open for ever\n", &[]);
    check("> # quoted\n\n- # listed\n", &[]);
    check("<!--\n# hidden\n-->\n", &[]);
    check("---\ntitle: x\n---\n\n# A\n", &["1 A 5"]);
    check("\\# escaped", &[]);
}

#[test]
fn other_kinds_of_text_have_no_headings() {
    for mime_type in [MimeType::Plain, MimeType::Json] {
        assert_eq!(Outline::new("# A\n", mime_type).headings(), []);
    }
}

#[test]
fn a_section_ends_at_the_next_heading_of_its_rank() {
    let outline = outline(GUIDE);
    for (name, expected) in [
        ("macOS", "### macOS\n\nbrew\n\n"),
        ("set UP", "## Set up\n\n### Linux\n\napt\n\n### macOS\n\nbrew\n\n"),
        ("## Set  up", "## Set up\n\n### Linux\n\napt\n\n### macOS\n\nbrew\n\n"),
        ("Set up > Linux", "### Linux\n\napt\n\n"),
        ("guide › run it › linux", "### Linux\n\ngo\n\n"),
        ("Guide > macOS", "### macOS\n\nbrew\n\n"),
        ("Appendix", "Appendix\n========\nend\n"),
    ] {
        let section = outline.section(name).unwrap();
        assert_eq!(&GUIDE[section.start..section.end], expected, "{name}");
    }
}

#[test]
fn a_heading_may_contain_the_separator() {
    let outline = outline("# A\n## B\n# A > B\n");
    assert_eq!(outline.section("a > b").unwrap().line, 3);
}

#[test]
fn an_ambiguous_section_names_its_lines() {
    let error = outline(GUIDE).section("Linux").unwrap_err();
    assert_eq!(error.code(), Code::Ambiguous);
    assert_eq!(error.details()["lines"], json!([9, 19]));
    assert_eq!(error.details()["occurrences"], 2);
    assert_eq!(error.details()["outline"][1]["section"], "Guide > Run it > Linux");
}

#[test]
fn an_unknown_section_comes_with_the_outline() {
    for name in ["Windows", "", ">", "Appendix > Linux", "Linux > Set up", "Set up > "] {
        let error = outline(GUIDE).section(name).unwrap_err();
        assert_eq!(error.code(), Code::NotFound, "{name}");
        assert_eq!(
            error.details()["outline"][1],
            json!({"section": "Guide > Set up", "level": 2, "line": 7})
        );
    }
    let error = outline("plain").section("x").unwrap_err();
    assert!(error.message().contains("no headings"), "{error}");
}

#[test]
fn every_byte_stands_under_its_headings() {
    for (text, expected) in [
        ("intro", &[][..]),
        ("# Guide", &["Guide"]),
        ("apt", &["Guide", "Set up", "Linux"]),
        ("go", &["Guide", "Run it", "Linux"]),
        ("Appendix", &["Appendix"]),
        ("end\n", &["Appendix"]),
    ] {
        let at = GUIDE.find(text).unwrap();
        assert_eq!(outline(GUIDE).path_at(at), expected, "{text}");
        assert_eq!(path_at(GUIDE, MimeType::Markdown, at), expected, "{text}");
    }
    assert_eq!(path_at(GUIDE, MimeType::Markdown, usize::MAX), ["Appendix"]);
}

#[test]
fn long_headings_are_cut_and_found_by_their_whole_text_too() {
    let long = "héading ".repeat(100_000);
    let body = format!("# {long}\n\n## Child\n\ntext\n");
    let outline = outline(&body);
    let heading = &outline.headings()[0];
    assert_eq!(heading.text.chars().count(), MAX_HEADING);
    assert!(heading.text.ends_with('…'));
    assert_eq!(outline.section(&heading.text).unwrap().line, 1);
    assert_eq!(outline.section(&long[..4000]).unwrap().line, 1);
    let child = format!("{} > child", &heading.text);
    assert_eq!(outline.section(&child).unwrap().line, 3);
    assert_eq!(outline.section(&long).unwrap_err().code(), Code::InvalidArgument);
}

#[test]
fn a_section_below_a_long_heading_among_many_is_found_in_linear_time() {
    // Lower-casing the parent for every heading takes 10^11 steps.
    let started = Instant::now();
    let body = format!("# {}\n{}", "x".repeat(1 << 20), "## y\n".repeat(100_000));
    let outline = outline(&body);
    let error = outline.section("x > z").unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    let size = |error: &Error| json!(error.details()).to_string().len() + error.message().len();
    assert!(size(&error) < 2 * MAX_LISTED_BYTES, "{}", size(&error));
    let error = outline.section("y").unwrap_err();
    assert_eq!(error.details()["occurrences"], MAX_HEADINGS - 1);
    assert!(size(&error) < 2 * MAX_LISTED_BYTES, "{}", size(&error));
    let error = outline.section(&"?".repeat(8000)).unwrap_err();
    assert!(error.message().len() < 300, "{error}");
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[test]
fn headings_beyond_the_limit_still_end_sections() {
    let body = "# a\n".to_owned() + &"## b\n".repeat(MAX_HEADINGS) + "# c\nend\n";
    let outline = outline(&body);
    assert_eq!(outline.headings().len(), MAX_HEADINGS);
    let first = &outline.headings()[0];
    assert!(body[..first.end].ends_with("## b\n"));
    assert!(outline.headings().iter().all(|heading| heading.end < body.len()));
}

#[test]
fn no_markup_takes_for_ever() {
    // The parser alone takes minutes for the first of these.
    let started = Instant::now();
    let n = 1 << 20;
    for body in [
        ">".repeat(n) + "a\n" + &"b\n".repeat(n),
        ">".repeat(n),
        "[".repeat(n),
        "*a ".repeat(n / 3),
        "- ".repeat(n / 2),
        "<".repeat(n),
        "`".repeat(n),
        "![".repeat(n / 2),
        "[a]: b\n".repeat(n / 7),
        "_*".repeat(n / 2),
        "|a".repeat(1000) + "\n" + &"|-".repeat(1000) + "\n" + &"|x\n".repeat(n / 3),
    ] {
        let (outline, blocks) = Outline::with_blocks(&body, MimeType::Markdown);
        assert!(outline.headings().is_empty() && blocks.is_sorted());
    }
    assert!(started.elapsed() < Duration::from_secs(100), "{:?}", started.elapsed());
}

proptest! {
    #[test]
    fn every_text_has_an_outline(
        body in r"([#>\-=`~*|\[\]()!<&_ \t\r\n]|# |## |---\n|```\n|a|é|日|🙂|\u{0}|\u{2028})*",
        name in any::<String>(),
        offset in 0_usize..100,
    ) {
        let outline = outline(&body);
        for heading in outline.headings() {
            prop_assert!(body.get(heading.start..heading.end).is_some());
            prop_assert!(heading.start < heading.end);
            prop_assert_eq!(heading.line, newlines(&body[..heading.start]) + 1);
            // Found by its own path, alone or among others.
            let unknown = matches!(outline.section(&heading.text), Err(error) if error.code() == Code::NotFound);
            prop_assert!(!unknown);
        }
        let _ = outline.section(&name);
        prop_assert_eq!(outline.path_at(offset), path_at(&body, MimeType::Markdown, offset));
        prop_assert!(Outline::with_blocks(&body, MimeType::Markdown).1.is_sorted());
    }

    #[test]
    fn any_unicode_has_an_outline(body in any::<String>()) {
        let _ = outline(&body);
        let _ = Outline::with_blocks(&body, MimeType::Markdown).1;
    }
}
