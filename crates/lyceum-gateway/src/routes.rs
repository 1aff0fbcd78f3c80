//! [`Routes`]: where the names and URIs of one endpoint lead.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use lyceum_server::{Foreign, ForeignTasks, Server};
use lyceum_wire::{Object, Request};
use rustc_hash::FxHashMap;

use crate::absent::Absent;
use crate::catalogue::{Catalogue, Entry, TaskSupport, Tool};
use crate::names::{self, Names};
use crate::relay::Subject;
use crate::upstream::Upstream;

/// Which tools an endpoint shows, by public name.
pub type Allow = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What one endpoint shows of the catalogue, and where it leads.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    tools: FxHashMap<String, Arc<Tool>>,
    prompts: FxHashMap<String, Arc<Entry>>,
    /// By public URI.
    resources: FxHashMap<String, Arc<Entry>>,
    /// By public template.
    templates: FxHashMap<String, Arc<Entry>>,
    /// The templates of upstreams without a prefix, by what comes before their first variable; the
    /// longest first.
    openings: Vec<(String, Arc<Upstream>)>,
    /// By prefix.
    upstreams: HashMap<String, Arc<Upstream>>,
    /// The prefixes of all upstreams, shown here or not.
    prefixes: HashSet<String>,
    tool_names: Names,
    pub(crate) absent: Absent,
    arriving: Vec<Arc<Upstream>>,
}

impl Routes {
    /// What an endpoint shows that `allows` these tools. An upstream's prompts and resources are
    /// shown where any of its tools is, and where it has no tools.
    pub(crate) fn choose(catalogue: &Catalogue, allows: &Allow) -> (Routes, Foreign) {
        let tools: Vec<_> =
            catalogue.tools.iter().filter(|tool| allows(tool.entry.item.key())).collect();
        let name = |entry: &Entry| entry.upstream.config.name.clone();
        let with_tools: HashSet<_> = catalogue.tools.iter().map(|tool| name(&tool.entry)).collect();
        let shown: HashSet<_> = tools.iter().map(|tool| name(&tool.entry)).collect();
        let everything = allows("");
        let visible = |entry: &&Arc<Entry>| {
            let config = &entry.upstream.config;
            // Where every tool of an upstream is denied by its prefix, so is one without tools.
            let may_be = || everything && allows(&names::opening(config.prefix()));
            shown.contains(&config.name) || (!with_tools.contains(&config.name) && may_be())
        };
        let chosen = |entries: &[Arc<Entry>]| -> Vec<Arc<Entry>> {
            entries.iter().filter(visible).cloned().collect()
        };
        let (prompts, resources) = (chosen(&catalogue.prompts), chosen(&catalogue.resources));
        let templates = chosen(&catalogue.templates);
        let mut routes = Routes {
            tool_names: catalogue.tool_names.clone(),
            prefixes: catalogue.prefixes.clone(),
            absent: catalogue.absent.clone(),
            arriving: catalogue.arriving.clone(),
            ..Routes::default()
        };
        for entry in resources.iter().chain(&templates) {
            let upstream = &entry.upstream;
            let prefixed = routes.upstreams.entry(upstream.config.prefix().to_owned());
            prefixed.or_insert_with(|| Arc::clone(upstream));
        }
        for template in templates.iter().filter(|entry| entry.upstream.config.prefix().is_empty()) {
            let opening = template.own.split('{').next().unwrap_or_default();
            routes.openings.push((opening.to_owned(), Arc::clone(&template.upstream)));
        }
        // The first configured comes first among equals.
        routes.openings.sort_by_key(|(opening, _)| std::cmp::Reverse(opening.len()));
        let keyed = |entries: &[Arc<Entry>]| {
            entries.iter().map(|entry| (entry.item.key().to_owned(), Arc::clone(entry))).collect()
        };
        (routes.prompts, routes.resources) = (keyed(&prompts), keyed(&resources));
        routes.templates = keyed(&templates);
        let by_name = tools.iter().map(|tool| (tool.entry.item.key().to_owned(), Arc::clone(tool)));
        routes.tools = by_name.collect();
        let items =
            |entries: &[Arc<Entry>]| entries.iter().map(|entry| Arc::clone(&entry.item)).collect();
        let has_tasks = tools.iter().any(|tool| tool.task != TaskSupport::Forbidden);
        let foreign = Foreign {
            tools: tools.iter().map(|tool| Arc::clone(&tool.entry.item)).collect(),
            resources: items(&resources),
            templates: items(&templates),
            prompts: items(&prompts),
            claims: None,
            // Whatever era they are of, clients of both can follow them.
            tasks: ForeignTasks { legacy: has_tasks, modern: has_tasks },
        };
        (routes, foreign)
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Routes { tools, prompts, upstreams, absent, .. } = self;
        tools.is_empty() && prompts.is_empty() && upstreams.is_empty() && absent.is_empty()
    }

