//! Tells a server's clients what changes in the knowledge base.

use std::collections::BTreeMap;

use lyceum_kb::{Changed, DocPath, Kb, Status};
use lyceum_server::Server;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Duration, sleep};

/// How long news are gathered: a document written ten times in between is told of once, and an
/// import does not flood anybody.
const GATHER: Duration = Duration::from_millis(100);

/// What happened since clients were last told.
#[derive(Default)]
struct News {
    /// What was written, and whether it came or went.
    written: BTreeMap<DocPath, bool>,
    /// Whether some changes were missed.
    missed: bool,
}

/// Tells the clients of `server` of changes from now on. It ends only when it is dropped: the server
/// holds the knowledge base too.
pub(crate) fn follow(kb: &Kb, server: Server) -> impl Future<Output = ()> + Send + 'static {
    let mut changes = kb.changes();
    async move {
        while let Some(news) = next(&mut changes).await {
            news.tell(&server);
        }
    }
}

/// Waits for a change and gathers those that follow it closely; `None` when there will be no more.
async fn next(changes: &mut Receiver<Changed>) -> Option<News> {
    let mut news = News::default();
    match changes.recv().await {
        Ok(changed) => news.add(changed),
        Err(RecvError::Lagged(_)) => news.missed = true,
        Err(RecvError::Closed) => return None,
    }
    sleep(GATHER).await;
    loop {
        match changes.try_recv() {
            Ok(changed) => news.add(changed),
            Err(TryRecvError::Lagged(_)) => news.missed = true,
            Err(TryRecvError::Empty | TryRecvError::Closed) => return Some(news),
        }
    }
}

impl News {
    fn add(&mut self, changed: Changed) {
        let came_or_went =
            matches!(changed.status, Status::Created | Status::Deleted | Status::Restored);
        *self.written.entry(changed.path).or_default() |= came_or_went;
    }

    fn tell(self, server: &Server) {
        for path in self.written.keys() {
            for uri in crate::knowledge::uri::spellings(path) {
                server.resource_updated(&uri);
            }
        }
        if self.missed || self.written.values().any(|came_or_went| *came_or_went) {
            server.resources_changed();
        }
    }
}
