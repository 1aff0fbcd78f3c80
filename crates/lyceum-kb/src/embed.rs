//! Turning text into vectors: the trait every model implements, and what identifies a model.

mod static_model;

pub use static_model::StaticModel;

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
