//! Word files: headings, paragraphs, lists, tables, emphasis and links, as Markdown.

mod body;
mod inline;
mod package;
mod styles;
mod xml;

use serde_json::Map;

use super::{Converted, tidy_title};
use crate::{MimeType, Result};

use package::Package;
use styles::Styles;

pub(super) fn convert(bytes: &[u8]) -> Result<Converted> {
    let mut package = Package::open(bytes)?;
    let document = package.required("word/document.xml")?;
    let styles = Styles::read(
        &package.part("word/styles.xml")?,
        &package.part("word/numbering.xml")?,
        &package.part("word/_rels/document.xml.rels")?,
    );
    let text = body::markdown(&document, &styles)?;
    let core = xml::texts(&package.part("docProps/core.xml")?);
    let property = |name: &str| {
        core.iter().find(|(element, _)| element == name).and_then(|(_, text)| tidy_title(text))
    };
    let mut metadata = Map::new();
    if let Some(author) = property("creator") {
        metadata.insert("author".to_owned(), author.into());
    }
    let keywords = property("keywords").unwrap_or_default();
    let mut tags: Vec<String> = keywords.split([',', ';']).filter_map(tidy_title).collect();
    tags.dedup();
    Ok(Converted {
        title: property("title").or(text.title),
        tags,
        metadata,
        body: text.markdown,
        mime_type: MimeType::Markdown,
    })
}
