//! [`Queue`]: lines on their way to the server, bounded in bytes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;

/// Bytes that may wait before callers do.
const MAX_WAITING: usize = 1 << 20;
/// Bytes that are written at once, if there are so many.
const MAX_BATCH: usize = 64 << 10;

/// A line's number in the order of all lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// There is a line to write, or nothing will come any more.
    ready: Notify,
    /// There is room, or nothing is taken any more.
    room: Notify,
}

#[derive(Debug)]
struct State {
    lines: VecDeque<Bytes>,
    /// The number of the first of them.
    first: u64,
    n_bytes: usize,
    /// No more lines are taken.
    closed: bool,
    /// None are given out either.
    dead: bool,
}

impl Queue {
    pub(crate) fn new() -> Queue {
        let state =
            State { lines: VecDeque::new(), first: 0, n_bytes: 0, closed: false, dead: false };
        Queue { state: Mutex::new(state), ready: Notify::new(), room: Notify::new() }
    }

    /// Adds a line, waiting for room; None if none are taken any more.
    pub(crate) async fn push(&self, line: Bytes) -> Option<Ticket> {
        loop {
            let room = self.room.notified();
            {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                if state.lines.is_empty() || state.n_bytes + line.len() <= MAX_WAITING {
                    let ticket = Ticket(state.first + state.lines.len() as u64);
                    state.n_bytes += line.len();
                    state.lines.push_back(line);
                    self.ready.notify_one();
                    return Some(ticket);
                }
            }
            room.await;
        }
    }

    /// Takes back a line; false if it was taken out already.
    pub(crate) fn withdraw(&self, ticket: Ticket) -> bool {
        let mut state = self.lock();
        let Some(at) = ticket.0.checked_sub(state.first) else { return false };
        let Some(line) = state.lines.get_mut(at as usize) else { return false };
        // An empty line keeps the others' numbers right, and is never written.
        let withdrawn = std::mem::take(line);
        state.n_bytes -= withdrawn.len();
        drop(state);
        self.room.notify_waiters();
        true
    }

    /// Whether a line was never taken out, so that the server cannot have seen it.
    pub(crate) fn is_unsent(&self, ticket: Ticket) -> bool {
        ticket.0 >= self.lock().first
    }

    /// Takes out some lines, each with its end; false once no line is left and none will come.
    pub(crate) async fn take(&self, out: &mut BytesMut) -> bool {
        loop {
            {
                let mut state = self.lock();
                if state.dead {
                    return false;
                }
                while let Some(line) = state.lines.front()
                    && (out.is_empty() || out.len() + line.len() < MAX_BATCH)
                {
                    if !line.is_empty() {
                        out.extend_from_slice(line);
                        out.extend_from_slice(b"\n");
                    }
                    state.n_bytes -= line.len();
                    state.first += 1;
                    state.lines.pop_front();
                }
                if !out.is_empty() {
                    break;
                }
                if state.closed {
                    return false;
                }
            }
            self.ready.notified().await;
        }
        self.room.notify_waiters();
        true
    }

    /// Takes no more lines; those that wait can still be taken out.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_one();
        self.room.notify_waiters();
    }

    /// Takes no more lines and gives none out: what is unsent by now, stays unsent.
    pub(crate) fn kill(&self) {
        self.lock().dead = true;
        self.close();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn taken(queue: &Queue) -> String {
        let mut out = BytesMut::new();
        queue.take(&mut out).await;
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_line_is_unsent_until_it_is_taken_out() {
        let queue = Queue::new();
        let first = queue.push(Bytes::from_static(b"one")).await.unwrap();
        assert!(queue.is_unsent(first));
        assert_eq!(taken(&queue).await, "one\n");
        let second = queue.push(Bytes::from_static(b"two")).await.unwrap();
        assert!(!queue.is_unsent(first) && queue.is_unsent(second));
        queue.close();
        assert!(queue.push(Bytes::from_static(b"three")).await.is_none());
        assert_eq!(taken(&queue).await, "two\n");
        assert_eq!(taken(&queue).await, "");
    }

    #[tokio::test]
    async fn what_is_unsent_at_the_end_stays_unsent() {
        let queue = Queue::new();
        let ticket = queue.push(Bytes::from_static(b"one")).await.unwrap();
        queue.kill();
        assert_eq!(taken(&queue).await, "");
        assert!(queue.is_unsent(ticket));
    }

    #[tokio::test]
    async fn a_line_can_be_taken_back_while_it_waits() {
        let queue = Queue::new();
        let mut tickets = Vec::new();
        for line in ["one", "two", "three"] {
            tickets.push(queue.push(Bytes::from_static(line.as_bytes())).await.unwrap());
        }
        assert!(queue.withdraw(tickets[1]));
        assert_eq!(taken(&queue).await, "one\nthree\n");
        assert!(!queue.withdraw(tickets[2]));
    }

    #[tokio::test]
    async fn a_full_queue_makes_callers_wait() {
        let queue = Queue::new();
        let large = Bytes::from(vec![b'x'; MAX_WAITING + 1]);
        queue.push(large).await.unwrap();
        let mut waiting = by_hand(queue.push(Bytes::from_static(b"next")));
        assert!(waiting.is_pending());
        assert_eq!(taken(&queue).await.len(), MAX_WAITING + 2);
        assert!(!waiting.is_pending());
    }

    /// A future that can be polled by hand.
    fn by_hand<F: Future>(future: F) -> Polled<F> {
        Polled(Box::pin(future))
    }

    struct Polled<F>(std::pin::Pin<Box<F>>);

    impl<F: Future> Polled<F> {
        fn is_pending(&mut self) -> bool {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            self.0.as_mut().poll(&mut context).is_pending()
        }
    }
}