    /// The upstreams that may list more in a moment.
    pub(crate) fn arriving(&self) -> Vec<Arc<Upstream>> {
        self.arriving.iter().filter(|upstream| upstream.may_arrive()).cloned().collect()
    }

    pub(crate) fn exact_tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    /// The tool a caller means: by its public name, an alias, `upstream.tool`, or its own name if
    /// that is unique. The server's own tools come before guesses.
    pub(crate) fn tool(&self, asked: &str, server: &Server) -> Option<Arc<Tool>> {
        if let Some(tool) = self.tools.get(asked) {
            return Some(Arc::clone(tool));
        }
        if server.has_tool(asked) {
            return None;
        }
        let source = self.tool_names.route(asked)?;
        let public = self.tool_names.public(&source.upstream, &source.name)?;
        self.tools.get(public).cloned()
    }

    /// The prompt a caller means. The server's own come first.
    pub(crate) fn prompt(&self, asked: &str, server: &Server) -> Option<Arc<Entry>> {
        self.prompts.get(asked).filter(|_| !server.has_prompt(asked)).cloned()
    }

    /// Who has the resource at a public URI, or the template that is written like this, and what they
    /// call it. The server's own come first, then what is listed; templates that begin with a variable
    /// get only what nobody else can have.
    pub(crate) fn resource(&self, uri: &str, server: &Server) -> Option<(Arc<Upstream>, String)> {
        // Nothing to read is shown here, so the server need not be asked either.
        if self.upstreams.is_empty() || server.has_resource(uri) {
            return None;
        }
        if let Some(listed) = self.resources.get(uri).or_else(|| self.templates.get(uri)) {
            return Some((Arc::clone(&listed.upstream), listed.own.clone()));
        }
        // One setting for all, so any of them knows the form.
        let form = self.upstreams.values().next()?.uris().form;
        let known = |(prefix, _): &(&str, &str)| self.prefixes.contains(*prefix);
        if let Some((prefix, own)) = form.splits(uri).find(known) {
            return Some((Arc::clone(self.upstreams.get(prefix)?), own.to_owned()));
        }
        let opened = self.openings.iter().find(|(opening, _)| uri.starts_with(opening.as_str()))?;
        Some((Arc::clone(&opened.1), uri.to_owned()))
    }

    /// What a `completion/complete` is about.
    pub(crate) fn completion(&self, request: &Request, server: &Server) -> Option<Subject> {
        let params = request.params.raw()?;
        let reference = Object::parse(&params).ok()?.get("ref")?;
        let reference = Object::parse(reference.as_bytes()).ok()?;
        match reference.text("type")?.as_str() {
            "ref/prompt" => {
                let entry = self.prompt(&reference.text("name")?, server)?;
                Some(Subject::Completion(Arc::clone(&entry.upstream), "name", entry.own.clone()))
            }
            "ref/resource" => {
                let (upstream, own) = self.resource(&reference.text("uri")?, server)?;
                Some(Subject::Completion(upstream, "uri", own))
            }
            _ => None,
        }
    }

    /// The tools shown, by public name.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Entry> {
        self.tools.values().map(|tool| &tool.entry)
    }

    /// The resources shown, by public URI. Templates are not among them.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Entry> {
        self.resources.values().map(|entry| &**entry)
    }

    /// Every upstream anything of which is shown here.
    pub(crate) fn all(&self) -> Vec<Arc<Upstream>> {
        let of_tools = self.tools.values().map(|tool| &tool.entry.upstream);
        let of_prompts = self.prompts.values().map(|entry| &entry.upstream);
        let all = of_tools.chain(of_prompts).chain(self.upstreams.values());
        let named = all.map(|upstream| (&upstream.config.name, upstream));
        named.collect::<HashMap<_, _>>().into_values().cloned().collect()
    }

    /// The upstream of this name, if anything of it is shown here.
    pub(crate) fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        let is_it = |upstream: &&Arc<Upstream>| upstream.config.name == name;
        let of_tools = self.tools.values().map(|tool| &tool.entry.upstream);
        of_tools.chain(self.upstreams.values()).find(is_it).cloned()
    }
}
