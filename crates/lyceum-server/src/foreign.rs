//! What other servers answer for: listed and announced here, called elsewhere.
//!
//! A gateway shows what is behind it on the shelves of a [`Server`], so that lists, pages, change
//! notifications and subscriptions are the same for own and foreign things. Calls never get here:
//! the gateway sees them first.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use lyceum_http::{Context, Outcome};
use lyceum_wire::{Era, Request, RpcError};
use tokio::sync::mpsc;

use crate::changes::Change;
use crate::listen;
use crate::server::{Server, replace};
use crate::shelf::{Listed, Shelf};
use crate::tasks;

/// A definition of another server's, under the name clients here know it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignItem {
    key: String,
    legacy: Bytes,
    modern: Bytes,
}

/// Everything other servers offer, to be shown next to what a server offers itself.
#[derive(Clone, Default)]
pub struct Foreign {
    /// Tools. Own tools of the same name hide them.
    pub tools: Vec<Arc<ForeignItem>>,
    /// Resources, by URI.
    pub resources: Vec<Arc<ForeignItem>>,
    /// Resource templates, by their template.
    pub templates: Vec<Arc<ForeignItem>>,
    /// Prompts.
    pub prompts: Vec<Arc<ForeignItem>>,
    /// Whether a URI nobody lists may be readable all the same.
    pub claims: Option<UriClaim>,
    /// Whether any of the tools can run as a task, in each era.
    pub tasks: ForeignTasks,
}

/// In which eras foreign tools can run as tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForeignTasks {
    /// As 2025-11-25 has them.
    pub legacy: bool,
    /// As the extension of 2026-07-28 has them.
    pub modern: bool,
}

/// Tasks of other servers that one listening stream follows.
#[derive(Debug, Default)]
pub struct ForeignNews {
    /// The ids the client knows them by, which it asked for.
    pub tasks: Vec<String>,
    /// Tasks that changed, as raw objects in the words of the extension.
    pub changes: Option<mpsc::Receiver<Bytes>>,
}

/// Says whether a URI belongs to some other server.
pub type UriClaim = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What a server keeps of [`Foreign`] besides the shelves.
#[derive(Clone, Default)]
pub(crate) struct Abroad {
    claims: Option<UriClaim>,
    pub(crate) tasks: ForeignTasks,
}

impl ForeignItem {
    /// An item known as `key`, with its raw definition for clients of each era.
    pub fn new(key: impl Into<String>, legacy: Bytes, modern: Bytes) -> Self {
        Self { key: key.into(), legacy, modern }
    }

    /// What clients find it by.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The raw definition for clients of an era.
    pub fn definition(&self, era: Era) -> &Bytes {
        match era {
            Era::Legacy => &self.legacy,
            Era::Modern => &self.modern,
        }
    }
}

impl ForeignNews {
    /// Waits for a task that changed; `None` when there will be no more.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        self.changes.as_mut()?.recv().await
    }
}

impl Abroad {
    /// Whether a foreign server may have something at `uri`.
    pub(crate) fn claims(&self, uri: &str) -> bool {
        self.claims.as_ref().is_some_and(|claims| claims(uri))
    }
}

impl Server {
    /// Announces every kind of list from now on, because other servers may fill them at any time.
    pub fn expect_foreign(&self) {
        self.0.is_gateway.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_gateway(&self) -> bool {
        self.0.is_gateway.load(Ordering::Relaxed)
    }

    /// Shows what other servers offer in place of what was shown before, and tells clients about
    /// the lists that changed, and only those.
    pub fn show_foreign(&self, foreign: &Foreign) {
        let abroad = Abroad { claims: foreign.claims.clone(), tasks: foreign.tasks };
        self.0.abroad.store(Arc::new(abroad));
        let resources = swap(&self.0.resources, &foreign.resources);
        let templates = swap(&self.0.templates, &foreign.templates);
        for (changed, change) in [
            (swap(&self.0.tools, &foreign.tools), Change::Tools),
            (resources || templates, Change::Resources),
            (swap(&self.0.prompts, &foreign.prompts), Change::Prompts),
        ] {
            if changed {
                self.0.changes.tell(&change);
            }
        }
    }

    /// Answers `subscriptions/listen` of a client that also follows tasks of other servers.
    ///
    /// # Errors
    /// As the server itself would answer.
    pub async fn listen(
        &self,
        request: Request,
        cx: &Context,
        foreign: ForeignNews,
    ) -> Result<Outcome, RpcError> {
        listen::listen(self, request, cx, foreign).await
    }

    /// Keeps the raw result of a foreign call as a task that has ended, for a client of 2025-11-25
    /// that wanted one, and answers the call.
    ///
    /// # Errors
    /// When too much is kept already.
    pub fn ended_task(
        &self,
        result: &[u8],
        cx: &Context,
        ttl: Option<Duration>,
    ) -> Result<Outcome, RpcError> {
        tasks::keep_ended(self, result, cx, ttl)
    }

    /// Who the server is, as the raw object modern results carry in their `_meta`.
    pub fn brief_info(&self) -> &[u8] {
        self.0.identity.brief()
    }

    /// Whether the server has a tool of this name itself.
    pub fn has_tool(&self, name: &str) -> bool {
        self.0.tools.load().get(name).is_some()
    }

    /// The names of the server's own tools.
    pub fn own_tools(&self) -> Vec<String> {
        self.0.tools.load().iter().map(|tool| tool.name().to_owned()).collect()
    }

    /// Whether the server has a prompt of this name itself.
    pub fn has_prompt(&self, name: &str) -> bool {
        self.0.prompts.load().get(name).is_some()
    }

    /// The names of the server's own prompts.
    pub fn own_prompts(&self) -> Vec<String> {
        self.0.prompts.load().iter().map(|prompt| prompt.key().to_owned()).collect()
    }

    /// Whether the server has a resource at `uri` itself, as one of a family or not, or a family that
    /// is written like this.
    pub fn has_resource(&self, uri: &str) -> bool {
        let templates = self.0.templates.load();
        self.0.resources.load().get(uri).is_some()
            || templates.get(uri).is_some()
            || templates.iter().any(|template| template.matches(uri).is_some())
    }
}

fn swap<T: Listed>(shelf: &ArcSwap<Shelf<T>>, items: &[Arc<ForeignItem>]) -> bool {
    replace(shelf, |shelf| shelf.with_foreign(items))
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign")
            .field("tools", &self.tools.len())
            .field("resources", &self.resources.len())
            .field("templates", &self.templates.len())
            .field("prompts", &self.prompts.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Abroad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abroad").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}
