//! `lyceum serve`: reads and checks everything, binds, says where it is, and serves until told to
//! stop.

use std::process::ExitCode;

use anyhow::Context;
use tokio::signal;

use crate::app::App;
use crate::cli::ServeOpts;
use crate::config::{Config, Environment};
use crate::stdout::print;
use crate::welcome::Welcome;
use crate::{logging, monitoring};

/// Ended by a second signal, while running calls still had time.
const EXIT_INTERRUPTED: i32 = 130;

pub(crate) fn run(opts: ServeOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let config = Config::load(opts.settings, opts.config.as_deref(), environment)?;
    config.listen()?;
    logging::start(&config.log, environment);
    let metrics = monitoring::install()?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let app = App::start(config, metrics).await?;
        let program = std::env::current_exe().unwrap_or_else(|_| "lyceum".into());
        print(Welcome::new(&app, &program))?;
        app.run(told_to_stop()).await.context("serving")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Completes at the first SIGINT or SIGTERM. A second one does not wait.
async fn told_to_stop() {
    stop_signal().await;
    tracing::info!("draining; send the signal again to stop at once");
    tokio::spawn(async {
        stop_signal().await;
        std::process::exit(EXIT_INTERRUPTED);
    });
}

#[cfg(unix)]
async fn stop_signal() {
    let Ok(mut terminate) = signal::unix::signal(signal::unix::SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = signal::ctrl_c() => {}
    }
}

#[cfg(not(unix))]
async fn stop_signal() {
    let _ = signal::ctrl_c().await;
}
