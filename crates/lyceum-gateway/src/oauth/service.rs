//! [`Authorized`]: an HTTP stack whose requests carry the upstream's token.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use lyceum_http::client::{BoxError, NoCredentials, RequestBody};
use tower_service::Service;

use super::challenge::Challenge;
use super::error::OAuthError;
use super::session::{Cause, Need, Session};

/// Tokens tried for one request after the first was refused: one for a token that ended, one for a
/// token that is too weak.
const MAX_TOKENS: usize = 2;

/// An HTTP stack for `ClientBuilder::service` that adds tokens, and gets them when the server asks.
#[derive(Clone, Debug)]
pub struct Authorized<S> {
    session: Arc<Session>,
    service: S,
}

impl<S> Authorized<S> {
    pub(super) fn new(session: Arc<Session>, service: S) -> Authorized<S> {
        Authorized { session, service }
    }
}

impl<S, B> Service<Request<RequestBody>> for Authorized<S>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Send,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let (session, service) = (Arc::clone(&self.session), self.service.clone());
        Box::pin(async move {
            match session.is_for(request.uri()) {
                true => with_token(session, service, request).await,
                // The token is for one server; what others ask for is for the caller to see.
                false => send(service, request).await,
            }
        })
    }
}

async fn with_token<S, B>(
    session: Arc<Session>,
    service: S,
    request: Request<RequestBody>,
) -> Result<Response<B>, BoxError>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
{
    let (head, body) = request.into_parts();
    let mut n_tokens = 0;
    loop {
        let access = session.access().await;
        let mut request = Request::from_parts(head.clone(), body.clone());
        if let Some(access) = &access {
            request.headers_mut().insert(AUTHORIZATION, access.header.clone());
        }
        let response = send(service.clone(), request).await?;
        let Some(cause) = cause(&response, n_tokens) else { return Ok(response) };
        let used = access.map(|access| access.serial());
        let need = Need { cause, challenge: Challenge::read(response.headers()), used };
        match session.obtain(need).await {
            Ok(_) => n_tokens += 1,
            // The server's own words say better what is missing.
            Err(_) if cause == Cause::Scope => return Ok(response),
            Err(error) => return Err(Box::new(NoCredentials(Box::new(error)))),
        }
    }
}

/// Why another token may help, if it may.
fn cause<B>(response: &Response<B>, n_tokens: usize) -> Option<Cause> {
    if n_tokens == MAX_TOKENS {
        return None;
    }
    match response.status() {
        StatusCode::UNAUTHORIZED if n_tokens == 0 => Some(Cause::Unknown),
        StatusCode::UNAUTHORIZED => Some(Cause::StillUnknown),
        StatusCode::FORBIDDEN if Challenge::read(response.headers()).is_about_scope() => {
            Some(Cause::Scope)
        }
        _ => None,
    }
}

/// Asks the server what it wants, and lets a person log in there.
pub(super) async fn log_in<S, B>(session: &Arc<Session>, service: S) -> Result<(), LoginError>
where
    S: Service<Request<RequestBody>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
{
    let mut request = Request::new(RequestBody::default());
    let uri = Uri::try_from(session.server.as_str());
    *request.uri_mut() = uri.map_err(|error| LoginError::Server(error.into()))?;
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    let response = send(service, request).await.map_err(LoginError::Server)?;
    // A server that does not mind a stranger's GET may still mind a call.
    let challenge = match response.status() {
        StatusCode::UNAUTHORIZED => Challenge::read(response.headers()),
        _ => Challenge::default(),
    };
    let need = Need { cause: Cause::Login, challenge, used: None };
    session.obtain(need).await.map(drop).map_err(LoginError::Refused)
}

/// Why a login came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server itself did not answer.
    #[error("the server cannot be reached")]
    Server(#[source] BoxError),
    /// There is no token.
    #[error(transparent)]
    Refused(Arc<OAuthError>),
}

async fn send<S, B>(mut service: S, request: Request<RequestBody>) -> Result<Response<B>, BoxError>
where
    S: Service<Request<RequestBody>, Response = Response<B>>,
    S::Error: Into<BoxError>,
{
    poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
    service.call(request).await.map_err(Into::into)
}
