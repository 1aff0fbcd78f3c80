//! What an upstream offers, in its own words.

use std::collections::HashMap;

use bytes::Bytes;
use lyceum_http::client::{ClientError, Peer};
use lyceum_wire::{Era, ErrorCode, Object};

/// Items of one kind an upstream may list.
const MAX_ITEMS: usize = 10_000;
/// Bytes of one definition.
const MAX_DEFINITION: usize = 1 << 20;

/// Everything an upstream offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<Item>,
    pub(crate) resources: Vec<Item>,
    pub(crate) templates: Vec<Item>,
    pub(crate) prompts: Vec<Item>,
    /// The era in whose way tools can run as tasks, if they can.
    pub(crate) tasks: Option<Era>,
}

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its name, URI or template.
    pub(crate) key: String,
    /// The whole definition, as the upstream wrote it.
    pub(crate) raw: Bytes,
    /// There were others of the same key.
    pub(crate) is_repeated: bool,
}

impl Item {
    pub(crate) fn new(key: String, raw: Bytes) -> Item {
        Item { key, raw, is_repeated: false }
    }
}

/// What an upstream said it can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offers {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) subscriptions: bool,
    pub(crate) prompts: bool,
    pub(crate) completions: bool,
    pub(crate) logging: bool,
    /// Tasks for tool calls, as its own era has them.
    pub(crate) tasks: bool,
}

/// Which part of a listing to fetch again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Tools,
    /// With their templates.
    Resources,
    Prompts,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Tools, Kind::Resources, Kind::Prompts];

    /// Which list a notification says has changed.
    pub(crate) fn changed_by(method: &str) -> Option<Kind> {
        Some(match method {
            "notifications/tools/list_changed" => Kind::Tools,
            "notifications/resources/list_changed" => Kind::Resources,
            "notifications/prompts/list_changed" => Kind::Prompts,
            _ => return None,
        })
    }
}

impl Offers {
    /// Reads a raw `ServerCapabilities` object.
    pub(crate) fn read(raw: &[u8]) -> Offers {
        let Ok(capabilities) = Object::parse(raw) else { return Offers::default() };
        let has = |name: &str| capabilities.get(name).is_some_and(|value| value != "null");
        let inside = |name: &str, member: &str| {
            let inner = capabilities.get(name).and_then(|raw| Object::parse(raw.as_bytes()).ok());
            inner.is_some_and(|inner| inner.get(member).is_some_and(|value| value != "false"))
        };
        Offers {
            tools: has("tools"),
            resources: has("resources"),
            subscriptions: inside("resources", "subscribe"),
            prompts: has("prompts"),
            completions: has("completions"),
            logging: has("logging"),
            tasks: inner(raw, &["tasks", "requests", "tools", "call"]).is_some()
                || inside("extensions", "io.modelcontextprotocol/tasks"),
        }
    }
}

impl Listing {
    pub(crate) fn is_empty(&self) -> bool {
        self.items().next().is_none()
    }

    /// Everything, and what kind of thing it is.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&'static str, &Item)> {
        let lists = [
            ("tool", &self.tools),
            ("resource", &self.resources),
            ("template", &self.templates),
            ("prompt", &self.prompts),
        ];
        lists.into_iter().flat_map(|(what, items)| items.iter().map(move |item| (what, item)))
    }

    /// Fetches one part anew. What cannot be listed stays as it was; why, the caller is told.
    pub(crate) async fn fetch(
        &mut self,
        kind: Kind,
        peer: &Peer,
        offers: Offers,
    ) -> Result<(), ClientError> {
        match kind {
            Kind::Tools if offers.tools => {
                let tools = peer.list_tools().await?;
                let tools = tools.into_iter().map(|tool| Item::new(tool.name, tool.raw));
                self.tools = bounded(tools);
            }
            Kind::Resources if offers.resources => {
                self.resources = items(peer.list_resources().await?, "uri");
                // Many servers have resources and have never heard of templates.
                let templates = peer.list_resource_templates().await.or_else(unknown)?;
                self.templates = items(templates, "uriTemplate");
            }
            Kind::Prompts if offers.prompts => {
                self.prompts = items(peer.list_prompts().await?, "name");
            }
            Kind::Tools => self.tools.clear(),
            Kind::Resources => {
                self.resources.clear();
                self.templates.clear();
            }
            Kind::Prompts => self.prompts.clear(),
        }
        Ok(())
    }
}

