//! [`Door`]: an endpoint's handler. What names something foreign is passed on, the rest is the
//! server's own.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use lyceum_http::{About, Caller, Context, Handler, MAX_TOKEN_BYTES, Outcome, Session};
use lyceum_server::{ListenFilter, MAX_URI_BYTES, Server};
use lyceum_wire::{Era, Member, Notification, ParamHeaders, Request, RpcError};
use pin_project_lite::pin_project;

use crate::catalogue::Entry;
use crate::gateway::{DoorState, Gateway};
use crate::relay::tasks::{self, TaskRef};
use crate::relay::{Relay, Subject};
use crate::routes::{Allow, Routes};
use crate::upstream::{Upstream, Watch, Who};

/// Bytes of the name of a tool or prompt that can be an upstream's.
const MAX_NAME_BYTES: usize = 1024;

/// A server with other servers behind it.
#[derive(Debug, Clone)]
pub struct Door {
    pub(crate) state: Arc<DoorState>,
    pub(crate) gateway: Gateway,
}

/// Something of an upstream's that a door shows.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The name or URI clients know it by.
    pub public: String,
    /// The upstream's name in the configuration.
    pub upstream: String,
    /// The name or URI the upstream knows it by.
    pub own: String,
    /// The raw definition, with the public name or URI, as legacy clients see it.
    pub definition: Bytes,
}

impl Shown {
    fn sorted<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<Shown> {
        let mut shown: Vec<Shown> = entries.map(Shown::of).collect();
        shown.sort_by(|one, other| one.public.cmp(&other.public));
        shown
    }

    fn of(entry: &Entry) -> Shown {
        Shown {
            public: entry.item.key().to_owned(),
            upstream: entry.upstream.config.name.clone(),
            own: entry.own.clone(),
            definition: entry.item.definition(Era::Legacy).clone(),
        }
    }
}

/// What a request needs that the server alone cannot do.
enum Errand {
    /// Somebody else is to answer it.
    Relay(Subject),
    /// A legacy session begins or ends to watch a resource.
    Subscribe,
    /// A modern client listens for changes.
    Listen,
    /// A legacy session wants to see its tasks.
    ListTasks,
    /// What it needs may be there in a moment.
    Wait(Vec<Arc<Upstream>>),
}

type Answer = Result<Outcome, RpcError>;
type Passed<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

impl Door {
    /// The server whose door this is.
    pub fn server(&self) -> &Server {
        &self.state.server
    }

    /// Shows what `allows` says of what is behind the gateway, at the latest from when the upstreams
    /// are next configured.
    pub fn allow(&self, allows: Allow) {
        self.state.allow(allows);
    }

    /// The upstreams' tools that are shown here, in the order of their public names.
    pub fn tools(&self) -> Vec<Shown> {
        Shown::sorted(self.state.routes.load().tools())
    }

    /// The upstreams' resources that are shown here, in the order of their public URIs.
    pub fn resources(&self) -> Vec<Shown> {
        Shown::sorted(self.state.routes.load().resources())
    }

    /// Whether `tools/call` with this name would reach an upstream, or be told why it cannot.
    pub fn leads_to_tool(&self, name: &str) -> bool {
        self.called(name, &self.state.routes.load()).is_some()
    }

    /// Whether `resources/read` with this URI would reach an upstream, or be told why it cannot.
    pub fn leads_to_resource(&self, uri: &str) -> bool {
        self.read(uri, &self.state.routes.load()).is_some()
    }

    /// Waits for upstreams that were started a moment ago, for seconds at most: many clients ask once
    /// what there is, right after they started us.
    pub async fn arrivals(&self) {
        let arriving = self.state.routes.load().arriving();
        arrivals(&arriving).await;
    }

    /// The tool of an upstream that a caller means, or the upstream that may have it once it is there.
    fn called(&self, name: &str, routes: &Routes) -> Option<Subject> {
        if let Some(tool) = routes.tool(name, &self.state.server) {
            return Some(Subject::Tool(tool));
        }
        let (upstream, public) = routes.absent.named(name)?;
        let may_show = self.state.may_show(name) && self.state.may_show(&public);
        may_show.then(|| Subject::Absent(upstream, "name", name.to_owned()))
    }

    /// The resource of an upstream that a caller means, or the upstream that may have it once it is
    /// there.
    fn read(&self, uri: &str, routes: &Routes) -> Option<Subject> {
        let server = &self.state.server;
        if let Some((upstream, own)) = routes.resource(uri, server) {
            return Some(Subject::Resource(upstream, own));
        }
        let upstream = routes.absent.resource(uri).filter(|_| !server.has_resource(uri))?;
        let may_show = self.state.may_show_any(&upstream);
        may_show.then(|| Subject::Absent(upstream, "uri", uri.to_owned()))
    }

