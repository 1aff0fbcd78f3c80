//! `/kb`: keeping documents and vectors in step.

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::Problem;
use super::visit::Visit;

type Answer<R> = Result<(StatusCode, R), Problem>;

/// No arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// What was put in line.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Reindexed {
    /// Documents that lacked vectors and now wait for them.
    queued: usize,
}

/// Documents and vectors compared.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sync {
    /// How many living documents lack current vectors, those that wait for them included.
    documents_without_vectors: usize,
    /// How many documents' vectors are left over from what was deleted.
    vectors_without_documents: usize,
    /// `in_sync` or `out_of_sync`.
    status: &'static str,
    /// The first hundred of the documents.
    document_ids: Vec<String>,
}

/// What to clean up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cleanup {
    /// Count only, remove nothing.
    #[schemars(extend("default" = false))]
    dry_run: Option<bool>,
}

/// What was cleaned up.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Removed {
    /// Vectors without a document; with `dry_run` still there.
    removed: usize,
}

pub(super) async fn reindex_missing(visit: Visit, _: Nothing) -> Answer<Reindexed> {
    visit.record("reindex_missing").await?;
    Ok((StatusCode::OK, Reindexed { queued: visit.kb().reindex_missing().await? }))
}

pub(super) async fn audit_sync(visit: Visit, _: Nothing) -> Answer<Sync> {
    let report = visit.kb().store().audit_sync().await?;
    let n_missing = report.n_documents_without_vectors;
    let in_sync = n_missing == 0 && report.vectors_without_documents == 0;
    let sync = Sync {
        documents_without_vectors: n_missing,
        vectors_without_documents: report.vectors_without_documents,
        status: if in_sync { "in_sync" } else { "out_of_sync" },
        document_ids: report.documents_without_vectors,
    };
    Ok((StatusCode::OK, sync))
}

pub(super) async fn cleanup_orphans(visit: Visit, arguments: Cleanup) -> Answer<Removed> {
    let dry_run = arguments.dry_run.unwrap_or(false);
    if !dry_run {
        visit.record("cleanup_orphans").await?;
    }
    Ok((StatusCode::OK, Removed { removed: visit.kb().store().cleanup_orphans(dry_run).await? }))
}
