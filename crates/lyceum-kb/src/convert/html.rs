//! Web pages: the part people read, as Markdown.

use dom_query::{Document, NodeRef};
use dom_smoothie::{Article, Config, Readability, TextMode};
use html5ever::tendril::TendrilSink;
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};
use serde_json::{Map, Value};

use super::{Converted, tidy_text, tidy_title};
use crate::{Error, MimeType, Result};

/// Pages have a few thousand nodes; a hundred times that is an attack or a dump.
const MAX_NODES: usize = 300_000;
/// Trees are walked by recursion, and every open element costs time for each tag that follows.
const MAX_DEPTH: usize = 256;
/// How much is parsed between two looks at the tree. Small, because misnested tags can grow a tree
/// much faster than the text.
const STEP: usize = 1024;
/// A page whose article is shorter than this share of its text has no article.
const MIN_SHARE: usize = 10;
/// What is never text of the page.
const NOT_TEXT: [&str; 8] =
    ["script", "style", "noscript", "template", "nav", "footer", "svg", "iframe"];

pub(super) fn convert(html: &str, url: Option<&str>) -> Result<Converted> {
    let document = parse(html)?;
    let article = article(document.clone(), url);
    let whole = || document.body().map(|body| markdown(&body)).unwrap_or_default();
    let body = match &article {
        Some(article) => {
            let text = tidy_text(&article.text_content);
            let whole = whole();
            // Lists of links, forms and very short pages are not articles, but still worth having.
            if text.trim().len() * MIN_SHARE < whole.trim().len() { whole } else { text }
        }
        None => whole(),
    };
    let titles = [article.as_ref().map(|article| article.title.clone()), head_title(&document)];
    Ok(Converted {
        title: titles.into_iter().flatten().find_map(|title| tidy_title(&title)),
        tags: Vec::new(),
        metadata: article.map(metadata).unwrap_or_default(),
        body: collapse(&body),
        mime_type: MimeType::Markdown,
    })
}

/// The page as a tree, if it is one of reasonable size.
fn parse(html: &str) -> Result<Document> {
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let options = ParseOpts { tree_builder, ..ParseOpts::default() };
    let mut parser = parse_document(Document::default(), options);
    let mut rest = html;
    while !rest.is_empty() {
        let end = rest.ceil_char_boundary(STEP.min(rest.len()));
        parser.process(rest[..end].into());
        rest = &rest[end..];
        let document = &parser.tokenizer.sink.sink;
        if document.tree.len() > MAX_NODES || open_depth(document) > MAX_DEPTH {
            return Err(Error::invalid("the page is too large or too deeply nested to be read"));
        }
    }
    Ok(parser.finish())
}

/// How deep the end of the tree is, which is where the parser is at work.
fn open_depth(document: &Document) -> usize {
    let mut node = document.root();
    for depth in 0..=MAX_DEPTH {
        match node.last_child() {
            Some(child) => node = child,
            None => return depth,
        }
    }
    MAX_DEPTH + 1
}

fn article(document: Document, url: Option<&str>) -> Option<Article> {
    let config = Config { text_mode: TextMode::Markdown, ..Config::default() };
    // A URL that it cannot use only leaves links as they are.
    let url = url.filter(|url| url.starts_with("http://") || url.starts_with("https://"));
    Readability::with_document(document, url, Some(config)).ok()?.parse().ok()
}

fn markdown(node: &NodeRef<'_>) -> String {
    tidy_text(&node.md(Some(&NOT_TEXT)))
}

fn head_title(document: &Document) -> Option<String> {
    Some(document.select_single("title").text().to_string())
}

fn metadata(article: Article) -> Map<String, Value> {
    let named = [
        ("author", article.byline),
        ("site", article.site_name),
        ("published", article.published_time),
        ("language", article.lang),
    ];
    let kept = named.into_iter().filter_map(|(name, value)| {
        let value = tidy_title(&value?)?;
        Some((name.to_owned(), Value::from(value)))
    });
    kept.collect()
}

/// At most one empty line in a row, none at either end, and a line break at the end.
fn collapse(text: &str) -> String {
    let mut body = String::with_capacity(text.len());
    let mut n_empty = 0;
    for line in text.trim().lines() {
        n_empty = if line.trim().is_empty() { n_empty + 1 } else { 0 };
        if n_empty < 2 {
            body.push_str(if n_empty == 0 { line } else { "" });
            body.push('\n');
        }
    }
    body
}
