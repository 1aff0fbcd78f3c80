//! Every route of the HTTP API, in one screen.

use http::Method;

use super::route::Route;
use super::{documents, health, info, maintenance, openapi, reading};
use crate::knowledge::tools::{
    batch_read, delete_document, get_document, get_document_for_rewrite, list_documents,
    patch_document, search_knowledge, update_document, upload_document,
};

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const DOCUMENT: &str = "/documents/{path}";

/// All routes; the first that fits is taken.
#[rustfmt::skip]
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(GET, "/health", "", "How the server and what it depends on are", health::health).open(),
        Route::plain("/metrics", "Numbers, in the text format of Prometheus", health::metrics),
        Route::new(GET, "/info", "", "Tools, profiles and the hash of their schemas", info::info),
        Route::plain("/openapi.json", "This description", openapi::openapi),
        Route::new(POST, "/documents", upload_document::NAME, "Make a document", documents::create),
        Route::new(POST, "/documents/batch", batch_read::NAME, "Read up to 20 documents", documents::batch),
        Route::new(POST, "/documents/{path}/move", "move_document", "Not implemented", documents::relocate),
        Route::new(GET, DOCUMENT, get_document_for_rewrite::NAME, "Read a whole document", documents::read),
        Route::new(Method::PUT, DOCUMENT, update_document::NAME, "Change a document", documents::update),
        Route::new(Method::PATCH, DOCUMENT, patch_document::NAME, "Replace passages of a document", documents::patch),
        Route::new(Method::DELETE, DOCUMENT, delete_document::NAME, "Delete a document", documents::delete),
        Route::new(GET, "/kb/list", list_documents::NAME, "List documents by path", reading::list),
        Route::new(GET, "/kb/get/{path}", get_document::NAME, "Read a document in brief", reading::brief),
        Route::new(POST, "/kb/search", search_knowledge::NAME, "Search by words and meaning", reading::search),
        Route::new(POST, "/kb/reindex-missing", "reindex_missing", "Queue documents that lack vectors", maintenance::reindex_missing),
        Route::new(POST, "/kb/audit-sync", "audit_sync", "Compare documents and vectors", maintenance::audit_sync),
        Route::new(POST, "/kb/cleanup-orphans", "cleanup_orphans", "Remove vectors without documents", maintenance::cleanup_orphans),
    ]
}
