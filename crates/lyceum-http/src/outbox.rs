//! A stream's messages on their way to the client: a queue bounded in bytes, with one reader.
//!
//! A legacy stream keeps what was read, within the same bound, so that a client that lost its
//! connection can come back for it; every other stream forgets what it delivered. The newest reader
//! wins: a half-dead connection must not lock its client out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Bytes of messages that all streams of a server may keep for replay together.
#[derive(Debug)]
pub(crate) struct ReplayBudget {
    used: AtomicUsize,
    limit: usize,
}

impl ReplayBudget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit }
    }

    fn exhausted(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }
}

/// The queue. Sequence numbers start at 1; 0 means "nothing yet".
#[derive(Debug)]
pub struct Outbox {
    state: Mutex<State>,
    room: Notify,
    limit: usize,
    replay: Option<Arc<ReplayBudget>>,
}

#[derive(Debug)]
struct State {
    /// Messages `first..first + messages.len()`.
    messages: VecDeque<Bytes>,
    first: u64,
    /// Bytes in `messages`.
    bytes: usize,
    /// Bytes of the messages no reader has taken yet.
    unread: usize,
    /// The sequence number the current reader takes next.
    next: u64,
    reader: u64,
    audience: Audience,
    waker: Option<Waker>,
    finished: bool,
    touched: Instant,
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Nobody yet, but a response that will read is being made: senders must not outrun it.
    Expected,
    Reading,
    /// Nobody, perhaps for ever.
    Gone,
}

/// What a reader finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The next message and its sequence number.
    Message(u64, Bytes),
    /// Nothing will come any more on this connection.
    End,
}

impl Outbox {
    /// A queue that forgets what it delivered.
    pub fn new(limit: usize) -> Self {
        Self::with(limit, None)
    }

    /// A queue that keeps what it delivered, for replay.
    pub(crate) fn replayable(limit: usize, budget: Arc<ReplayBudget>) -> Self {
        Self::with(limit, Some(budget))
    }

    fn with(limit: usize, replay: Option<Arc<ReplayBudget>>) -> Self {
        let state = State {
            messages: VecDeque::new(),
            first: 1,
            bytes: 0,
            unread: 0,
            next: 1,
            reader: 0,
            audience: Audience::Expected,
            waker: None,
            finished: false,
            touched: Instant::now(),
        };
        Self { state: Mutex::new(state), room: Notify::new(), limit, replay }
    }

    /// Queues a message, waiting while its reader is a whole bound behind.
    ///
    /// Once the reader is gone it never waits: a replayable queue then drops its oldest messages, any
    /// other drops this one.
    pub async fn push(&self, message: Bytes) {
        self.offer(message).await;
    }

    /// Queues a message like [`Outbox::push`], and says whether it was kept.
    pub(crate) async fn offer(&self, message: Bytes) -> bool {
        let mut room = std::pin::pin!(self.room.notified());
        loop {
            room.as_mut().enable();
            {
                let mut state = self.lock();
                if state.audience == Audience::Gone
                    || state.finished
                    || state.unread == 0
                    || state.unread + message.len() <= self.limit
                {
                    return self.append(&mut state, message);
                }
            }
            room.as_mut().await;
            room.set(self.room.notified());
        }
    }

    /// Queues a message without waiting; `false` when the bound is reached.
    pub fn try_push(&self, message: Bytes) -> bool {
        let mut state = self.lock();
        let fits = state.unread == 0 || state.unread + message.len() <= self.limit;
        let trims = self.replay.is_some() && state.audience == Audience::Gone;
        (fits || trims) && self.append(&mut state, message)
    }

    /// Says that nothing more will come.
    pub fn finish(&self) {
        let mut state = self.lock();
        state.finished = true;
        state.touched = Instant::now();
        wake(&mut state);
        drop(state);
        self.room.notify_waiters();
    }

    /// Queues an answer whatever the bound: answers are never dropped, and there are few.
    pub(crate) fn push_answer(&self, message: Bytes) {
        let mut state = self.lock();
        self.append(&mut state, message);
    }

    /// Queues the last answer and finishes.
    pub fn conclude(&self, message: Bytes) {
        let mut state = self.lock();
        self.append(&mut state, message);
        state.finished = true;
    }

    /// Whether [`Outbox::finish`] was called.
    pub(crate) fn is_finished(&self) -> bool {
        self.lock().finished
    }

    /// Whether a connection is reading.
    pub(crate) fn is_attached(&self) -> bool {
        self.lock().audience == Audience::Reading
    }

    /// When something last happened here.
    pub(crate) fn touched(&self) -> Instant {
        self.lock().touched
    }

    /// Ends the current connection, if any, without ending the stream.
    pub(crate) fn detach(&self) {
        let mut state = self.lock();
        state.reader += 1;
        state.audience = Audience::Gone;
        self.trim(&mut state);
        wake(&mut state);
        drop(state);
        self.room.notify_waiters();
    }

