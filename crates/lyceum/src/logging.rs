//! Logging: to stderr, in colour only where somebody watches.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::Environment;

/// Starts logging what `filter` lets through. The filter was checked with the configuration.
pub(crate) fn start(filter: &str, environment: &Environment) {
    let colour = std::io::stderr().is_terminal() && environment.get("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .init();
}
