//! [`Kind`]: what a file is, by what it was called, what it came as, and how it starts.

use super::Original;
use crate::{Error, Result};

/// A kind of file that can become a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Markdown,
    Html,
    Pdf,
    Docx,
    Text,
    Json,
}

const BY_EXTENSION: [(&str, Kind); 16] = [
    ("md", Kind::Markdown),
    ("markdown", Kind::Markdown),
    ("mdown", Kind::Markdown),
    ("mdx", Kind::Markdown),
    ("html", Kind::Html),
    ("htm", Kind::Html),
    ("xhtml", Kind::Html),
    ("pdf", Kind::Pdf),
    ("docx", Kind::Docx),
    ("txt", Kind::Text),
    ("text", Kind::Text),
    ("log", Kind::Text),
    ("rst", Kind::Text),
    ("org", Kind::Text),
    ("adoc", Kind::Text),
    ("json", Kind::Json),
];

const BY_MEDIA_TYPE: [(&str, Kind); 8] = [
    ("text/markdown", Kind::Markdown),
    ("text/x-markdown", Kind::Markdown),
    ("text/html", Kind::Html),
    ("application/xhtml+xml", Kind::Html),
    ("application/pdf", Kind::Pdf),
    ("application/x-pdf", Kind::Pdf),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", Kind::Docx),
    ("application/json", Kind::Json),
];

/// Media types that servers use when they do not know.
const VAGUE: [&str; 6] = [
    "",
    "text/plain",
    "application/octet-stream",
    "binary/octet-stream",
    "application/zip",
    "application/x-download",
];

impl Kind {
    /// The kind of files whose name ends like this, without the dot.
    pub fn of_extension(extension: &str) -> Option<Kind> {
        let named = |(known, _): &&(&str, Kind)| known.eq_ignore_ascii_case(extension);
        BY_EXTENSION.iter().find(named).map(|(_, kind)| *kind)
    }

    /// What the bytes are: what the server says if it says something definite, else what the name
    /// says, else what they look like.
    pub fn of(original: &Original<'_>) -> Result<Kind> {
        let media_type = original.media_type.map(essence).unwrap_or_default();
        if let Some((_, kind)) = BY_MEDIA_TYPE.iter().find(|(known, _)| *known == media_type) {
            return Ok(*kind);
        }
        if media_type.ends_with("+json") {
            return Ok(Kind::Json);
        }
        if !VAGUE.contains(&media_type.as_str()) && !media_type.starts_with("text/") {
            let known = "Markdown, HTML, PDF, Word (.docx), JSON and plain text are";
            return Err(Error::invalid(format!("{media_type} cannot be read; {known}")));
        }
        let extension = original.name.and_then(|name| name.rsplit_once('.'));
        let named = extension.and_then(|(_, extension)| Kind::of_extension(extension));
        Ok(named.unwrap_or_else(|| look(original.bytes)))
    }
}

/// The `charset` parameter of a media type.
pub(super) fn charset(media_type: &str) -> Option<&str> {
    media_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let named = name.trim().eq_ignore_ascii_case("charset");
        named.then(|| value.trim().trim_matches('"'))
    })
}

fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// How many bytes from the start are looked at.
const LOOK: usize = 1024;

fn look(bytes: &[u8]) -> Kind {
    let start = &bytes[..bytes.len().min(LOOK)];
    if start.starts_with(b"PK\x03\x04") {
        return Kind::Docx;
    }
    // Readers of PDF files allow for something in front.
    if start.windows(5).any(|window| window == b"%PDF-") {
        return Kind::Pdf;
    }
    let text = String::from_utf8_lossy(start);
    let text = text.trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
    let html = ["<!doctype html", "<html", "<head", "<body"];
    if html.iter().any(|tag| text.starts_with(tag)) {
        return Kind::Html;
    }
    Kind::Text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(media_type: &str, name: &str, bytes: &[u8], expected: Option<Kind>) {
        let original = Original {
            bytes,
            media_type: Some(media_type).filter(|media_type| !media_type.is_empty()),
            name: Some(name).filter(|name| !name.is_empty()),
            url: None,
        };
        assert_eq!(Kind::of(&original).ok(), expected, "{media_type} {name}");
    }

    #[test]
    fn a_definite_media_type_decides_then_the_name_then_the_bytes() {
        check("text/html; charset=utf-8", "x.md", b"", Some(Kind::Html));
        check("Text/HTML", "", b"", Some(Kind::Html));
        check("text/plain; charset=utf-8", "README.md", b"", Some(Kind::Markdown));
        check("application/octet-stream", "a.PDF", b"", Some(Kind::Pdf));
        check("", "a.tar.docx", b"", Some(Kind::Docx));
        check("application/ld+json", "", b"", Some(Kind::Json));
        check("", "noname", b"\xef\xbb\xbf <!DOCTYPE HTML>", Some(Kind::Html));
        check("", "", b"junk %PDF-1.4", Some(Kind::Pdf));
        check("text/plain", "", b"PK\x03\x04", Some(Kind::Docx));
        check("text/x-rust", "main.rs", b"fn main", Some(Kind::Text));
        check("image/png", "a.md", b"", None);
        check("application/zip", "a.docx", b"", Some(Kind::Docx));
        check("", "", b"", Some(Kind::Text));
    }

    #[test]
    fn a_charset_is_found_among_parameters() {
        for (media_type, expected) in [
            ("text/html; charset=utf-8", Some("utf-8")),
            ("text/html;a=b; CHARSET=\"x\"", Some("x")),
            ("text/html", None),
            ("text/html; charset", None),
        ] {
            assert_eq!(charset(media_type), expected, "{media_type}");
        }
    }
}