    /// Says that the response that was to read will never begin.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        if state.audience == Audience::Expected {
            state.audience = Audience::Gone;
            self.trim(&mut state);
            drop(state);
            self.room.notify_waiters();
        }
    }

    /// Starts reading after message `after`. `None` when messages in between are gone.
    pub fn reader(self: &Arc<Self>, after: u64) -> Option<Reader> {
        let mut state = self.lock();
        let end = state.first + state.messages.len() as u64;
        if after >= end || after + 1 < state.first {
            drop(state);
            self.abandon();
            return None;
        }
        Some(self.attach(&mut state, after))
    }

    /// Starts reading with the oldest message nobody has taken.
    pub fn resume(self: &Arc<Self>) -> Reader {
        self.resume_at().0
    }

    /// Starts reading with the oldest message nobody has taken, and says what came before it.
    pub(crate) fn resume_at(self: &Arc<Self>) -> (Reader, u64) {
        let mut state = self.lock();
        let after = state.next.max(state.first) - 1;
        (self.attach(&mut state, after), after)
    }

    fn attach(self: &Arc<Self>, state: &mut State, after: u64) -> Reader {
        state.reader += 1;
        state.audience = Audience::Reading;
        state.next = after + 1;
        let unread = state.messages.iter().skip((state.next - state.first) as usize);
        state.unread = unread.map(Bytes::len).sum();
        self.trim(state);
        wake(state);
        Reader { outbox: Arc::clone(self), id: state.reader }
    }

    /// Adds a message, unless nobody can ever read it.
    fn append(&self, state: &mut State, message: Bytes) -> bool {
        if state.finished || (state.audience == Audience::Gone && self.replay.is_none()) {
            return false;
        }
        // What is written for a client that has left must not keep its session for ever.
        if state.audience != Audience::Gone {
            state.touched = Instant::now();
        }
        state.bytes += message.len();
        state.unread += message.len();
        if let Some(budget) = &self.replay {
            budget.used.fetch_add(message.len(), Ordering::Relaxed);
        }
        state.messages.push_back(message);
        self.trim(state);
        wake(state);
        true
    }

    /// Drops the oldest messages beyond the bound; untaken ones only when no reader will take them,
    /// and the newest only when the whole server keeps too much.
    fn trim(&self, state: &mut State) {
        let Some(budget) = &self.replay else {
            // Nobody comes back to a queue without replay.
            while state.audience == Audience::Gone && self.drop_oldest(state) {}
            return;
        };
        let awaited = state.audience != Audience::Gone;
        while state.bytes > self.limit || budget.exhausted() {
            let untaken = state.first >= state.next;
            let newest = state.messages.len() <= 1;
            if (untaken && awaited) || (newest && !budget.exhausted()) || !self.drop_oldest(state) {
                break;
            }
        }
    }

    fn drop_oldest(&self, state: &mut State) -> bool {
        let Some(message) = state.messages.pop_front() else { return false };
        if state.first >= state.next {
            state.unread -= message.len();
        }
        state.first += 1;
        state.bytes -= message.len();
        if let Some(budget) = &self.replay {
            budget.used.fetch_sub(message.len(), Ordering::Relaxed);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held leaves at worst a shorter queue; go on serving.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        if let Some(budget) = &self.replay {
            budget.used.fetch_sub(self.lock().bytes, Ordering::Relaxed);
        }
    }
}

/// One connection's view of an [`Outbox`].
#[derive(Debug)]
pub struct Reader {
    outbox: Arc<Outbox>,
    id: u64,
}

impl Reader {
    /// Takes the next message.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        let outbox = &self.outbox;
        let mut state = outbox.lock();
        if state.reader != self.id {
            return Poll::Ready(Read::End);
        }
        let sequence = state.next.max(state.first);
        let Some(message) = state.messages.get((sequence - state.first) as usize).cloned() else {
            if state.finished {
                return Poll::Ready(Read::End);
            }
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        state.next = sequence + 1;
        state.unread -= message.len();
        state.touched = Instant::now();
        match outbox.replay {
            None => {
                outbox.drop_oldest(&mut state);
            }
            Some(_) => outbox.trim(&mut state),
        }
        drop(state);
        outbox.room.notify_waiters();
        Poll::Ready(Read::Message(sequence, message))
    }

    /// Waits for the next message; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Bytes> {
        match std::future::poll_fn(|cx| self.poll_read(cx)).await {
            Read::Message(_, message) => Some(message),
            Read::End => None,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.outbox.lock();
        if state.reader == self.id {
            state.audience = Audience::Gone;
            state.waker = None;
            state.touched = Instant::now();
            self.outbox.trim(&mut state);
            drop(state);
            self.outbox.room.notify_waiters();
        }
    }
}

fn wake(state: &mut State) {
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