    /// What is to be done about a request; None if it is the server's own business.
    fn errand(&self, request: &Request, cx: &Context) -> Option<Errand> {
        let routes = self.state.routes.load();
        if routes.is_empty() {
            return None;
        }
        let server = &self.state.server;
        // What is longer is no name of anything; the server says so.
        let within = |member, limit| {
            request.params.text(member).filter(|text: &Cow<'_, str>| text.len() <= limit)
        };
        let name = || within(Member::Name, MAX_NAME_BYTES);
        let subject = match (request.method.as_str(), cx.era()) {
            ("tools/call", _) => self.called(&name()?, &routes)?,
            ("prompts/get", _) => Subject::Prompt(routes.prompt(&name()?, server)?),
            ("resources/read", _) => {
                let uri = within(Member::Uri, MAX_URI_BYTES)?;
                self.read(&uri, &routes)?
            }
            ("completion/complete", _) => routes.completion(request, server)?,
            ("resources/subscribe" | "resources/unsubscribe", Era::Legacy) => {
                return Some(Errand::Subscribe);
            }
            ("subscriptions/listen", Era::Modern) => return Some(Errand::Listen),
            ("tasks/list", Era::Legacy) => return Some(Errand::ListTasks),
            ("tools/list" | "prompts/list" | "resources/list" | "resources/templates/list", _) => {
                return Some(routes.arriving()).filter(|new| !new.is_empty()).map(Errand::Wait);
            }
            (method, _) if method.starts_with("tasks/") => {
                let id = within(Member::TaskId, MAX_TOKEN_BYTES)?;
                Subject::Task(TaskRef::find(&id, cx, &routes)?)
            }
            _ => return None,
        };
        Some(match subject {
            Subject::Absent(upstream, ..) if upstream.may_arrive() => Errand::Wait(vec![upstream]),
            subject => Errand::Relay(subject),
        })
    }

    /// Waits for upstreams that lists and calls need, and answers with what is there then.
    async fn call_later(
        &self,
        mut arriving: Vec<Arc<Upstream>>,
        request: Request,
        cx: Context,
    ) -> Answer {
        loop {
            arrivals(&arriving).await;
            match self.errand(&request, &cx) {
                Some(Errand::Wait(still)) => arriving = still,
                Some(Errand::Relay(subject)) => {
                    return Relay::new(self, subject).run(request, cx).await;
                }
                _ => return self.state.server.call(request, cx).await,
            }
        }
    }

    /// The server remembers the session's subscription; the upstream is asked for it, too.
    async fn subscribe(&self, request: Request, cx: Context) -> Answer {
        let uri = request.params.text(Member::Uri).filter(|uri| uri.len() <= MAX_URI_BYTES);
        let uri = uri.map(Cow::into_owned);
        let (session, who) = (cx.session.clone(), Who::of(&cx));
        let subscribes = request.method == "resources/subscribe";
        let server = &self.state.server;
        let routed = uri.as_deref().and_then(|uri| self.state.routes.load().resource(uri, server));
        let outcome = self.state.server.call(request, cx).await?;
        if let (Some((upstream, own)), Some(public), Some(session)) = (routed, uri, session) {
            match subscribes {
                true => upstream.watched.session(&who, &own, &public, &session),
                false => upstream.watched.look_again(&who.caller),
            }
        }
        Ok(outcome)
    }

    /// The server runs the stream; upstreams are asked for what it watches as long as it runs.
    async fn listen(&self, request: Request, cx: Context) -> Answer {
        let filter = ListenFilter::read(&request)?;
        let _watches = self.watch(&filter.resource_subscriptions, &cx);
        tasks::watch(self, filter.task_ids.unwrap_or_default(), request, &cx).await
    }

    fn watch(&self, uris: &[String], cx: &Context) -> Vec<Watch> {
        let routes = self.state.routes.load();
        let routed = uris.iter().filter_map(|uri| routes.resource(uri, &self.state.server));
        let who = Who::of(cx);
        routed.map(|(upstream, own)| upstream.watched.stream(&who, vec![own])).collect()
    }
}

/// Waits until each was tried, or has had its time: the last one's is that of all.
async fn arrivals(arriving: &[Arc<Upstream>]) {
    for upstream in arriving {
        upstream.arrival().await;
    }
}

impl Handler for Door {
    fn call(&self, request: Request, cx: Context) -> impl Future<Output = Answer> + Send {
        let passed: Passed<'_> = match self.errand(&request, &cx) {
            None => return Answering::Own { own: self.state.server.call(request, cx) },
            Some(Errand::Relay(subject)) => Box::pin(Relay::new(self, subject).run(request, cx)),
            Some(Errand::Subscribe) => Box::pin(self.subscribe(request, cx)),
            Some(Errand::Listen) => Box::pin(self.listen(request, cx)),
            Some(Errand::ListTasks) => Box::pin(tasks::list(self, request, cx)),
            Some(Errand::Wait(arriving)) => Box::pin(self.call_later(arriving, request, cx)),
        };
        Answering::Passed { passed }
    }

    async fn notify(&self, notification: Notification, cx: Context) {
        let roots_changed = notification.method == "notifications/roots/list_changed";
        self.state.server.notify(notification, cx.clone()).await;
        if roots_changed {
            let routes = self.state.routes.load_full();
            // In this task and one by one, so that the endpoint's bound on notifications is ours, too.
            for upstream in routes.all() {
                upstream.roots_changed(&cx).await;
            }
        }
    }

    fn stream_opened(&self, session: &Arc<Session>) {
        self.state.server.stream_opened(session);
    }

    fn session_ended(&self, key: [u8; 16]) {
        self.state.server.session_ended(key);
        self.gateway.caller_ended(&Caller::Session(key));
    }

    fn param_headers(&self, call: &Request) -> Option<Arc<ParamHeaders>> {
        let tool = call.params.text(Member::Name)?;
        if let Some(foreign) = self.state.routes.load().exact_tool(&tool) {
            return foreign.headers.clone();
        }
        self.state.server.param_headers(call)
    }

    fn about(&self) -> About<'_> {
        self.state.server.about()
    }
}

pin_project! {
    /// An answer on its way. Own tools, the most frequent, pay for nothing but this.
    #[project = AnsweringProjection]
    enum Answering<'a, F> {
        Own { #[pin] own: F },
        Passed { passed: Passed<'a> },
    }
}

impl<F: Future<Output = Answer>> Future for Answering<'_, F> {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Answer> {
        match self.project() {
            AnsweringProjection::Own { own } => own.poll(cx),
            AnsweringProjection::Passed { passed } => passed.as_mut().poll(cx),
        }
    }
}
