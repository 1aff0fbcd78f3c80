//! [`Mailbox`]: what a shared stream brings for one call, in order, until the call takes it.
//!
//! Whoever reads the stream waits for a call that is slow to take its notifications, but not for
//! long: the other calls on the stream must not suffer. After that what finds no room is dropped,
//! which progress and log messages can bear. A subscription cannot; it drops only what would say the
//! same thing twice, and ends if that is not enough.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lyceum_wire::Response;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::handler::ServerNotification;
use crate::byte_budget::{Exhausted, UNCOUNTED_BYTES};

/// Notifications that may wait for one call, in number and in bytes.
const MAX_NOTES: usize = 256;
const MAX_BYTES: usize = UNCOUNTED_BYTES;
/// How long, all in all, the stream waits for one call.
const PATIENCE: Duration = Duration::from_millis(100);

/// Something for a call.
#[derive(Debug)]
pub(crate) enum Letter {
    Note(ServerNotification),
    Answer(Response),
    /// There was no room for the answer.
    Refused(Exhausted),
    /// The stream has ended: no answer will come.
    Lost,
    /// The server said more than a subscription takes in.
    Overflow,
}

/// Whose notifications are kept, and what may happen to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// A call's: late ones may be dropped.
    Calls,
    /// A subscription's: only repetitions may be dropped.
    Subscriptions,
}

#[derive(Debug)]
pub(crate) struct Mailbox {
    keeping: Keeping,
    letters: Mutex<Letters>,
    /// There is something for the call.
    arrived: Notify,
    /// There is room, or the call is over.
    changed: Notify,
}

#[derive(Debug)]
struct Letters {
    notes: VecDeque<ServerNotification>,
    n_bytes: usize,
    last: Option<Last>,
    /// The call has ended or was given up.
    over: bool,
    patience: Duration,
}

#[derive(Debug)]
enum Last {
    Answer(Response),
    Refused(Exhausted),
    Lost,
    Overflow,
}

impl Mailbox {
    pub(crate) fn new(keeping: Keeping) -> Mailbox {
        let letters = Letters {
            notes: VecDeque::new(),
            n_bytes: 0,
            last: None,
            over: false,
            patience: PATIENCE,
        };
        Mailbox {
            keeping,
            letters: Mutex::new(letters),
            arrived: Notify::new(),
            changed: Notify::new(),
        }
    }

    /// The next letter. What came before an answer is handed out before it.
    pub(crate) async fn next(&self) -> Letter {
        loop {
            if let Some(letter) = self.take() {
                return letter;
            }
            self.arrived.notified().await;
        }
    }

    /// Adds a notification, waiting a while for room.
    pub(crate) async fn put(&self, note: ServerNotification) {
        let mut note = Some(note);
        loop {
            let changed = self.changed.notified();
            let Some(patience) = self.try_put(&mut note) else { return };
            let asked = Instant::now();
            // Whether there is room by now, shows in the next round.
            let _ = timeout(patience, changed).await;
            let mut letters = self.lock();
            letters.patience = letters.patience.saturating_sub(asked.elapsed());
        }
    }

    /// Adds the answer: the last letter.
    pub(crate) fn answer(&self, response: Response) {
        self.lock().last.get_or_insert(Last::Answer(response));
        self.arrived.notify_one();
    }

    /// There is no room for the answer.
    pub(crate) fn refuse(&self, exhausted: Exhausted) {
        self.lock().last.get_or_insert(Last::Refused(exhausted));
        self.arrived.notify_one();
    }

    /// No answer will come.
    pub(crate) fn lose(&self) {
        self.lock().last.get_or_insert(Last::Lost);
        self.arrived.notify_one();
    }

    /// The call has ended or was given up.
    pub(crate) fn abandon(&self) {
        let mut letters = self.lock();
        letters.over = true;
        letters.notes.clear();
        drop(letters);
        self.changed.notify_waiters();
    }

    /// Waits until the call is over.
    pub(crate) async fn abandoned(&self) {
        loop {
            let changed = self.changed.notified();
            if self.lock().over {
                return;
            }
            changed.await;
        }
    }

    fn take(&self) -> Option<Letter> {
        let mut letters = self.lock();
        if let Some(note) = letters.notes.pop_front() {
            letters.n_bytes -= size(&note);
            drop(letters);
            self.changed.notify_waiters();
            return Some(Letter::Note(note));
        }
        letters.last.take().map(|last| match last {
            Last::Answer(response) => Letter::Answer(response),
            Last::Refused(exhausted) => Letter::Refused(exhausted),
            Last::Lost => Letter::Lost,
            Last::Overflow => Letter::Overflow,
        })
    }

