//! What an endpoint shows of the documents beside its tools: it follows from what the tools may read.
//!
//! An endpoint that only takes uploads gives no document away as a resource, in a prompt, in a
//! suggestion or in the details of an error. docs/profiles.md has the same table for people.

use lyceum_server::Server;

use crate::knowledge::prompts;
use crate::knowledge::tools::{
    batch_read, get_document, get_document_for_rewrite, list_documents, search_knowledge,
};

/// What the tools of an endpoint may find out about documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DocumentRights {
    /// The text of a document whose path is known.
    read: bool,
    /// Which documents there are.
    list: bool,
    /// Passages that answer a question.
    search: bool,
}

/// A way to documents that is no tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentAccess {
    ReadResources,
    ListResources,
    /// Notifications about documents that change.
    Updates,
    SummarisePrompt,
    AnswerPrompt,
    CompletePaths,
    CompleteTags,
    /// Where in a document a passage occurs, in the details of a refused write.
    ErrorDetails,
}

impl DocumentRights {
    /// The rights of an endpoint that offers the tools `offers` says yes to.
    pub(crate) fn of(offers: impl Fn(&str) -> bool) -> Self {
        let readers = [get_document::NAME, get_document_for_rewrite::NAME, batch_read::NAME];
        Self {
            read: readers.into_iter().any(&offers),
            list: offers(list_documents::NAME),
            search: offers(search_knowledge::NAME),
        }
    }

    /// The rights of an endpoint with the tools `server` offers now.
    pub(crate) fn of_server(server: &Server) -> Self {
        Self::of(|tool| server.has_tool(tool))
    }

    /// Which right each way needs.
    pub(crate) fn allows(self, access: DocumentAccess) -> bool {
        match access {
            DocumentAccess::ReadResources
            | DocumentAccess::Updates
            | DocumentAccess::SummarisePrompt
            | DocumentAccess::ErrorDetails => self.read,
            DocumentAccess::ListResources | DocumentAccess::CompletePaths => self.list,
            DocumentAccess::AnswerPrompt => self.search,
            DocumentAccess::CompleteTags => self.list || self.search,
        }
    }
}

/// Offers the tools `offers` says yes to, and documents in other ways as far as these tools may see
/// them; `false` when no tool came or went.
pub(crate) fn offer(server: &Server, offers: impl Fn(&str) -> bool) -> bool {
    let rights = DocumentRights::of(&offers);
    let changed = server.enable_tools(offers);
    server.enable_templates(|_| rights.allows(DocumentAccess::ReadResources));
    server.enable_listing(rights.allows(DocumentAccess::ListResources));
    server.enable_prompts(|name| rights.allows(prompts::access(name)));
    changed
}
