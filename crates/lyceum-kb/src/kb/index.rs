//! The vectors searches use, in memory, kept up with the store.
//!
//! The store numbers every change of a vector, so one question ("what came after n?") loads everything at the start
//! and follows what this or any other process indexes later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::Result;
use crate::embed::Fingerprint;
use crate::store::{Store, VectorChange, VectorSet};
use crate::vector::Matrix;

/// Documents whose vectors are read at a time.
const PAGE: usize = 2000;

/// The active set in memory.
#[derive(Debug, Default)]
pub(crate) struct Index {
    state: RwLock<State>,
    /// Serializes refreshes; holds the place in the store's numbering.
    cursor: tokio::sync::Mutex<Cursor>,
    loaded: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    set: Option<VectorSet>,
    matrix: Matrix,
}

#[derive(Debug, Default)]
struct Cursor {
    set: Option<i64>,
    seq: i64,
}

impl Index {
    /// Catches up with the store.
    pub(crate) async fn refresh(&self, store: &dyn Store) -> Result<()> {
        let mut cursor = self.cursor.lock().await;
        let active = store.active_set().await?;
        if active.as_ref().map(|set| set.id) != cursor.set {
            self.replace(store, active, &mut cursor).await?;
        } else if let Some(set) = cursor.set {
            loop {
                let changes = store.vectors_after(set, cursor.seq, PAGE).await?;
                let Some(last) = changes.last() else { break };
                cursor.seq = last.seq;
                self.write(|state| {
                    apply(&mut state.matrix, &changes);
                    state.matrix.tidy();
                });
            }
        }
        self.loaded.store(true, Ordering::Release);
        Ok(())
    }

    /// Loads another set beside the one in use, then switches.
    async fn replace(
        &self,
        store: &dyn Store,
        set: Option<VectorSet>,
        cursor: &mut Cursor,
    ) -> Result<()> {
        let mut matrix = Matrix::default();
        let mut seq = 0;
        if let Some(set) = &set {
            loop {
                let changes = store.vectors_after(set.id, seq, PAGE).await?;
                let Some(last) = changes.last() else { break };
                seq = last.seq;
                apply(&mut matrix, &changes);
            }
        }
        matrix.tidy();
        *cursor = Cursor { set: set.as_ref().map(|set| set.id), seq };
        self.write(|state| *state = State { set, matrix });
        Ok(())
    }

    /// Whether the store's vectors have been read once.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    /// The model whose vectors are in use.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        self.read(|state| state.set.as_ref().map(|set| set.fingerprint.clone()))
    }

    /// Looks at the vectors if they are those of `fingerprint`.
    pub(crate) fn with<T>(
        &self,
        fingerprint: &Fingerprint,
        look: impl FnOnce(&Matrix) -> T,
    ) -> Option<T> {
        self.read(|state| {
            let set = state.set.as_ref()?;
            (set.fingerprint == *fingerprint).then(|| look(&state.matrix))
        })
    }

    /// Looks at the vectors, whichever they are.
    pub(crate) fn matrix<T>(&self, look: impl FnOnce(&Matrix) -> T) -> T {
        self.read(|state| look(&state.matrix))
    }

    fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
    }
}

fn apply(matrix: &mut Matrix, changes: &[VectorChange]) {
    for VectorChange { key, text_revision, chunks, .. } in changes {
        matrix.put(*key, *text_revision, chunks);
    }
}
