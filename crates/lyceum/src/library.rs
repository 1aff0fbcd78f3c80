//! Opens the knowledge base the configuration describes: its store and the model that embeds.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use lyceum_kb::Kb;
use lyceum_kb::embed::{Embedder, StaticModel};
use lyceum_kb::store::Store;
use lyceum_kb::store::sqlite::SqliteStore;

use crate::config::{Config, Embeddings, StoreKind};
use crate::embeddings::OpenAiModel;
use crate::observed::Observed;

/// The knowledge base, made if there is none yet. Nothing is embedded until an indexer runs.
///
/// # Errors
/// When the data directory or the store in it cannot be used.
pub(crate) fn open(config: &Config) -> anyhow::Result<Kb> {
    open_watched(config).map(|(kb, _)| kb)
}

/// The same, and a way to ask how the configured model is doing.
pub(crate) fn open_watched(config: &Config) -> anyhow::Result<(Kb, Arc<Observed>)> {
    create_private(&config.data)
        .with_context(|| format!("cannot create the data directory {}", config.data.display()))?;
    let store: Arc<dyn Store> = match config.store {
        StoreKind::Sqlite => {
            let path = config.database();
            let store = SqliteStore::open(&path, config.policy.clone())
                .with_context(|| format!("cannot open the knowledge base {}", path.display()))?;
            Arc::new(store)
        }
    };
    let mut embedders = embedders(config)?;
    let observed = Arc::new(Observed::new(embedders.remove(0)));
    embedders.insert(0, Arc::clone(&observed) as Arc<dyn Embedder>);
    Ok((Kb::new(store, embedders), observed))
}

/// The configured model first, then those that can still embed for older vectors.
fn embedders(config: &Config) -> anyhow::Result<Vec<Arc<dyn Embedder>>> {
    let compiled_in = Arc::new(StaticModel::new());
    Ok(match &config.embeddings {
        Embeddings::Static => vec![compiled_in],
        Embeddings::OpenAi(service) => {
            let model = OpenAiModel::new(service).context("cannot use the embedding service")?;
            vec![Arc::new(model), compiled_in]
        }
    })
}

fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
