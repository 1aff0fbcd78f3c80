//! Counting: what the numbers of `/metrics` are. Who asks for them is answered by `rest`.

use anyhow::Context;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::time::{Duration, interval};

/// How often histograms are tidied up.
const UPKEEP: Duration = Duration::from_secs(5);

/// What each counter is, for the `# HELP` lines.
const COUNTERS: &[(&str, &str)] = &[
    ("lyceum_accept_total", "Requests by the form of their Accept header."),
    ("lyceum_decisions_total", "Answers by the form that was decided on."),
    ("lyceum_notifications_dropped_total", "Notifications an answer could not carry."),
    ("lyceum_handler_panics_total", "Handlers that panicked."),
    ("lyceum_refused_total", "Callers that were not let in."),
];

/// What each gauge is.
const GAUGES: &[(&str, &str)] = &[
    ("lyceum_streams_open", "Event streams open now."),
    ("lyceum_info", "Always 1; the version is a label."),
    ("lyceum_documents", "Living documents."),
    ("vector_sync_lag_seconds", "How long the oldest write has waited for its vectors."),
    ("lyceum_vectors_waiting", "Documents that wait for vectors."),
    ("lyceum_vectors_dead", "Documents whose vectors were given up."),
];

/// Starts counting, for the whole process.
pub(crate) fn install() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new().install_recorder().context("starting metrics")?;
    for (name, help) in COUNTERS {
        metrics::describe_counter!(*name, *help);
    }
    for (name, help) in GAUGES {
        metrics::describe_gauge!(*name, *help);
    }
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
