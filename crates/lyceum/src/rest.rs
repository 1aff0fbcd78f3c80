//! The HTTP API beside MCP: documents, lists, search, upkeep, and what watchers ask for.
//!
//! One table (`router`) says which routes there are; requests are matched against it and
//! `/openapi.json` is written from it. Arguments and answers are those of the MCP tools.

mod documents;
mod health;
mod info;
mod input;
mod integrity;
mod maintenance;
mod openapi;
mod problem;
mod reading;
mod route;
mod router;
#[cfg(test)]
mod tests;
mod visit;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_METHODS, ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use lyceum_http::guard::{check_content_encoding, check_fetch_site, check_host, check_origin};
use lyceum_http::{
    AnswerBody, ByteBudgets, CallerId, HostPolicy, Limits, OriginPolicy, REQUEST_ID,
    ResponseFuture, cors, peer, read_body, request_id,
};
use serde_json::{Map, Value};
use tokio::time::{Duration, timeout};

pub(crate) use health::watch_store;
pub(crate) use info::Profiled;
pub(crate) use integrity::{CheckTimes, Integrity, check_integrity};
pub(crate) use visit::Desk;

use crate::keys::{Gate, Refusals};
use crate::knowledge::charge::Payer;
use problem::Problem;
use route::{Access, Matched, Reply, Route};
use visit::Visit;

/// The longest time a request may take once its body was read.
const DEADLINE: Duration = Duration::from_secs(60);
/// Everything below these is answered here, known or not.
const ROOTS: [&str; 2] = ["/documents/", "/kb/"];

/// The service. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Rest {
    shared: Arc<Shared>,
}

/// Who may enter, and within which bounds.
pub(crate) struct Doorkeeper {
    pub(crate) gate: Gate,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) hosts: HostPolicy,
    pub(crate) origins: OriginPolicy,
    pub(crate) limits: Limits,
    pub(crate) budgets: Arc<ByteBudgets>,
}

/// A body that has not been read, and who sends it.
struct Incoming<B> {
    body: B,
    caller: CallerId,
}

struct Shared {
    routes: Vec<Route>,
    desk: Arc<Desk>,
    door: Doorkeeper,
}

impl Doorkeeper {
    /// Adds what every response carries: its id, and CORS headers for origins that may call.
    pub(crate) fn finish(
        &self,
        head: &Parts,
        id: HeaderValue,
        response: &mut Response<AnswerBody>,
    ) {
        if let Ok(Some(origin)) = check_origin(&head.headers, &self.origins) {
            cors::answer_headers(origin, response.headers_mut());
            if head.method == Method::OPTIONS {
                cors::preflight_headers(origin, &head.headers, response.headers_mut());
                let allow = response.headers().get(ALLOW).cloned();
                allow.map(|allow| {
                    response.headers_mut().insert(ACCESS_CONTROL_ALLOW_METHODS, allow)
                });
            }
        }
        response.headers_mut().insert(REQUEST_ID, id);
    }
}

/// Undoes the percent-encoding of a part of a path; None if it is not UTF-8 then.
pub(crate) fn decoded(path: &str) -> Option<String> {
    input::decoded(path, false).ok()
}

impl Rest {
    pub(crate) fn new(desk: Desk, door: Doorkeeper) -> Self {
        let shared = Shared { routes: router::routes(), desk: Arc::new(desk), door };
        Self { shared: Arc::new(shared) }
    }

    /// Whether `path` is answered here.
    pub(crate) fn claims(&self, path: &str) -> bool {
        ROOTS.iter().any(|root| path.starts_with(root))
            || self.shared.routes.iter().any(|route| route.pattern == path)
    }

    /// Answers one request.
    pub(crate) fn respond<B>(&self, request: Request<B>) -> ResponseFuture
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let (shared, peer) = (Arc::clone(&self.shared), peer());
        Box::pin(async move { Ok(shared.answer(request, peer).await) })
    }
}

impl Shared {
    async fn answer<B>(&self, request: Request<B>, peer: Option<IpAddr>) -> Response<AnswerBody>
    where
        B: Body<Data = Bytes> + Send,
    {
        let (head, body) = request.into_parts();
        let id = request_id(&head.headers);
        let mut response = match self.walk(&head, body, &id, peer).await {
            Ok(reply) => reply.into_response(),
            Err(problem) => problem.into_response(),
        };
        self.door.finish(&head, id, &mut response);
        response
    }

