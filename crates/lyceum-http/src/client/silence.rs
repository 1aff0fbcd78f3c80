//! [`Silence`]: gives up a call when nothing has been heard from the server for too long.
//!
//! A call may run for hours as long as the server shows life; a handler of ours that is waiting for
//! a person stops the clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::ClientError;
use crate::timers::{Timers, later};

/// The clock of one call.
#[derive(Debug)]
pub(crate) struct Silence {
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    heard: Instant,
    n_busy: usize,
}

/// While it lives, the silence is ours and not the server's.
pub(crate) struct Busy(Arc<Silence>);

impl Silence {
    pub(crate) fn new(limit: Duration) -> Arc<Silence> {
        Arc::new(Silence { limit, state: Mutex::new(State { heard: Instant::now(), n_busy: 0 }) })
    }

    /// The server said something.
    pub(crate) fn heard(&self) {
        self.lock().heard = Instant::now();
    }

    pub(crate) fn busy(self: &Arc<Silence>) -> Busy {
        self.lock().n_busy += 1;
        Busy(Arc::clone(self))
    }

    /// Runs `call` until it ends or the silence is too long. It stays where it is: to move it in here
    /// would double the size of every call's future.
    pub(crate) async fn watch<T>(
        &self,
        timers: &Timers,
        call: Pin<&mut impl Future<Output = Result<T, ClientError>>>,
    ) -> Result<T, ClientError> {
        tokio::select! {
            biased;
            ended = call => ended,
            () = self.too_long(timers) => Err(ClientError::Silent(self.limit)),
        }
    }

    async fn too_long(&self, timers: &Timers) {
        let mut end = self.end();
        loop {
            timers.wait(end).await;
            let later = self.end();
            if later <= end {
                return;
            }
            end = later;
        }
    }

    /// When the silence will have been too long, unless something happens.
    fn end(&self) -> Instant {
        let state = self.lock();
        let heard = if state.n_busy > 0 { Instant::now() } else { state.heard };
        later(heard, self.limit)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.n_busy -= 1;
        state.heard = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    async fn sleep(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    async fn silent_call(seconds: u64) -> Result<(), ClientError> {
        sleep(seconds).await;
        Ok(())
    }

    /// Takes every turn of its task for itself.
    async fn restless_call() -> Result<(), ClientError> {
        loop {
            tokio::task::coop::consume_budget().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_given_up() {
        let timers = Timers::default();
        assert!(Silence::new(LIMIT).watch(&timers, pin!(silent_call(59))).await.is_ok());
        let ended = Silence::new(LIMIT).watch(&timers, pin!(silent_call(61))).await;
        assert!(matches!(ended, Err(ClientError::Silent(LIMIT))));
    }

    #[tokio::test]
    async fn a_server_that_never_pauses_and_says_nothing_is_given_up() {
        let limit = Duration::from_millis(50);
        let (timers, silence) = (Timers::default(), Silence::new(limit));
        let mut call = pin!(restless_call());
        let watched = silence.watch(&timers, call.as_mut());
        let ended = tokio::time::timeout(LIMIT / 2, watched).await;
        assert!(matches!(ended, Ok(Err(ClientError::Silent(_)))), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn signs_of_life_and_our_own_work_restart_the_clock() {
        let silence = Silence::new(LIMIT);
        let call = async {
            sleep(59).await;
            silence.heard();
            sleep(59).await;
            let busy = silence.busy();
            sleep(1000).await;
            drop(busy);
            sleep(59).await;
            Ok(())
        };
        assert!(silence.watch(&Timers::default(), pin!(call)).await.is_ok());
    }
}
