//! Describes a server before it runs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::annotations::Icon;
use crate::cache::Cache;
use crate::call::Call;
use crate::changes::Changes;
use crate::error::ToolError;
use crate::identity::Identity;
use crate::listing::{Lister, ResourcePage};
use crate::prompt::Prompt;
use crate::refused::{Refuse, Refused};
use crate::resource::Resource;
use crate::server::{Inner, Server};
use crate::shelf::Shelf;
use crate::tasks::Store;
use crate::template::ResourceTemplate;
use crate::tool::Tool;

/// Lists longer than this come in pages. Many clients read the first page only, so it is long.
const PAGE_SIZE: usize = 1000;
/// How long clients may reuse a list they were not told to fetch again.
const LIST_TTL: Duration = Duration::from_secs(60);

/// How long a task is kept after its start, unless the client asks for another time.
const TASK_TTL: Duration = Duration::from_secs(60 * 60);

/// A server in the making.
#[derive(Debug)]
#[must_use = "call build() to get the server"]
pub struct Builder {
    identity: Identity,
    instructions: Option<String>,
    list_cache: Cache,
    page_size: usize,
    task_ttl: Duration,
    tools: Vec<Tool>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    prompts: Vec<Prompt>,
    lister: Option<Lister>,
    refuse: Option<Refuse>,
    schema_version: Option<String>,
}

impl Builder {
    pub(crate) fn new(name: String, version: String) -> Self {
        Self {
            identity: Identity::new(name, version),
            instructions: None,
            list_cache: Cache::private(LIST_TTL),
            page_size: PAGE_SIZE,
            task_ttl: TASK_TTL,
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            lister: None,
            refuse: None,
            schema_version: None,
        }
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.identity.title = Some(title.into());
        self
    }

    /// A sentence on what the server offers.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.identity.description = Some(description.into());
        self
    }

    /// Where to read more about it.
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.identity.website = Some(url.into());
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.identity.icons.push(icon);
        self
    }

    /// How a model should use the server.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// How long clients may reuse lists.
    pub fn list_cache(mut self, cache: Cache) -> Self {
        self.list_cache = cache;
        self
    }

    /// The most items a list shows at once.
    pub fn page_size(mut self, items: usize) -> Self {
        self.page_size = items.max(1);
        self
    }

    /// How long a task is kept after its start, unless the client asks for another time.
    pub fn task_ttl(mut self, ttl: Duration) -> Self {
        self.task_ttl = ttl;
        self
    }

    /// Adds a tool, or replaces the one of that name.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a resource, or replaces the one at its URI.
    pub fn resource(mut self, resource: Resource) -> Self {
        self.resources.push(resource);
        self
    }

    /// Adds a resource template, or replaces the one with the same URI template.
    pub fn template(mut self, template: ResourceTemplate) -> Self {
        self.templates.push(template);
        self
    }

    /// Adds a prompt, or replaces the one of that name.
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        self.prompts.push(prompt);
        self
    }

    /// Lists resources with a function, from a place it named before or from the beginning. What
    /// was added with [`Builder::resource`] can still be read but is no longer listed.
    pub fn list_resources<F, Fut>(mut self, list: F) -> Self
    where
        F: Fn(Call, Option<String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ResourcePage, ToolError>> + Send + 'static,
    {
        self.lister = Some(Lister::new(list));
        self
    }

    /// Decides how calls end that no tool ever sees. Without it, clients get what the protocol
    /// says.
    pub fn refuse<F, Fut>(mut self, refuse: F) -> Self
    where
        F: Fn(Call, Refused) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ToolError> + Send + 'static,
    {
        self.refuse = Some(Refuse::new(refuse));
        self
    }

    /// Shows `version` as `schemaVersion`, and beside it a hash of all tools as `schemaHash`, in
    /// `serverInfo` and in the information document.
    pub fn schema_version(mut self, version: impl Into<String>) -> Self {
        self.schema_version = Some(version.into());
        self
    }

    /// The server.
    pub fn build(mut self) -> Server {
        self.identity.prepare();
        Server(Arc::new(Inner {
            identity: self.identity,
            instructions: self.instructions,
            list_cache: self.list_cache,
            page_size: self.page_size,
            tools: ArcSwap::from_pointee(Shelf::new(self.tools)),
            resources: ArcSwap::from_pointee(Shelf::new(self.resources)),
            templates: ArcSwap::from_pointee(Shelf::new(self.templates)),
            prompts: ArcSwap::from_pointee(Shelf::new(self.prompts)),
            is_gateway: AtomicBool::new(false),
            abroad: ArcSwap::default(),
            changes: Changes::default(),
            tasks: Store::new(self.task_ttl),
            lister: self.lister,
            is_lister_enabled: AtomicBool::new(true),
            refuse: self.refuse,
            schema_version: self.schema_version,
        }))
    }
}