    /// Guards, key, route, arguments, then the route's function.
    async fn walk<B>(
        &self,
        head: &Parts,
        body: B,
        id: &HeaderValue,
        peer: Option<IpAddr>,
    ) -> Result<Reply, Problem>
    where
        B: Body<Data = Bytes> + Send,
    {
        let path = head.uri.path();
        let admitted = check_host(&head.uri, &head.headers, &self.door.hosts)
            .and_then(|()| check_origin(&head.headers, &self.door.origins))
            .and_then(|_| check_fetch_site(&head.method, &head.headers));
        let open =
            self.routes.iter().any(|route| route.pattern == path && route.access == Access::Open);
        // A load balancer calls by address and without a key; it is told less.
        let trusted = admitted.is_ok() && self.door.gate.would_admit(&head.headers);
        if !open {
            admitted?;
        }
        if head.method == Method::OPTIONS {
            return Ok(
                Reply::empty(StatusCode::NO_CONTENT).allowing(&route::allowed(&self.routes, path))
            );
        }
        let principal = if open { None } else { self.door.gate.enter(&head.headers)? };
        let Matched { route, captured } = route::find(&self.routes, &head.method, path)?;
        let caller = CallerId::new(principal.clone(), peer);
        let payer = Payer::new(caller.clone(), Arc::clone(&self.door.budgets));
        let visit = Visit::new(&self.desk, principal, id, trusted, payer);
        let body = Incoming { body, caller };
        let done = self.run(route, captured, head, body, visit.clone()).await;
        // Polls for health are no calls of anyone: what goes wrong with them is not for the audit trail.
        if let Err(problem) = &done
            && !open
        {
            self.note(problem, &visit, route, captured);
        }
        done
    }

    async fn run<B>(
        &self,
        route: &Route,
        captured: Option<&str>,
        head: &Parts,
        Incoming { body, caller }: Incoming<B>,
        visit: Visit,
    ) -> Result<Reply, Problem>
    where
        B: Body<Data = Bytes> + Send,
    {
        let sent = match route.reads_body() {
            true => {
                check_content_encoding(&head.headers)?;
                let Doorkeeper { limits, budgets, .. } = &self.door;
                let caller = || caller.clone();
                input::object(read_body(body, limits, &budgets.bodies, caller).await?).await?
            }
            false => Map::new(),
        };
        // Watchers add what they like to an address that takes nothing, to get past caches.
        let query = head.uri.query().filter(|_| route.access == Access::Guarded);
        let arguments = input::merge(route, captured, query, sent)?;
        let late = |_| {
            Problem::unavailable(
                "this took too long; what was begun may still be done, so look first",
            )
        };
        timeout(DEADLINE, route.run(visit, Value::Object(arguments))).await.map_err(late)?
    }

    /// Writes down that a call was refused, unless the store has done so.
    fn note(&self, problem: &Problem, visit: &Visit, route: &Route, captured: Option<&str>) {
        if problem.status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(route = route.pattern, "{}", problem.message);
        }
        if !problem.audited {
            let document = captured.and_then(|captured| input::decoded(captured, false).ok());
            self.door.refusals.note(visit.actor(route.tool), document, problem.code);
        }
    }
}

impl Reply {
    fn into_response(self) -> Response<AnswerBody> {
        let mut response = Response::new(AnswerBody::whole(self.body));
        *response.status_mut() = self.status;
        if let Some(media) = self.media {
            response.headers_mut().insert(CONTENT_TYPE, media);
        }
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, allow);
        }
        response
    }
}

impl Problem {
    fn into_response(self) -> Response<AnswerBody> {
        let (allow, challenge, close) = (self.allow.clone(), self.challenge.clone(), self.close);
        let status = self.status;
        let mut response = Reply::json(status, self.body()).into_response();
        let headers = response.headers_mut();
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(RETRY_AFTER, HeaderValue::from(1));
        }
        allow.map(|allow| headers.insert(ALLOW, allow));
        challenge.map(|challenge| headers.insert(WWW_AUTHENTICATE, challenge));
        if close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
