//! One request on its way: who is calling, and what the routes work with.

use std::sync::Arc;

use http::HeaderValue;
use lyceum_gateway::Gateway;
use lyceum_http::{Principal, Purpose, Reservation, Sealer};
use lyceum_kb::store::AuditEntry;
use lyceum_kb::{Actor, CallerId, Change, DocPath, Error, Kb, Write, Written};
use lyceum_server::Server;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::Instant;

use super::info::Profiled;
use super::integrity::Integrity;
use super::problem::Problem;
use crate::knowledge::arguments::Safety;
use crate::knowledge::charge::Payer;
use crate::knowledge::desk::Subject;
use crate::knowledge::tools::list_documents::Cursors;
use crate::observed::Observed;

/// What the API is called in the audit trail.
const PROFILE: &str = "rest";
/// The author of writes where nobody has to say who they are.
const ANONYMOUS: &str = "anonymous";

/// What the routes work with.
pub(crate) struct Desk {
    pub(crate) kb: Kb,
    /// Bytes of the largest text there may be.
    pub(crate) max_text: usize,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) metrics: PrometheusHandle,
    pub(crate) embedder: Arc<Observed>,
    pub(crate) integrity: Arc<Integrity>,
    pub(crate) gateway: Gateway,
    /// The server with all tools.
    pub(crate) whole: Server,
    pub(crate) profiles: Vec<Profiled>,
    pub(crate) started: Instant,
}

/// One request.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) desk: Arc<Desk>,
    /// The knowledge base, read for this caller.
    kb: Kb,
    principal: Option<Principal>,
    request_id: String,
    /// Whether the caller could enter a guarded route.
    pub(super) trusted: bool,
    /// Who pays for what it costs.
    pub(super) payer: Payer,
}

impl Visit {
    pub(super) fn new(
        desk: &Arc<Desk>,
        principal: Option<Principal>,
        request_id: &HeaderValue,
        trusted: bool,
        payer: Payer,
    ) -> Self {
        let request_id = request_id.to_str().unwrap_or_default().to_owned();
        let caller = CallerId::new(principal.as_ref().map_or(ANONYMOUS, Principal::as_str));
        let kb = desk.kb.on_behalf_of(caller);
        Self { desk: Arc::clone(desk), kb, principal, request_id, trusted, payer }
    }

    /// Room for what a call with these arguments works with, until it is dropped.
    pub(super) async fn work(
        &self,
        arguments: &(impl Subject + Sync),
    ) -> Result<Option<Reservation>, Problem> {
        Ok(self.payer.work(arguments.work(self.desk.max_text)).await?)
    }

    pub(super) fn kb(&self) -> &Kb {
        &self.kb
    }

    pub(super) fn actor(&self, tool: &str) -> Actor {
        Actor {
            principal: self.principal.as_ref().map_or(ANONYMOUS, Principal::as_str).to_owned(),
            profile: PROFILE.to_owned(),
            tool: tool.to_owned(),
            request_id: self.request_id.clone(),
        }
    }

    /// Writes, in the caller's name.
    pub(super) async fn write(
        &self,
        tool: &str,
        (path, change, safety): (DocPath, Change, Safety),
    ) -> Result<Written, Problem> {
        let Safety { expected_revision, idempotency } = safety;
        let write = Write { path, change, expected_revision, idempotency, by: self.actor(tool) };
        let kb = self.kb().clone();
        // A task of its own: a client that hangs up must not keep others from hearing of a write
        // that is stored.
        match tokio::spawn(async move { kb.write(write).await }).await {
            Ok(Ok(written)) => Ok(written),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => {
                Err(Error::internal("the write ended unexpectedly; read before retrying").into())
            }
        }
    }

    /// Writes down that something other than a document was changed.
    pub(super) async fn record(&self, tool: &str) -> Result<(), Problem> {
        let entry =
            AuditEntry { actor: self.actor(tool), document: None, outcome: "ok".to_owned() };
        Ok(self.kb().store().audit(entry).await?)
    }

    fn binding(&self) -> [&[u8]; 2] {
        let principal = self.principal.as_ref().map_or("", Principal::as_str);
        [PROFILE.as_bytes(), principal.as_bytes()]
    }
}

impl Cursors for Visit {
    fn seal(&self, place: &[u8]) -> String {
        self.desk.sealer.seal(Purpose::Cursor, &self.binding(), place)
    }

    fn open(&self, cursor: &str) -> Option<Vec<u8>> {
        self.desk.sealer.open(Purpose::Cursor, &self.binding(), cursor.as_bytes())
    }
}
