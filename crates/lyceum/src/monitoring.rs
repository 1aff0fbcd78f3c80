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
    ("lyceum_tasks_alive", "Tasks of the async runtime that have not ended."),
    ("process_resident_memory_bytes", "Memory the process holds."),
    ("process_open_fds", "Files and sockets the process has open."),
    ("process_threads", "Threads of the process."),
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

/// Measures what the process uses now. Where the system does not tell, only tasks are counted.
pub(crate) fn measure_process() {
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    metrics::gauge!("lyceum_tasks_alive").set(tasks as f64);
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let number = |name: &str| -> Option<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        if let Some(kib) = number("VmRSS:") {
            metrics::gauge!("process_resident_memory_bytes").set(kib * 1024.0);
        }
        if let Some(threads) = number("Threads:") {
            metrics::gauge!("process_threads").set(threads);
        }
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the directory itself.
        metrics::gauge!("process_open_fds").set(files.count().saturating_sub(1) as f64);
    }
}

/// Keeps the memory of metrics bounded; runs for ever.
pub(crate) async fn upkeep(metrics: PrometheusHandle) {
    let mut ticks = interval(UPKEEP);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}
