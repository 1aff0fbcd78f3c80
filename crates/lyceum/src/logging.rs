//! Logging: to stderr, in colour only where somebody watches.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::Environment;

/// Libraries that warn of what any client can do. Their errors are logged, and more if the filter names
/// them.
const LIBRARIES: [&str; 6] = ["h2", "hyper", "hyper_util", "rustls", "tokio_rustls", "tower"];

/// Starts logging what `filter` lets through. The filter was checked with the configuration.
pub(crate) fn start(filter: &str, environment: &Environment) {
    let colour = std::io::stderr().is_terminal() && environment.get("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(with_quiet_libraries(filter)))
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .init();
}

/// The filter, with directives for the libraries it does not name.
fn with_quiet_libraries(filter: &str) -> String {
    if filter.trim() == "off" {
        return filter.to_owned();
    }
    let named = |library: &&str| {
        filter.split(',').any(|directive| {
            let target = directive.trim().split(['=', '[', ':']).next().unwrap_or_default();
            target == *library
        })
    };
    let quiet = LIBRARIES.iter().filter(|library| !named(library));
    quiet.map(|library| format!("{library}=error,")).collect::<String>() + filter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_quiet_unless_the_filter_names_them() {
        for (filter, h2) in [
            ("info", "h2=error,"),
            ("debug,lyceum_http=trace", "h2=error,"),
            ("info,h2=warn", ""),
            ("h2::proto=debug,info", ""),
            ("info,h2[span]=trace", ""),
        ] {
            let whole = with_quiet_libraries(filter);
            assert_eq!(whole.starts_with("h2=error,"), !h2.is_empty(), "{whole}");
            assert!(whole.ends_with(filter) && EnvFilter::try_new(&whole).is_ok(), "{whole}");
        }
        assert_eq!(with_quiet_libraries("off"), "off");
    }
}
