//! Opens the knowledge base the configuration describes: its store and the model that embeds.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use lyceum_kb::embed::{Embedder, StaticModel};
use lyceum_kb::store::sqlite::SqliteStore;
use lyceum_kb::store::{Skips, Store};
use lyceum_kb::{Actor, Kb};

use crate::cli::Place;
use crate::config::{Config, Embeddings, Environment, StoreKind};
use crate::embeddings::OpenAiModel;
use crate::observed::Observed;

type Model = Arc<dyn Embedder>;

/// The knowledge base, made if there is none yet. Nothing is embedded until an indexer runs.
///
/// # Errors
/// When the data directory or the store in it cannot be used.
pub(crate) async fn open(config: &Config) -> anyhow::Result<Kb> {
    open_watched(config).await.map(|(kb, _)| kb)
}

/// The same, and a way to ask how the configured model is doing.
pub(crate) async fn open_watched(config: &Config) -> anyhow::Result<(Kb, Arc<Observed>)> {
    let (configured, others) = embedders(config)?;
    let observed = Arc::new(Observed::new(configured));
    let kb = Kb::open(store(config)?, Arc::clone(&observed) as Model, others).await?;
    Ok((kb, observed))
}

/// Only what the knowledge base is kept in.
pub(crate) fn store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    create_private(&config.data)
        .with_context(|| format!("cannot create the data directory {}", config.data.display()))?;
    match config.store {
        StoreKind::Sqlite => Ok(Arc::new(sqlite(config)?)),
    }
}

/// The embedded store, for what only a file can do.
pub(crate) fn sqlite(config: &Config) -> anyhow::Result<SqliteStore> {
    let path = config.database();
    SqliteStore::open(&path, config.policy.clone())
        .with_context(|| format!("cannot open the knowledge base {}", path.display()))
}

/// Runs a command on the knowledge base at `place`.
pub(crate) fn with<T>(
    place: Place,
    environment: &Environment,
    command: impl AsyncFnOnce(Kb) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let config = place.config(environment)?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async { command(open(&config).await?).await })
}

/// Runs a command on the store at `place`, which must exist. No model is loaded and nothing is indexed,
/// so this works where a document keeps a server from running.
pub(crate) fn with_store<T>(
    place: Place,
    environment: &Environment,
    command: impl AsyncFnOnce(&dyn Store) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let config = place.config(environment)?;
    let database = config.database();
    ensure!(database.exists(), "there is no knowledge base at {}", database.display());
    let store = store(&config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command(&*store))
}

/// Who writes when a command does.
pub(crate) fn operator(command: &str) -> Actor {
    Actor {
        principal: "operator".to_owned(),
        profile: "command line".to_owned(),
        tool: command.to_owned(),
        request_id: String::new(),
    }
}

/// Makes up for skip rules that changed while the server was down. Commands leave it alone: they may not
/// have been given the server's configuration.
pub(crate) async fn apply_skip_rules(kb: Kb) {
    match kb.apply_skip_rules().await {
        Ok(Skips { skipped: 0, queued: 0 }) => {}
        Ok(Skips { skipped, queued }) => {
            tracing::info!(skipped, queued, "the skip rules have changed");
        }
        Err(error) => tracing::warn!("the skip rules could not be applied: {error}"),
    }
}

/// The configured model, and those that can still embed for vectors made before it was configured.
fn embedders(config: &Config) -> anyhow::Result<(Model, Vec<Model>)> {
    let compiled_in: Model = Arc::new(StaticModel::new());
    match &config.embeddings {
        Embeddings::Static => Ok((compiled_in, Vec::new())),
        Embeddings::OpenAi(service) => {
            let model = OpenAiModel::new(service).context("cannot use the embedding service")?;
            Ok((Arc::new(model), vec![compiled_in]))
        }
    }
}

/// Makes a directory for its owner only.
pub(crate) fn create_private(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}
