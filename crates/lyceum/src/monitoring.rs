//! What watchers ask for: `/health` and `/metrics`.

use anyhow::Context;
use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use lyceum_http::guard::{check_host, check_origin};
use lyceum_http::{AnswerBody, HostPolicy, OriginPolicy, ResponseFuture};
use lyceum_wire::{RpcError, encode};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde_json::json;
use tokio::time::{Duration, Instant, interval};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROMETHEUS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// How often histograms are tidied up.
const UPKEEP: Duration = Duration::from_secs(5);

/// What each number is, for the `# HELP` lines.
const HELP: &[(&str, &str)] = &[
    ("lyceum_accept_total", "Requests by the form of their Accept header."),
    ("lyceum_decisions_total", "Answers by the form that was decided on."),
    ("lyceum_notifications_dropped_total", "Notifications an answer could not carry."),
    ("lyceum_handler_panics_total", "Handlers that panicked."),
];

/// Starts counting, for the whole process.
pub(crate) fn install() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new().install_recorder().context("starting metrics")?;
    for (name, help) in HELP {
        metrics::describe_counter!(*name, *help);
    }
    metrics::describe_gauge!("lyceum_streams_open", "Event streams open now.");
    metrics::describe_gauge!("lyceum_info", "Always 1; the version is a label.");
    metrics::gauge!("lyceum_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Keeps the memory of metrics bounded; runs for ever.
pub(crate) async fn upkeep(metrics: PrometheusHandle) {
    let mut ticks = interval(UPKEEP);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}

/// Answers `/health`. It asks for no name: a load balancer calls by address.
pub(crate) fn health<B>(started: Instant) -> impl Fn(Request<B>) -> ResponseFuture + Send + Sync {
    move |request| {
        let document = json!({
            "status": "ok",
            "name": "lyceum",
            "version": env!("CARGO_PKG_VERSION"),
            "uptimeSeconds": started.elapsed().as_secs(),
        });
        answer(read_only(&request, JSON, || document.to_string()))
    }
}

/// Answers `/metrics`, to those who may ask the endpoints too.
pub(crate) fn metrics<B>(
    handle: PrometheusHandle,
    hosts: HostPolicy,
    origins: OriginPolicy,
) -> impl Fn(Request<B>) -> ResponseFuture + Send + Sync {
    move |request| {
        let admitted = check_host(request.uri(), request.headers(), &hosts)
            .and_then(|()| check_origin(request.headers(), &origins).map(|_| ()));
        let response = match admitted {
            Ok(()) => read_only(&request, PROMETHEUS, || handle.render()),
            Err(refused) => {
                let status = StatusCode::from_u16(refused.status);
                error(status.unwrap_or(StatusCode::BAD_REQUEST), refused.message)
            }
        };
        answer(response)
    }
}

fn answer(response: Response<AnswerBody>) -> ResponseFuture {
    Box::pin(std::future::ready(Ok(response)))
}

fn read_only<B>(
    request: &Request<B>,
    media: HeaderValue,
    text: impl FnOnce() -> String,
) -> Response<AnswerBody> {
    if request.method() == Method::GET || request.method() == Method::HEAD {
        return respond(StatusCode::OK, media, text().into());
    }
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here".into());
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

fn error(status: StatusCode, message: std::borrow::Cow<'static, str>) -> Response<AnswerBody> {
    respond(status, JSON, encode::error(None, &RpcError::invalid_request(message)))
}

fn respond(status: StatusCode, media: HeaderValue, body: Bytes) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, media);
    response
}
