//! The open connections of a server, watched from outside.
//!
//! A timer per request would cost every request; instead one sweep looks at all connections now and
//! then and closes those on which nothing happened: neither a request completed its head nor an
//! answer was under way. A connection that waits for its next request may do so for longer than one
//! that has begun to send it. The same registry tells connections to finish when the server drains, and
//! the longest idle ones to close when there are as many as there may be (`connections/crowd.rs`).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;
use tokio::time::Duration;

/// Sweeps a connection survives while its head is incomplete.
const SWEEPS: u32 = 4;

/// The half of [`Watch::traffic`] that counts answers under way.
const IN_FLIGHT: u64 = u32::MAX as u64;
/// One thing that happened, in the other half.
const HAPPENED: u64 = 1 << 32;

mod crowd;

use crowd::{Crowd, Origin};

/// All open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    open: HashMap<u64, Open>,
    crowd: Crowd,
    next: u64,
    draining: bool,
}

#[derive(Debug)]
struct Open {
    watch: Arc<Watch>,
    origin: Origin,
    /// The connection's traffic at the last sweep.
    traffic: u64,
    /// Whether a head had begun at the last sweep.
    begun: bool,
    quiet_sweeps: u32,
}

/// What is known of one connection.
#[derive(Debug)]
pub(crate) struct Watch {
    order: AtomicU8,
    /// Whether something came since the last answer ended, or no answer ended yet.
    begun: AtomicBool,
    /// Answers under way in the low half, things that happened in the high half: one atomic
    /// operation serves both.
    traffic: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

/// What a connection is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Go on.
    Serve = 0,
    /// Finish what is running, then close.
    Finish = 1,
    /// Close now.
    Close = 2,
}

