//! XML as a flat series of events, with references resolved; nothing here recurses.

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};

use crate::{Error, Result};

/// A piece of a document.
pub(super) enum Node<'a> {
    Open(&'a Element<'a>),
    Close(&'a str),
    Text(&'a str),
}

/// A start tag.
pub(super) struct Element<'a>(&'a BytesStart<'a>);

impl Element<'_> {
    /// The name without its prefix.
    pub(super) fn name(&self) -> &str {
        self.0.local_name().into_inner()
    }

    /// The value of an attribute, whatever its prefix.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let mut attributes = self.0.attributes();
        let mut attributes = attributes.with_checks(false).flatten();
        let found = attributes.find(|found| found.key.local_name().into_inner() == name)?;
        found.normalized_value(XmlVersion::Implicit1_0).ok().map(|value| value.into_owned())
    }

    /// Whether a property that is on by being there is not switched off.
    pub(super) fn is_on(&self) -> bool {
        !matches!(self.attribute("val").as_deref(), Some("0" | "false" | "off" | "none"))
    }
}

/// Calls `see` with every piece of `xml` in order.
pub(super) fn walk(xml: &str, mut see: impl FnMut(Node<'_>)) -> Result<()> {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().check_end_names = false;
    loop {
        let event = reader.read_event();
        match event.map_err(|error| Error::invalid(format!("its XML is damaged: {error}")))? {
            Event::Start(start) => see(Node::Open(&Element(&start))),
            Event::Empty(start) => {
                see(Node::Open(&Element(&start)));
                see(Node::Close(start.local_name().into_inner()));
            }
            Event::End(end) => see(Node::Close(end.local_name().into_inner())),
            Event::Text(text) => see(Node::Text(&text.xml10_content())),
            Event::CData(text) => see(Node::Text(&text.xml10_content())),
            Event::GeneralRef(reference) => {
                if let Ok(Some(c)) = reference.resolve_char_ref() {
                    see(Node::Text(c.encode_utf8(&mut [0; 4])));
                } else if let Some(text) = resolve_predefined_entity(&reference.xml10_content()) {
                    see(Node::Text(text));
                }
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// Every element that holds text, with it. Damage ends the list.
pub(super) fn texts(xml: &str) -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> = Vec::new();
    let mut open = false;
    let ended = walk(xml, |node| match node {
        Node::Open(element) => {
            texts.push((element.name().to_owned(), String::new()));
            open = true;
        }
        Node::Close(_) => open = false,
        Node::Text(text) => {
            if let Some((_, so_far)) = texts.last_mut().filter(|_| open) {
                so_far.push_str(text);
            }
        }
    });
    drop(ended);
    texts
}
