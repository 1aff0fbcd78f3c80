//! Documents as resources: listed in pages, read by URI.

use lyceum_kb::store::ListPage;
use lyceum_kb::{Code, DocPath, Kb, Meta};
use lyceum_server::{
    Call, ResourceContents, ResourceLink, ResourcePage, ResourceTemplate, ToolError, Variables,
    template,
};
use lyceum_wire::RpcError;
use serde_json::json;

use crate::knowledge::{completions, desk, time, uri};

/// Documents in one page of `resources/list`.
const PAGE: usize = 100;

/// The template all documents match.
pub(crate) fn documents(kb: &Kb) -> ResourceTemplate {
    let (of_paths, kb) = (kb.clone(), kb.clone());
    template(uri::TEMPLATE, "document", move |call: Call, variables: Variables| {
        read(kb.on_behalf_of(desk::caller(&call)), variables.get("path").to_owned())
    })
    .expect("one variable at the end is a template")
    .title("A document")
    .description("The whole text of a document, by its path. Subscribe to be told when it changes.")
    .complete("path", move |completing| completions::paths(of_paths.clone(), completing.value))
}

/// A page of all documents; `after` is the last path of the page before.
pub(crate) async fn list(kb: Kb, after: Option<String>) -> Result<ResourcePage, ToolError> {
    let page = ListPage { after, limit: PAGE, ..ListPage::default() };
    let list = kb.list(page).await.map_err(|error| RpcError::internal(error.to_string()))?;
    let last = list.items.last().filter(|_| list.more);
    Ok(ResourcePage {
        next: last.map(|meta| meta.path.to_string()),
        resources: list.items.iter().map(link).collect(),
    })
}

fn link(meta: &Meta) -> ResourceLink {
    ResourceLink {
        title: Some(meta.title.clone()),
        mime_type: Some(meta.mime_type.as_str().to_owned()),
        ..ResourceLink::new(uri::of(&meta.path), meta.path.to_string())
    }
}

async fn read(kb: Kb, path: String) -> Result<ResourceContents, ToolError> {
    // The client's own spelling of the URI is filled in where the error is sent.
    let missing = || ToolError::resource_not_found(format!("{}{path}", uri::SCHEME));
    let path = DocPath::parse(&path).map_err(|_| missing())?;
    let document = kb.get(&path).await.map_err(|error| match error.code() {
        Code::NotFound => missing(),
        _ => ToolError::rpc(RpcError::internal(error.to_string())),
    })?;
    let meta = document.meta;
    Ok(ResourceContents::text("", document.body)
        .mime_type(meta.mime_type.as_str())
        .meta("title", meta.title)
        .meta("tags", json!(meta.tags))
        .meta("revision", meta.revision)
        .meta("updated_at", time::written(meta.updated_at))
        .meta("vector_status", meta.vector_status.as_str()))
}
