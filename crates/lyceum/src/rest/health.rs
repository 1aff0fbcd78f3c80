//! `/health` and `/metrics`: how the server and what it depends on are.

use std::collections::BTreeMap;
use std::fmt::Write;

use http::StatusCode;
use lyceum_gateway::{Health as Upstanding, Status};
use lyceum_kb::Kb;
use lyceum_kb::store::Backlog;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Duration, interval, timeout};

use super::integrity::IntegrityAnswer;
use super::maintenance::Nothing;
use super::problem::Problem;
use super::route::Reply;
use super::visit::{Desk, Visit};
use crate::monitoring;

/// How long a dependency may take to say how it is.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the store is looked at when no caller asks for it.
const WATCH: Duration = Duration::from_secs(30);
/// Vectors that are later than this are late.
const LATE: Duration = Duration::from_secs(60);

/// How something is; the worst of its parts, for the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// It works, but not as well as it should.
    Degraded,
    Failing,
}

/// How the server is. Callers without a key are told states only.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    status: State,
    name: &'static str,
    version: &'static str,
    uptime_seconds: u64,
    dependencies: Dependencies,
    integrity: IntegrityAnswer,
    /// The servers behind the gateway, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    upstreams: BTreeMap<String, Upstream>,
}

/// A server behind the gateway.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct Upstream {
    /// `up`, `connecting`, `idle` (closed until the next call), `failing` (connected, but it does not
    /// answer) or `down`.
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    era: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<usize>,
    /// Names of its that were taken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    collisions: Vec<String>,
    /// Tools held back because their definitions changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<String>,
    /// Tools whose definitions are not what they were at first use. They are shown, because the
    /// upstream is not locked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<String>,
    /// Characters nobody sees in its definitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flagged: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Since when its status is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
}

/// What the server needs.
#[derive(Debug, Serialize, JsonSchema)]
struct Dependencies {
    /// Where documents are kept.
    store: Dependency,
    /// What turns texts into vectors.
    embedder: Dependency,
    /// The worker that gives documents their vectors.
    index: Dependency,
}

/// One thing the server needs.
#[derive(Debug, Serialize, JsonSchema)]
struct Dependency {
    status: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// Of the last call.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// What will go wrong if nothing is done, such as a disk that is nearly full.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<usize>,
    /// Documents that wait for vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<usize>,
    /// Documents whose vectors were given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead: Option<usize>,
    /// How long the oldest of them has waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag_seconds: Option<f64>,
}

/// Polls the store's health, so that the log has its warnings without anyone asking for `/health`.
pub(crate) async fn watch_store(kb: Kb) {
    let mut ticks = interval(WATCH);
    loop {
        ticks.tick().await;
        kb.store().health().await;
    }
}

/// Answers 503 exactly when documents cannot be read or written, so that a load balancer looks elsewhere.
pub(super) async fn health(visit: Visit, _: Nothing) -> Result<(StatusCode, Health), Problem> {
    let desk = &visit.desk;
    let mut dependencies = Dependencies {
        store: store(desk).await,
        embedder: embedder(desk),
        index: index(desk).await,
    };
    let integrity = desk.integrity.answer(visit.trusted);
    let Dependencies { store, embedder, index } = &mut dependencies;
    // Search goes on by words when vectors are not to be had, so that is no failure of the whole.
    let vectors = embedder.status.max(index.status).min(State::Degraded);
    let behind = desk.gateway.health();
    // One server behind us that is down is no failure of ours.
    let down = |health: &Upstanding| matches!(health.status, Status::Down | Status::Failing);
    let upstreams = match behind.iter().any(|(_, health)| down(health)) {
        true => State::Degraded,
        false => State::Ok,
    };
    let status = store.status.max(vectors).max(integrity.status).max(upstreams);
    if !visit.trusted {
        for dependency in [store, embedder, index] {
            *dependency = Dependency::bare(dependency.status);
        }
    }
    let health = Health {
        status,
        name: "lyceum",
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: desk.started.elapsed().as_secs(),
        dependencies,
        integrity,
        upstreams: behind
            .into_iter()
            .map(|(name, health)| (name, Upstream::told(health, visit.trusted)))
            .collect(),
    };
    let failing = status == State::Failing;
    Ok((if failing { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }, health))
}

