//! Embedding the pieces of several documents in as few calls as the model allows.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::chunk::{Chunk, chunks};
use crate::document::Document;
use crate::embed::{EmbedError, Embedder};
use crate::indexer::retry_in;
use crate::kb::Kb;
use crate::store::{ChunkVector, Job};
use crate::vector::Quantized;
use crate::{Error, Result};

/// A claimed document and its pieces.
struct Work {
    job: Job,
    chunks: Vec<Chunk>,
}

impl Work {
    fn new(job: Job) -> Work {
        let Document { meta, body } = &job.document;
        Work { chunks: chunks(&meta.title, body, meta.mime_type), job }
    }
}

/// Embeds `jobs` and stores what came of each.
pub(super) async fn index(kb: &Kb, embedder: &dyn Embedder, jobs: Vec<Job>) -> Result<()> {
    // Cutting up large documents takes a while, so it must not hold up calls.
    let cut =
        tokio::task::spawn_blocking(|| jobs.into_iter().map(Work::new).collect::<Vec<Work>>())
            .await;
    let works =
        cut.map_err(|error| Error::internal(format!("cutting up documents stopped: {error}")))?;
    let mut batch: Vec<Work> = Vec::new();
    let mut texts = 0;
    for work in works {
        if !batch.is_empty() && texts + work.chunks.len() > embedder.batch_size() {
            flush(kb, embedder, std::mem::take(&mut batch)).await?;
            texts = 0;
        }
        texts += work.chunks.len();
        batch.push(work);
    }
    flush(kb, embedder, batch).await
}

/// Embeds one batch; when the model refuses it as a whole, one document at a time, so that a bad one only spoils its own.
async fn flush(kb: &Kb, embedder: &dyn Embedder, batch: Vec<Work>) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    match embed(embedder, &batch).await {
        Ok(vectors) => store(kb, batch, vectors).await,
        Err(EmbedError::Never { .. }) if batch.len() > 1 => {
            for work in batch {
                let alone = vec![work];
                match embed(embedder, &alone).await {
                    Ok(vectors) => store(kb, alone, vectors).await?,
                    Err(error) => give_back(kb, alone, &error).await?,
                }
            }
            Ok(())
        }
        Err(error) => give_back(kb, batch, &error).await,
    }
}

/// One vector for each piece of each document, in order.
async fn embed(embedder: &dyn Embedder, batch: &[Work]) -> Result<Vec<Quantized>, EmbedError> {
    let texts: Vec<String> =
        batch.iter().flat_map(|work| work.chunks.iter().map(|chunk| chunk.text.clone())).collect();
    let mut vectors = Vec::with_capacity(texts.len());
    for texts in texts.chunks(embedder.batch_size().max(1)) {
        let embedded = embedder.embed(texts).await?;
        if embedded.len() != texts.len() {
            let message =
                format!("the model gave {} vectors for {} texts", embedded.len(), texts.len());
            return Err(EmbedError::Later { message });
        }
        for vector in embedded {
            if vector.iter().any(|value| !value.is_finite()) {
                let message = "the model gave a vector with numbers that are not finite".to_owned();
                return Err(EmbedError::Never { message });
            }
            vectors.push(Quantized::new(&vector));
        }
    }
    Ok(vectors)
}

/// Stores all of them at a time, so that they share commits.
async fn store(kb: &Kb, batch: Vec<Work>, vectors: Vec<Quantized>) -> Result<()> {
    let mut vectors = vectors.into_iter();
    let mut stored = JoinSet::new();
    for Work { job, chunks } in batch {
        let embedded = chunks.iter().zip(&mut vectors).map(|(chunk, vector)| ChunkVector {
            start: chunk.start,
            end: chunk.end,
            vector,
        });
        let (store, embedded) = (Arc::clone(&kb.store), embedded.collect());
        // False means that the document changed meanwhile; its newer job is on the outbox.
        stored.spawn(async move { store.finish(&job, embedded).await.map(drop) });
    }
    while let Some(finished) = stored.join_next().await {
        finished
            .map_err(|error| Error::internal(format!("storing vectors stopped: {error}")))??;
    }
    Ok(())
}

async fn give_back(kb: &Kb, batch: Vec<Work>, error: &EmbedError) -> Result<()> {
    for Work { job, .. } in batch {
        let retry = match error {
            EmbedError::Later { .. } => retry_in(&job),
            EmbedError::Never { .. } => None,
        };
        if retry.is_none() {
            let path = job.document.meta.path.as_str();
            tracing::warn!(document = path, %error, "no vectors for this document until it changes");
        }
        kb.store.fail(&job, &error.to_string(), retry).await?;
    }
    Ok(())
}