impl Connections {
    /// A registry of at most `limit` connections.
    pub(crate) fn new(limit: usize) -> Self {
        let crowd = Crowd::new(limit);
        let state = State { open: HashMap::new(), crowd, next: 0, draining: false };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Enters a connection from `peer`; it leaves when the entry is dropped. When there are as many as
    /// there may be, the longest idle ones are closed. `None` when the new one must be closed instead,
    /// because its address has too many already.
    pub(crate) fn enter(self: &Arc<Self>, peer: IpAddr) -> Option<Entry> {
        let watch = Arc::new(Watch::new());
        let origin = Origin::of(peer);
        let mut state = self.lock();
        if !state.make_room(origin) {
            return None;
        }
        state.crowd.enter(origin);
        state.next += 1;
        let number = state.next;
        if state.draining {
            watch.order.store(Order::Finish as u8, Ordering::Relaxed);
        }
        let watched = Arc::clone(&watch);
        let open = Open { watch: watched, origin, traffic: 0, begun: true, quiet_sweeps: 0 };
        state.open.insert(number, open);
        drop(state);
        Some(Entry { connections: Arc::clone(self), number, watch })
    }

    /// Closes some of the longest idle connections, because the system has no room for another.
    pub(crate) fn relieve(&self) {
        self.lock().close_idle(None);
    }

    /// Closes connections that were quiet for [`SWEEPS`] sweeps in a row, or for `idle_sweeps` while
    /// they waited for a request.
    pub(crate) fn sweep(&self, idle_sweeps: u32) {
        let mut state = self.lock();
        state.look_for_relief();
        for open in state.open.values_mut() {
            let traffic = open.watch.traffic.load(Ordering::Relaxed);
            let begun = open.watch.begun.load(Ordering::Relaxed);
            let quiet = traffic == open.traffic && traffic & IN_FLIGHT == 0 && begun == open.begun;
            (open.traffic, open.begun) = (traffic, begun);
            open.quiet_sweeps = if quiet { open.quiet_sweeps + 1 } else { 0 };
            if open.quiet_sweeps >= if begun { SWEEPS } else { idle_sweeps } {
                open.watch.tell(Order::Close);
            }
        }
    }

    /// How often to sweep so that a slow head is cut off soon after `head`, and after how many
    /// sweeps a connection that waits for a request was idle for `idle`.
    pub(crate) fn sweeps(head: Duration, idle: Duration) -> (Duration, u32) {
        let interval = (head / SWEEPS).max(Duration::from_millis(1));
        let idle = idle.as_nanos().div_ceil(interval.as_nanos());
        (interval, u32::try_from(idle).unwrap_or(u32::MAX).max(SWEEPS))
    }

    /// Tells every connection to finish, and waits until all are gone.
    pub(crate) async fn drain(&self) {
        {
            let mut state = self.lock();
            state.draining = true;
            state.open.values().for_each(|open| open.watch.tell(Order::Finish));
        }
        loop {
            let changed = self.changed.notified();
            if self.lock().open.is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Tells every connection to close now.
    pub(crate) fn close(&self) {
        self.lock().open.values().for_each(|open| open.watch.tell(Order::Close));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's place in the registry.
#[derive(Debug)]
pub(crate) struct Entry {
    connections: Arc<Connections>,
    number: u64,
    watch: Arc<Watch>,
}

impl Entry {
    pub(crate) fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.connections.lock();
        if let Some(open) = state.open.remove(&self.number) {
            state.crowd.leave(open.origin);
        }
        drop(state);
        self.connections.changed.notify_waiters();
    }
}

impl Watch {
    fn new() -> Self {
        Self {
            order: AtomicU8::new(Order::Serve as u8),
            begun: AtomicBool::new(true),
            traffic: AtomicU64::new(0),
            waker: Mutex::default(),
        }
    }

    /// Notes that bytes of a request came.
    pub(crate) fn heard(&self) {
        self.begun.store(true, Ordering::Relaxed);
    }

    /// What the connection is to do; orders given later wake the task that asked first.
    pub(crate) fn order(&self, cx: &Context<'_>, registered: &mut bool) -> Order {
        if !*registered {
            *registered = true;
            let waker = Some(cx.waker().clone());
            *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
        }
        match self.order.load(Ordering::Acquire) {
            0 => Order::Serve,
            1 => Order::Finish,
            _ => Order::Close,
        }
    }

    /// Notes that a request's head arrived; its answer is under way until the guard is dropped.
    pub(crate) fn request(self: &Arc<Self>) -> InFlight {
        self.traffic.fetch_add(HAPPENED + 1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Notes that the client keeps an answer waiting, until the guard is dropped.
    pub(crate) fn waiting(self: &Arc<Self>) -> InFlight {
        self.traffic.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Waits until the connection is told anything but to go on.
    pub(crate) async fn told(&self) {
        let mut registered = false;
        let told = |cx: &mut Context<'_>| match self.order(cx, &mut registered) {
            Order::Serve => Poll::Pending,
            Order::Finish | Order::Close => Poll::Ready(()),
        };
        std::future::poll_fn(told).await;
    }

    fn tell(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*waker {
            waker.wake_by_ref();
        }
    }
}

/// An answer that is under way.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Watch>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.begun.store(false, Ordering::Relaxed);
        // Counts as something that happened, so that a client has its time for the next request.
        self.0.traffic.fetch_add(HAPPENED - 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections() -> Arc<Connections> {
        Arc::new(Connections::new(1000))
    }

    fn enter(connections: &Arc<Connections>) -> Entry {
        connections.enter(IpAddr::from([127, 0, 0, 1])).unwrap()
    }

    fn is_closed(entry: &Entry) -> bool {
        entry.watch.order.load(Ordering::Relaxed) == Order::Close as u8
    }

    #[test]
    fn quiet_connections_are_closed_busy_ones_are_not() {
        let connections = connections();
        let (quiet, busy, talking) =
            (enter(&connections), enter(&connections), enter(&connections));
        let answer = busy.watch().request();
        for _ in 0..=SWEEPS {
            drop(talking.watch().request());
            connections.sweep(SWEEPS);
        }
        assert!(is_closed(&quiet) && !is_closed(&busy) && !is_closed(&talking));
        drop(answer);
        for _ in 0..=SWEEPS {
            connections.sweep(SWEEPS);
        }
        assert!(is_closed(&busy));
    }

    #[test]
    fn waiting_for_a_request_may_take_longer_than_sending_it() {
        let connections = connections();
        let (idle, slow, fresh) = (enter(&connections), enter(&connections), enter(&connections));
        drop(idle.watch().request());
        drop(slow.watch().request());
        let sweep = |times: u32| (0..times).for_each(|_| connections.sweep(4 * SWEEPS));
        sweep(2 * SWEEPS);
        assert!(is_closed(&fresh), "it never sent a request");
        slow.watch().heard();
        sweep(SWEEPS);
        assert!(!is_closed(&slow), "its time counts from its first byte");
        sweep(1);
        assert!(is_closed(&slow) && !is_closed(&idle));
        sweep(SWEEPS);
        assert!(is_closed(&idle));
    }

    #[test]
    fn sweeps_add_up_to_both_deadlines() {
        let seconds = Duration::from_secs;
        let (interval, idle) = Connections::sweeps(seconds(10), seconds(75));
        assert_eq!((interval * SWEEPS, interval * idle), (seconds(10), seconds(75)));
        let (_, idle) = Connections::sweeps(seconds(10), seconds(1));
        assert_eq!(idle, SWEEPS, "idling is never shorter than a head");
    }

    #[tokio::test]
    async fn draining_waits_for_the_last_connection() {
        let connections = connections();
        let entry = enter(&connections);
        let mut drained = Box::pin(connections.drain());
        assert!(tokio::time::timeout(tokio::time::Duration::ZERO, &mut drained).await.is_err());
        assert_eq!(entry.watch.order.load(Ordering::Relaxed), Order::Finish as u8);
        drop(entry);
        drained.await;
    }
}
