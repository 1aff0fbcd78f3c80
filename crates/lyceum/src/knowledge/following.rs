//! Tells servers' clients what changes in the knowledge base, whoever changes it.

use std::collections::BTreeMap;

use lyceum_kb::{Changed, DocPath, Kb, Status};
use lyceum_server::Server;

use crate::knowledge::rights::{DocumentAccess, DocumentRights};
use crate::knowledge::uri;

/// Tells the clients of `servers` of changes from now on. The task ends only when it is dropped: the
/// servers hold the knowledge base too.
///
/// # Errors
/// When the knowledge base cannot be read.
pub(crate) async fn follow(
    kb: &Kb,
    servers: Vec<Server>,
) -> lyceum_kb::Result<impl Future<Output = ()> + Send + 'static> {
    let mut changes = kb.changes().await?;
    Ok(async move {
        loop {
            let news = News::of(changes.next().await);
            servers.iter().for_each(|server| news.tell(server));
        }
    })
}

/// What was written, and whether it came or went.
struct News(BTreeMap<DocPath, bool>);

impl News {
    fn of(changes: Vec<Changed>) -> Self {
        let mut written = BTreeMap::<DocPath, bool>::new();
        for Changed { path, status, .. } in changes {
            let came_or_went =
                matches!(status, Status::Created | Status::Deleted | Status::Restored);
            *written.entry(path).or_default() |= came_or_went;
        }
        Self(written)
    }

    fn tell(&self, server: &Server) {
        let rights = DocumentRights::of_server(server);
        if rights.allows(DocumentAccess::Updates) {
            for path in self.0.keys() {
                for uri in uri::spellings(path) {
                    server.resource_updated(&uri);
                }
            }
        }
        let came_or_went = self.0.values().any(|came_or_went| *came_or_went);
        if came_or_went && rights.allows(DocumentAccess::ListResources) {
            server.resources_changed();
        }
    }
}
