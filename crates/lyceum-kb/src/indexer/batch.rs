//! Embedding the pieces of several documents in as few calls as the model allows.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::chunk::{Chunk, chunks};
use crate::document::Document;
use crate::embed::{EmbedError, Embedder, embed_catching_panics};
use crate::indexer::retry_in;
use crate::kb::Kb;
use crate::store::{ChunkVector, Job};
use crate::vector::Quantized;
use crate::{Code, Error, Result};

/// Bytes of pieces that are held together, unless one document has more.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// A claimed document and its pieces.
struct Work {
    /// Without its text, which is in the pieces.
    job: Job,
    chunks: Vec<Chunk>,
}

impl Work {
    fn new(mut job: Job) -> Work {
        let Document { meta, body } = &mut job.document;
        let chunks = chunks(&meta.title, body, meta.mime_type);
        *body = String::new();
        Work { job, chunks }
    }

    fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.text.len()).sum()
    }
}

/// Embeds `jobs` and stores what came of each. All vectors must have the length of those the set has.
pub(super) async fn index(
    kb: &Kb,
    embedder: &dyn Embedder,
    length: Option<usize>,
    jobs: Vec<Job>,
) -> Result<()> {
    let mut batch: Vec<Work> = Vec::new();
    let (mut texts, mut bytes) = (0, 0);
    for job in jobs {
        let Some(work) = cut(kb, job).await? else { continue };
        let full =
            texts + work.chunks.len() > embedder.batch_size() || bytes + work.bytes() > BATCH_BYTES;
        if full && !batch.is_empty() {
            flush(kb, embedder, length, std::mem::take(&mut batch)).await?;
            (texts, bytes) = (0, 0);
        }
        texts += work.chunks.len();
        bytes += work.bytes();
        batch.push(work);
    }
    flush(kb, embedder, length, batch).await
}

/// Cuts a document up, aside from what else the thread does; one that cannot be is given back.
async fn cut(kb: &Kb, job: Job) -> Result<Option<Work>> {
    let (hold, attempt) = (job.clone_without_text(), retry_in(&job));
    match tokio::task::spawn_blocking(move || Work::new(job)).await {
        Ok(work) => Ok(Some(work)),
        Err(error) if error.is_panic() => {
            let reason = "cutting up this document failed by a defect; see the log";
            kb.store.fail(&hold, reason, attempt).await?;
            Ok(None)
        }
        Err(error) => Err(Error::internal(format!("cutting up documents stopped: {error}"))),
    }
}

/// Embeds one batch; when the model refuses it as a whole, one document at a time, so that a bad one only spoils its own.
async fn flush(
    kb: &Kb,
    embedder: &dyn Embedder,
    length: Option<usize>,
    batch: Vec<Work>,
) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    match embed(embedder, length, &batch).await {
        Ok(vectors) => store(kb, batch, vectors).await,
        Err(EmbedError::Never { .. }) if batch.len() > 1 => {
            for work in batch {
                let alone = vec![work];
                match embed(embedder, length, &alone).await {
                    Ok(vectors) => store(kb, alone, vectors).await?,
                    Err(error) => give_back(kb, alone, &error).await?,
                }
            }
            Ok(())
        }
        Err(error) => give_back(kb, batch, &error).await,
    }
}

/// One vector for each piece of each document, in order, all of the same length.
async fn embed(
    embedder: &dyn Embedder,
    mut length: Option<usize>,
    batch: &[Work],
) -> Result<Vec<Quantized>, EmbedError> {
    let later = |message| Err(EmbedError::Later { message });
    let pieces: Vec<&Chunk> = batch.iter().flat_map(|work| &work.chunks).collect();
    let mut vectors = Vec::with_capacity(pieces.len());
    for pieces in pieces.chunks(embedder.batch_size().max(1)) {
        let texts: Vec<String> = pieces.iter().map(|chunk| chunk.text.clone()).collect();
        let embedded = embed_catching_panics(embedder, &texts).await?;
        if embedded.len() != texts.len() {
            let (n, wanted) = (embedded.len(), texts.len());
            return later(format!("the model gave {n} vectors for {wanted} texts"));
        }
        for vector in embedded {
            let expected = *length.get_or_insert(vector.len());
            if vector.len() != expected {
                let found = vector.len();
                return later(format!(
                    "the model gave a vector of {found} dimensions among those of {expected}"
                ));
            }
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
        stored.spawn(async move {
            match store.finish(&job, embedded).await {
                // Another process has stored the first vectors of the set meanwhile, and they are longer or shorter.
                Err(error) if error.code() == Code::InvalidArgument => {
                    store.fail(&job, error.message(), retry_in(&job)).await
                }
                // False means that the document changed meanwhile; its newer job is on the outbox.
                finished => finished.map(drop),
            }
        });
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
