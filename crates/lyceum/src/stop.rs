//! Being told to stop: the first signal drains, the second ends.

use std::io;

use tokio::signal;

/// Ended by a second signal, while running calls still had time.
const EXIT_INTERRUPTED: i32 = 130;

/// SIGINT and SIGTERM, caught from the moment this exists.
#[derive(Debug)]
pub(crate) struct StopSignals {
    #[cfg(unix)]
    interrupt: signal::unix::Signal,
    #[cfg(unix)]
    terminate: signal::unix::Signal,
}

impl StopSignals {
    /// Catches the signals. Must be called in a runtime.
    pub(crate) fn catch() -> io::Result<Self> {
        #[cfg(unix)]
        return Ok(Self {
            interrupt: signal::unix::signal(signal::unix::SignalKind::interrupt())?,
            terminate: signal::unix::signal(signal::unix::SignalKind::terminate())?,
        });
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Completes at the first signal. A second one does not wait for anybody.
    pub(crate) async fn told(mut self) {
        self.next().await;
        tracing::info!("draining; send the signal again to stop at once");
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(EXIT_INTERRUPTED);
        });
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if signal::ctrl_c().await.is_err() {
            // Nothing can be heard: the signal's default action will end the process.
            std::future::pending().await
        }
    }
}
