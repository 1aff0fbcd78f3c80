//! [`ByteBudget`]: bytes that all callers of a process share, and no caller can take for itself.
//!
//! Whatever is small is not counted: connections bound it already, and calls that move a few
//! kilobytes must not meet at one lock.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Duration, Instant, timeout};

use crate::caller::CallerId;
use crate::limits::Limits;
use crate::outbox::ReplayBudget;

/// Bytes of a body or an answer that are not counted.
pub const UNCOUNTED_BYTES: usize = 64 << 10;

/// How long work waits for bytes that others hold before it is refused.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How often those who wait look whether there are bytes for them.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The byte budgets of a process, shared by all its endpoints.
#[derive(Debug)]
pub struct ByteBudgets {
    /// Bytes of one answer; [`Limits::answer_bytes`].
    pub answer_bytes: usize,
    /// Request bodies from their first byte until their call is over.
    pub bodies: Arc<ByteBudget>,
    /// Answers from before they are written until the client has taken them.
    pub answers: Arc<ByteBudget>,
    /// What calls work with before there is an answer, such as whole documents.
    pub work: Arc<ByteBudget>,
    /// Answers of other servers from their first byte until they are passed on.
    pub relay: Arc<ByteBudget>,
    /// What streams hold that their clients have not read yet.
    pub streams: Arc<ByteBudget>,
    /// What streams keep for clients that come back.
    pub(crate) replay: Arc<ReplayBudget>,
    /// Places for answers that are there before there was room for them.
    unclaimed: Semaphore,
}

/// Answers that may wait for room once they are there, as those of other servers do.
const MAX_UNCLAIMED: usize = 4;

impl ByteBudgets {
    /// The budgets that `limits` set.
    pub fn new(limits: &Limits) -> Self {
        Self {
            answer_bytes: limits.answer_bytes,
            bodies: Arc::new(ByteBudget::new(limits.bodies_bytes)),
            answers: Arc::new(ByteBudget::new(limits.answers_bytes)),
            work: Arc::new(ByteBudget::new(limits.work_bytes)),
            relay: Arc::new(ByteBudget::new(limits.relay_bytes)),
            streams: Arc::new(ByteBudget::new(limits.streams_bytes)),
            replay: Arc::new(ReplayBudget::new(limits.replay_bytes)),
            unclaimed: Semaphore::new(MAX_UNCLAIMED),
        }
    }

    /// Charges for an answer that is there already. A few may wait for room; the next must find it.
    ///
    /// # Errors
    /// When there was no room for it within [`PATIENCE`], or too many wait already.
    pub async fn claim(&self, caller: &CallerId, answer: Bytes) -> Result<Bytes, Exhausted> {
        let reservation = match self.answers.reserve(caller, answer.len()) {
            Ok(reservation) => reservation,
            Err(exhausted) => {
                let _place = self.unclaimed.try_acquire().map_err(|_| exhausted)?;
                self.answers.reserve_soon(caller, answer.len()).await?
            }
        };
        Ok(Arc::new(reservation).attach(answer))
    }

    /// Charges for an answer that takes the place of others, whatever is free.
    pub fn claim_anyway(&self, caller: CallerId, answer: Bytes) -> Bytes {
        let reservation = self.answers.reserve_anyway(caller, answer.len());
        Arc::new(reservation).attach(answer)
    }
}

/// A number of bytes shared by all callers.
///
/// A caller may hold as many bytes as it leaves free: the first can take half of them, the next half
/// of the rest, and however many hold on to what they have, the next one finds something.
#[derive(Debug)]
pub struct ByteBudget {
    limit: usize,
    holdings: Mutex<Holdings>,
    freed: Notify,
}

/// Whom bytes are charged to, and in which budget.
#[derive(Debug, Clone)]
pub(crate) struct Payer {
    pub(crate) budget: Arc<ByteBudget>,
    pub(crate) caller: CallerId,
}

#[derive(Debug, Default)]
struct Holdings {
    total: usize,
    by_caller: HashMap<CallerId, usize>,
}

impl Holdings {
    /// Takes bytes off a caller's account; a caller without any is forgotten.
    fn take_from(&mut self, caller: &CallerId, bytes: usize) {
        if let Some(own) = self.by_caller.get_mut(caller) {
            *own -= bytes;
            if *own == 0 {
                self.by_caller.remove(caller);
            }
        }
    }
}

/// Why bytes were not handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// It would be refused even if nothing else were under way.
    #[error("this is more than the server ever holds at once; ask for less")]
    Never,
    /// The caller holds its share.
    #[error("too many bytes of this caller are under way; read what was answered, then try again")]
    Caller,
    /// All callers together hold too much.
    #[error("too many bytes are under way; try again later")]
    Process,
}

