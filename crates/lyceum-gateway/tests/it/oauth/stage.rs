//! A protected server and two authorization servers on loopback, which keep what they were asked.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::LOCATION;
use http::{Request, StatusCode, Uri};
use lyceum_gateway::oauth::{Authorizer, OAuth, OAuthBuilder, Visit};
use lyceum_gateway::stack;
use lyceum_http::client::{BoxError, Policy, RequestBody, SafeDialer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::RwLock;
use tokio_rustls::rustls::RootCertStore;
use tower_service::Service;
use url::{Url, form_urlencoded};

pub(super) const UPSTREAM: &str = "up";
const REDIRECT_URI: &str = "http://127.0.0.1:1/callback";

/// A request one of the servers got.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// `resource`, `one` or `two`.
    pub(super) server: &'static str,
    /// Without the query.
    pub(super) path: String,
    pub(super) authorization: Option<String>,
    /// The query of a GET, the form or document of a POST.
    pub(super) said: String,
}

/// What a test may turn.
pub(super) struct Knobs {
    /// The authorization servers the resource names.
    pub(super) named: Vec<String>,
    /// Access tokens the resource takes.
    pub(super) valid: HashSet<String>,
    /// Refresh tokens that have not been traded in.
    pub(super) refreshable: HashSet<String>,
    /// `expires_in` of new tokens, in seconds.
    pub(super) lifetime: u64,
    /// `scopes_supported` of the resource.
    pub(super) scopes: Vec<&'static str>,
    /// A scope no token is good for.
    pub(super) lacking: Option<&'static str>,
    /// The secret of the client `id`.
    pub(super) secret: &'static str,
    /// Whether token responses have a member of the wrong type.
    pub(super) garbled: bool,
    pub(super) asked: Vec<Asked>,
    n_tokens: usize,
}

#[derive(Clone)]
pub(super) struct Stage {
    pub(super) url: String,
    issuers: [String; 2],
    knobs: Arc<Mutex<Knobs>>,
    /// Token requests wait while somebody writes here.
    pub(super) gate: Arc<RwLock<()>>,
}

impl Stage {
    pub(super) async fn set() -> Stage {
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let at = |n: usize| format!("http://{}", listeners[n].local_addr().unwrap());
        let stage = Stage {
            url: format!("{}/mcp", at(0)),
            issuers: [at(1), at(2)],
            knobs: Arc::new(Mutex::new(Knobs {
                named: vec![at(1)],
                valid: HashSet::new(),
                refreshable: HashSet::new(),
                lifetime: 3600,
                scopes: Vec::new(),
                lacking: None,
                secret: "hunter2",
                garbled: false,
                asked: Vec::new(),
                n_tokens: 0,
            })),
            gate: Arc::default(),
        };
        for (listener, server) in listeners.into_iter().zip(["resource", "one", "two"]) {
            tokio::spawn(serve(stage.clone(), listener, server));
        }
        stage
    }

    pub(super) fn issuer(&self, server: &str) -> String {
        self.issuers[usize::from(server == "two")].clone()
    }

