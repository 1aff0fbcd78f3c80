//! An endpoint: one handler behind one path, with its dialect, guards and bounds.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use lyceum_wire::RevisionSet;
use tower_service::Service;

use crate::answer::AnswerBody;
use crate::authenticate::Authenticate;
use crate::byte_budget::{ByteBudgets, Payer};
use crate::caller::CallerId;
use crate::context::Principal;
use crate::counters::Counters;
use crate::dialect::{Dialect, Policy};
use crate::guard::{HostPolicy, OriginPolicy};
use crate::handler::Handler;
use crate::legacy::{HttpSse, Sessions};
use crate::limits::Limits;
use crate::seal::Sealer;
use crate::timers::Timers;

/// A tower service that answers MCP requests of every served revision. Cheap to clone.
///
/// It serves whatever path it is mounted at; [`Site`](crate::Site) matches paths.
pub struct Endpoint<H> {
    pub(crate) shared: Arc<Shared<H>>,
}

/// What all requests of an endpoint share.
pub(crate) struct Shared<H> {
    pub(crate) handler: H,
    pub(crate) name: Arc<str>,
    pub(crate) dialect: Dialect,
    pub(crate) policy: &'static Policy,
    pub(crate) sse: bool,
    pub(crate) explain: bool,
    /// Where messages for streams that GET opens are posted to.
    pub(crate) hand_over: Option<Arc<str>>,
    pub(crate) info: Option<InfoDocument>,
    pub(crate) served: RevisionSet,
    pub(crate) hosts: HostPolicy,
    pub(crate) origins: OriginPolicy,
    pub(crate) authenticate: Option<Arc<dyn Authenticate>>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) limits: Limits,
    pub(crate) budgets: Arc<ByteBudgets>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) counters: Counters,
    pub(crate) timers: Timers,
}

impl<H: Handler> Endpoint<H> {
    /// An endpoint named after its path, e.g. `/mcp`. The name is part of every sealed value, so
    /// that nothing handed out here is good elsewhere.
    pub fn builder(path: impl Into<Arc<str>>, handler: H) -> EndpointBuilder<H> {
        EndpointBuilder {
            handler,
            name: path.into(),
            dialect: Dialect::Standard,
            sse: true,
            explain: false,
            hand_over: None,
            info: None,
            served: RevisionSet::ALL,
            hosts: HostPolicy::loopback(),
            origins: OriginPolicy::loopback(),
            authenticate: None,
            sealer: None,
            limits: Limits::default(),
            budgets: None,
            revocations: None,
        }
    }

    /// The endpoint's path.
    pub fn path(&self) -> &str {
        &self.shared.name
    }

    /// Answers one request; what the tower service does, without its `&mut self`.
    pub fn respond<B>(&self, request: Request<B>) -> ResponseFuture
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        Box::pin(Arc::clone(&self.shared).answer(request))
    }

    /// The same endpoint for clients of 2024-11-05: an event stream at one path, messages at
    /// `messages`.
    pub fn http_sse(&self, messages: impl Into<Arc<str>>) -> HttpSse<H> {
        HttpSse::new(Arc::clone(&self.shared), messages.into())
    }

    /// Ends every session's standalone stream, so that a draining server is left with calls only.
    pub fn close_streams(&self) {
        self.shared.sessions.drain();
    }
}

impl<H> Shared<H> {
    /// Whom the streams of a caller are charged to.
    pub(crate) fn stream_payer(&self, principal: Option<Principal>, peer: Option<IpAddr>) -> Payer {
        let caller = CallerId::new(principal, peer);
        Payer { budget: Arc::clone(&self.budgets.streams), caller }
    }
}

impl<H> Clone for Endpoint<H> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<H> fmt::Debug for Endpoint<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { name, dialect, .. } = &*self.shared;
        f.debug_struct("Endpoint")
            .field("path", name)
            .field("dialect", dialect)
            .finish_non_exhaustive()
    }
}

/// Writes the JSON that a GET gets.
pub type InfoDocument = Arc<dyn Fn() -> Bytes + Send + Sync>;

/// The future of a response; it never fails.
pub type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Infallible>> + Send>>;

impl<H, B> Service<Request<B>> for Endpoint<H>
where
    H: Handler,
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        self.respond(request)
    }
}

/// Builds an [`Endpoint`].
#[must_use]
pub struct EndpointBuilder<H> {
    handler: H,
    name: Arc<str>,
    dialect: Dialect,
    sse: bool,
    explain: bool,
    hand_over: Option<Arc<str>>,
    info: Option<InfoDocument>,
    served: RevisionSet,
    hosts: HostPolicy,
    origins: OriginPolicy,
    authenticate: Option<Arc<dyn Authenticate>>,
    sealer: Option<Arc<Sealer>>,
    limits: Limits,
    budgets: Option<Arc<ByteBudgets>>,
    revocations: Option<PathBuf>,
}

