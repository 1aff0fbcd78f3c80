//! Paths: which service answers which path of a server.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use tower_service::Service;

use crate::answer::AnswerBody;
use crate::cors;
use crate::endpoint::{Endpoint, ResponseFuture};
use crate::fields::Fields;
use crate::guard::Refused;
use crate::handler::Handler;
use crate::legacy::HttpSse;
use crate::pipeline::{Reply, plain_error, refuse};
use crate::request_id::{REQUEST_ID, request_id};

/// What answers one path.
type Route<B> = Arc<dyn Fn(Request<B>) -> ResponseFuture + Send + Sync>;

/// Whether a path is meant.
type Matches = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Judges Host and Origin as an endpoint does; returns the origin to name in CORS headers.
type Guard = Arc<dyn Fn(&Parts) -> Result<Option<HeaderValue>, Refused> + Send + Sync>;

/// A tower service of several endpoints, each at its own path. Other paths are 404.
///
/// Paths match exactly: there is no prefix, no trailing slash and no percent-decoding to disagree
/// about with a proxy in front. What [`Site::matching`] adds is asked last.
/// Whom no endpoint would answer learns nothing from a 404 either.
pub struct Site<B> {
    /// Behind one pointer, because a site is cloned for every request.
    places: Arc<Places<B>>,
}

/// What is where.
struct Places<B> {
    /// A handful at most, so looking through them beats hashing.
    routes: Vec<(Arc<str>, Route<B>)>,
    matching: Vec<(Matches, Route<B>)>,
    guards: Vec<Guard>,
}

impl<B> Site<B>
where
    B: Body<Data = Bytes> + Send + 'static,
{
    /// A site where every path is 404.
    pub fn new() -> Self {
        let places = Places { routes: Vec::new(), matching: Vec::new(), guards: Vec::new() };
        Self { places: Arc::new(places) }
    }

    /// Puts an endpoint at its path.
    #[must_use]
    pub fn endpoint<H: Handler>(self, endpoint: Endpoint<H>) -> Self {
        let path = endpoint.path().to_owned();
        self.guarded_by(&endpoint).handle(&path, move |request| endpoint.respond(request))
    }

    /// Puts the 2024-11-05 form of an endpoint at `path` and at its messages path.
    #[must_use]
    pub fn http_sse<H: Handler>(self, path: &str, http_sse: HttpSse<H>) -> Self {
        let messages = http_sse.messages_path().to_owned();
        let shared = Arc::clone(&http_sse.shared);
        self.guarded(move |head| Ok(shared.admit(head, &Fields::of(&head.headers))?.cloned()))
            .service(path, http_sse.clone())
            .service(&messages, http_sse)
    }

    /// Puts any service at `path`.
    #[must_use]
    pub fn service<S>(self, path: &str, service: S) -> Self
    where
        S: Service<
                Request<B>,
                Response = Response<AnswerBody>,
                Error = Infallible,
                Future = ResponseFuture,
            > + Clone
            + Send
            + Sync
            + 'static,
    {
        self.handle(path, move |request| service.clone().call(request))
    }

    /// Puts a function at `path`.
    #[must_use]
    pub fn handle(
        mut self,
        path: &str,
        handle: impl Fn(Request<B>) -> ResponseFuture + Send + Sync + 'static,
    ) -> Self {
        let routes = &mut Arc::make_mut(&mut self.places).routes;
        routes.retain(|(known, _)| **known != *path);
        routes.push((path.into(), Arc::new(handle)));
        self
    }

    /// Puts a function at every path that `matches` says yes to and no exact path takes; the first
    /// one added wins.
    #[must_use]
    pub fn matching(
        mut self,
        matches: impl Fn(&str) -> bool + Send + Sync + 'static,
        handle: impl Fn(Request<B>) -> ResponseFuture + Send + Sync + 'static,
    ) -> Self {
        let added: (Matches, Route<B>) = (Arc::new(matches), Arc::new(handle));
        Arc::make_mut(&mut self.places).matching.push(added);
        self
    }

    /// Has requests for paths that nothing is at judged by the guards of `endpoint`, among others;
    /// [`Site::endpoint`] does so by itself.
    #[must_use]
    pub fn guarded_by<H: Handler>(self, endpoint: &Endpoint<H>) -> Self {
        let shared = Arc::clone(&endpoint.shared);
        self.guarded(move |head| Ok(shared.admit(head, &Fields::of(&head.headers))?.cloned()))
    }

    fn guarded(
        mut self,
        guard: impl Fn(&Parts) -> Result<Option<HeaderValue>, Refused> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.places).guards.push(Arc::new(guard));
        self
    }

    /// The exact paths served.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.places.routes.iter().map(|(path, _)| &**path)
    }
}

impl<B> Default for Site<B>
where
    B: Body<Data = Bytes> + Send + 'static,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<B> Clone for Site<B> {
    fn clone(&self) -> Self {
        Self { places: Arc::clone(&self.places) }
    }
}

impl<B> Clone for Places<B> {
    fn clone(&self) -> Self {
        Self {
            routes: self.routes.clone(),
            matching: self.matching.clone(),
            guards: self.guards.clone(),
        }
    }
}

impl<B> fmt::Debug for Site<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.places.routes.iter().map(|(path, _)| path)).finish()
    }
}

impl<B> Service<Request<B>> for Site<B>
where
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let path = request.uri().path();
        let Places { routes, matching, guards } = &*self.places;
        let exact = routes.iter().find(|(known, _)| &**known == path).map(|(_, route)| route);
        let route = exact
            .or_else(|| matching.iter().find(|(matches, _)| matches(path)).map(|(_, route)| route));
        match route {
            Some(route) => route(request),
            None => {
                let (head, _) = request.into_parts();
                let reply = not_found(guards, &head);
                Box::pin(async { Ok(reply) })
            }
        }
    }
}

/// The answer for a path that nothing is at: guarded like what is at the others.
fn not_found(guards: &[Guard], head: &Parts) -> Reply {
    let mut judged = Ok(None);
    for guard in guards {
        judged = guard(head);
        if judged.is_ok() {
            break;
        }
    }
    let mut reply = match &judged {
        Ok(_) => plain_error(StatusCode::NOT_FOUND, "Not Found: there is nothing at this path"),
        Err(refused) => refuse(refused),
    };
    if let Ok(Some(origin)) = &judged {
        cors::answer_headers(origin, reply.headers_mut());
    }
    reply.headers_mut().insert(REQUEST_ID, request_id(&head.headers));
    reply
}
