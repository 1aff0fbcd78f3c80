//! What is logged on this thread, which must be the only one the test's runtime has.

use std::sync::{Arc, Mutex};

use tracing::subscriber::DefaultGuard;

/// Everything that is logged, as text.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

/// Everything is caught until this is dropped.
pub(crate) struct Catching {
    _guard: DefaultGuard,
    _second: tracing::Dispatch,
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Catches what is logged as long as the guard lives.
    pub(crate) fn catch() -> (Log, Catching) {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        // While there is one subscriber only, tracing believes what other threads, which have none,
        // say about events.
        let second = tracing::Dispatch::new(tracing_subscriber::registry());
        (log, Catching { _guard: tracing::subscriber::set_default(subscriber), _second: second })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}
