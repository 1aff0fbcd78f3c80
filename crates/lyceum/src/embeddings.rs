//! Embeddings from an OpenAI-compatible service.
//!
//! Only knows how to ask: what is embedded and when is the indexer's business. The address is the
//! operator's, so it may be inside the private network. One call is one request, unless the texts
//! are too many bytes for one; a service that is busy is asked again after a while, a few times.

mod answer;
mod retry;

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, Response, Uri};
use lyceum_http::client::{Policy, SafeDialer};
use lyceum_kb::embed::{EmbedError, Embedder, Fingerprint};
use serde::Serialize;
use tokio::time::{Duration, Instant};

use crate::config::{OpenAi, Secret};

use answer::Verdict;
use retry::Patience;

/// Texts in one request. Services take more; a lost request should not cost more.
const MAX_TEXTS: usize = 96;
/// Bytes of texts in one request, about a third of what the strictest service takes.
const MAX_BYTES: usize = 384 << 10;
/// Bytes of one answer: the longest vectors in use, written out in full.
const MAX_ANSWER: usize = 64 << 20;
/// How long one request may take.
const TOTAL: Duration = Duration::from_secs(30);
/// How much the vectors of a real model count beside words.
const WEIGHT: f32 = 0.5;

/// A model behind a service.
#[derive(Debug)]
pub(crate) struct OpenAiModel {
    url: Uri,
    model: String,
    dimensions: Option<u32>,
    key: Option<Secret>,
    fingerprint: Fingerprint,
    dialer: SafeDialer,
    patience: Patience,
    /// The length of vectors: what was asked for, or that of the vectors that are stored; 0 while neither is known. What
    /// an answer has teaches nothing: it may be the wrong one.
    length: AtomicUsize,
}

/// What the service is asked.
#[derive(Serialize)]
struct Question<'a> {
    model: &'a str,
    input: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

impl OpenAiModel {
    /// # Errors
    /// When the address is none.
    pub(crate) fn new(service: &OpenAi) -> anyhow::Result<OpenAiModel> {
        let OpenAi { url, model, dimensions, key } = service;
        let length = dimensions.map_or(0, |given| usize::try_from(given).unwrap_or(usize::MAX));
        let named = dimensions.map_or("default".to_owned(), |dimensions| dimensions.to_string());
        Ok(OpenAiModel {
            url: format!("{}/embeddings", url.trim_end_matches('/')).parse()?,
            model: model.clone(),
            dimensions: *dimensions,
            key: key.clone(),
            fingerprint: Fingerprint(format!("openai:{model}:{named}")),
            dialer: SafeDialer::new(Policy::Anywhere).max_body(MAX_ANSWER).total(TOTAL),
            patience: Patience::default(),
            length: AtomicUsize::new(length),
        })
    }

    /// Asks until there is an answer, or patience ends.
    async fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let question = Question {
            model: &self.model,
            // Services refuse empty texts; a blank means as little.
            input: texts.iter().map(|text| if text.is_empty() { " " } else { *text }).collect(),
            dimensions: self.dimensions,
        };
        let body: Bytes = serde_json::to_vec(&question)
            .map_err(|error| never(&format!("the texts cannot be sent: {error}")))?
            .into();
        let started = Instant::now();
        for attempt in 1.. {
            let verdict = match self.send(body.clone()).await? {
                Ok(response) => answer::judge(&response, texts.len(), self.length()),
                Err(error) => {
                    let message = format!("{:#}", anyhow::Error::from(error));
                    Verdict::Busy { message, retry_after: None }
                }
            };
            match verdict {
                Verdict::Vectors(vectors) => return Ok(vectors),
                Verdict::Never(message) => return Err(never(&message)),
                Verdict::Later(message) => return Err(later(&message)),
                Verdict::Busy { message, retry_after } => {
                    match self.patience.wait(attempt, retry_after, started.elapsed()) {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => return Err(later(&message)),
                    }
                }
            }
        }
        Err(later("the service was asked too often"))
    }

    fn length(&self) -> Option<usize> {
        Some(self.length.load(Ordering::Relaxed)).filter(|length| *length > 0)
    }

    /// One request; the outer error is ours, the inner one the network's.
    async fn send(
        &self,
        body: Bytes,
    ) -> Result<Result<Response<Bytes>, lyceum_http::client::DialError>, EmbedError> {
        let mut request = Request::new(body);
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let Some(key) = &self.key {
            let key = key.read().map_err(|error| later(&format!("the key: {error}")))?;
            let mut value = HeaderValue::try_from(format!("Bearer {key}"))
                .map_err(|_| later("the key has characters that no header can carry"))?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        Ok(self.dialer.send(request).await)
    }
}

#[async_trait]
impl Embedder for OpenAiModel {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn weight(&self) -> f32 {
        WEIGHT
    }

    fn batch_size(&self) -> usize {
        MAX_TEXTS
    }

    fn expect_length(&self, length: usize) {
        if self.dimensions.is_none() {
            self.length.store(length, Ordering::Relaxed);
        }
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in batches(texts) {
            vectors.extend(self.ask(&batch).await?);
        }
        Ok(vectors)
    }
}

/// Texts in order, cut where a request would become too large. A text that is too large by itself
/// is sent alone: the service knows better what it takes.
fn batches(texts: &[String]) -> Vec<Vec<&str>> {
    let mut batches: Vec<Vec<&str>> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_TEXTS && bytes + text.len() <= MAX_BYTES => {
                batch.push(text);
                bytes += text.len();
            }
            _ => {
                batches.push(vec![text]);
                bytes = text.len();
            }
        }
    }
    batches
}

fn later(message: &str) -> EmbedError {
    EmbedError::Later { message: format!("the embedding service: {message}") }
}

fn never(message: &str) -> EmbedError {
    EmbedError::Never { message: format!("the embedding service: {message}") }
}

#[cfg(test)]
mod tests;
