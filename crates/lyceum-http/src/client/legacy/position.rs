//! [`Position`]: how far a stream was read, and when to come back for the rest.

use std::time::Duration;

use crate::client::stream::Messages;

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Where a stream broke off. Survives from one connection to the next.
#[derive(Debug, Default)]
pub(crate) struct Position {
    last_event_id: Option<String>,
    retry: Option<Duration>,
    /// Attempts in a row that brought nothing new.
    n_fruitless: u32,
}

impl Position {
    /// Notes what a connection brought before it ended.
    pub(crate) fn note(&mut self, messages: &Messages) {
        if let Some(id) = messages.last_event_id()
            && self.last_event_id.as_deref() != Some(id)
        {
            self.last_event_id = Some(id.to_owned());
            self.n_fruitless = 0;
        }
        self.retry = messages.retry().or(self.retry);
    }

    /// A message without an id is something new too.
    pub(crate) fn progressed(&mut self) {
        self.n_fruitless = 0;
    }

    /// What comes next cannot be read, and would be the same another time.
    pub(crate) fn skip(&mut self) {
        self.last_event_id = None;
    }

    pub(crate) fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }

    pub(crate) fn n_fruitless(&self) -> u32 {
        self.n_fruitless
    }

    /// Waits before the next attempt: as long as the server said, and longer each time it is in vain.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep(self.delay()).await;
        self.n_fruitless += 1;
    }

    fn delay(&self) -> Duration {
        let wished = self.retry.unwrap_or(FIRST_DELAY);
        if self.n_fruitless == 0 {
            return wished;
        }
        let backoff = FIRST_DELAY * 2u32.saturating_pow(self.n_fruitless.min(5));
        wished.max(backoff.min(LONGEST_DELAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_sets_the_first_delay_and_failures_stretch_it() {
        let ms = |n| Some(Duration::from_millis(n));
        for (retry, n_fruitless, expected) in [
            (None, 0, 1_000),
            (ms(500), 0, 500),
            (ms(0), 0, 0),
            (ms(500), 1, 2_000),
            (ms(0), 2, 4_000),
            (None, 30, 30_000),
            (ms(60_000), 3, 60_000),
        ] {
            let position = Position { last_event_id: None, retry, n_fruitless };
            assert_eq!(position.delay(), Duration::from_millis(expected), "{position:?}");
        }
    }
}
