//! Puts tools, resources and prompts together into one MCP server per profile.

use lyceum_gateway::Reserved;
use lyceum_kb::Kb;
use lyceum_server::{Call, Refused, Server};

use crate::knowledge::desk::{self, Desk};
use crate::knowledge::{prompts, resources, rights, tools, uri};

/// The shape of the tools. Raise it when a change could surprise a client that knew the one before.
pub(crate) const SCHEMA_VERSION: &str = "1";

const INSTRUCTIONS: &str = "\
This is a team's shared knowledge base: Markdown documents under paths such as guides/setup.md. Before \
answering a question about the team, its projects or its decisions, look here. Find with \
search_knowledge; read with get_document (brief, or by section and lines) or batch_read. Before changing \
a document read it with get_document_for_rewrite, then use patch_document for small changes or \
update_document for large ones, always with the revision you read as expected_revision. Failed calls \
return {error: {code, message, details}}; the message says what to do.";

/// What no server behind the gateway may take.
pub(crate) fn reserved() -> Reserved {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let uris = vec![uri::SCHEME.to_owned()];
    Reserved { tools: owned(&tools::NAMES), prompts: owned(&prompts::NAMES), uris }
}

/// The server of a profile that offers the tools `offers` says yes to. No text has more than
/// `max_text` bytes.
///
/// Its subscribers hear of changes while [`follow`](crate::knowledge::follow) runs.
pub(crate) fn server(kb: &Kb, max_text: usize, offers: impl Fn(&str) -> bool) -> Server {
    let desk = Desk::new(kb.clone(), max_text);
    let (lister, refuser) = (kb.clone(), desk.clone());
    let is_filtered = tools::NAMES.iter().any(|name| !offers(name));
    let builder = Server::builder("lyceum", env!("CARGO_PKG_VERSION"))
        .title("Lyceum")
        .description("One door to a team's knowledge and tools.")
        .instructions(INSTRUCTIONS)
        .schema_version(SCHEMA_VERSION)
        .template(resources::documents(&desk))
        .list_resources(move |call: Call, after| {
            resources::list(lister.on_behalf_of(desk::caller(&call)), after)
        })
        .refuse(move |call: Call, refused: Refused| {
            desk::refuse(refuser.clone(), is_filtered, call, refused)
        });
    let builder = prompts::all(kb, max_text)
        .into_iter()
        .fold(builder, |builder, prompt| builder.prompt(prompt));
    let tools = tools::all(&desk).into_iter();
    let server = tools.fold(builder, |builder, tool| builder.tool(tool)).build();
    rights::offer(&server, offers);
    server
}
