//! [`Catalogue`]: what all upstreams offer, under the names clients know.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use lyceum_server::ForeignItem;
use lyceum_wire::{Era, Object, ParamHeaders, Writer};

use crate::config::UpstreamConfig;
use crate::invisible;
use crate::listing::Item;
use crate::names::{Names, Offer, Source};
use crate::relay::with_member;
use crate::upstream::Upstream;

/// What clients of 2025-11-25 read about tools that may run as tasks.
const MAY_BE_TASK: &[u8] = br#"{"taskSupport":"optional"}"#;

/// Everything there is behind the gateway, before any endpoint chooses from it.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) tools: Vec<Arc<Tool>>,
    pub(crate) prompts: Vec<Arc<Entry>>,
    pub(crate) resources: Vec<Arc<Entry>>,
    pub(crate) templates: Vec<Arc<Entry>>,
    pub(crate) tool_names: Names,
    pub(crate) prompt_names: Names,
    /// Upstreams that have never listed anything, most of them because they were never reached.
    pub(crate) unlisted: Vec<Arc<Upstream>>,
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
    /// Gathers what `upstreams` offer, in their order. `taken` are tool names nobody else may have;
    /// `held_back` says which tools are not to be shown.
    pub(crate) fn gather(
        upstreams: &[Arc<Upstream>],
        taken: &[String],
        held_back: &HashSet<(String, String)>,
    ) -> Catalogue {
        let listings: Vec<_> =
            upstreams.iter().map(|upstream| (upstream, upstream.listing())).collect();
        let taken: Vec<&str> = taken.iter().map(String::as_str).collect();
        let own = Offer { upstream: "", prefix: "", names: &taken };
        let names = |of: fn(&crate::listing::Listing) -> &Vec<Item>, first: Option<Offer<'_>>| {
            let listed: Vec<(&Arc<Upstream>, Vec<&str>)> = listings
                .iter()
                .map(|(upstream, listing)| {
                    (*upstream, of(listing).iter().map(|item| item.key.as_str()).collect())
                })
                .collect();
            let offers = listed.iter().map(|(upstream, names)| Offer {
                upstream: &upstream.config.name,
                prefix: upstream.config.prefix(),
                names,
            });
            Names::assign(&first.into_iter().chain(offers).collect::<Vec<_>>())
        };
        let tool_names =
            names(|listing| &listing.tools, Some(own)).with_aliases(aliases(upstreams));
        let prompt_names = names(|listing| &listing.prompts, None);
        let unlisted = listings.iter().filter(|(_, listing)| listing.is_empty());
        let unlisted = unlisted.map(|(upstream, _)| Arc::clone(upstream)).collect();
        let mut catalogue =
            Catalogue { tool_names, prompt_names, unlisted, ..Catalogue::default() };
        for (upstream, listing) in &listings {
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
            let uri = |item: &Item| public_uri(upstream, &item.key);
            catalogue.resources.extend(listing.resources.iter().filter_map(|resource| {
                entry(upstream, resource, "uri", &uri(resource)).map(Arc::new)
            }));
            catalogue.templates.extend(listing.templates.iter().filter_map(|template| {
                entry(upstream, template, "uriTemplate", &uri(template)).map(Arc::new)
            }));
        }
        catalogue
    }

    fn tool(&self, upstream: &Arc<Upstream>, tool: &Item) -> Option<Tool> {
        let public = self.tool_names.public(&upstream.config.name, &tool.key)?;
        let raw = shown(upstream, &tool.raw);
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
