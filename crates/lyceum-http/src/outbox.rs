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

use crate::byte_budget::{Exhausted, PATIENCE, Payer, Reservation, UNCOUNTED_BYTES};

/// Undelivered bytes of one stream that are not counted, so that streams that are read never meet at
/// the budget's lock.
pub const UNCOUNTED_STREAM_BYTES: usize = 16 << 10;

/// How finely undelivered bytes beyond that are charged.
const STEP: usize = 16 << 10;

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
    payer: Option<Payer>,
}

#[derive(Debug)]
struct Queued {
    message: Bytes,
    /// Whether its bytes are in [`State::counted`].
    is_counted: bool,
}

#[derive(Debug)]
struct State {
    /// Messages `first..first + messages.len()`.
    messages: VecDeque<Queued>,
    first: u64,
    /// Bytes in `messages`.
    bytes: usize,
    /// Bytes of the messages no reader has taken yet.
    unread: usize,
    /// Those of them that are charged here, once they are more than [`UNCOUNTED_STREAM_BYTES`].
    counted: usize,
    reservation: Option<Reservation>,
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
            counted: 0,
            reservation: None,
            next: 1,
            reader: 0,
            audience: Audience::Expected,
            waker: None,
            finished: false,
            touched: Instant::now(),
        };
        Self { state: Mutex::new(state), room: Notify::new(), limit, replay, payer: None }
    }

    /// Charges what is not delivered to `payer`, beyond [`UNCOUNTED_STREAM_BYTES`].
    pub(crate) fn charged_to(mut self, payer: Payer) -> Self {
        self.payer = Some(payer);
        self
    }

    /// Queues a message, waiting while its reader is a whole bound behind, or while there is no room
    /// in the budget. A stream that finds none within [`PATIENCE`] ends: its client is slow, and is
    /// not waited for at the expense of others.
    ///
    /// Once the reader is gone it never waits: a replayable queue then drops its oldest messages, any
    /// other drops this one.
    pub async fn push(&self, message: Bytes) {
        self.offer(message).await;
    }

    /// Queues a message like [`Outbox::push`], and says whether it was kept.
    pub(crate) async fn offer(&self, message: Bytes) -> bool {
        self.wait_and_append(message, true).await
    }

    /// Queues an answer like [`Outbox::push`]. A large one is charged for as an answer.
    pub(crate) async fn offer_answer(&self, answer: Bytes) {
        let is_counted = answer.len() <= UNCOUNTED_BYTES;
        self.wait_and_append(answer, is_counted).await;
    }

    async fn wait_and_append(&self, message: Bytes, is_counted: bool) -> bool {
        let mut room = std::pin::pin!(self.room.notified());
        let mut deadline = None;
        loop {
            room.as_mut().enable();
            let charged = {
                let mut state = self.lock();
                if state.audience == Audience::Gone || state.finished {
                    return self.append(&mut state, message, is_counted);
                }
                let fits = state.unread == 0 || state.unread + message.len() <= self.limit;
                let more = if is_counted { message.len() } else { 0 };
                match fits.then(|| self.charge(&mut state, more)) {
                    Some(Ok(())) => return self.append(&mut state, message, is_counted),
                    Some(Err(_)) => false,
                    None => true,
                }
            };
            match &self.payer {
                Some(payer) if !charged => {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
                    if Instant::now() >= deadline {
                        self.shed();
                        continue;
                    }
                    tokio::select! {
                        () = room.as_mut() => {}
                        () = payer.budget.look_again() => {}
                    }
                }
                _ => room.as_mut().await,
            }
            room.set(self.room.notified());
        }
    }

    /// Queues a message without waiting; `false` when the bound or the budget is exhausted.
    pub fn try_push(&self, message: Bytes) -> bool {
        let mut state = self.lock();
        if state.audience == Audience::Gone {
            return self.replay.is_some() && self.append(&mut state, message, true);
        }
        let fits = state.unread == 0 || state.unread + message.len() <= self.limit;
        fits && self.charge(&mut state, message.len()).is_ok()
            && self.append(&mut state, message, true)
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
        let is_counted = message.len() <= UNCOUNTED_BYTES && state.audience != Audience::Gone;
        if is_counted {
            self.charge_anyway(&mut state, message.len());
        }
        self.append(&mut state, message, is_counted);
    }

    /// Queues the last answer and finishes.
    pub fn conclude(&self, message: Bytes) {
        let mut state = self.lock();
        // The one answer a connection may have waiting, or one that is charged for already.
        self.append(&mut state, message, false);
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
        let n_taken = (state.next - state.first) as usize;
        for queued in state.messages.iter_mut().take(n_taken).filter(|queued| queued.is_counted) {
            queued.is_counted = false;
            state.counted -= queued.message.len();
        }
        state.give_back();
        let unread = state.messages.iter().skip(n_taken);
        state.unread = unread.map(|queued| queued.message.len()).sum();
        self.trim(state);
        wake(state);
        Reader { outbox: Arc::clone(self), id: state.reader }
    }

    /// Charges for `more` undelivered bytes.
    fn charge(&self, state: &mut State, more: usize) -> Result<(), Exhausted> {
        let Some(payer) = &self.payer else { return Ok(()) };
        let Some(bytes) = state.to_charge(more) else { return Ok(()) };
        match &mut state.reservation {
            Some(reservation) => reservation.grow(bytes),
            None => {
                state.reservation = Some(payer.budget.reserve(&payer.caller, bytes)?);
                Ok(())
            }
        }
    }

    /// Charges for `more` undelivered bytes, whatever is free.
    fn charge_anyway(&self, state: &mut State, more: usize) {
        let Some(payer) = &self.payer else { return };
        if let Some(bytes) = state.to_charge(more) {
            let caller = payer.caller.clone();
            state.reservation = Some(payer.budget.reserve_anyway(caller, bytes));
        }
    }

    /// Ends the connection of a reader that is too slow for what there is room for. A stream that
    /// can be resumed goes on without it, any other is over.
    fn shed(&self) {
        tracing::debug!("ended a stream whose client reads too slowly");
        if self.replay.is_none() {
            self.lock().finished = true;
        }
        self.detach();
    }

    /// Adds a message, unless nobody can ever read it.
    fn append(&self, state: &mut State, message: Bytes, is_counted: bool) -> bool {
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
        let is_counted = is_counted && self.payer.is_some() && state.audience != Audience::Gone;
        if is_counted {
            state.counted += message.len();
        }
        state.messages.push_back(Queued { message, is_counted });
        self.trim(state);
        wake(state);
        true
    }

    /// Drops the oldest messages beyond the bound; untaken ones only when no reader will take them,
    /// and the newest only when the whole server keeps too much.
    fn trim(&self, state: &mut State) {
        if state.audience == Audience::Gone {
            // The replay budget bounds a stream without a reader.
            state.messages.iter_mut().for_each(|queued| queued.is_counted = false);
            state.counted = 0;
            state.give_back();
        }
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
        let Some(Queued { message, is_counted }) = state.messages.pop_front() else {
            return false;
        };
        if state.first >= state.next {
            state.unread -= message.len();
        }
        if is_counted {
            state.counted -= message.len();
            state.give_back();
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

impl State {
    /// The bytes that have to be reserved before `more` may wait, if not enough are.
    fn to_charge(&self, more: usize) -> Option<usize> {
        let beyond = (self.counted + more).saturating_sub(UNCOUNTED_STREAM_BYTES);
        let reserved = self.reservation.as_ref().map_or(0, Reservation::bytes);
        (beyond > reserved).then(|| beyond.next_multiple_of(STEP))
    }

    /// Gives back what is reserved for bytes that have been delivered.
    fn give_back(&mut self) {
        let beyond = self.counted.saturating_sub(UNCOUNTED_STREAM_BYTES);
        match &mut self.reservation {
            Some(_) if beyond == 0 => self.reservation = None,
            Some(reservation) if reservation.bytes() > beyond + 2 * STEP => {
                reservation.shrink(beyond.next_multiple_of(STEP));
            }
            _ => {}
        }
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
        let index = (sequence - state.first) as usize;
        let Some(message) = state.messages.get(index).map(|queued| queued.message.clone()) else {
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
            Some(_) => {
                if std::mem::take(&mut state.messages[index].is_counted) {
                    state.counted -= message.len();
                    state.give_back();
                }
                outbox.trim(&mut state);
            }
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
