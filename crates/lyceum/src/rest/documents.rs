//! `/documents`: whole documents, made, read, changed and deleted.

use http::StatusCode;
use lyceum_kb::Status;
use serde::Deserialize;

use super::problem::Problem;
use super::visit::Visit;
use crate::knowledge::answers::WriteAnswer;
use crate::knowledge::tools::{
    batch_read, delete_document, get_document_for_rewrite, patch_document, update_document,
    upload_document,
};

type Answer<R> = Result<(StatusCode, R), Problem>;

/// Arguments nobody reads.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
pub(super) struct Whatever {}

pub(super) async fn create(
    visit: Visit,
    arguments: upload_document::Arguments,
) -> Answer<WriteAnswer> {
    let written = visit.write(upload_document::NAME, upload_document::change(arguments)?).await?;
    let created = written.status == Status::Created;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, written.into()))
}

pub(super) async fn read(
    visit: Visit,
    arguments: get_document_for_rewrite::Arguments,
) -> Answer<get_document_for_rewrite::WholeDocument> {
    let _work = visit.work(&arguments).await?;
    Ok((StatusCode::OK, get_document_for_rewrite::answer(visit.kb(), arguments).await?))
}

pub(super) async fn update(
    visit: Visit,
    arguments: update_document::Arguments,
) -> Answer<WriteAnswer> {
    let change = update_document::change(arguments)?;
    Ok((StatusCode::OK, visit.write(update_document::NAME, change).await?.into()))
}

pub(super) async fn patch(
    visit: Visit,
    arguments: patch_document::Arguments,
) -> Answer<WriteAnswer> {
    let change = patch_document::change(arguments)?;
    Ok((StatusCode::OK, visit.write(patch_document::NAME, change).await?.into()))
}

pub(super) async fn delete(
    visit: Visit,
    arguments: delete_document::Arguments,
) -> Answer<WriteAnswer> {
    let change = delete_document::change(arguments)?;
    Ok((StatusCode::OK, visit.write(delete_document::NAME, change).await?.into()))
}

pub(super) async fn batch(
    visit: Visit,
    arguments: batch_read::Arguments,
) -> Answer<batch_read::Batch> {
    let _work = visit.work(&arguments).await?;
    let answer_bytes = visit.payer.answer_bytes();
    Ok((StatusCode::OK, batch_read::answer(visit.kb(), arguments, answer_bytes).await?))
}

/// Clients know this address; there is nothing behind it.
pub(super) async fn relocate(_: Visit, _: Whatever) -> Answer<WriteAnswer> {
    Err(Problem::not_implemented(
        "documents cannot be moved; create the new one, then delete the old one",
    ))
}
