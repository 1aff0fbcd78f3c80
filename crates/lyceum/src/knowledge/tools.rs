//! The ten tools, one file each.

pub(crate) mod batch_read;
pub(crate) mod delete_document;
pub(crate) mod get_document;
pub(crate) mod get_document_for_rewrite;
pub(crate) mod ingest_document;
pub(crate) mod list_documents;
pub(crate) mod patch_document;
pub(crate) mod search_knowledge;
pub(crate) mod update_document;
pub(crate) mod upload_document;

use lyceum_server::Tool;

use crate::knowledge::desk::Desk;

/// Every tool there is, in the order clients see them.
pub(crate) const NAMES: [&str; 10] = [
    search_knowledge::NAME,
    list_documents::NAME,
    get_document::NAME,
    get_document_for_rewrite::NAME,
    batch_read::NAME,
    upload_document::NAME,
    update_document::NAME,
    patch_document::NAME,
    delete_document::NAME,
    ingest_document::NAME,
];

/// All tools, in the order of [`NAMES`].
pub(crate) fn all(desk: &Desk) -> [Tool; 10] {
    [
        search_knowledge::tool(desk),
        list_documents::tool(desk),
        get_document::tool(desk),
        get_document_for_rewrite::tool(desk),
        batch_read::tool(desk),
        upload_document::tool(desk),
        update_document::tool(desk),
        patch_document::tool(desk),
        delete_document::tool(desk),
        ingest_document::tool(desk),
    ]
}
