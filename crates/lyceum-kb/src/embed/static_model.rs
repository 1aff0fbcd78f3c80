//! The model that is compiled in: a table of word vectors, so that search by meaning works offline at first start.
//!
//! Made from `all-MiniLM-L6-v2`; `models/static-minilm-256-int8/NOTICE.md` says how.

use std::sync::OnceLock;

use async_trait::async_trait;
use model2vec_rs::model::StaticModel as Table;

use super::{EmbedError, Embedder, Fingerprint};

const TOKENIZER: &[u8] = include_bytes!("../../models/static-minilm-256-int8/tokenizer.json");
const WEIGHTS: &[u8] = include_bytes!("../../models/static-minilm-256-int8/model.safetensors");
const CONFIG: &[u8] = include_bytes!("../../models/static-minilm-256-int8/config.json");

const ID: &str = "static-minilm-256-int8";
const DIMENSIONS: usize = 256;
/// SHA-256 of weights and tokeniser. Written down, because computing it would delay every start; a test compares.
const SHA256: &str = "8f17146a7e5435385a671f30d2e7e069daf9c013bba7329c0134eb61bf2769c1";
/// Alone the model is weak; blended with this weight it adds what words alone do not find.
const WEIGHT: f32 = 0.3;
const BATCH: usize = 256;
/// The longest text that is embedded without leaving the caller's thread, in bytes: a query, some microseconds.
const INLINE: usize = 2048;

/// Loaded once for the process, when first needed: it takes a tenth of a second.
static TABLE: OnceLock<Table> = OnceLock::new();

/// Static embeddings, 256 dimensions, English.
#[derive(Debug, Clone)]
pub struct StaticModel {
    fingerprint: Fingerprint,
}

impl StaticModel {
    pub fn new() -> StaticModel {
        StaticModel { fingerprint: Fingerprint(format!("{ID}/{DIMENSIONS}/{SHA256}")) }
    }

    /// Loads the model unless that is done. Blocks, so call it where that may be, before the first query.
    pub fn load() {
        table();
    }
}

impl Default for StaticModel {
    fn default() -> StaticModel {
        StaticModel::new()
    }
}

#[async_trait]
impl Embedder for StaticModel {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    fn weight(&self) -> f32 {
        WEIGHT
    }

    fn batch_size(&self) -> usize {
        BATCH
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if let ([text], Some(table)) = (texts, TABLE.get())
            && text.len() <= INLINE
        {
            return Ok(vec![encode(table, text)]);
        }
        let texts = texts.to_vec();
        tokio::task::spawn_blocking(move || {
            texts.iter().map(|text| encode(table(), text)).collect()
        })
        .await
        .map_err(|error| EmbedError::Later { message: format!("embedding stopped: {error}") })
    }
}

fn table() -> &'static Table {
    TABLE.get_or_init(|| {
        Table::from_bytes(TOKENIZER, WEIGHTS, CONFIG, None)
            .expect("the compiled-in model is whole, as a test shows")
    })
}

/// One vector of unit length, or of zeros when the text has no word that the model knows.
fn encode(table: &Table, text: &str) -> Vec<f32> {
    let vector = table.encode_single(text);
    if vector.iter().all(|value| value.is_finite()) { vector } else { vec![0.0; vector.len()] }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn cosine(a: &str, b: &str) -> f32 {
        let (a, b) = (encode(table(), a), encode(table(), b));
        a.iter().zip(&b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn the_fingerprint_is_that_of_the_model() {
        let digest = Sha256::new().chain_update(WEIGHTS).chain_update(TOKENIZER).finalize();
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, SHA256);
        assert_eq!(table().dim(), DIMENSIONS);
        assert!(StaticModel::new().fingerprint().0.contains(SHA256));
    }

    #[test]
    fn what_means_the_same_is_near() {
        let near = cosine("reset a forgotten password", "I cannot log in to my account");
        let far = cosine("reset a forgotten password", "the harvest of winter wheat");
        assert!(near > far + 0.1, "{near} {far}");
    }

    #[test]
    fn nothing_to_embed_is_a_zero_vector() {
        for text in ["", "   ", "\0"] {
            assert_eq!(encode(table(), text), vec![0.0; DIMENSIONS], "{text:?}");
        }
    }

    #[tokio::test]
    async fn one_text_or_many_give_the_same_vectors() {
        let model = StaticModel::new();
        StaticModel::load();
        let texts = ["one text", "", "another text"].map(str::to_owned);
        let all = model.embed(&texts).await.unwrap();
        for (text, vector) in texts.iter().zip(&all) {
            let alone = model.embed(std::slice::from_ref(text)).await.unwrap();
            assert_eq!(alone, std::slice::from_ref(vector));
        }
        assert_eq!(model.embed(&[]).await.unwrap().len(), 0);
        let long = model.embed(&["word ".repeat(100_000)]).await.unwrap();
        assert!((long[0].iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-3);
    }

    proptest! {
        #[test]
        fn any_text_has_a_vector(text in any::<String>()) {
            let vector = encode(table(), &text);
            prop_assert_eq!(vector.len(), DIMENSIONS);
            prop_assert!(vector.iter().all(|value| value.is_finite()));
        }
    }
}
