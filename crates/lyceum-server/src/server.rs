//! A server: what it offers, and what it can be told while it runs.
//!
//! Cheap to clone; all clones are the same server. How requests are answered is in `dispatch`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use lyceum_http::Caller;

use crate::builder::Builder;
use crate::cache::Cache;
use crate::capabilities::Offer;
use crate::changes::{Change, Changes};
use crate::foreign::Abroad;
use crate::identity::Identity;
use crate::listing::Lister;
use crate::prompt::Prompt;
use crate::refused::Refuse;
use crate::resource::Resource;
use crate::shelf::{Listed, Presentation, Shelf};
use crate::tasks::Store;
use crate::template::ResourceTemplate;
use crate::tool::{TaskSupport, Tool};

/// An MCP server, in whichever era its clients live.
///
/// It is a [`lyceum_http::Handler`]: hand it to the HTTP transport or to [`stdio`](crate::stdio).
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) identity: Identity,
    pub(crate) instructions: Option<String>,
    pub(crate) list_cache: Cache,
    pub(crate) page_size: usize,
    pub(crate) tools: ArcSwap<Shelf<Tool>>,
    pub(crate) resources: ArcSwap<Shelf<Resource>>,
    pub(crate) templates: ArcSwap<Shelf<ResourceTemplate>>,
    pub(crate) prompts: ArcSwap<Shelf<Prompt>>,
    /// Whether other servers' offers are shown, now or later.
    pub(crate) is_gateway: AtomicBool,
    pub(crate) abroad: ArcSwap<Abroad>,
    pub(crate) changes: Changes,
    pub(crate) tasks: Store,
    /// Lists resources in the place of the shelf, while it is enabled.
    pub(crate) lister: Option<Lister>,
    pub(crate) is_lister_enabled: AtomicBool,
    pub(crate) refuse: Option<Refuse>,
    /// The operator's name for the shape of the tools.
    pub(crate) schema_version: Option<String>,
}

