//! [`Loopback`]: shows a URL and waits on a port of this machine until the browser comes back.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lyceum_http::client::BoxError;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::authorizer::{Authorizer, Visit};
use super::redirect::{has_error, has_state};

const CALLBACK: &str = "/callback";
/// Browsers open a few connections ahead; nobody else has business here.
const MAX_CONNECTIONS: usize = 8;
const MAX_HEAD: usize = 16 << 10;
const DONE: &str = "Lyceum has what it needs. You can close this window.\n";
const REFUSED: &str = "The login was refused. Where you started it, you can read why.\n";
const NOT_HERE: &str = "This is not the answer Lyceum is waiting for.\n";

/// Sends a person to an authorization page by showing its URL.
#[derive(Clone)]
pub struct Loopback {
    port: u16,
    patience: Duration,
    show: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Loopback {
    /// Shows URLs by `show` and waits for the browser on a port the system chooses, five minutes at
    /// most.
    pub fn new(show: impl Fn(&str) + Send + Sync + 'static) -> Loopback {
        Loopback { port: 0, patience: Duration::from_secs(300), show: Arc::new(show) }
    }

    /// Waits on this port, for authorization servers that only redirect to the one they know.
    #[must_use]
    pub fn port(self, port: u16) -> Loopback {
        Loopback { port, ..self }
    }

    /// How long the person may take.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Loopback {
        Loopback { patience, ..self }
    }
}

impl fmt::Debug for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loopback").field("port", &self.port).finish_non_exhaustive()
    }
}

#[async_trait]
impl Authorizer for Loopback {
    async fn open(&self) -> Result<Box<dyn Visit>, BoxError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await?;
        let redirect_uri = format!("http://{}{CALLBACK}", listener.local_addr()?);
        Ok(Box::new(Waiting { listener, redirect_uri, how: self.clone() }))
    }
}

struct Waiting {
    listener: TcpListener,
    redirect_uri: String,
    how: Loopback,
}

#[async_trait]
impl Visit for Waiting {
    fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    async fn go(self: Box<Self>, url: &str, state: &str) -> Result<String, BoxError> {
        (self.how.show)(url);
        let patience = self.how.patience;
        let waited = timeout(patience, wait(self.listener, state)).await;
        waited.unwrap_or_else(|_| Err(format!("nobody came back within {patience:?}").into()))
    }
}

/// Answers whoever connects until the redirect with the right `state` is among them: a stray page
/// or a prying one must not end the login.
async fn wait(listener: TcpListener, state: &str) -> Result<String, BoxError> {
    let (sender, mut found) = mpsc::channel(1);
    let state: Arc<str> = state.into();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                // Failures to accept are about that connection, or pass.
                let Ok((stream, _)) = accepted else { continue };
                let (sender, state) = (sender.clone(), Arc::clone(&state));
                let service = service_fn(move |request| {
                    std::future::ready(Ok::<_, BoxError>(answer(&request, &state, &sender)))
                });
                let mut server = http1::Builder::new();
                server.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(10));
                server.max_buf_size(MAX_HEAD).keep_alive(false);
                connections.spawn(server.serve_connection(TokioIo::new(stream), service));
            }
            Some(_) = connections.join_next() => {}
            Some(query) = found.recv() => {
                // The browser gets its page before the port closes.
                let written = async { while connections.join_next().await.is_some() {} };
                let _ = timeout(Duration::from_secs(1), written).await;
                return Ok(query);
            }
        }
    }
}

fn answer(
    request: &Request<Incoming>,
    state: &str,
    found: &mpsc::Sender<String>,
) -> Response<Full<Bytes>> {
    let query = request.uri().query().unwrap_or_default();
    let ours = request.uri().path() == CALLBACK && has_state(query, state);
    if ours {
        // A second redirect of the same login has nothing to add.
        let _ = found.try_send(query.to_owned());
    }
    let page = match ours {
        true if has_error(query) => REFUSED,
        true => DONE,
        false => NOT_HERE,
    };
    let mut response = Response::new(Full::from(page));
    *response.status_mut() = if ours { StatusCode::OK } else { StatusCode::NOT_FOUND };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn get(authority: &str, target: &str) -> String {
        let mut stream = TcpStream::connect(authority).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nhost: {authority}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_redirect_with_our_state_ends_the_login() {
        let visit = Loopback::new(|_| ()).open().await.unwrap();
        let uri = visit.redirect_uri().to_owned();
        let authority = uri.strip_prefix("http://").unwrap().strip_suffix(CALLBACK).unwrap();
        let (query, ()) = tokio::join!(visit.go("https://as/authorize", "s1"), async {
            let _idle = TcpStream::connect(authority).await.unwrap();
            for stray in ["/favicon.ico", "/callback", "/callback?state=s2&code=evil", "/?state=s1"]
            {
                assert!(get(authority, stray).await.starts_with("HTTP/1.1 404"), "{stray}");
            }
            let page = get(authority, "/callback?code=c&state=s1").await;
            assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        });
        assert_eq!(query.unwrap(), "code=c&state=s1");
    }

    #[tokio::test]
    async fn a_refused_login_is_not_called_a_success() {
        let visit = Loopback::new(|_| ()).open().await.unwrap();
        let uri = visit.redirect_uri().to_owned();
        let authority = uri.strip_prefix("http://").unwrap().strip_suffix(CALLBACK).unwrap();
        let (query, page) = tokio::join!(
            visit.go("https://as/authorize", "s1"),
            get(authority, "/callback?error=access_denied&state=s1"),
        );
        assert_eq!(query.unwrap(), "error=access_denied&state=s1");
        assert!(page.ends_with(REFUSED), "{page}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_for_ever() {
        let visit = Loopback::new(|_| ()).open().await.unwrap();
        let error = visit.go("https://as/authorize", "s1").await.unwrap_err();
        assert!(error.to_string().contains("nobody came back"), "{error}");
    }
}
