//! The model that is compiled in.

/// Static embeddings.
#[derive(Debug)]
pub struct StaticModel;
