//! An embedding model whose last call can be asked about, for `/health`.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lyceum_kb::embed::{EmbedError, Embedder, Fingerprint, embed_catching_panics};
use tokio::time::{Duration, Instant};

/// A model, watched.
pub(crate) struct Observed {
    model: Arc<dyn Embedder>,
    last: Mutex<Option<Seen>>,
}

/// How a call went.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) latency: Duration,
    pub(crate) error: Option<String>,
}

impl Observed {
    pub(crate) fn new(model: Arc<dyn Embedder>) -> Self {
        Self { model, last: Mutex::new(None) }
    }

    /// How the last call went; `None` before the first.
    pub(crate) fn last(&self) -> Option<Seen> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Embedder for Observed {
    fn fingerprint(&self) -> &Fingerprint {
        self.model.fingerprint()
    }

    fn weight(&self) -> f32 {
        self.model.weight()
    }

    fn batch_size(&self) -> usize {
        self.model.batch_size()
    }

    fn expect_length(&self, length: usize) {
        self.model.expect_length(length);
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let started = Instant::now();
        let embedded = embed_catching_panics(&*self.model, texts).await;
        let error = embedded.as_ref().err().map(ToString::to_string);
        let seen = Seen { latency: started.elapsed(), error };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        embedded
    }
}