impl Server {
    /// Starts describing a server.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name.into(), version.into())
    }

    /// Adds a tool, or replaces the one of that name, and tells clients.
    pub fn add_tool(&self, tool: Tool) {
        put(&self.0.tools, tool);
        self.tools_changed();
    }

    /// Removes a tool and tells clients; `false` when there is none of that name.
    pub fn remove_tool(&self, name: &str) -> bool {
        let removed = replace(&self.0.tools, |tools| tools.without(name));
        self.tell_if(removed, Change::Tools)
    }

    /// Shows or hides a tool and tells clients; `false` when that changes nothing.
    pub fn enable_tool(&self, name: &str, enabled: bool) -> bool {
        self.enable(|tool, before| if tool == name { enabled } else { before })
    }

    /// Shows the tools of which `enabled` says so by their names, hides the others and tells
    /// clients; `false` when that changes nothing.
    pub fn enable_tools(&self, enabled: impl Fn(&str) -> bool) -> bool {
        self.enable(|tool, _| enabled(tool))
    }

    fn enable(&self, enabled: impl Fn(&str, bool) -> bool) -> bool {
        let changed = replace(&self.0.tools, |tools| tools.with_enabled(&enabled));
        self.tell_if(changed, Change::Tools)
    }

    /// Shows the resource templates of which `enabled` says so, hides the others and tells clients;
    /// `false` when that changes nothing. What is hidden cannot be read either.
    pub fn enable_templates(&self, enabled: impl Fn(&str) -> bool) -> bool {
        let changed =
            replace(&self.0.templates, |templates| templates.with_enabled(|uri, _| enabled(uri)));
        self.tell_if(changed, Change::Resources)
    }

    /// Shows the prompts of which `enabled` says so by their names, hides the others and tells
    /// clients; `false` when that changes nothing.
    pub fn enable_prompts(&self, enabled: impl Fn(&str) -> bool) -> bool {
        let changed =
            replace(&self.0.prompts, |prompts| prompts.with_enabled(|name, _| enabled(name)));
        self.tell_if(changed, Change::Prompts)
    }

    /// Lists resources with the builder's function, or leaves its resources out of the list, and
    /// tells clients; `false` when that changes nothing.
    pub fn enable_listing(&self, enabled: bool) -> bool {
        let before = self.0.is_lister_enabled.swap(enabled, Ordering::Relaxed);
        self.tell_if(before != enabled && self.0.lister.is_some(), Change::Resources)
    }

    /// What lists resources now.
    pub(crate) fn lister(&self) -> Option<&Lister> {
        self.0.lister.as_ref().filter(|_| self.0.is_lister_enabled.load(Ordering::Relaxed))
    }

    /// Adds a resource, or replaces the one at its URI, and tells clients.
    pub fn add_resource(&self, resource: Resource) {
        put(&self.0.resources, resource);
        self.resources_changed();
    }

    /// Removes a resource and tells clients; `false` when there is none at that URI.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = replace(&self.0.resources, |resources| resources.without(uri));
        self.tell_if(removed, Change::Resources)
    }

    /// Adds a resource template, or replaces the same one, and tells clients.
    pub fn add_template(&self, template: ResourceTemplate) {
        put(&self.0.templates, template);
        self.resources_changed();
    }

    /// Removes a resource template and tells clients; `false` when there is no such one.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        let removed = replace(&self.0.templates, |templates| templates.without(uri_template));
        self.tell_if(removed, Change::Resources)
    }

    /// Adds a prompt, or replaces the one of that name, and tells clients.
    pub fn add_prompt(&self, prompt: Prompt) {
        put(&self.0.prompts, prompt);
        self.prompts_changed();
    }

    /// Removes a prompt and tells clients; `false` when there is none of that name.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let removed = replace(&self.0.prompts, |prompts| prompts.without(name));
        self.tell_if(removed, Change::Prompts)
    }

    /// Tells clients that the list of tools has changed.
    pub fn tools_changed(&self) {
        self.0.changes.tell(&Change::Tools);
    }

    /// Tells clients that the list of prompts has changed.
    pub fn prompts_changed(&self) {
        self.0.changes.tell(&Change::Prompts);
    }

    /// Tells clients that the list of resources has changed.
    pub fn resources_changed(&self) {
        self.0.changes.tell(&Change::Resources);
    }

    /// Tells clients that watch it that a resource has changed.
    pub fn resource_updated(&self, uri: &str) {
        self.0.changes.tell(&Change::Resource(uri.to_owned()));
    }

    /// Tells `caller` alone, if it watches it, that what it sees of a resource has changed.
    pub fn resource_updated_for(&self, caller: &Caller, uri: &str) {
        self.0.changes.tell_only(caller, &Change::Resource(uri.to_owned()));
    }

    /// Ends all listening streams with their proper last message; call it when shutting down.
    pub fn close(&self) {
        self.0.changes.close();
    }

    fn tell_if(&self, changed: bool, change: Change) -> bool {
        if changed {
            self.0.changes.tell(&change);
        }
        changed
    }

    pub(crate) fn offer(&self) -> Offer {
        let (tools, prompts) = (self.0.tools.load(), self.0.prompts.load());
        let (resources, templates) = (self.0.resources.load(), self.0.templates.load());
        let (gateway, foreign_tasks) = (self.is_gateway(), self.0.abroad.load().tasks);
        let tasks = tools.iter().any(|tool| tool.task_support() != TaskSupport::Forbidden);
        Offer {
            tools: gateway || tools.is_offered(),
            resources: gateway
                || resources.is_offered()
                || templates.is_shown()
                || self.lister().is_some(),
            prompts: gateway || prompts.is_shown(),
            completions: gateway
                || prompts.iter().any(|prompt| !prompt.completers.is_empty())
                || templates.iter().any(|template| !template.completers.is_empty()),
            core_tasks: tasks || foreign_tasks.legacy,
            task_extension: tasks || foreign_tasks.modern,
        }
    }

    /// The SHA-256 hash, in hex, of the tools as clients see them: it changes when a tool comes,
    /// goes, or is described in another way.
    pub fn schema_hash(&self) -> String {
        self.0.tools.load().hash().to_owned()
    }

    /// What is said about the set of tools, for clients that want to notice a change.
    pub(crate) fn schema(&self) -> Vec<(&'static str, String)> {
        let Some(version) = &self.0.schema_version else { return Vec::new() };
        vec![("schemaVersion", version.clone()), ("schemaHash", self.schema_hash())]
    }

    pub(crate) fn presentation(&self) -> Presentation<'_> {
        Presentation {
            identity: &self.0.identity,
            cache: self.0.list_cache,
            page_size: self.0.page_size,
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("identity", &self.0.identity).finish_non_exhaustive()
    }
}

/// Adds an item to a shelf that others may be reading.
pub(crate) fn put<T: Listed>(shelf: &ArcSwap<Shelf<T>>, item: T) {
    let item = Arc::new(item);
    shelf.rcu(|shelf| shelf.with(Arc::clone(&item)));
}

/// Replaces a shelf by a changed copy; `false` when `change` sees nothing to do.
pub(crate) fn replace<T>(
    shelf: &ArcSwap<Shelf<T>>,
    change: impl Fn(&Shelf<T>) -> Option<Shelf<T>>,
) -> bool {
    let mut changed = false;
    shelf.rcu(|current| match change(current) {
        Some(next) => {
            changed = true;
            Arc::new(next)
        }
        None => {
            changed = false;
            Arc::clone(current)
        }
    });
    changed
}
