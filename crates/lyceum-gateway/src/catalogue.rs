//! [`Catalogue`]: what all upstreams offer, under the names clients know.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, hash_map};
use std::sync::Arc;

use bytes::Bytes;
use lyceum_server::ForeignItem;
use lyceum_wire::{Era, Object, ParamHeaders, Writer};

use crate::absent::Absent;
use crate::clashes::Clashes;
use crate::config::UpstreamConfig;
use crate::invisible;
use crate::listing::{Item, Listing};
use crate::names::{Names, Offer, Source};
use crate::relay::with_member;
use crate::reserved::Taken;
use crate::upstream::Upstream;

/// What clients of 2025-11-25 read about tools that may run as tasks.
const MAY_BE_TASK: &[u8] = br#"{"taskSupport":"optional"}"#;

/// What a tool takes that does not say: clients do not take tools without a schema.
const ANYTHING: &str = r#"{"type":"object"}"#;

/// Everything there is behind the gateway, before any endpoint chooses from it.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) tools: Vec<Arc<Tool>>,
    pub(crate) prompts: Vec<Arc<Entry>>,
    pub(crate) resources: Vec<Arc<Entry>>,
    pub(crate) templates: Vec<Arc<Entry>>,
    pub(crate) tool_names: Names,
    pub(crate) prompt_names: Names,
    pub(crate) clashes: Clashes,
    /// The prefixes of all upstreams, whatever they offer.
    pub(crate) prefixes: HashSet<String>,
    pub(crate) absent: Absent,
    /// Upstreams that are new, and may list more in a moment.
    pub(crate) arriving: Vec<Arc<Upstream>>,
}

/// Something an upstream offers.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) upstream: Arc<Upstream>,
    /// What the upstream calls it.
    pub(crate) own: String,
    /// What clients see.
    pub(crate) item: Arc<ForeignItem>,
}

/// A tool, and what the gateway needs to know about it.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) entry: Entry,
    /// Whether calling it twice does no harm.
    pub(crate) may_repeat: bool,
    /// Whether 2025-11-25 clients may, or must, call it as a task.
    pub(crate) task: TaskSupport,
    pub(crate) headers: Option<Arc<ParamHeaders>>,
}

/// `execution.taskSupport` of 2025-11-25.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TaskSupport {
    #[default]
    Forbidden,
    Optional,
    Required,
}

impl TaskSupport {
    /// What a tool's definition says, where the upstream has tasks in the way of `tasks`. A modern
    /// upstream decides call by call, so there any tool may be called as a task.
    fn of(definition: &Object<'_>, tasks: Option<Era>) -> TaskSupport {
        let execution = || Object::parse(definition.get("execution")?.as_bytes()).ok();
        match tasks {
            None => TaskSupport::Forbidden,
            Some(Era::Modern) => TaskSupport::Optional,
            Some(Era::Legacy) => {
                match execution().and_then(|execution| execution.text("taskSupport")).as_deref() {
                    Some("optional") => TaskSupport::Optional,
                    Some("required") => TaskSupport::Required,
                    _ => TaskSupport::Forbidden,
                }
            }
        }
    }
}