impl Upstream {
    /// What a caller is told: everything, or just the state.
    fn told(health: Upstanding, trusted: bool) -> Upstream {
        let status = health.status.as_str().to_owned();
        if !trusted {
            return Upstream { status, ..Upstream::default() };
        }
        let since = jiff::Timestamp::from_second(health.since as i64).unwrap_or_default();
        Upstream {
            status,
            era: health.era,
            revision: health.revision,
            transport: Some(health.transport),
            tools: Some(health.tools),
            collisions: health.collisions,
            quarantined: health.quarantined,
            changed: health.changed,
            flagged: health.flagged,
            last_error: health.last_error,
            since: Some(since.to_string()),
        }
    }
}

/// Answers with the numbers as they are now.
pub(super) async fn metrics(visit: Visit) -> Result<Reply, Problem> {
    let desk = &visit.desk;
    if let Ok(Ok(backlog)) = timeout(PATIENCE, desk.kb.store().backlog()).await {
        metrics::gauge!("vector_sync_lag_seconds").set(backlog.oldest.as_secs_f64());
        metrics::gauge!("lyceum_vectors_waiting").set(backlog.waiting as f64);
        metrics::gauge!("lyceum_vectors_dead").set(backlog.dead as f64);
    }
    if let Ok(health) = timeout(PATIENCE, desk.kb.store().health()).await {
        metrics::gauge!("lyceum_documents").set(health.documents as f64);
    }
    monitoring::measure_process();
    let text = desk.metrics.render() + &upstream_gauges(&desk.gateway.health());
    Ok(Reply::new(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
}

/// Numbers of the upstreams there are. A recorder would keep those of upstreams that are gone.
fn upstream_gauges(upstreams: &[(String, Upstanding)]) -> String {
    let mut text = String::new();
    let mut gauge = |name: &str, value: fn(&Upstanding) -> usize| {
        for (place, (upstream, health)) in upstreams.iter().enumerate() {
            if place == 0 {
                let _ = writeln!(text, "# TYPE {name} gauge");
            }
            // Names of upstreams are letters, digits and dashes.
            let _ = writeln!(text, "{name}{{upstream=\"{upstream}\"}} {}", value(health));
        }
    };
    gauge("lyceum_upstream_up", |health| usize::from(health.status == Status::Up));
    gauge("lyceum_upstream_tools", |health| health.tools);
    text
}

async fn store(desk: &Desk) -> Dependency {
    let Ok(health) = timeout(PATIENCE, desk.kb.store().health()).await else {
        let error = Some("it did not answer in time".to_owned());
        return Dependency { last_error: error, ..Dependency::bare(State::Failing) };
    };
    let status = match (&health.unreadable, &health.unwritable, &health.warning) {
        (None, None, None) => State::Ok,
        (None, None, Some(_)) => State::Degraded,
        _ => State::Failing,
    };
    Dependency {
        kind: Some(health.kind.to_owned()),
        latency_ms: Some(milliseconds(health.latency)),
        last_error: health.unreadable.or(health.unwritable).or(health.last_error),
        warning: health.warning,
        documents: Some(health.documents),
        ..Dependency::bare(status)
    }
}

fn embedder(desk: &Desk) -> Dependency {
    use lyceum_kb::embed::Embedder;
    let last = desk.embedder.last();
    let error = last.as_ref().and_then(|seen| seen.error.clone());
    let status = if error.is_some() { State::Failing } else { State::Ok };
    Dependency {
        kind: Some(desk.embedder.fingerprint().0.clone()),
        latency_ms: last.map(|seen| milliseconds(seen.latency)),
        last_error: error,
        ..Dependency::bare(status)
    }
}

async fn index(desk: &Desk) -> Dependency {
    match timeout(PATIENCE, desk.kb.store().backlog()).await {
        Ok(Ok(Backlog { waiting, dead, oldest })) => {
            let late = oldest > LATE || dead > 0;
            Dependency {
                waiting: Some(waiting),
                dead: Some(dead),
                lag_seconds: Some(milliseconds(oldest) / 1000.0),
                ..Dependency::bare(if late { State::Degraded } else { State::Ok })
            }
        }
        Ok(Err(error)) => {
            let error = Some(error.to_string());
            Dependency { last_error: error, ..Dependency::bare(State::Failing) }
        }
        Err(_) => Dependency::bare(State::Failing),
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

impl Dependency {
    /// Its state and nothing else.
    fn bare(status: State) -> Self {
        Self {
            status,
            kind: None,
            latency_ms: None,
            last_error: None,
            warning: None,
            documents: None,
            waiting: None,
            dead: None,
            lag_seconds: None,
        }
    }
}