impl Exhausted {
    /// The HTTP status that says so.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Never => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Caller => StatusCode::TOO_MANY_REQUESTS,
            Self::Process => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl ByteBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, holdings: Mutex::default(), freed: Notify::new() }
    }

    /// Takes `bytes` for `caller`, until the reservation is dropped.
    ///
    /// # Errors
    /// When the caller would hold more than it leaves free.
    pub fn reserve(
        self: &Arc<Self>,
        caller: &CallerId,
        bytes: usize,
    ) -> Result<Reservation, Exhausted> {
        self.take(caller, bytes)?;
        Ok(Reservation { budget: Arc::clone(self), caller: caller.clone(), bytes })
    }

    /// Takes `bytes` for `caller`, waiting up to [`PATIENCE`] while others give theirs back.
    ///
    /// # Errors
    /// When that was not long enough, or never would be.
    pub async fn reserve_soon(
        self: &Arc<Self>,
        caller: &CallerId,
        bytes: usize,
    ) -> Result<Reservation, Exhausted> {
        if let Ok(reservation) = self.reserve(caller, bytes) {
            return Ok(reservation);
        }
        let mut reservation =
            Reservation { budget: Arc::clone(self), caller: caller.clone(), bytes: 0 };
        reservation.grow_soon(bytes).await?;
        Ok(reservation)
    }

    /// Takes `bytes` for `caller` whatever is free: for bytes that take the place of others.
    pub(crate) fn reserve_anyway(self: &Arc<Self>, caller: CallerId, bytes: usize) -> Reservation {
        let mut holdings = self.lock();
        holdings.total += bytes;
        *holdings.by_caller.entry(caller.clone()).or_default() += bytes;
        drop(holdings);
        Reservation { budget: Arc::clone(self), caller, bytes }
    }

    /// Waits until it is worth asking for bytes again.
    pub(crate) async fn look_again(&self) {
        // What was given back wakes one who waits, for whom it may not be enough; the others look
        // again by themselves.
        let _ = timeout(LOOK_AGAIN, self.freed.notified()).await;
    }

    /// Bytes that are taken.
    pub fn held(&self) -> usize {
        self.lock().total
    }

    fn take(&self, caller: &CallerId, bytes: usize) -> Result<(), Exhausted> {
        if bytes > self.limit / 2 {
            return Err(Exhausted::Never);
        }
        let mut holdings = self.lock();
        let own = holdings.by_caller.get(caller).copied().unwrap_or(0);
        let free = self.limit.saturating_sub(holdings.total);
        if own + bytes > free.saturating_sub(bytes) {
            return Err(if own > 0 { Exhausted::Caller } else { Exhausted::Process });
        }
        holdings.total += bytes;
        *holdings.by_caller.entry(caller.clone()).or_default() += bytes;
        Ok(())
    }

    fn give_back(&self, caller: &CallerId, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut holdings = self.lock();
        holdings.total -= bytes;
        holdings.take_from(caller, bytes);
        drop(holdings);
        self.freed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Holdings> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes one caller holds of a [`ByteBudget`], until this is dropped.
pub struct Reservation {
    budget: Arc<ByteBudget>,
    caller: CallerId,
    bytes: usize,
}

impl Reservation {
    /// How many.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes more, until there are `bytes`.
    ///
    /// # Errors
    /// When the caller would hold more than it leaves free; what it has stays.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            if bytes > self.budget.limit / 2 {
                return Err(Exhausted::Never);
            }
            self.budget.take(&self.caller, more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Takes more, until there are `bytes`, waiting up to [`PATIENCE`] while others give theirs back.
    ///
    /// # Errors
    /// When that was not long enough, or never would be.
    pub async fn grow_soon(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let budget = Arc::clone(&self.budget);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.grow(bytes) {
                Ok(()) => break,
                Err(Exhausted::Never) => return Err(Exhausted::Never),
                Err(exhausted) if Instant::now() >= deadline => return Err(exhausted),
                Err(_) => {}
            }
            budget.look_again().await;
        }
        // There may be more.
        budget.freed.notify_one();
        Ok(())
    }

    /// Charges another caller instead.
    ///
    /// # Errors
    /// When that caller would hold more than is left free; then nothing changes.
    #[cfg(feature = "client")]
    pub(crate) fn transfer(&mut self, caller: &CallerId) -> Result<(), Exhausted> {
        if *caller == self.caller {
            return Ok(());
        }
        let mut holdings = self.budget.lock();
        let own = holdings.by_caller.get(caller).copied().unwrap_or(0);
        if own + self.bytes > self.budget.limit.saturating_sub(holdings.total) {
            return Err(if own > 0 { Exhausted::Caller } else { Exhausted::Process });
        }
        *holdings.by_caller.entry(caller.clone()).or_default() += self.bytes;
        holdings.take_from(&self.caller, self.bytes);
        drop(holdings);
        self.caller = caller.clone();
        Ok(())
    }

    /// Gives back what is beyond `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.budget.give_back(&self.caller, less);
        self.bytes -= less;
    }

    /// Ties the reservation to `bytes`: it is released when the last slice of them is dropped, after any
    /// queueing, splitting and sending.
    pub fn attach(self: Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged { bytes, _reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(&self.caller, self.bytes);
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("caller", &self.caller)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Bytes and what they are charged to.
struct Charged {
    bytes: Bytes,
    _reservation: Arc<Reservation>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Principal;

    fn caller(name: &str) -> CallerId {
        CallerId::Principal(Principal::new(name))
    }

    #[test]
    fn each_caller_may_hold_as_much_as_it_leaves_free() {
        let budget = Arc::new(ByteBudget::new(1000));
        let ana = budget.reserve(&caller("ana"), 500).unwrap();
        assert_eq!(budget.reserve(&caller("ana"), 1).unwrap_err(), Exhausted::Caller);
        assert_eq!(budget.reserve(&caller("bob"), 251).unwrap_err(), Exhausted::Process);
        let bob = budget.reserve(&caller("bob"), 250).unwrap();
        let eve = budget.reserve(&caller("eve"), 125).unwrap();
        assert_eq!(budget.held(), 875);
        drop((ana, bob));
        assert_eq!(budget.held(), 125);
        assert!(budget.reserve(&caller("eve"), 300).is_ok());
        drop(eve);
        assert_eq!(budget.held(), 0);
        assert!(budget.lock().by_caller.is_empty(), "those who hold nothing are forgotten");
    }

    #[test]
    fn what_never_fits_is_told_from_what_does_not_fit_now() {
        let budget = Arc::new(ByteBudget::new(1000));
        assert_eq!(budget.reserve(&caller("ana"), 501).unwrap_err(), Exhausted::Never);
    }

    #[test]
    fn attached_bytes_hold_their_reservation_until_the_last_piece_is_gone() {
        let budget = Arc::new(ByteBudget::new(1000));
        let reservation = budget.reserve(&caller("ana"), 100).unwrap();
        let mut bytes = Arc::new(reservation).attach(Bytes::from(vec![7; 100]));
        let tail = bytes.split_off(60);
        drop(bytes);
        assert_eq!(budget.held(), 100);
        drop(tail);
        assert_eq!(budget.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_when_bytes_are_given_back_or_patience_is_over() {
        let budget = Arc::new(ByteBudget::new(1000));
        let held = budget.reserve(&caller("ana"), 400).unwrap();
        let refused = budget.reserve_soon(&caller("ana"), 400).await;
        assert_eq!(refused.unwrap_err(), Exhausted::Caller);
        let waits = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.reserve_soon(&caller("ana"), 400).await }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert_eq!(waits.await.unwrap().unwrap().bytes(), 400);
    }

    #[test]
    fn a_reservation_passes_to_a_caller_that_leaves_as_much_free() {
        let budget = Arc::new(ByteBudget::new(1000));
        let (ana, bob) = (caller("ana"), caller("bob"));
        let own = budget.reserve(&bob, 300).unwrap();
        let mut reservation = budget.reserve(&ana, 200).unwrap();
        reservation.transfer(&bob).unwrap();
        assert_eq!(budget.held(), 500);
        assert_eq!(budget.reserve(&bob, 1).unwrap_err(), Exhausted::Caller);
        let mut further = budget.reserve(&ana, 100).unwrap();
        assert_eq!(further.transfer(&bob).unwrap_err(), Exhausted::Caller);
        drop((own, reservation, further));
        assert_eq!(budget.held(), 0);
        assert!(budget.lock().by_caller.is_empty());
    }

    #[test]
    fn reservations_grow_and_shrink() {
        let budget = Arc::new(ByteBudget::new(1000));
        let mut reservation = budget.reserve(&caller("ana"), 100).unwrap();
        reservation.grow(300).unwrap();
        assert_eq!(budget.held(), 300);
        assert_eq!(reservation.grow(501).unwrap_err(), Exhausted::Never);
        let other = budget.reserve(&caller("ana"), 100).unwrap();
        assert_eq!(reservation.grow(500).unwrap_err(), Exhausted::Caller);
        drop(other);
        assert_eq!(budget.held(), 300);
        reservation.shrink(50);
        assert_eq!(budget.held(), 50);
    }
}
