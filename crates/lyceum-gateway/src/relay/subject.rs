//! [`Subject`]: what a request is about, and whose it is.

use std::sync::Arc;

use super::params::Passing;
use super::tasks::TaskRef;
use crate::catalogue::{Entry, Tool};
use crate::upstream::Upstream;

/// What a request is about.
#[derive(Debug)]
pub(crate) enum Subject {
    Tool(Arc<Tool>),
    Prompt(Arc<Entry>),
    /// An upstream's resource, by its own URI.
    Resource(Arc<Upstream>, String),
    /// The member of `ref` that names it, and the upstream's own name for it.
    Completion(Arc<Upstream>, &'static str, String),
    Task(TaskRef),
    /// Something of an upstream that has never been reached, and the member that names it.
    Absent(Arc<Upstream>, &'static str, String),
}

impl Subject {
    pub(super) fn upstream(&self) -> &Arc<Upstream> {
        match self {
            Subject::Tool(tool) => &tool.entry.upstream,
            Subject::Prompt(entry) => &entry.upstream,
            Subject::Resource(upstream, _)
            | Subject::Completion(upstream, ..)
            | Subject::Absent(upstream, ..) => upstream,
            Subject::Task(task) => &task.upstream,
        }
    }

    /// Whether the request may be made twice.
    pub(super) fn may_repeat(&self) -> bool {
        match self {
            Subject::Tool(tool) => tool.may_repeat,
            Subject::Prompt(_) | Subject::Resource(..) | Subject::Completion(..) => true,
            Subject::Task(..) | Subject::Absent(..) => false,
        }
    }

    /// What to pass on in place of the public name.
    pub(super) fn passing(&self) -> Passing<'_> {
        match self {
            Subject::Tool(tool) => Passing::Member("name", &tool.entry.own),
            Subject::Prompt(entry) => Passing::Member("name", &entry.own),
            Subject::Resource(_, uri) => Passing::Member("uri", uri),
            Subject::Completion(_, member, own) => Passing::Reference(member, own),
            Subject::Task(task) => Passing::Member("taskId", &task.own),
            Subject::Absent(_, member, name) => Passing::Member(member, name),
        }
    }
}
