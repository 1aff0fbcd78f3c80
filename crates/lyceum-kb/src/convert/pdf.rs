//! PDF files: the text of their pages.
//!
//! The reader behind this panics on what it does not expect and follows references without looking
//! back, so pages are read one by one, each guarded, and loops are looked for first. It does not
//! bound what it inflates; who reads files of strangers gives this a process of its own.

mod loops;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, Object, PlainTextOutput, output_doc_page};
use serde_json::{Map, Value};

use super::{Converted, MAX_OUTPUT, tidy_text, tidy_title};
use crate::{Error, MimeType, Result};

const MAX_PAGES: u32 = 5000;

pub(super) fn convert(bytes: &[u8]) -> Result<Converted> {
    let mut document = load(bytes)?;
    drop_images(&mut document);
    let n_pages = document.get_pages().len().try_into().unwrap_or(u32::MAX);
    if n_pages > MAX_PAGES {
        return Err(Error::invalid(format!("the PDF has more than {MAX_PAGES} pages")));
    }
    loops::refuse(&document)?;
    let (body, unreadable) = read(&document, n_pages)?;
    if body.is_empty() {
        return Err(Error::invalid(
            "the PDF holds no text that can be read; if its pages are pictures, recognise their text first",
        ));
    }
    let mut metadata = Map::from_iter([("pages".to_owned(), Value::from(n_pages))]);
    if !unreadable.is_empty() {
        metadata.insert("unreadable_pages".to_owned(), unreadable.into());
    }
    if let Some(author) = info(&document, b"Author") {
        metadata.insert("author".to_owned(), author.into());
    }
    let title = info(&document, b"Title");
    Ok(Converted { title, tags: Vec::new(), metadata, body, mime_type: MimeType::Plain })
}

fn load(bytes: &[u8]) -> Result<Document> {
    let mut document = Document::load_mem(bytes)
        .map_err(|error| Error::invalid(format!("the PDF cannot be read: {error}")))?;
    // Many files are encrypted against changes only, with an empty password.
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Err(Error::invalid("the PDF is protected by a password; save it without one"));
    }
    Ok(document)
}

/// Pictures have no text, but would be unpacked and read as if they had.
fn drop_images(document: &mut Document) {
    for object in document.objects.values_mut() {
        let Object::Stream(stream) = object else { continue };
        if stream.dict.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Image")
        {
            stream.dict.remove(b"Filter");
            stream.dict.remove(b"DecodeParms");
            stream.set_content(Vec::new());
        }
    }
}

/// The text of all pages, and which pages could not be read.
fn read(document: &Document, n_pages: u32) -> Result<(String, Vec<u32>)> {
    let mut body = String::new();
    let mut unreadable = Vec::new();
    for number in 1..=n_pages {
        let page = catch_unwind(AssertUnwindSafe(|| {
            let mut text = String::new();
            let mut output = PlainTextOutput::new(&mut text);
            output_doc_page(document, &mut output, number).map(|()| text)
        }));
        let Ok(Ok(text)) = page else {
            unreadable.push(number);
            continue;
        };
        let text = tidy_page(&text);
        if !body.is_empty() && !text.is_empty() {
            body.push('\n');
        }
        body.push_str(&text);
        if body.len() > MAX_OUTPUT {
            return Err(Error::invalid("the PDF holds too much text; split it"));
        }
    }
    Ok((body, unreadable))
}

/// Lines without blanks around them, and one empty line where there were several.
fn tidy_page(text: &str) -> String {
    let mut page = String::new();
    let mut blank = true;
    for line in tidy_text(text).lines().map(str::trim) {
        if !line.is_empty() || !blank {
            page.push_str(line);
            page.push('\n');
        }
        blank = line.is_empty();
    }
    let end = page.trim_end().len();
    page.truncate(end);
    if !page.is_empty() {
        page.push('\n');
    }
    page
}

/// An entry of the document's information.
fn info(document: &Document, key: &[u8]) -> Option<String> {
    let info = document.trailer.get(b"Info").ok()?;
    let (_, info) = document.dereference(info).ok()?;
    let (_, value) = document.dereference(info.as_dict().ok()?.get(key).ok()?).ok()?;
    tidy_title(&pdf_extract::decode_text_string(value).ok()?)
}
