//! Files and web pages as documents: bytes of some kind become Markdown or text.
//!
//! Only converts. Where bytes come from and where documents go is the caller's business, and so is
//! patience: the work blocks, and a file made to be slow can be slow.

mod charset;
mod docx;
mod front_matter;
mod html;
mod kind;
mod markdown;
mod pdf;
mod slug;

use serde_json::{Map, Value};

use crate::{Error, MimeType, Result, is_hidden};

pub use front_matter::write_front_matter;
pub use kind::Kind;
pub use slug::{path_of_text, path_of_url, slug};

/// The largest file that is looked at.
pub const MAX_INPUT: usize = 16 << 20;
/// The longest text that comes out; a document's own limit may be lower.
pub const MAX_OUTPUT: usize = 16 << 20;

/// Deep trees are walked by recursion in places; this is room for all that passes the limits.
const STACK: usize = 16 << 20;

/// Bytes, and what is known about them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Original<'a> {
    pub bytes: &'a [u8],
    /// The `Content-Type` they came with.
    pub media_type: Option<&'a str>,
    /// The name of the file, or the last part of the URL.
    pub name: Option<&'a str>,
    /// Where a web page was found; its relative links start there.
    pub url: Option<&'a str>,
}

/// What the bytes say, as a document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Converted {
    pub title: Option<String>,
    pub tags: Vec<String>,
    pub metadata: Map<String, Value>,
    pub body: String,
    pub mime_type: MimeType,
}

/// Converts a file or page.
pub fn convert(original: &Original<'_>) -> Result<Converted> {
    if original.bytes.len() > MAX_INPUT {
        return Err(Error::invalid(format!("the file is larger than {MAX_INPUT} bytes")));
    }
    let kind = Kind::of(original)?;
    let charset = original.media_type.and_then(kind::charset);
    let converted = match kind {
        Kind::Markdown => {
            let text = charset::plain_text(original.bytes, charset)?;
            apart("front matter", || Ok(markdown::convert(&text)))
        }
        Kind::Text => charset::plain_text(original.bytes, charset).map(plain),
        Kind::Json => json(&charset::plain_text(original.bytes, charset)?),
        Kind::Html => {
            let text = charset::html(original.bytes, charset);
            apart("the page", || html::convert(&text, original.url))
        }
        Kind::Pdf => apart("the PDF", || pdf::convert(original.bytes)),
        Kind::Docx => apart("the Word file", || docx::convert(original.bytes)),
    }?;
    if converted.body.len() > MAX_OUTPUT {
        return Err(Error::invalid(format!("the text is longer than {MAX_OUTPUT} bytes")));
    }
    Ok(converted)
}

fn plain(body: String) -> Converted {
    Converted { body, mime_type: MimeType::Plain, ..Converted::default() }
}

/// JSON is kept as it is written, if it is JSON.
fn json(text: &str) -> Result<Converted> {
    let whole: std::result::Result<serde::de::IgnoredAny, _> = serde_json::from_str(text);
    match whole {
        Ok(_) => Ok(Converted { mime_type: MimeType::Json, ..plain(text.to_owned()) }),
        Err(error) => Err(Error::invalid(format!("this is not JSON: {error}"))),
    }
}

/// Runs the readers of others where a panic ends in an error and the stack is known.
fn apart<T: Send>(what: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let builder = std::thread::Builder::new().name("convert".to_owned()).stack_size(STACK);
    std::thread::scope(|scope| match builder.spawn_scoped(scope, work) {
        Ok(thread) => thread.join().unwrap_or_else(|_| {
            Err(Error::invalid(format!("{what} cannot be read: it is damaged or unusual")))
        }),
        Err(_) => Err(Error::unavailable("no thread for the conversion; try again later")),
    })
}

/// A title as people would write it: one line, not too long; `None` if nothing is left.
fn tidy_title(text: &str) -> Option<String> {
    const MAX_CHARS: usize = 300;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().filter(|c| !is_hidden(*c)).take(MAX_CHARS).collect();
    Some(short).filter(|title| !title.is_empty())
}

/// Text without characters that only machines see, with lines ending as ours do.
fn tidy_text(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    text.chars()
        .map(|c| if matches!(c, '\r' | '\u{c}' | '\u{2028}' | '\u{2029}') { '\n' } else { c })
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

#[cfg(test)]
mod tests;
