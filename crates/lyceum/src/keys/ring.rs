//! The keys on record, in memory: looked up on every request, read from the store twice a second.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use lyceum_kb::store::ApiKey;
use lyceum_kb::{Kb, Millis};
use subtle::ConstantTimeEq;
use tokio::sync::watch;
use tokio::time::{Duration, interval};

use super::{Key, digest, now};

/// Less than half of the second within which a revocation must bite.
const REFRESH: Duration = Duration::from_millis(400);

/// The keys. Cheap to share; all gates of a server look at the same one.
#[derive(Debug)]
pub(crate) struct KeyRing {
    keys: ArcSwap<HashMap<String, ApiKey>>,
    /// Tells of keys that are no longer good.
    lapses: watch::Sender<()>,
}

impl KeyRing {
    /// The keys `kb` has on record.
    pub(crate) async fn load(kb: &Kb) -> lyceum_kb::Result<Self> {
        Ok(Self::made_of(kb.store().keys().await?))
    }

    pub(super) fn made_of(keys: Vec<ApiKey>) -> Self {
        Self { keys: ArcSwap::from_pointee(by_id(keys)), lapses: watch::Sender::new(()) }
    }

    /// Follows the store for ever. When it cannot be asked, what was known stays in force.
    pub(crate) async fn follow(self: Arc<Self>, kb: Kb) {
        let mut ticks = interval(REFRESH);
        let mut failing = false;
        let mut n_live = self.n_live();
        loop {
            ticks.tick().await;
            match kb.store().keys().await {
                Ok(keys) => {
                    failing = false;
                    let keys = by_id(keys);
                    if **self.keys.load() != keys {
                        self.keys.store(Arc::new(keys));
                        self.lapses.send_replace(());
                    }
                }
                Err(error) if !failing => {
                    failing = true;
                    tracing::warn!("cannot read the API keys, going by those known: {error}");
                }
                Err(_) => {}
            }
            // A key can expire without anybody touching it.
            if n_live != self.n_live() {
                n_live = self.n_live();
                self.lapses.send_replace(());
            }
        }
    }

    /// Whether a key was ever made, good or not.
    pub(crate) fn has_any(&self) -> bool {
        !self.keys.load().is_empty()
    }

    /// Whether somebody could get in.
    pub(crate) fn has_live(&self) -> bool {
        self.n_live() > 0
    }

    fn n_live(&self) -> usize {
        let now = now();
        self.keys.load().values().filter(|key| is_live(key, now)).count()
    }

    /// Completes when the key that was presented is no longer good.
    pub(super) async fn lapsed(self: Arc<Self>, presented: String) {
        let mut lapses = self.lapses.subscribe();
        while self.owner(&presented).is_some() {
            if lapses.changed().await.is_err() {
                return;
            }
        }
    }

    /// The names of keys that are good now.
    pub(crate) fn live_names(&self) -> Vec<String> {
        let now = now();
        let keys = self.keys.load();
        keys.values().filter(|key| is_live(key, now)).map(|key| key.name.clone()).collect()
    }

    /// The name of the key that was presented, if it is on record and good. An unknown id takes the
    /// same path as a wrong secret.
    pub(super) fn owner(&self, presented: &str) -> Option<String> {
        let keys = self.keys.load();
        let presented = Key::parse(presented);
        let (id, secret) =
            presented.as_ref().map_or(("", ""), |key| (key.id.as_str(), key.secret.as_str()));
        let known = keys.get(id);
        let expected = known.map_or([0; 32], |key| key.secret_sha256);
        let equal = bool::from(digest(secret).ct_eq(&expected));
        known.filter(|key| equal && is_live(key, now())).map(|key| key.name.clone())
    }
}

fn by_id(keys: Vec<ApiKey>) -> HashMap<String, ApiKey> {
    keys.into_iter().map(|key| (key.id.clone(), key)).collect()
}

fn is_live(key: &ApiKey, now: Millis) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|end| now < end)
}