    pub(super) fn knobs(&self) -> MutexGuard<'_, Knobs> {
        self.knobs.lock().unwrap()
    }

    /// The authorization of the upstream, with a person who agrees to everything.
    pub(super) fn oauth(&self) -> OAuthBuilder {
        self.unattended().authorizer(Agreeable)
    }

    /// The same with nobody there.
    pub(super) fn unattended(&self) -> OAuthBuilder {
        OAuth::builder(UPSTREAM, &self.url)
    }

    /// What a server was asked at a path, in order.
    pub(super) fn asked(&self, server: &str, path: &str) -> Vec<Asked> {
        let knobs = self.knobs();
        let ours = knobs.asked.iter().filter(|one| one.server == server && one.path == path);
        ours.cloned().collect()
    }

    /// How often the authorization servers were asked to log somebody in, and for tokens.
    pub(super) fn counts(&self) -> (usize, usize) {
        let count = |path| self.asked("one", path).len() + self.asked("two", path).len();
        (count("/authorize"), count("/token"))
    }

    /// Takes back every access token.
    pub(super) fn revoke(&self) {
        self.knobs().valid.clear();
    }

    async fn answer(&self, asked: Asked) -> String {
        let path = asked.path.clone();
        self.knobs().asked.push(asked.clone());
        match (asked.server, path.as_str()) {
            ("resource", "/mcp") => self.protected(&asked),
            ("resource", "/.well-known/oauth-protected-resource/mcp") => {
                let knobs = self.knobs();
                let scopes = (!knobs.scopes.is_empty()).then_some(&knobs.scopes);
                ok(&json!({ "resource": self.url, "authorization_servers": knobs.named,
                    "scopes_supported": scopes }))
            }
            ("one" | "two", "/.well-known/oauth-authorization-server") => {
                ok(&self.metadata(asked.server))
            }
            // It knows no scopes but its own.
            ("one" | "two", "/register") if asked.said.contains("\"scope\"") => {
                refused("invalid_client_metadata")
            }
            ("one" | "two", "/register") => ok(&json!({ "client_id": client(asked.server) })),
            ("one" | "two", "/authorize") => self.agreed(&asked),
            ("one" | "two", "/token") => {
                let _open = self.gate.read().await;
                self.token(&asked)
            }
            _ => "HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n".to_owned(),
        }
    }

    fn protected(&self, asked: &Asked) -> String {
        let bearer = asked.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
        if bearer.is_some_and(|token| self.knobs().valid.contains(token)) {
            let Some(lacking) = self.knobs().lacking else { return answered(&asked.said) };
            return format!(
                "HTTP/1.1 403 X\r\nwww-authenticate: Bearer error=\"insufficient_scope\", \
                 scope=\"{lacking}\"\r\ncontent-length: 0\r\n\r\n"
            );
        }
        let place = self.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp");
        format!(
            "HTTP/1.1 401 X\r\nwww-authenticate: Bearer resource_metadata=\"{place}\"\r\n\
             content-length: 0\r\n\r\n"
        )
    }

    fn metadata(&self, server: &str) -> serde_json::Value {
        let issuer = self.issuer(server);
        json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "registration_endpoint": format!("{issuer}/register"),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": true,
        })
    }

    fn agreed(&self, asked: &Asked) -> String {
        let mut to = Url::parse(REDIRECT_URI).unwrap();
        to.query_pairs_mut()
            .append_pair("code", &format!("code-of-{}", asked.server))
            .append_pair("state", &member(&asked.said, "state"))
            .append_pair("iss", &self.issuer(asked.server));
        format!("HTTP/1.1 302 X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
    }

    fn token(&self, asked: &Asked) -> String {
        let mut knobs = self.knobs();
        let granted = match member(&asked.said, "grant_type").as_str() {
            "authorization_code" => {
                member(&asked.said, "code") == format!("code-of-{}", asked.server)
                    && (member(&asked.said, "client_id") == client(asked.server)
                        || asked.authorization.is_some())
            }
            "refresh_token" => knobs.refreshable.remove(&member(&asked.said, "refresh_token")),
            "client_credentials" => {
                let basic = STANDARD.encode(format!("id:{}", knobs.secret));
                if asked.authorization != Some(format!("Basic {basic}")) {
                    return refused("invalid_client");
                }
                true
            }
            _ => false,
        };
        if !granted {
            return refused("invalid_grant");
        }
        knobs.n_tokens += 1;
        let (token, refresh) =
            (format!("token-{}", knobs.n_tokens), format!("refresh-{}", knobs.n_tokens));
        knobs.valid.insert(token.clone());
        knobs.refreshable.insert(refresh.clone());
        let lifetime = if knobs.garbled { json!("hunter3") } else { json!(knobs.lifetime) };
        ok(&json!({
            "access_token": token, "token_type": "bearer", "refresh_token": refresh,
            "expires_in": lifetime,
        }))
    }
}

/// Sends a GET to the upstream, or elsewhere, as a client of it would.
pub(super) async fn get(oauth: &OAuth, url: &str) -> Result<StatusCode, BoxError> {
    let mut request = Request::new(RequestBody::default());
    *request.uri_mut() = Uri::try_from(url)?;
    let mut service = oauth.around(stack::trusting(RootCertStore::empty()));
    Ok(service.call(request).await?.status())
}

/// How an authorization server calls us after a registration.
pub(super) fn client(server: &str) -> String {
    format!("client-of-{server}")
}

/// A member of a form or query.
pub(super) fn member(said: &str, name: &str) -> String {
    let mut pairs = form_urlencoded::parse(said.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// A whole error, causes included.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// What the protected server says to a message, for it is an MCP server with one tool.
fn answered(said: &str) -> String {
    let message: serde_json::Value = serde_json::from_str(said).unwrap_or_default();
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "protected", "version": "1" } }),
        "tools/list" => {
            json!({ "tools": [{ "name": "greet", "inputSchema": { "type": "object" } }] })
        }
        "tools/call" => json!({ "content": [{ "type": "text", "text": "hello" }] }),
        "server/discover" => {
            let error = json!({ "code": -32601, "message": "unknown method" });
            return ok(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
        }
        _ => json!({}),
    };
    ok(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

fn refused(error: &str) -> String {
    let body = json!({ "error": error }).to_string();
    format!("HTTP/1.1 400 X\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn ok(body: &serde_json::Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

async fn serve(stage: Stage, listener: TcpListener, server: &'static str) {
    loop {
        let (mut stream, _): (_, SocketAddr) = listener.accept().await.unwrap();
        let stage = stage.clone();
        tokio::spawn(async move {
            let Some(asked) = read(&mut stream, server).await else { return };
            let answer = stage.answer(asked).await;
            let answer = answer.replacen("\r\n", "\r\nconnection: close\r\n", 1);
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        });
    }
}

async fn read(stream: &mut TcpStream, server: &'static str) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let length = header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let target = head.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let said = if body.is_empty() { query.into() } else { String::from_utf8(body).unwrap() };
    Some(Asked { server, path: path.to_owned(), authorization: header("authorization"), said })
}

/// Agrees to whatever an authorization page asks.
struct Agreeable;

#[async_trait]
impl Authorizer for Agreeable {
    async fn open(&self) -> Result<Box<dyn Visit>, BoxError> {
        Ok(Box::new(Agreeable))
    }
}

#[async_trait]
impl Visit for Agreeable {
    fn redirect_uri(&self) -> &str {
        REDIRECT_URI
    }

    async fn go(self: Box<Self>, url: &str, _: &str) -> Result<String, BoxError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = Uri::try_from(url)?;
        let response = SafeDialer::new(Policy::Anywhere).send(request).await?;
        let location = response.headers()[LOCATION].to_str()?;
        Ok(location.split_once('?').unwrap().1.to_owned())
    }
}