impl Catalogue {
    /// Gathers what `upstreams` offer, in their order: what two of them have, the first one keeps.
    /// What is `taken` nobody else may have; `held_back` says which tools are not to be shown.
    pub(crate) fn gather(
        upstreams: &[Arc<Upstream>],
        taken: &Taken,
        held_back: &HashSet<(String, String)>,
    ) -> Catalogue {
        let listings: Vec<_> =
            upstreams.iter().map(|upstream| (upstream, upstream.listing())).collect();
        let tool_names = names(&listings, |listing| &listing.tools, taken.tools());
        let prompt_names = names(&listings, |listing| &listing.prompts, taken.prompts());
        let absent = listings.iter().filter(|(_, listing)| listing.is_empty());
        let mut catalogue = Catalogue {
            tool_names: tool_names.with_aliases(aliases(upstreams)),
            prompt_names,
            prefixes: upstreams.iter().map(|one| one.config.prefix().to_owned()).collect(),
            absent: absent.map(|(upstream, _)| Arc::clone(upstream)).collect(),
            arriving: upstreams.iter().filter(|one| one.may_arrive()).cloned().collect(),
            ..Catalogue::default()
        };
        catalogue.clashes.names("", &catalogue.tool_names);
        catalogue.clashes.names("prompt ", &catalogue.prompt_names);
        let mut keepers = Keepers { taken, prefixes: HashMap::new(), keepers: HashMap::new() };
        for (upstream, listing) in &listings {
            keepers.prefixes.insert(upstream.config.prefix(), &upstream.config.name);
            for (what, item) in listing.items().filter(|(_, item)| item.is_repeated) {
                catalogue.clashes.repeated(&upstream.config.name, what, &item.key);
            }
            let allowed = |tool: &&Item| {
                let config = &upstream.config;
                let id = (config.name.clone(), tool.key.clone());
                config.tools.admits(&tool.key) && !held_back.contains(&id)
            };
            for tool in listing.tools.iter().filter(allowed) {
                catalogue.tools.extend(catalogue.tool(upstream, tool).map(Arc::new));
            }
            for prompt in &listing.prompts {
                let public = catalogue.prompt_names.public(&upstream.config.name, &prompt.key);
                let entry = public.and_then(|public| entry(upstream, prompt, "name", public));
                catalogue.prompts.extend(entry.map(Arc::new));
            }
            catalogue.add_resources(upstream, listing, &mut keepers);
        }
        catalogue
    }

    /// Adds what an upstream has at URIs that nobody else has.
    fn add_resources<'a>(
        &mut self,
        upstream: &'a Arc<Upstream>,
        listing: &Listing,
        keepers: &mut Keepers<'a>,
    ) {
        let name = &upstream.config.name;
        for (what, key, items, entries) in [
            ("resource", "uri", &listing.resources, &mut self.resources),
            ("template", "uriTemplate", &listing.templates, &mut self.templates),
        ] {
            for item in items {
                let uri = public_uri(upstream, &item.key);
                match keepers.keep(&uri, upstream) {
                    Some(keeper) => self.clashes.uri(name, what, &uri, keeper),
                    None => entries.extend(entry(upstream, item, key, &uri).map(Arc::new)),
                }
            }
        }
    }

    fn tool(&self, upstream: &Arc<Upstream>, tool: &Item) -> Option<Tool> {
        let public = self.tool_names.public(&upstream.config.name, &tool.key)?;
        let raw = shown(upstream, &tool.raw);
        let raw = match Object::parse(&raw).ok()?.get("inputSchema") {
            Some(_) => raw,
            None => with_member(&raw, "inputSchema", ANYTHING.as_bytes()),
        };
        let members = Object::parse(&raw).ok()?;
        let annotations =
            members.get("annotations").and_then(|raw| Object::parse(raw.as_bytes()).ok());
        let hint = |name: &str| {
            annotations.as_ref().is_some_and(|annotations| annotations.get(name) == Some("true"))
        };
        let tasks = upstream.listing().tasks;
        let task = TaskSupport::of(&members, tasks);
        let headers = ParamHeaders::from_schema(members.get("inputSchema")?.as_bytes());
        let headers = headers.ok().filter(|headers| !headers.is_empty()).map(Arc::new);
        let legacy = definition(&members, "name", public, &|name, value| match name {
            // Before the modern era structured content had to be an object.
            "outputSchema" => describes_object(value),
            "execution" => tasks == Some(Era::Legacy),
            _ => true,
        });
        let legacy = match tasks {
            Some(Era::Modern) => with_member(&legacy, "execution", MAY_BE_TASK),
            _ => legacy,
        };
        let modern = definition(&members, "name", public, &|name, _| name != "execution");
        let item = Arc::new(ForeignItem::new(public, legacy, modern));
        let entry = Entry { upstream: Arc::clone(upstream), own: tool.key.clone(), item };
        Some(Tool {
            entry,
            may_repeat: hint("readOnlyHint") || hint("idempotentHint"),
            task,
            headers,
        })
    }
}

