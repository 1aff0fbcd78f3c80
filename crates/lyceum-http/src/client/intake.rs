//! [`Intake`]: charges a budget for a message while it arrives.

use std::sync::Arc;

use bytes::Bytes;

use crate::byte_budget::{Exhausted, Payer, Reservation, UNCOUNTED_BYTES};
use crate::ends::Ends;

/// How finely a message is charged for as it arrives.
const STEP: usize = 256 << 10;

/// How many times the bytes of a message are there while a buffer grows that doubles: in the old
/// buffer, and twice in the new one.
pub(crate) const DOUBLING: usize = 3;

/// What is reserved for a message that is arriving.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    payer: Option<Payer>,
    reservation: Option<Reservation>,
}

/// A message of a stream that many calls share.
#[derive(Debug)]
pub(crate) enum Incoming {
    Message(Bytes, Option<Arc<Reservation>>),
    /// There was no room for it.
    Skipped(Ends, Exhausted),
}

impl Intake {
    /// Charges `payer`, if there is one.
    pub(crate) fn new(payer: Option<Payer>) -> Intake {
        Intake { payer, reservation: None }
    }

    /// Makes sure that `bytes` are reserved, waiting a while for others to give theirs back. A message
    /// of `length` bytes is not counted if it is small.
    pub(crate) async fn charge(&mut self, length: usize, bytes: usize) -> Result<(), Exhausted> {
        if length <= UNCOUNTED_BYTES {
            return Ok(());
        }
        let Some(Payer { budget, caller }) = &self.payer else { return Ok(()) };
        let bytes = bytes.next_multiple_of(STEP);
        match &mut self.reservation {
            // Boxed, so that small messages do not pay for its size.
            Some(reservation) => Box::pin(reservation.grow_soon(bytes)).await,
            None => {
                self.reservation = Some(Box::pin(budget.reserve_soon(caller, bytes)).await?);
                Ok(())
            }
        }
    }

    /// Hands out what is reserved for the message that has arrived, which takes `bytes`.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Arc<Reservation>> {
        let mut reservation = self.reservation.take()?;
        reservation.shrink(bytes);
        Some(Arc::new(reservation))
    }
}

/// Ties what is reserved for a message to the part of it that is kept.
pub(crate) fn attach(reservation: Option<Arc<Reservation>>, bytes: Bytes) -> Bytes {
    match reservation {
        Some(reservation) => reservation.attach(bytes),
        None => bytes,
    }
}
