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

use lyceum_kb::Kb;
use lyceum_server::Tool;

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

/// All tools on `kb`, in the order of [`NAMES`].
pub(crate) fn all(kb: &Kb) -> [Tool; 10] {
    [
        search_knowledge::tool(kb),
        list_documents::tool(kb),
        get_document::tool(kb),
        get_document_for_rewrite::tool(kb),
        batch_read::tool(kb),
        upload_document::tool(kb),
        update_document::tool(kb),
        patch_document::tool(kb),
        delete_document::tool(kb),
        ingest_document::tool(kb),
    ]
}
