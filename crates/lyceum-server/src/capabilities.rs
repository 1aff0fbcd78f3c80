//! What the server says it can do, in the words of each revision.

use lyceum_wire::{Era, Revision};

use crate::json::Object;
use crate::since;

/// What a server has to offer at the moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
    pub(crate) completions: bool,
    /// Tasks as 2025-11-25 has them.
    pub(crate) core_tasks: bool,
    /// Tasks as 2026-07-28 has them.
    pub(crate) task_extension: bool,
}

impl Offer {
    /// Writes the `ServerCapabilities` object.
    pub(crate) fn write(self, revision: Revision, out: &mut Vec<u8>) {
        let mut capabilities = Object::open(out);
        capabilities.raw("logging", b"{}");
        if self.completions && revision >= since::COMPLETIONS_CAPABILITY {
            capabilities.raw("completions", b"{}");
        }
        if self.prompts {
            capabilities.raw("prompts", br#"{"listChanged":true}"#);
        }
        if self.resources {
            capabilities.raw("resources", br#"{"subscribe":true,"listChanged":true}"#);
        }
        if self.tools {
            capabilities.raw("tools", br#"{"listChanged":true}"#);
        }
        if self.core_tasks && revision == since::CORE_TASKS {
            let tasks = br#"{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#;
            capabilities.raw("tasks", tasks);
        }
        if self.task_extension && revision.era() == Era::Modern {
            capabilities.raw("extensions", br#"{"io.modelcontextprotocol/tasks":{}}"#);
        }
        capabilities.close();
    }
}
