//! What people may be about to type: paths and tags that exist.

use lyceum_kb::store::ListPage;
use lyceum_kb::{CallerId, Kb, Prefix};
use lyceum_server::Completing;

use crate::knowledge::rights::{DocumentAccess, DocumentRights};

/// One more than a client is shown, so that it learns that there are more.
const SUGGESTIONS: usize = 101;
/// All who type share their part of the readers; suggestions do not say who asks.
const CALLER: &str = "completions";

/// Paths that begin with what was typed, if the endpoint may show them.
pub(crate) async fn paths(kb: Kb, completing: Completing) -> Vec<String> {
    if !rights(&completing).allows(DocumentAccess::CompletePaths) {
        return Vec::new();
    }
    let Ok(prefix) = Prefix::parse(&completing.value) else { return Vec::new() };
    let page = ListPage { prefix, limit: SUGGESTIONS, ..ListPage::default() };
    match kb.on_behalf_of(CallerId::new(CALLER)).list(page).await {
        Ok(list) => list.items.into_iter().map(|meta| meta.path.to_string()).collect(),
        Err(error) => nothing(&error),
    }
}

/// Tags that begin with what was typed, if the endpoint may show them.
pub(crate) async fn tags(kb: Kb, completing: Completing) -> Vec<String> {
    if !rights(&completing).allows(DocumentAccess::CompleteTags) {
        return Vec::new();
    }
    match kb.on_behalf_of(CallerId::new(CALLER)).store().tags(&completing.value, SUGGESTIONS).await
    {
        Ok(tags) => tags,
        Err(error) => nothing(&error),
    }
}

fn rights(completing: &Completing) -> DocumentRights {
    DocumentRights::of(|tool| completing.offers_tool(tool))
}

/// Suggestions are a convenience: when there are none, people type on.
fn nothing(error: &lyceum_kb::Error) -> Vec<String> {
    tracing::warn!(%error, "no suggestions");
    Vec::new()
}
