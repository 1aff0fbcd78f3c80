//! Real files of every kind, and files made to do harm.

use std::io::{Cursor, Write};

use proptest::prelude::*;
use serde_json::json;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::*;

const DOCX: &[u8] = include_bytes!("../../tests/fixtures/harbour.docx");
const PDF: &[u8] = include_bytes!("../../tests/fixtures/harbour.pdf");

fn named(name: &str, bytes: &[u8]) -> Result<Converted> {
    convert(&Original { bytes, name: Some(name), ..Original::default() })
}

#[test]
fn a_word_file_becomes_markdown() {
    let converted = named("harbour.docx", DOCX).unwrap();
    assert_eq!(converted.title.as_deref(), Some("Harbour handbook"));
    assert_eq!(converted.tags, ["boats", "harbour"]);
    assert_eq!(Value::from(converted.metadata), json!({"author": "M. Quay"}));
    assert_eq!(converted.mime_type, MimeType::Markdown);
    let expected = r"# Harbour handbook

# Moorings

Boats tie up at the **north** pier, *never* at the south one. Cost: 3 \< 5 & up\*.

See [the tide table](<https://example.com/tides?a=1&b=2>)

## Rules

1. Ask first
1. Pay later

- Rope
    - Long rope
- Fender

| Berth | Depth |
| --- | --- |
| A\|1 | 3 m |

1\. not a list
";
    assert_eq!(converted.body, expected);
}

#[test]
fn a_pdf_becomes_text() {
    let converted = named("harbour.pdf", PDF).unwrap();
    assert_eq!(converted.title.as_deref(), Some("Tide table"));
    assert_eq!(Value::from(converted.metadata), json!({"author": "M. Quay", "pages": 2}));
    assert_eq!(converted.mime_type, MimeType::Plain);
    let expected =
        "High water at Saltmarsh: 06:14\n\nLow water: 12:31\n\nSecond page: neap tides\n";
    assert_eq!(converted.body, expected);
}

const PAGE: &str = r#"<!doctype html><html lang=en><head><title>Tides | Harbour News</title>
<meta name=author content="M. Quay"><meta property="og:site_name" content="Harbour News">
<script>alert("no")</script><style>p{}</style></head><body>
<nav><a href=/>Home</a><a href=/about>About</a></nav>
<article><h1>Tides</h1><p>The tide at Saltmarsh rises twice a day, and whoever moors at the north pier should know when, because the water leaves nothing there but mud and a few annoyed crabs.</p>
<h2>Spring tides</h2><p>At new and full moon the range is <b>largest</b>, <a href="table.html">as the table shows</a>, and boats should have <code>fenders</code> out. Keep the ropes long enough for six metres of range.</p>
<ul><li>Rope</li><li>Fender<ul><li>Long</li></ul></li></ul>
<table><tr><th>Berth</th><th>Depth</th></tr><tr><td>A</td><td>3 m</td></tr></table>
<pre><code class=language-sh>tide --now
tide --next</code></pre>
<p>Neap tides are smaller, and nobody needs to worry about them at all unless the wind has blown from the east for several days in a row.</p></article>
<footer>Copyright</footer></body></html>"#;

#[test]
fn a_page_becomes_markdown_without_its_frame() {
    let converted = convert(&Original {
        bytes: PAGE.as_bytes(),
        media_type: Some("text/html"),
        url: Some("https://example.com/tides/"),
        name: None,
    })
    .unwrap();
    assert_eq!(converted.title.as_deref(), Some("Tides | Harbour News"));
    let metadata = json!({"author": "M. Quay", "site": "Harbour News", "language": "en"});
    assert_eq!(Value::from(converted.metadata), metadata);
    let body = &converted.body;
    assert!(body.starts_with("The tide at Saltmarsh rises twice a day"), "{body}");
    for kept in [
        "\n\n## Spring tides\n\n",
        "**largest**, [as the table shows](https://example.com/tides/table.html)",
        "`fenders`",
        "- Rope\n- Fender\n    - Long\n",
        "| A | 3 m |\n",
        "```\ntide --now\ntide --next\n```\n",
        "Neap tides",
    ] {
        assert!(body.contains(kept), "{kept:?} is missing:\n{body}");
    }
    for dropped in ["alert", "p{}", "About", "Copyright"] {
        assert!(!body.contains(dropped), "{dropped:?} is left:\n{body}");
    }
}

#[test]
fn a_page_without_an_article_is_kept_whole() {
    let links: String = (0..50).map(|n| format!("<li><a href=/{n}>Page {n}</a></li>")).collect();
    let page = format!("<title>Index</title><nav>menu</nav><ul>{links}</ul><script>x()</script>");
    let converted = named("index.html", page.as_bytes()).unwrap();
    assert_eq!(converted.title.as_deref(), Some("Index"));
    assert!(converted.body.contains("- [Page 49](/49)"), "{}", converted.body);
    assert!(!converted.body.contains("x()"));
    assert_eq!(named("x.html", b"").unwrap().body, "");
    assert_eq!(named("x.html", b"just words").unwrap().body, "just words\n");
}

#[test]
fn texts_are_kept_as_they_are() {
    let text = named("a.txt", b"a *b*\r\n").unwrap();
    assert_eq!((text.body.as_str(), text.mime_type), ("a *b*\n", MimeType::Plain));
    let json = named("a.json", b"{\"b\" : 1}").unwrap();
    assert_eq!((json.body.as_str(), json.mime_type), ("{\"b\" : 1}", MimeType::Json));
    assert!(named("a.json", b"{").is_err());
    assert!(named("a.txt", b"\0").is_err());
    assert!(named("a.txt", &vec![b'x'; MAX_INPUT + 1]).is_err());
}

fn zipped(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in parts {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn a_word_file_that_unpacks_beyond_bounds_is_refused() {
    let bomb = zipped(&[("word/document.xml", &vec![b' '; (64 << 20) + 1])]);
    assert!(bomb.len() < 1 << 20);
    let error = named("bomb.docx", &bomb).unwrap_err();
    assert!(error.message().contains("unpacks"), "{error}");
    assert!(named("x.docx", &zipped(&[("a", b"b")])).is_err());
}

#[test]
fn what_word_marks_as_gone_or_doubled_is_left_out() {
    let xml = "<w:document xmlns:w='w' xmlns:mc='mc'><w:body><w:p><w:r><w:t>a &amp; &#98;</w:t></w:r>\
        <w:del><w:r><w:t>gone</w:t></w:r></w:del><mc:AlternateContent><mc:Choice><w:r><w:t> box</w:t></w:r>\
        </mc:Choice><mc:Fallback><w:r><w:t>box</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>\
        <w:p><w:pPr><w:rPr><w:b/></w:rPr></w:pPr><w:r><w:rPr><w:b w:val='0'/></w:rPr><w:t>plain</w:t></w:r></w:p>\
        </w:body></w:document>";
    let converted = named("x.docx", &zipped(&[("word/document.xml", xml.as_bytes())])).unwrap();
    assert_eq!(converted.body, "a & b box\n\nplain\n");
}

#[test]
fn pages_that_grow_or_nest_beyond_bounds_are_refused_quickly() {
    let formats: String = (0..50_000).map(|n| format!("<b a{n}>")).collect();
    for page in [
        "<div>".repeat(1 << 20),
        "<ul><li>".repeat(1 << 18),
        "<table><tr><td>".repeat(1 << 17),
        format!("<p>{formats}</p>{}", "<p>x</p>".repeat(50_000)),
        "<br>".repeat(1 << 20),
    ] {
        let error = named("x.html", page.as_bytes()).unwrap_err();
        assert!(error.message().contains("too deeply"), "{error}");
    }
    let fine = format!("{}deep{}", "<div>".repeat(200), "</div>".repeat(200));
    assert_eq!(named("x.html", fine.as_bytes()).unwrap().body, "deep\n");
}

/// A PDF with one page that draws `/F`, a drawing with this content.
fn drawing(content: &str, with_resources: bool, parent_is_itself: bool) -> Vec<u8> {
    use pdf_extract::{Dictionary, Document, Object, Stream};
    let name = |name: &str| Object::Name(name.as_bytes().to_vec());
    let mut document = Document::with_version("1.5");
    let (pages, page, form) =
        (document.new_object_id(), document.new_object_id(), document.new_object_id());
    let drawings = Dictionary::from_iter([("F", Object::Reference(form))]);
    let resources = Dictionary::from_iter([("XObject", Object::Dictionary(drawings))]);
    let mut form_entries = Dictionary::from_iter([("Subtype", name("Form"))]);
    if with_resources {
        form_entries.set("Resources", Object::Dictionary(resources.clone()));
    }
    document.objects.insert(form, Stream::new(form_entries, content.as_bytes().to_vec()).into());
    let contents = document.add_object(Stream::new(Dictionary::new(), b"/F Do".to_vec()));
    let entries = [
        ("Type", name("Page")),
        ("Parent", Object::Reference(if parent_is_itself { page } else { pages })),
        ("Contents", Object::Reference(contents)),
        ("Resources", Object::Dictionary(resources)),
    ];
    document.objects.insert(page, Dictionary::from_iter(entries).into());
    let entries = [
        ("Type", name("Pages")),
        ("Kids", vec![Object::Reference(page)].into()),
        ("Count", 1.into()),
        ("MediaBox", vec![0.into(), 0.into(), 9.into(), 9.into()].into()),
    ];
    document.objects.insert(pages, Dictionary::from_iter(entries).into());
    let catalog = [("Type", name("Catalog")), ("Pages", Object::Reference(pages))];
    let catalog = document.add_object(Dictionary::from_iter(catalog));
    document.trailer.set("Root", Object::Reference(catalog));
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    bytes
}

#[test]
fn pdf_files_that_refer_to_themselves_are_refused() {
    for (content, with_resources, parent_is_itself) in [
        ("/F Do", true, false),
        ("/F Do", false, false),
        ("q /#46 Do Q", true, false),
        ("", true, true),
    ] {
        let error =
            named("x.pdf", &drawing(content, with_resources, parent_is_itself)).unwrap_err();
        assert!(error.message().contains("refers to itself"), "{content}: {error}");
    }
    let error = named("x.pdf", &drawing("0 0 m", false, false)).unwrap_err();
    assert!(error.message().contains("no text"), "{error}");
}

fn damaged(file: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let flips = prop::collection::vec((0..file.len(), any::<u8>()), 0..8);
    (0..=file.len(), flips).prop_map(|(end, flips)| {
        let mut bytes = file.to_vec();
        for (at, byte) in flips {
            bytes[at] = byte;
        }
        bytes.truncate(end.max(file.len() / 2));
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for name in ["x.md", "x.html", "x.pdf", "x.docx", "x.txt", "x.json", "x"] {
            let _ = named(name, &bytes);
        }
    }

    #[test]
    fn damaged_files_never_panic(docx in damaged(DOCX), pdf in damaged(PDF), page in damaged(PAGE.as_bytes())) {
        let _ = named("x.docx", &docx);
        let _ = named("x.pdf", &pdf);
        prop_assert!(named("x.html", &page).is_ok());
    }

    #[test]
    fn tag_soup_never_panics(
        soup in "(<(/?(b|i|p|div|table|tr|td|li|ul|a|h1|pre|svg|math|template|select|option|form)( x='y')?)>|x| |&lt;|<!--|-->){0,200}"
    ) {
        let _ = named("x.html", soup.as_bytes());
    }
}