/// Who has which public URI.
struct Keepers<'a> {
    taken: &'a Taken,
    /// Which of those so far has which prefix.
    prefixes: HashMap<&'a str, &'a str>,
    keepers: HashMap<String, &'a str>,
}

impl<'a> Keepers<'a> {
    /// Gives a URI to an upstream, unless somebody has it, who is returned; the server itself has no
    /// name.
    fn keep(&mut self, uri: &str, upstream: &'a Upstream) -> Option<&'a str> {
        if self.taken.has_uri(uri) {
            return Some("");
        }
        let uris = upstream.uris();
        let mut splits = uris.form.splits(uri).filter(|_| uris.is_empty());
        if let Some(owner) = splits.find_map(|(prefix, _)| self.prefixes.get(prefix)) {
            return Some(owner);
        }
        match self.keepers.entry(uri.to_owned()) {
            hash_map::Entry::Occupied(kept) => Some(kept.get()),
            hash_map::Entry::Vacant(free) => {
                free.insert(&upstream.config.name);
                None
            }
        }
    }
}

/// Public names of one kind of thing; `taken` are the server's own.
fn names(
    listings: &[(&Arc<Upstream>, Arc<Listing>)],
    of: fn(&Listing) -> &Vec<Item>,
    taken: &[String],
) -> Names {
    let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
    let keys = |listing| of(listing).iter().map(|item| item.key.as_str()).collect();
    let listed: Vec<(&UpstreamConfig, Vec<&str>)> =
        listings.iter().map(|(upstream, listing)| (&upstream.config, keys(listing))).collect();
    let own = Offer { upstream: "", prefix: "", names: &taken };
    let offers = listed.iter().map(|(config, names)| Offer {
        upstream: &config.name,
        prefix: config.prefix(),
        names,
    });
    Names::assign(&std::iter::once(own).chain(offers).collect::<Vec<_>>())
}

/// The URI clients know what an upstream calls `uri` by.
pub(crate) fn public_uri(upstream: &Upstream, uri: &str) -> String {
    upstream.uris().public(uri).into_owned()
}

fn entry(upstream: &Arc<Upstream>, item: &Item, key: &str, public: &str) -> Option<Entry> {
    let raw = shown(upstream, &item.raw);
    let members = Object::parse(&raw).ok()?;
    let definition = definition(&members, key, public, &|_, _| true);
    let shown = Arc::new(ForeignItem::new(public, definition.clone(), definition));
    Some(Entry { upstream: Arc::clone(upstream), own: item.key.clone(), item: shown })
}

/// A definition as clients may see it.
fn shown(upstream: &Upstream, raw: &Bytes) -> Bytes {
    if !upstream.config.strip_invisible {
        return raw.clone();
    }
    let text = std::str::from_utf8(raw).unwrap_or_default();
    match invisible::strip(text) {
        Cow::Borrowed(_) => raw.clone(),
        Cow::Owned(stripped) => Bytes::from(stripped),
    }
}

/// A definition with another name, without the members `keep` refuses.
fn definition(
    members: &Object<'_>,
    key: &str,
    public: &str,
    keep: &dyn Fn(&str, &str) -> bool,
) -> Bytes {
    let mut definition = Writer::new();
    for (name, value) in members.iter() {
        if name == key {
            definition.text(key, public);
        } else if keep(name, value) {
            definition.raw(name, value);
        }
    }
    definition.finish()
}

fn describes_object(schema: &str) -> bool {
    Object::parse(schema.as_bytes()).is_ok_and(|schema| schema.get("type") == Some("\"object\""))
}

fn aliases(upstreams: &[Arc<Upstream>]) -> Vec<(String, Source)> {
    let of = |upstream: &Arc<Upstream>| -> Vec<(String, Source)> {
        let UpstreamConfig { name, aliases, .. } = &upstream.config;
        let source = |own: &String| Source { upstream: name.clone(), name: own.clone() };
        aliases.iter().map(|(alias, own)| (alias.clone(), source(own))).collect()
    };
    upstreams.iter().flat_map(of).collect()
}
