//! The calls that are not MCP: lists, a tool, a resource, health. Refusals are plain text.
//!
//! A tool is called, and a resource read, by way of the endpoint, so that whatever holds there holds
//! here: guards, keys, limits, routes and metrics.

use bytes::Bytes;
use http::header::{
    ALLOW, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use lyceum_http::guard::{
    Refused, check_content_encoding, check_fetch_site, check_host, check_origin,
};
use lyceum_http::{AnswerBody, BodyError, CallerId, Principal, REQUEST_ID, read_body, request_id};
use lyceum_wire::{Object, Writer};

use super::{Inner, documents};
use crate::keys::Denied;
use crate::rest::decoded;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call<'a> {
    Tools,
    /// The name is percent-encoded.
    Tool(&'a str),
    Resources,
    /// The URI is percent-encoded, or at least may be.
    Resource(&'a str),
    Health,
}

/// A request that was not done, or a method that only asks.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    text: String,
    header: Option<(HeaderName, HeaderValue)>,
}

impl<'a> Call<'a> {
    /// What is at a path, as it stands below the base.
    pub(super) fn at(below: &'a str) -> Option<Self> {
        Some(match below {
            "/tools" => Call::Tools,
            "/resources" => Call::Resources,
            "/health" => Call::Health,
            _ => match below.strip_prefix("/tools/") {
                Some(name) => Call::Tool(name),
                None => Call::Resource(below.strip_prefix("/resources/")?),
            },
        })
    }

    fn method(self) -> Method {
        if matches!(self, Call::Tool(_)) { Method::POST } else { Method::GET }
    }
}

impl Inner {
    pub(super) async fn call<B>(&self, request: Request<B>) -> Response<AnswerBody>
    where
        B: Body<Data = Bytes> + Send,
    {
        let (head, body) = request.into_parts();
        let mut response = match self.answer(&head, body).await {
            Ok((status, document)) => respond(status, JSON, document),
            Err(refusal) => refusal.into_response(),
        };
        self.keeper.finish(&head, request_id(&head.headers), &mut response);
        response
    }

    async fn answer<B>(&self, head: &Parts, body: B) -> Result<(StatusCode, Bytes), Refusal>
    where
        B: Body<Data = Bytes> + Send,
    {
        let below = head.uri.path().strip_prefix(self.base.as_str()).unwrap_or_default();
        let call = Call::at(below).ok_or_else(|| Refusal::not_found("nothing is served here"))?;
        let query = Query::read(head.uri.query().unwrap_or_default());
        // A load balancer calls by address and without a key; it is told numbers only.
        let is_open = call == Call::Health && !query.detail;
        if !is_open {
            check_host(&head.uri, &head.headers, &self.keeper.hosts)?;
            check_origin(&head.headers, &self.keeper.origins)?;
            check_fetch_site(&head.method, &head.headers)?;
        }
        if head.method != call.method() {
            return Err(Refusal::method(call.method(), head.method == Method::OPTIONS));
        }
        let principal = if is_open { None } else { self.keeper.gate.enter(&head.headers)? };
        let Self { door, gateway, .. } = self;
        if matches!(call, Call::Tools | Call::Resources) {
            door.arrivals().await;
        }
        let document = match call {
            Call::Tools => query.tools(door)?,
            Call::Resources => documents::resources(door),
            Call::Tool(name) => self.call_tool(head, name, body, principal).await?,
            Call::Resource(uri) => self.read_resource(head, uri).await?,
            Call::Health => {
                let write =
                    if query.detail { documents::detailed_health } else { documents::health };
                let status = match documents::is_up(gateway) {
                    true => StatusCode::OK,
                    false => StatusCode::INTERNAL_SERVER_ERROR,
                };
                return Ok((status, write(door, gateway)));
            }
        };
        Ok((StatusCode::OK, document))
    }

    /// The body is the arguments; nothing, or `null`, is no arguments.
    async fn call_tool<B>(
        &self,
        head: &Parts,
        name: &str,
        body: B,
        principal: Option<Principal>,
    ) -> Result<Bytes, Refusal>
    where
        B: Body<Data = Bytes> + Send,
    {
        let name = name_in(name)?;
        if !self.door.leads_to_tool(&name) {
            return Err(Refusal::not_found(format!("Tool not found: {name}")));
        }
        check_content_encoding(&head.headers)?;
        let caller = || CallerId::new(principal.clone(), None);
        let bodies = &self.keeper.budgets.bodies;
        let body = read_body(body, &self.keeper.limits, bodies, caller).await?;
        let mut params = Writer::new();
        params.text("name", &name);
        match body.trim_ascii() {
            b"" | b"null" => {}
            arguments => {
                Object::parse(arguments).map_err(|problem| {
                    let text = format!("Invalid JSON parameters: {problem}");
                    Refusal::new(StatusCode::BAD_REQUEST, text)
                })?;
                params.raw("arguments", arguments);
            }
        }
        let result = self.ask(head, "tools/call", params.finish()).await;
        result.map_err(|problem| Refusal::failed(format!("Failed to call tool: {problem}")))
    }

    async fn read_resource(&self, head: &Parts, uri: &str) -> Result<Bytes, Refusal> {
        let uri = name_in(uri)?;
        if !self.door.leads_to_resource(&uri) {
            return Err(Refusal::not_found(format!("Resource not found: {uri}")));
        }
        let mut params = Writer::new();
        params.text("uri", &uri);
        let result = self.ask(head, "resources/read", params.finish()).await;
        result.map_err(|problem| Refusal::failed(format!("Failed to read resource: {problem}")))
    }

    /// Asks the endpoint as an MCP client would; the raw result, or what the error says.
    async fn ask(&self, head: &Parts, method: &str, params: Bytes) -> Result<Bytes, String> {
        let mut message = Writer::new();
        message.text("jsonrpc", "2.0");
        message.raw("id", "1");
        message.text("method", method);
        message.raw("params", params);
        let mut request = Request::new(Full::new(message.finish()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = carried(&head.headers);
        let Ok(answer) = self.endpoint.respond(request).await;
        let Ok(body) = answer.into_body().collect().await.map(|body| body.to_bytes());
        let members = Object::parse(&body)?;
        if let Some(result) = members.get("result") {
            return Ok(body.slice_ref(result.as_bytes()));
        }
        let error = members.get("error").unwrap_or_default();
        let message = Object::parse(error.as_bytes()).ok().and_then(|error| error.text("message"));
        Err(message.unwrap_or_else(|| "the server did not say why".to_owned()))
    }
}

/// What the query of a call can say.
struct Query {
    detail: bool,
    format: Option<String>,
}

impl Query {
    fn read(query: &str) -> Self {
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let value = |name: &str| pairs.clone().find(|(known, _)| *known == name);
        let detail = value("detail").is_some_and(|(_, value)| !matches!(value, "0" | "false"));
        Self { detail, format: value("format").map(|(_, value)| value.to_owned()) }
    }

    fn tools(&self, door: &lyceum_gateway::Door) -> Result<Bytes, Refusal> {
        match self.format.as_deref() {
            None => Ok(documents::tools(door)),
            Some("openai") => Ok(documents::openai_tools(door)),
            Some(_) => {
                let text = "there is one other format: write format=openai, or leave it out";
                Err(Refusal::new(StatusCode::BAD_REQUEST, text))
            }
        }
    }
}

impl Refusal {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), header: None }
    }

    fn not_found(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, text)
    }

    fn failed(text: String) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// The method to use instead; whoever only asks which that is, did nothing wrong.
    fn method(method: Method, asks: bool) -> Self {
        let allow = HeaderValue::from_str(method.as_str()).map(|value| (ALLOW, value)).ok();
        let (status, text) = match asks {
            true => (StatusCode::NO_CONTENT, String::new()),
            false => (StatusCode::METHOD_NOT_ALLOWED, format!("use {method} here")),
        };
        Self { status, text, header: allow }
    }

    fn into_response(self) -> Response<AnswerBody> {
        let mut response = respond(self.status, TEXT, self.text.into());
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let status = StatusCode::from_u16(refused.status).unwrap_or(StatusCode::BAD_REQUEST);
        Self::new(status, refused.message)
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        let header = denied.challenge().map(|challenge| (WWW_AUTHENTICATE, challenge));
        Self { header, ..Self::new(denied.status(), denied.message()) }
    }
}

impl From<BodyError> for Refusal {
    /// What is left of the body must not be taken for the next request.
    fn from(error: BodyError) -> Self {
        let header = Some((CONNECTION, HeaderValue::from_static("close")));
        Self { header, ..Self::new(error.status(), error.to_string()) }
    }
}

/// A name or URI from the path.
fn name_in(path: &str) -> Result<String, Refusal> {
    let bad = || Refusal::new(StatusCode::BAD_REQUEST, "the address is not percent-encoded UTF-8");
    decoded(path).ok_or_else(bad)
}

/// The headers that the endpoint judges a caller by.
fn carried(headers: &HeaderMap) -> HeaderMap {
    let judged = [HOST, ORIGIN, AUTHORIZATION, API_KEY, REQUEST_ID];
    let mut carried = HeaderMap::new();
    for name in judged {
        for value in headers.get_all(&name) {
            carried.append(&name, value.clone());
        }
    }
    carried
}

fn respond(status: StatusCode, media: HeaderValue, body: Bytes) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, media);
    response
}
