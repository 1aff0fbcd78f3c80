//! PDF files that refer to themselves: found before anything follows them.

use std::collections::BTreeMap;

use pdf_extract::{Dictionary, Document, Object, ObjectId, Stream};

use crate::{Error, Result};

/// Page trees and drawings within drawings are flat in real files.
const MAX_DEPTH: usize = 32;
/// How often drawings are drawn, over all pages.
const MAX_DRAWN: usize = 100_000;

/// Refuses a document whose pages would be read forever, or until the stack is used up.
pub(super) fn refuse(document: &Document) -> Result<()> {
    let mut walk = Walk { document, n_drawn: 0, uses: BTreeMap::new() };
    for page in document.page_iter() {
        let Ok(page_dictionary) = document.get_dictionary(page) else { continue };
        let resources = walk.inherited_resources(page_dictionary)?;
        let content = document.get_page_content(page).unwrap_or_default();
        walk.draw(&drawn(&content), resources, 0)?;
    }
    Ok(())
}

struct Walk<'a> {
    document: &'a Document,
    n_drawn: usize,
    /// The names each drawing draws, found once.
    uses: BTreeMap<ObjectId, Vec<Vec<u8>>>,
}

impl<'a> Walk<'a> {
    /// The resources of a page or of the nearest branch above it.
    fn inherited_resources(&self, page: &'a Dictionary) -> Result<Option<&'a Dictionary>> {
        let mut node = page;
        let mut found = None;
        // Walked to the root in any case: other things are inherited too.
        for _ in 0..MAX_DEPTH {
            found = found.or_else(|| self.dictionary(node.get(b"Resources").ok()?));
            let parent = node.get(b"Parent").and_then(Object::as_reference);
            match parent.and_then(|parent| self.document.get_dictionary(parent)) {
                Ok(parent) => node = parent,
                Err(_) => return Ok(found),
            }
        }
        Err(too_deep())
    }

    fn draw(
        &mut self,
        names: &[Vec<u8>],
        resources: Option<&'a Dictionary>,
        depth: usize,
    ) -> Result<()> {
        let Some(drawings) =
            resources.and_then(|resources| self.dictionary(resources.get(b"XObject").ok()?))
        else {
            return Ok(());
        };
        for name in names {
            let found = drawings.get(name).and_then(|object| self.document.dereference(object));
            let Ok((Some(id), Object::Stream(form))) = found else { continue };
            self.n_drawn += 1;
            if depth >= MAX_DEPTH || self.n_drawn > MAX_DRAWN {
                return Err(too_deep());
            }
            let own = form.dict.get(b"Resources").ok().and_then(|own| self.dictionary(own));
            let inner = self.uses_of(id, form);
            if !inner.is_empty() {
                self.draw(&inner, own.or(resources), depth + 1)?;
            }
        }
        Ok(())
    }

    fn uses_of(&mut self, id: ObjectId, form: &Stream) -> Vec<Vec<u8>> {
        let find = || drawn(&form.get_plain_content().unwrap_or_else(|_| form.content.clone()));
        self.uses.entry(id).or_insert_with(find).clone()
    }

    fn dictionary(&self, object: &'a Object) -> Option<&'a Dictionary> {
        self.document.dereference(object).ok()?.1.as_dict().ok()
    }
}

/// Names that stand before a `Do`. Comments and strings may hold more of them than are drawn; that
/// only makes the check stricter.
fn drawn(content: &[u8]) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut last: &[u8] = b"";
    for token in content.split(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        if token.is_empty() {
            continue;
        }
        if token.starts_with(b"Do")
            && let Some(slash) = last.iter().rposition(|byte| *byte == b'/')
        {
            names.push(unescaped(&last[slash + 1..]));
        }
        last = token;
    }
    names
}

/// A name with its `#xx` replaced by bytes.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, after)) = rest.split_first() {
        let pair = match (first, after) {
            (b'#', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match pair {
            Some((high, low)) => {
                plain.push(high << 4 | low);
                rest = &after[2..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

fn too_deep() -> Error {
    Error::invalid("the PDF refers to itself or is nested too deeply to be read")
}