    /// Adds or drops a notification; how long to wait if it should be tried again.
    fn try_put(&self, note: &mut Option<ServerNotification>) -> Option<Duration> {
        let mut letters = self.lock();
        let new = note.take_if(|_| !letters.over && letters.last.is_none())?;
        let repeats = self.keeping == Keeping::Subscriptions
            && letters.notes.iter().any(|old| old.method == new.method && old.params == new.params);
        if repeats {
            return None;
        }
        let fits = letters.n_bytes + size(&new) <= MAX_BYTES && letters.notes.len() < MAX_NOTES;
        if fits || letters.notes.is_empty() {
            letters.n_bytes += size(&new);
            letters.notes.push_back(new);
        } else if !letters.patience.is_zero() {
            *note = Some(new);
            return Some(letters.patience);
        } else if self.keeping == Keeping::Subscriptions {
            letters.last = Some(Last::Overflow);
        } else {
            tracing::debug!(method = new.method, "dropped a notification nobody was ready for");
        }
        drop(letters);
        self.arrived.notify_one();
        None
    }

    fn lock(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(note: &ServerNotification) -> usize {
    note.method.len() + note.params.as_ref().map_or(0, bytes::Bytes::len)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lyceum_wire::Id;

    use super::*;

    fn note(n: usize) -> ServerNotification {
        let params = Some(Bytes::from(format!("{n}")));
        ServerNotification { method: "m".to_owned(), params }
    }

    fn answer() -> Response {
        Response { id: Id::number(1), outcome: Ok(Bytes::from_static(b"{}")) }
    }

    async fn rest(mailbox: &Mailbox) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            match mailbox.next().await {
                Letter::Note(note) => {
                    let params = note.params.unwrap_or_default();
                    seen.push(String::from_utf8_lossy(&params).into_owned());
                }
                end => {
                    seen.push(format!("{end:?}").split('(').next().unwrap_or_default().to_owned());
                    return seen;
                }
            }
        }
    }

    #[tokio::test]
    async fn the_answer_never_overtakes_what_came_before_it() {
        let mailbox = Mailbox::new(Keeping::Calls);
        mailbox.put(note(1)).await;
        mailbox.put(note(2)).await;
        mailbox.answer(answer());
        mailbox.put(note(3)).await;
        mailbox.lose();
        assert_eq!(rest(&mailbox).await, ["1", "2", "Answer"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_nothing_holds_nobody_up_for_long() {
        let mailbox = Mailbox::new(Keeping::Calls);
        let started = Instant::now();
        for n in 0..10 * MAX_NOTES {
            mailbox.put(note(n)).await;
        }
        assert!(started.elapsed() < 2 * PATIENCE, "{:?}", started.elapsed());
        mailbox.lose();
        assert_eq!(rest(&mailbox).await.len(), MAX_NOTES + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_merely_slow_misses_nothing() {
        let mailbox = Mailbox::new(Keeping::Calls);
        let fill = async {
            for n in 0..10 * MAX_NOTES {
                mailbox.put(note(n)).await;
            }
            mailbox.answer(answer());
        };
        let (seen, ()) = tokio::join!(rest(&mailbox), fill);
        assert_eq!(seen.len(), 10 * MAX_NOTES + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn notes_are_held_only_up_to_a_limit() {
        let mailbox = Mailbox::new(Keeping::Calls);
        let large = || ServerNotification {
            method: "m".to_owned(),
            params: Some(Bytes::from(vec![b'x'; MAX_BYTES])),
        };
        for _ in 0..3 {
            mailbox.put(large()).await;
        }
        mailbox.lose();
        assert_eq!(rest(&mailbox).await.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_drops_repetitions_and_nothing_else() {
        let mailbox = Mailbox::new(Keeping::Subscriptions);
        for n in [1, 2, 1, 2, 3] {
            mailbox.put(note(n)).await;
        }
        mailbox.lose();
        assert_eq!(rest(&mailbox).await, ["1", "2", "3", "Lost"]);
        let mailbox = Mailbox::new(Keeping::Subscriptions);
        for n in 0..=MAX_NOTES {
            mailbox.put(note(n)).await;
        }
        assert_eq!(rest(&mailbox).await.last().map(String::as_str), Some("Overflow"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_over_holds_nobody_up() {
        let mailbox = Mailbox::new(Keeping::Calls);
        mailbox.abandon();
        mailbox.abandoned().await;
        let started = Instant::now();
        for n in 0..10 * MAX_NOTES {
            mailbox.put(note(n)).await;
        }
        assert!(started.elapsed().is_zero());
    }
}
