//! Documents as resources: listed in pages, read by URI.

use lyceum_http::UNCOUNTED_BYTES;
use lyceum_kb::store::ListPage;
use lyceum_kb::{Code, DocPath, Error, Kb, Meta};
use lyceum_server::{
    Call, ResourceContents, ResourceLink, ResourcePage, ResourceTemplate, ToolError, Variables,
    template,
};
use lyceum_wire::{RpcError, encode};
use serde_json::json;

use crate::knowledge::charge::Payer;
use crate::knowledge::desk::{self, Desk};
use crate::knowledge::{completions, time, uri};

/// Documents in one page of `resources/list`.
const PAGE: usize = 100;
/// Bytes around the text of a document, such as its title and tags.
const FRAME: usize = 128 << 10;

/// The template all documents match.
pub(crate) fn documents(desk: &Desk) -> ResourceTemplate {
    let (of_paths, desk) = (desk.kb.clone(), desk.clone());
    template(uri::TEMPLATE, "document", move |call: Call, variables: Variables| {
        read(desk.clone(), call, variables.get("path").to_owned())
    })
    .expect("one variable at the end is a template")
    .title("A document")
    .description("The whole text of a document, by its path. Subscribe to be told when it changes.")
    .complete("path", move |completing| completions::paths(of_paths.clone(), completing))
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

async fn read(desk: Desk, call: Call, path: String) -> Result<ResourceContents, ToolError> {
    // The client's own spelling of the URI is filled in where the error is sent.
    let missing = || ToolError::resource_not_found(format!("{}{path}", uri::SCHEME));
    let error = match contents(&desk, &call, &path).await {
        Ok(contents) => return Ok(contents),
        Err(error) => error,
    };
    let told = match error.code() {
        Code::NotFound => missing(),
        Code::InvalidArgument => ToolError::rpc(RpcError::invalid_params(error.to_string())),
        _ => ToolError::rpc(RpcError::internal(error.to_string())),
    };
    desk.audit_refusal(&call, desk::READ_RESOURCE, Some(path), error.code()).await;
    Err(told)
}

async fn contents(desk: &Desk, call: &Call, path: &str) -> lyceum_kb::Result<ResourceContents> {
    let path = DocPath::parse(path).map_err(|_| Error::not_found("no such path"))?;
    let payer = Payer::of(call);
    let _work = payer.work(2 * desk.max_text).await?;
    let document = desk.kb.on_behalf_of(desk::caller(call)).get(&path).await?;
    let (meta, body) = (document.meta, document.body);
    let mut charge = None;
    if body.len() > UNCOUNTED_BYTES / 8 {
        let kept = body.len();
        let sent = encode::str_length(&body) + FRAME;
        charge = Some(payer.answer(sent, kept).await?);
    }
    let contents = ResourceContents::text("", body)
        .mime_type(meta.mime_type.as_str())
        .meta("title", meta.title)
        .meta("tags", json!(meta.tags))
        .meta("revision", meta.revision)
        .meta("updated_at", time::written(meta.updated_at))
        .meta("vector_status", meta.vector_status.as_str());
    Ok(match charge {
        Some(charge) => contents.charged(charge),
        None => contents,
    })
}
