//! Turning text into vectors: the trait every model implements, and what identifies a model.

mod static_model;

pub use static_model::StaticModel;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use async_trait::async_trait;

/// A model that embeds texts.
#[async_trait]
pub trait Embedder: Send + Sync + 'static {
    fn fingerprint(&self) -> &Fingerprint;

    /// How much vector scores count beside lexical ones, 0 to 1.
    fn weight(&self) -> f32;

    /// The most texts worth sending in one call.
    fn batch_size(&self) -> usize;

    /// Tells how long the stored vectors are; from then on an answer of another length is an error.
    ///
    /// Models whose vectors always have the same length need not listen.
    fn expect_length(&self, _length: usize) {}

    /// One vector for each text, in order, all of the same length.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// What identifies a model: vectors of different fingerprints are never compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub String);

/// Why a text has no vector.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EmbedError {
    /// It may work later: the service is down, slow, or asks to wait.
    #[error("{message}")]
    Later { message: String },
    /// It will not work for these texts, however often it is tried.
    #[error("{message}")]
    Never { message: String },
}

/// Embeds `texts`; a panic of the model is an error like any other.
///
/// # Errors
/// Those of the model, and [`EmbedError::Later`] when it panics, which is logged here.
pub async fn embed_catching_panics(
    model: &dyn Embedder,
    texts: &[String],
) -> Result<Vec<Vec<f32>>, EmbedError> {
    let mut embedding = pin!(async { model.embed(texts).await });
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| embedding.as_mut().poll(context)));
        polled.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let reason = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let reason = reason.unwrap_or("no message");
            tracing::error!(model = model.fingerprint().0, reason, "the embedding model panicked");
            let message = "the embedding model panicked; see the server log".to_owned();
            Poll::Ready(Err(EmbedError::Later { message }))
        })
    })
    .await
}
