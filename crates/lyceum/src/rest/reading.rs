//! `/kb`: finding documents, and reading them in brief.

use http::StatusCode;

use super::problem::Problem;
use super::visit::Visit;
use crate::knowledge::answers::{Hits, Page};
use crate::knowledge::tools::{get_document, list_documents, search_knowledge};

type Answer<R> = Result<(StatusCode, R), Problem>;

pub(super) async fn list(visit: Visit, arguments: list_documents::Arguments) -> Answer<Page> {
    Ok((StatusCode::OK, list_documents::answer(visit.kb(), arguments, &visit).await?))
}

pub(super) async fn brief(
    visit: Visit,
    arguments: get_document::Arguments,
) -> Answer<get_document::Brief> {
    let _work = visit.work(&arguments).await?;
    Ok((StatusCode::OK, get_document::answer(visit.kb(), arguments).await?))
}

pub(super) async fn search(visit: Visit, arguments: search_knowledge::Arguments) -> Answer<Hits> {
    let _work = visit.work(&arguments).await?;
    Ok((StatusCode::OK, search_knowledge::answer(visit.kb(), arguments).await?))
}