/// A member of a member, and so on.
fn inner<'a>(raw: &'a [u8], path: &[&str]) -> Option<&'a str> {
    let mut found = std::str::from_utf8(raw).ok()?;
    for name in path {
        found = Object::parse(found.as_bytes()).ok()?.get(name)?;
    }
    Some(found)
}

fn unknown(error: ClientError) -> Result<Vec<Bytes>, ClientError> {
    match error {
        ClientError::Rpc(error) if error.code == ErrorCode::METHOD_NOT_FOUND => Ok(Vec::new()),
        error => Err(error),
    }
}

fn items(raw: Vec<Bytes>, key: &str) -> Vec<Item> {
    let keyed = raw.into_iter().filter_map(|raw| {
        let found = Object::parse(&raw).ok().and_then(|members| members.text(key));
        if found.is_none() {
            tracing::warn!(key, "left out a definition: it does not say what it is called");
        }
        Some(Item::new(found?, raw))
    });
    bounded(keyed)
}

/// Leaves out what is too large, repeated or too much.
fn bounded(items: impl Iterator<Item = Item>) -> Vec<Item> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<Item> = Vec::new();
    let mut n_more = 0;
    let fits = |item: &Item| {
        let fits = item.raw.len() <= MAX_DEFINITION;
        if !fits {
            tracing::warn!(item.key, bytes = item.raw.len(), "left out a definition: too large");
        }
        fits
    };
    for item in items.filter(fits) {
        match places.get(&item.key) {
            Some(place) => kept[*place].is_repeated = true,
            None if kept.len() < MAX_ITEMS => {
                places.insert(item.key.clone(), kept.len());
                kept.push(item);
            }
            None => n_more += 1,
        }
    }
    if n_more > 0 {
        tracing::warn!(n_more, "left out definitions: there may be {MAX_ITEMS} of a kind");
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_in_the_words_of_both_eras() {
        let all = br#"{"tools":{},"resources":{"subscribe":true},"prompts":{},"completions":{},"logging":{},
            "tasks":{"requests":{"tools":{"call":{}}}}}"#;
        let offers = Offers::read(all);
        assert_eq!(
            offers,
            Offers {
                tools: true,
                resources: true,
                subscriptions: true,
                prompts: true,
                completions: true,
                logging: true,
                tasks: true
            }
        );
        let modern = br#"{"resources":{"subscribe":false},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        let offers = Offers::read(modern);
        assert_eq!(offers, Offers { resources: true, tasks: true, ..Offers::default() });
        // Requests of ours that can run as tasks, but no calls of tools.
        let others = br#"{"tasks":{"list":{},"requests":{"x":{}}}}"#;
        assert_eq!(Offers::read(others), Offers::default());
        assert_eq!(Offers::read(b""), Offers::default());
        assert_eq!(Offers::read(b"[]"), Offers::default());
    }

    #[test]
    fn definitions_without_a_key_repeated_or_too_large_are_left_out() {
        let large = format!(r#"{{"uri":"l","d":"{}"}}"#, "x".repeat(MAX_DEFINITION));
        let raw = [r#"{"uri":"a","n":1}"#, r#"{"name":"b"}"#, r#"{"uri":"a","n":2}"#, &large];
        let raw = raw.map(|raw| Bytes::copy_from_slice(raw.as_bytes())).to_vec();
        let listed = items(raw, "uri");
        let raw = Bytes::from_static(br#"{"uri":"a","n":1}"#);
        assert_eq!(listed, [Item { key: "a".to_owned(), raw, is_repeated: true }]);
    }
}
