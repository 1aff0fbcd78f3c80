//! [`Tasking`]: what a call of a tool and tasks have to do with each other.

use lyceum_http::Context;
use lyceum_wire::{ClientCapabilities, Era, ErrorCode, Member, Request, Revision, RpcError};

use crate::catalogue::{TaskSupport, Tool};

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tasking {
    /// Whatever client and upstream agree on.
    Plain,
    /// The upstream starts a task that the client follows, each in the way of its own era.
    Started,
    /// The upstream starts a task, and we wait for it: the client does not know of tasks.
    Awaited,
}

impl Tasking {
    /// What becomes of a call by this client to an upstream of era `upstream`.
    ///
    /// # Errors
    /// When the client wants a task where there can be none.
    pub(crate) fn of(
        tool: &Tool,
        request: &Request,
        cx: &Context,
        upstream: Era,
    ) -> Result<Tasking, RpcError> {
        let asked = request.params.get(Member::Task).is_some_and(|task| task != b"null");
        let follows = cx.capabilities.has(ClientCapabilities::TASKS_EXTENSION);
        Tasking::decide(tool.task, Client { revision: cx.revision, asked, follows }, upstream)
            .ok_or_else(|| {
                let problem = format!("{} cannot be called as a task", tool.entry.item.key());
                RpcError::new(ErrorCode::METHOD_NOT_FOUND, problem)
            })
    }

    /// None if the client wants what the tool does not do.
    fn decide(support: TaskSupport, client: Client, upstream: Era) -> Option<Tasking> {
        let knows_tasks = client.revision == Revision::V2025_11_25;
        let wants_task = knows_tasks && client.asked;
        Some(match (client.revision.era(), upstream, support) {
            (Era::Legacy, _, TaskSupport::Forbidden) if wants_task => return None,
            (_, _, TaskSupport::Forbidden) => Tasking::Plain,
            (Era::Modern, Era::Legacy, _) if client.follows => Tasking::Started,
            (Era::Modern, Era::Legacy, TaskSupport::Required) => Tasking::Awaited,
            (Era::Legacy, Era::Legacy, TaskSupport::Required) if !knows_tasks => Tasking::Awaited,
            (Era::Legacy, Era::Modern, _) if wants_task => Tasking::Started,
            _ => Tasking::Plain,
        })
    }
}

/// What of a client matters here.
#[derive(Debug, Clone, Copy)]
struct Client {
    revision: Revision,
    /// Whether the request wants to run as a task.
    asked: bool,
    /// Whether it can follow tasks of the extension.
    follows: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_follows_a_task_depends_on_everybody() {
        use Era::{Legacy, Modern};
        use TaskSupport::{Forbidden, Optional, Required};
        use Tasking::{Awaited, Plain, Started};
        const OLD: Revision = Revision::V2025_06_18;
        const CORE: Revision = Revision::V2025_11_25;
        const NEW: Revision = Revision::V2026_07_28;
        for (revision, asked, follows, upstream, expected) in [
            // Support: forbidden, optional, required.
            (OLD, false, false, Legacy, [Some(Plain), Some(Plain), Some(Awaited)]),
            (OLD, true, false, Legacy, [Some(Plain), Some(Plain), Some(Awaited)]),
            (OLD, true, false, Modern, [Some(Plain), Some(Plain), Some(Plain)]),
            (CORE, false, false, Legacy, [Some(Plain), Some(Plain), Some(Plain)]),
            (CORE, true, false, Legacy, [None, Some(Plain), Some(Plain)]),
            (CORE, false, false, Modern, [Some(Plain), Some(Plain), Some(Plain)]),
            (CORE, true, false, Modern, [None, Some(Started), Some(Started)]),
            (NEW, false, false, Legacy, [Some(Plain), Some(Plain), Some(Awaited)]),
            (NEW, false, true, Legacy, [Some(Plain), Some(Started), Some(Started)]),
            (NEW, true, true, Modern, [Some(Plain), Some(Plain), Some(Plain)]),
        ] {
            for (support, expected) in [Forbidden, Optional, Required].into_iter().zip(expected) {
                let client = Client { revision, asked, follows };
                let decided = Tasking::decide(support, client, upstream);
                assert_eq!(decided, expected, "{client:?} {support:?} {upstream:?}");
            }
        }
    }
}
