//! Keeps an HTTP/1.1 connection from waking itself for nothing.
//!
//! hyper hands a body over through a channel. Taking a piece out wakes the connection's task to send the
//! next; and since a body's last piece does so too, each message would have its connection polled once
//! more than needed. The waker made here lets go of that one wake. It is told from all others by where
//! it comes from: this thread, within the poll of a body.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use http_body::{Body, Frame};

thread_local! {
    /// What becomes of wakes on this thread.
    static WAKES: Cell<Wakes> = const { Cell::new(Wakes::Pass) };
}

#[derive(Default)]
enum Wakes {
    #[default]
    Pass,
    /// The next is kept.
    Held,
    /// This one was; others pass.
    Kept(Arc<Absorbing>),
}

/// Lets wakes pass again, however a poll ends.
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        WAKES.take();
    }
}

type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

/// Polls a body. If that brings it to its end, a wake that came of it is let go.
pub(crate) fn poll_frame<B: Body>(mut body: Pin<&mut B>, cx: &mut Context<'_>) -> Polled<B> {
    absorbing(|| {
        let frame = body.as_mut().poll_frame(cx);
        let ended = frame.is_ready() && body.is_end_stream();
        (frame, ended)
    })
}

/// Lets go of a wake within `poll`, which also says whether a body is at its end, if it is.
fn absorbing<T>(poll: impl FnOnce() -> (T, bool)) -> T {
    WAKES.set(Wakes::Held);
    let release = Release;
    let (polled, ended) = poll();
    let kept = WAKES.take();
    drop(release);
    if let Wakes::Kept(waker) = kept
        && !ended
    {
        waker.0.wake_by_ref();
    }
    polled
}

/// Makes the waker that a connection is polled with.
#[derive(Debug, Default)]
pub(crate) struct Absorber {
    /// The task's own waker, and what was made of it.
    made: Option<(Waker, Waker)>,
}

#[cfg_attr(
    not(feature = "server"),
    expect(dead_code, reason = "whoever brings connections of their own does without")
)]
impl Absorber {
    /// What to poll with in the place of `task`.
    pub(crate) fn waker(&mut self, task: &Waker) -> &Waker {
        // A task keeps its waker, so this is done once.
        let made = self.made.take().filter(|(known, _)| known.will_wake(task));
        let made = made.unwrap_or_else(|| (task.clone(), Arc::new(Absorbing(task.clone())).into()));
        &self.made.insert(made).1
    }
}

struct Absorbing(Waker);

impl Wake for Absorbing {
    fn wake(self: Arc<Self>) {
        // A thread that ends has nothing to hold.
        match WAKES.try_with(Cell::take).unwrap_or_default() {
            Wakes::Held => return WAKES.set(Wakes::Kept(self)),
            Wakes::Kept(other) => WAKES.set(Wakes::Kept(other)),
            Wakes::Pass => {}
        }
        self.0.wake_by_ref();
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls a body that does `during` with its connection's waker and is at its end or not.
    #[track_caller]
    fn check(ended: bool, during: impl FnOnce(&Waker), n_wakes: usize) {
        let counter = Arc::new(Counter::default());
        let mut absorber = Absorber::default();
        let waker = absorber.waker(&Arc::clone(&counter).into()).clone();
        absorbing(|| (during(&waker), ended));
        assert_eq!(counter.0.load(Ordering::SeqCst), n_wakes);
        waker.wake();
        assert_eq!(counter.0.load(Ordering::SeqCst), n_wakes + 1, "later wakes pass");
    }

    #[test]
    fn only_wakes_from_within_the_last_poll_of_a_body_are_let_go() {
        check(true, |_| {}, 0);
        check(false, |_| {}, 0);
        check(true, Waker::wake_by_ref, 0);
        check(false, Waker::wake_by_ref, 1);
        let elsewhere = |waker: &Waker| {
            let waker = waker.clone();
            std::thread::spawn(move || waker.wake()).join().unwrap();
        };
        check(true, elsewhere, 1);
        check(false, elsewhere, 1);
    }

    #[test]
    fn wakes_pass_after_a_poll_that_panicked() {
        let counter = Arc::new(Counter::default());
        let mut absorber = Absorber::default();
        let waker = absorber.waker(&Arc::clone(&counter).into()).clone();
        let panics = std::panic::AssertUnwindSafe(|| {
            absorbing(|| -> ((), bool) { panic!("on purpose") });
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        waker.wake_by_ref();
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn waker_is_made_once_for_each_task() {
        let [one, other]: [Waker; 2] = std::array::from_fn(|_| Arc::new(Counter::default()).into());
        let mut absorber = Absorber::default();
        let made = absorber.waker(&one).clone();
        assert!(absorber.waker(&one).will_wake(&made));
        assert!(!absorber.waker(&other).will_wake(&made));
    }
}
