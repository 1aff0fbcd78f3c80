//! [`News`]: what an upstream says unasked, kept until somebody looks.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use lyceum_http::client::{ClientHandler, ServerNotification, ServerRequest};
use lyceum_wire::{Object, RpcError};
use std::sync::Arc;
use tokio::sync::{Notify, broadcast};

use crate::listing::Kind;

/// Changed tasks kept for those who wait for them; whoever missed one looks at its own anyway.
const MAX_TASKS: usize = 64;
/// Changed resources kept at once, and the bytes of their URIs; further ones are not worth more memory.
const MAX_UPDATED: usize = 4096;
const MAX_UPDATED_BYTES: usize = 1 << 20;

/// The notification that a resource has changed.
pub(crate) const UPDATED: &str = "notifications/resources/updated";

/// Lists and resources that changed. The same change twice is one.
#[derive(Debug, Default)]
pub(crate) struct News {
    state: Mutex<State>,
    arrived: Notify,
    /// Ids of tasks that changed, for whoever waits for them at the moment.
    tasks: Tasks,
}

#[derive(Debug)]
struct Tasks(broadcast::Sender<String>);

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) lists: BTreeSet<Kind>,
    /// The upstream's own URIs.
    pub(crate) resources: BTreeSet<String>,
    /// What the upstream's word for it takes.
    n_bytes: usize,
}

impl Default for Tasks {
    fn default() -> Tasks {
        Tasks(broadcast::Sender::new(MAX_TASKS))
    }
}

impl News {
    /// Takes in a notification; others than about changes are nobody's.
    pub(crate) fn hear(&self, method: &str, params: Option<&[u8]>) {
        if let "notifications/tasks/status" | "notifications/tasks" = method {
            if let Some(id) = params.and_then(|raw| Object::parse(raw).ok()?.text("taskId")) {
                // Nobody may be waiting.
                let _ = self.tasks.0.send(id);
            }
            return;
        }
        let mut state = self.lock();
        if let Some(kind) = Kind::changed_by(method) {
            state.lists.insert(kind);
        } else if method == UPDATED {
            let uri = params.and_then(|raw| Object::parse(raw).ok()?.text("uri"));
            let Some(uri) = uri.filter(|uri| state.has_room_for(uri)) else { return };
            state.n_bytes += uri.len();
            state.resources.insert(uri);
        } else {
            return;
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// These lists and resources may have changed unheard.
    pub(crate) fn missed(&self, lists: &[Kind], uris: &BTreeSet<String>) {
        if lists.is_empty() && uris.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.lists.extend(lists);
        // There is an end to what is watched.
        state.resources.extend(uris.iter().cloned());
        drop(state);
        self.arrived.notify_one();
    }

    /// Waits until a task, or so many others that it may be among them, has changed.
    pub(crate) async fn task_changed(&self, id: &str) {
        let mut tasks = self.tasks.0.subscribe();
        while tasks.recv().await.is_ok_and(|changed| changed != id) {}
    }

    /// Waits for news.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Everything since the last time.
    pub(crate) fn take(&self) -> State {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room_for(&self, uri: &str) -> bool {
        let fits =
            self.resources.len() < MAX_UPDATED && self.n_bytes + uri.len() <= MAX_UPDATED_BYTES;
        fits && !self.resources.contains(uri)
    }
}

/// Hears what belongs to no call of a client's.
#[derive(Debug, Clone)]
pub(crate) struct Ear {
    /// For everything else.
    pub(crate) news: Arc<News>,
    /// For resources that changed.
    pub(crate) updates: Arc<News>,
}

impl ClientHandler for Ear {
    /// Nobody is there to be asked. Roots are none, everything else is refused at once.
    async fn request(&self, request: ServerRequest) -> Result<Bytes, RpcError> {
        if request.method == "roots/list" {
            return Ok(Bytes::from_static(br#"{"roots":[]}"#));
        }
        let problem = format!("{} belongs to no call of a client's, or to several", request.method);
        Err(RpcError::invalid_request(problem))
    }

    async fn notification(&self, notification: ServerNotification) {
        let news = match notification.method.as_str() {
            UPDATED => &self.updates,
            _ => &self.news,
        };
        news.hear(&notification.method, notification.params.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_are_kept_once_and_other_things_not_at_all() {
        let news = News::default();
        for _ in 0..2 {
            news.hear("notifications/tools/list_changed", None);
            news.hear("notifications/resources/updated", Some(br#"{"uri":"a"}"#));
            news.hear("notifications/resources/updated", Some(br#"{"uri":1}"#));
            news.hear("notifications/message", Some(b"{}"));
        }
        news.arrived().await;
        let state = news.take();
        assert_eq!(state.lists, BTreeSet::from([Kind::Tools]));
        assert_eq!(state.resources, BTreeSet::from(["a".to_owned()]));
        assert!(news.take().lists.is_empty());
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let news = News::default();
        for n in 0..2 * MAX_UPDATED {
            let params = format!(r#"{{"uri":"{n}"}}"#);
            news.hear("notifications/resources/updated", Some(params.as_bytes()));
        }
        assert_eq!(news.take().resources.len(), MAX_UPDATED);
        for n in 0..100 {
            let params = format!(r#"{{"uri":"{n}{}"}}"#, "x".repeat(MAX_UPDATED_BYTES / 8));
            news.hear("notifications/resources/updated", Some(params.as_bytes()));
        }
        assert_eq!(news.take().resources.len(), 7);
    }
}
