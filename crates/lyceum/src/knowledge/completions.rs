//! What people may be about to type: paths and tags that exist.

use lyceum_kb::store::ListPage;
use lyceum_kb::{CallerId, Kb, Prefix};

/// One more than a client is shown, so that it learns that there are more.
const SUGGESTIONS: usize = 101;
/// All who type share their part of the readers; suggestions do not say who asks.
const CALLER: &str = "completions";

/// Paths that begin with `typed`.
pub(crate) async fn paths(kb: Kb, typed: String) -> Vec<String> {
    let Ok(prefix) = Prefix::parse(&typed) else { return Vec::new() };
    let page = ListPage { prefix, limit: SUGGESTIONS, ..ListPage::default() };
    match kb.on_behalf_of(CallerId::new(CALLER)).list(page).await {
        Ok(list) => list.items.into_iter().map(|meta| meta.path.to_string()).collect(),
        Err(error) => nothing(&error),
    }
}

/// Tags that begin with `typed`.
pub(crate) async fn tags(kb: Kb, typed: String) -> Vec<String> {
    match kb.on_behalf_of(CallerId::new(CALLER)).store().tags(&typed, SUGGESTIONS).await {
        Ok(tags) => tags,
        Err(error) => nothing(&error),
    }
}

/// Suggestions are a convenience: when there are none, people type on.
fn nothing(error: &lyceum_kb::Error) -> Vec<String> {
    tracing::warn!(%error, "no suggestions");
    Vec::new()
}
