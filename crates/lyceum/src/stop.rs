//! Being told to stop: the first signal drains, the second ends.
//!
//! A closed terminal stops the server that was started in it. Without a terminal (a service, a
//! container) or under `nohup`, SIGHUP reloads the configuration instead.

#[cfg(unix)]
use std::fs::File;
use std::io;
#[cfg(unix)]
use std::sync::LazyLock;

use tokio::signal;

/// Ended by a second signal, while running calls still had time.
const EXIT_INTERRUPTED: i32 = 130;

/// SIGINT, SIGTERM and, in a terminal, SIGHUP, caught from the moment this exists.
#[derive(Debug)]
pub(crate) struct StopSignals {
    #[cfg(unix)]
    interrupt: signal::unix::Signal,
    #[cfg(unix)]
    terminate: signal::unix::Signal,
    #[cfg(unix)]
    hangup: Option<signal::unix::Signal>,
}

/// SIGHUP where it means that the configuration is to be read again.
#[derive(Debug)]
pub(crate) struct ReloadSignal {
    #[cfg(unix)]
    hangup: Option<signal::unix::Signal>,
}

impl StopSignals {
    /// Catches the signals. Must be called in a runtime.
    pub(crate) fn catch() -> io::Result<Self> {
        #[cfg(unix)]
        return Ok(Self {
            hangup: hangup(true),
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
            () = received(&mut self.hangup) => {}
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

impl ReloadSignal {
    /// Catches the signal. Must be called in a runtime, after [`StopSignals::catch`].
    pub(crate) fn catch() -> Self {
        #[cfg(unix)]
        return Self { hangup: hangup(false) };
        #[cfg(not(unix))]
        Self {}
    }

    /// Completes at each signal.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        received(&mut self.hangup).await;
        #[cfg(not(unix))]
        std::future::pending().await
    }
}

/// SIGHUP, if it stops the server and is wanted for that, or the opposite.
#[cfg(unix)]
fn hangup(to_stop: bool) -> Option<signal::unix::Signal> {
    let caught = || signal::unix::signal(signal::unix::SignalKind::hangup()).ok();
    (*HANGUP_STOPS == to_stop).then(caught).flatten()
}

/// Whether SIGHUP means that the server's terminal was closed. Decided before the signal is caught.
#[cfg(unix)]
static HANGUP_STOPS: LazyLock<bool> =
    LazyLock::new(|| File::open("/dev/tty").is_ok() && !is_hangup_ignored());

/// Whether `nohup` or its like told this process to ignore SIGHUP.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is number 1, the lowest bit.
    ignored.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(unix)]
async fn received(signal: &mut Option<signal::unix::Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