impl<H: Handler> EndpointBuilder<H> {
    /// How `Accept` and its kin are read. Default: [`Dialect::Standard`].
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Whether answers may be event streams. Default: yes.
    pub fn sse(mut self, sse: bool) -> Self {
        self.sse = sse;
        self
    }

    /// Whether responses say how they came about, in a `Lyceum-Decision` header. Default: no.
    pub fn explain(mut self, explain: bool) -> Self {
        self.explain = explain;
        self
    }

    /// Serves streams in the manner of the Knox proxy: a GET that prefers SSE and has no session
    /// opens an HTTP+SSE stream whose messages go to `messages`, and a POST that prefers SSE and
    /// names such a stream is answered there. [`Endpoint::http_sse`] with the same path serves that
    /// path, where a message that names no stream is answered as JSON. Default: no.
    pub fn hand_over(mut self, messages: impl Into<Arc<str>>) -> Self {
        self.hand_over = Some(messages.into());
        self
    }

    /// What a GET that wants JSON gets. Default: a document from [`Handler::about`].
    pub fn info(mut self, document: InfoDocument) -> Self {
        self.info = Some(document);
        self
    }

    /// The revisions served. Default: all.
    pub fn revisions(mut self, served: RevisionSet) -> Self {
        self.served = served;
        self
    }

    /// The `Host` values answered. Default: loopback names.
    pub fn hosts(mut self, hosts: HostPolicy) -> Self {
        self.hosts = hosts;
        self
    }

    /// The `Origin` values admitted. Default: loopback origins.
    pub fn origins(mut self, origins: OriginPolicy) -> Self {
        self.origins = origins;
        self
    }

    /// Who may come in. Default: everybody, anonymously.
    pub fn authenticate(mut self, authenticate: Arc<dyn Authenticate>) -> Self {
        self.authenticate = Some(authenticate);
        self
    }

    /// The keys for session ids, cursors and request state. Default: a key that dies with the
    /// process, and with it every session.
    pub fn sealer(mut self, sealer: Arc<Sealer>) -> Self {
        self.sealer = Some(sealer);
        self
    }

    /// The endpoint's bounds.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What large bodies and answers are charged to; endpoints of one process share it. Default:
    /// budgets of its own, as its limits say.
    pub fn budgets(mut self, budgets: Arc<ByteBudgets>) -> Self {
        self.budgets = Some(budgets);
        self
    }

    /// The file that remembers, across restarts, which sessions their clients ended. Endpoints may
    /// share it.
    pub fn revocations(mut self, path: impl Into<PathBuf>) -> Self {
        self.revocations = Some(path.into());
        self
    }

    /// Finishes the endpoint.
    ///
    /// # Errors
    /// When the revocation file cannot be read or written.
    pub fn build(self) -> io::Result<Endpoint<H>> {
        let budgets = self.budgets.unwrap_or_else(|| Arc::new(ByteBudgets::new(&self.limits)));
        let sessions = Sessions::new(self.limits.clone()).keeping_in(Arc::clone(&budgets.replay));
        let sessions = match &self.revocations {
            Some(path) => sessions.remember_in(path)?,
            None => sessions,
        };
        let shared = Shared {
            handler: self.handler,
            counters: Counters::new(&self.name),
            timers: Timers::default(),
            name: self.name,
            dialect: self.dialect,
            policy: self.dialect.policy(),
            sse: self.sse,
            explain: self.explain,
            hand_over: self.hand_over,
            info: self.info,
            served: self.served,
            hosts: self.hosts,
            origins: self.origins,
            authenticate: self.authenticate,
            sealer: self.sealer.unwrap_or_else(|| Arc::new(Sealer::ephemeral())),
            budgets,
            limits: self.limits,
            sessions: Arc::new(sessions),
        };
        let shared = Arc::new(shared);
        follow_journal(&shared);
        Ok(Endpoint { shared })
    }
}

/// Ends what another process with the same revocation file ends, if there is a runtime to do it in.
fn follow_journal<H: Handler>(shared: &Arc<Shared<H>>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let handler = Arc::downgrade(shared);
    runtime.spawn(shared.sessions.follow_journal(move |key| {
        if let Some(shared) = handler.upgrade() {
            shared.handler.session_ended(key);
        }
    }));
}

impl<H> fmt::Debug for EndpointBuilder<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointBuilder").field("path", &self.name).finish_non_exhaustive()
    }
}
