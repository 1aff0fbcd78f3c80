//! Pieces of documents of every shape.

use proptest::prelude::*;

use super::*;

fn words(n: usize) -> String {
    (0..n).map(|at| format!("word{at:04} ")).collect()
}

fn markdown(body: &str) -> Vec<Chunk> {
    chunks("Title", body, MimeType::Markdown)
}

/// What holds for the pieces of any text.
fn check(title: &str, body: &str, mime_type: MimeType) -> Vec<Chunk> {
    let chunks = chunks(title, body, mime_type);
    assert!(chunks.len() <= MAX_CHUNKS);
    assert_eq!(chunks.is_empty(), body.trim().is_empty());
    let mut from = 0;
    for chunk in &chunks {
        let piece = &body[chunk.start..chunk.end];
        assert!(body[from..chunk.start].trim().is_empty(), "text was lost before {}", chunk.start);
        assert!(!piece.is_empty() && piece == piece.trim());
        assert!(piece.chars().count() <= MAX);
        assert!(chunk.text.ends_with(piece) && chunk.text.starts_with(title));
        from = chunk.end;
    }
    assert!(body[from..].trim().is_empty() || chunks.len() == MAX_CHUNKS);
    chunks
}

#[test]
fn a_short_document_is_one_piece() {
    assert_eq!(
        markdown("\n# Title\n\ntext\n"),
        [Chunk { start: 1, end: 14, text: "Title\n# Title\n\ntext".to_owned() }]
    );
    assert_eq!(markdown(" \n\t\n"), []);
}

#[test]
fn pieces_say_where_they_stand() {
    let body = format!("# Guide\n\n## Start\n\n{}\n\n## End\n\n{}\n", words(80), words(80));
    let texts: Vec<String> = markdown(&body).into_iter().map(|chunk| chunk.text).collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].starts_with("Title › Guide\n# Guide\n\n## Start"));
    assert!(texts[1].starts_with("Title › Guide › End\n## End"));
}

#[test]
fn a_heading_that_repeats_the_title_is_not_said_twice() {
    let text = &chunks("guide", "# Guide\n\n## Start\n\ntext", MimeType::Markdown)[0].text;
    assert!(text.starts_with("guide\n"), "{text}");
}

#[test]
fn small_sections_share_a_piece() {
    let body: String = (0..20).map(|at| format!("## Section {at}\n\n{}\n\n", words(10))).collect();
    let chunks = check("t", &body, MimeType::Markdown);
    assert!((4..=6).contains(&chunks.len()), "{}", chunks.len());
    assert!(chunks.iter().all(|chunk| body[chunk.start..].starts_with("## ")));
}

#[test]
fn code_is_cut_only_when_it_must_be() {
    let code = format!("```\n{}```\n", "line of code\n\n".repeat(40));
    for before in [10, 50, 60, 80, 120] {
        let body = format!("{}\n\n{code}\n{}\n", words(before), words(60));
        let chunks = check("t", &body, MimeType::Markdown);
        assert!(chunks.iter().any(|chunk| chunk.text.contains(code.trim_end())), "{before}");
    }
}

#[test]
fn long_blocks_are_cut_at_the_best_place() {
    for (unit, boundary) in [
        ("a line of text\n", "\n"),
        ("A sentence without end of line. ", ". "),
        ("word ", " "),
        ("{\"key\":1},", ","),
        ("日本語の文章です。", "。"),
    ] {
        let body = unit.repeat(1_000);
        let chunks = check("t", &body, MimeType::Plain);
        for chunk in &chunks[..chunks.len() - 1] {
            let with_space = body[chunk.start..].get(..chunk.end - chunk.start + 1);
            let ends_well = body[..chunk.end].ends_with(boundary)
                || with_space.is_some_and(|text| text.ends_with(boundary));
            assert!(ends_well, "{unit:?}");
        }
    }
}

#[test]
fn a_document_of_the_largest_size_is_covered_to_its_end() {
    let heading = "## h\n\n".to_owned() + &"x".repeat(394) + "\n";
    for body in ["x".repeat(4 << 20), "ab ".repeat((4 << 20) / 3), heading.repeat((4 << 20) / 401)]
    {
        let chunks = check("t", &body, MimeType::Markdown);
        assert!(body[chunks.last().unwrap().end..].trim().is_empty(), "{}", chunks.len());
    }
}

#[test]
fn a_huge_heading_or_title_is_not_repeated_before_every_piece() {
    // Each piece would take the whole heading with it: 4096 times 4 MiB.
    let heading = "h".repeat(2 << 20);
    for body in [
        format!("# {heading}\n\n{}", "word ".repeat((2 << 20) / 5)),
        format!("{heading}\n===\n\n## {}\n\n{}", words(100_000), "word ".repeat(200_000)),
        "# a\n".repeat(1 << 20),
        ">".repeat(1 << 20) + &"a\n".repeat(1 << 20),
    ] {
        let chunks = chunks(&"t".repeat(1024), &body, MimeType::Markdown);
        let total: usize = chunks.iter().map(|chunk| chunk.text.len()).sum();
        assert!(total <= body.len() + chunks.len() * 2 * MAX_PLACE, "{total}");
    }
}

proptest! {
    #[test]
    fn any_text_is_cut(title in any::<String>(), body in any::<String>(), times in 1_usize..200) {
        let body = body.repeat(times);
        for mime_type in [MimeType::Markdown, MimeType::Plain, MimeType::Json] {
            check(&title, &body, mime_type);
        }
    }

    #[test]
    fn any_markdown_is_cut(
        parts in prop::collection::vec(("(#{1,6} |> |- |```\n|~~~|\\||)", "[a-zé日🙂. ]{0,300}", "(\n|\n\n|\r\n|)"), 0..40),
    ) {
        let body: String = parts.into_iter().map(|(a, b, c)| a + &b + &c).collect();
        check("Title", &body, MimeType::Markdown);
    }
}
