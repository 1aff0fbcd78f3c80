//! The queue against a model: every message ever pushed, and where each reader should stand.

use std::task::Waker;

use proptest::prelude::*;

use super::*;
use crate::byte_budget::ByteBudget;
use crate::caller::CallerId;

const LIMIT: usize = 100;
const BUDGET: usize = 100_000;

#[derive(Debug, Clone)]
enum Step {
    Push(usize),
    TryPush(usize),
    Answer(usize),
    Read,
    /// A new connection, from where the last one left off.
    Attach,
    /// A new connection, after message `n` counted back from the newest.
    ResumeBack(u64),
    HangUp,
    Detach,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..60usize).prop_map(Step::Push),
        1 => (60..200usize).prop_map(Step::Push),
        2 => (1..60usize).prop_map(Step::TryPush),
        1 => (1..150usize).prop_map(Step::Answer),
        8 => Just(Step::Read),
        1 => Just(Step::Attach),
        2 => (0..8u64).prop_map(Step::ResumeBack),
        1 => Just(Step::HangUp),
        1 => Just(Step::Detach),
    ];
    proptest::collection::vec(step, 0..80)
}

/// Message `number`, padded to `length` bytes.
fn message(number: u64, length: usize) -> Bytes {
    Bytes::from(format!("{number:0length$}"))
}

/// A queue, and everything that ought to be true of it.
struct Model {
    outbox: Arc<Outbox>,
    budget: Arc<ReplayBudget>,
    replayable: bool,
    /// Every message that was taken in, first to last.
    pushed: Vec<Bytes>,
    reader: Option<Reader>,
    /// The sequence number the current reader should get next.
    expected: u64,
}

impl Model {
    fn new(replayable: bool) -> Self {
        let budget = Arc::new(ReplayBudget::new(BUDGET));
        let outbox = match replayable {
            true => Outbox::replayable(LIMIT, Arc::clone(&budget)),
            false => Outbox::new(LIMIT),
        };
        let streams = Arc::new(ByteBudget::new(BUDGET));
        let outbox = outbox.charged_to(payer(&streams, "ana"));
        let (outbox, pushed) = (Arc::new(outbox), Vec::new());
        Self { outbox, budget, replayable, pushed, reader: None, expected: 1 }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push(length) => {
                let message = self.next_message(length);
                if let Poll::Ready(kept) = poll(self.outbox.offer(message.clone())) {
                    self.note(message, kept);
                } else {
                    let unread = self.outbox.lock().unread;
                    assert!(
                        unread > 0 && unread + message.len() > LIMIT,
                        "waited with room to spare"
                    );
                }
            }
            Step::TryPush(length) => {
                let message = self.next_message(length);
                let kept = self.outbox.try_push(message.clone());
                self.note(message, kept);
            }
            Step::Answer(length) => {
                let message = self.next_message(length);
                let gone = self.outbox.lock().audience == Audience::Gone;
                self.outbox.push_answer(message.clone());
                self.note(message, self.replayable || !gone);
            }
            Step::Read => self.read(),
            Step::Attach => {
                let (reader, after) = self.outbox.resume_at();
                assert!(after + 1 >= self.expected || self.reader.is_none());
                self.attach(reader, after);
            }
            Step::ResumeBack(back) if self.replayable => self.resume(back),
            Step::ResumeBack(_) => {}
            Step::HangUp => self.reader = None,
            Step::Detach => {
                self.outbox.detach();
                if let Some(reader) = &mut self.reader {
                    assert_eq!(poll_read(reader), Poll::Ready(Read::End));
                }
                self.reader = None;
            }
        }
        self.check();
    }

    fn next_message(&self, length: usize) -> Bytes {
        message(self.pushed.len() as u64 + 1, length)
    }

    fn note(&mut self, message: Bytes, kept: bool) {
        if kept {
            self.pushed.push(message);
        }
    }

    /// The newest reader wins; the one before it is told that it ended.
    fn attach(&mut self, reader: Reader, after: u64) {
        if let Some(old) = &mut self.reader {
            assert_eq!(poll_read(old), Poll::Ready(Read::End));
        }
        self.reader = Some(reader);
        self.expected = after + 1;
    }

    fn read(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        match poll_read(reader) {
            Poll::Ready(Read::Message(sequence, message)) => {
                assert_eq!(sequence, self.expected, "a gap or a repetition");
                assert_eq!(message, self.pushed[sequence as usize - 1]);
                self.expected += 1;
            }
            Poll::Ready(Read::End) => panic!("nobody ended the stream"),
            Poll::Pending => assert_eq!(self.expected, self.pushed.len() as u64 + 1),
        }
    }

    fn resume(&mut self, back: u64) {
        let after = (self.pushed.len() as u64).saturating_sub(back);
        let missed: usize = self.pushed[after as usize..].iter().map(Bytes::len).sum();
        match self.outbox.reader(after) {
            Some(reader) => self.attach(reader, after),
            None => assert!(missed > LIMIT, "{missed} bytes should be kept"),
        }
        assert!(self.outbox.reader(self.pushed.len() as u64 + 1).is_none());
        assert!(self.outbox.reader(u64::MAX).is_none());
    }

    fn check(&self) {
        let state = self.outbox.lock();
        let kept: usize = state.messages.iter().map(|queued| queued.message.len()).sum();
        assert_eq!(state.bytes, kept);
        let untaken = state.messages.iter().skip(state.next.saturating_sub(state.first) as usize);
        assert_eq!(state.unread, untaken.map(|queued| queued.message.len()).sum::<usize>());
        let counted = state.messages.iter().filter(|queued| queued.is_counted);
        assert_eq!(state.counted, counted.map(|queued| queued.message.len()).sum::<usize>());
        assert!(state.counted <= state.unread);
        let newest = state.messages.back().map_or(0, |queued| queued.message.len());
        let bound = match state.audience {
            Audience::Gone => LIMIT.max(newest),
            // Answers are taken whatever the bound, and wait for their reader.
            _ => LIMIT.max(state.unread).max(newest),
        };
        assert!(kept <= bound, "{kept} bytes kept, {bound} allowed");
        let used = self.budget.used.load(Ordering::Relaxed);
        assert_eq!(used, if self.replayable { kept } else { 0 });
    }
}

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn poll_read(reader: &mut Reader) -> Poll<Read> {
    reader.poll_read(&mut Context::from_waker(Waker::noop()))
}

proptest! {
    #[test]
    fn readers_see_every_message_once_and_in_order(replayable: bool, steps in steps()) {
        let mut model = Model::new(replayable);
        for step in &steps {
            model.step(step);
        }
        let budget = Arc::clone(&model.budget);
        drop(model);
        prop_assert_eq!(budget.used.load(Ordering::Relaxed), 0, "a dropped queue gives its bytes back");
    }

    #[test]
    fn finished_queue_is_read_to_its_end(lengths in proptest::collection::vec(1..40usize, 0..20), taken in 0..20usize) {
        let outbox = Arc::new(Outbox::replayable(10_000, Arc::new(ReplayBudget::new(BUDGET))));
        let mut reader = outbox.resume();
        for (at, length) in lengths.iter().enumerate() {
            prop_assert!(outbox.try_push(message(at as u64 + 1, *length)));
        }
        outbox.conclude(message(lengths.len() as u64 + 1, 30));
        prop_assert!(!outbox.try_push(message(99, 3)), "nothing follows the answer");
        let taken = taken.min(lengths.len());
        for _ in 0..taken {
            prop_assert!(matches!(poll_read(&mut reader), Poll::Ready(Read::Message(..))));
        }
        drop(reader);
        let mut reader = outbox.reader(taken as u64).unwrap();
        for sequence in taken as u64 + 1..=lengths.len() as u64 + 1 {
            let Poll::Ready(Read::Message(read, _)) = poll_read(&mut reader) else { panic!("a message") };
            prop_assert_eq!(read, sequence);
        }
        prop_assert_eq!(poll_read(&mut reader), Poll::Ready(Read::End));
    }
}

#[test]
fn message_larger_than_the_queue_is_taken_when_nothing_waits() {
    let outbox = Arc::new(Outbox::new(LIMIT));
    let mut reader = outbox.resume();
    for number in 0..2 {
        assert!(outbox.try_push(message(number, 2 * LIMIT)), "nothing waits");
        assert!(!outbox.try_push(message(9, 1)), "something does");
        assert!(matches!(poll_read(&mut reader), Poll::Ready(Read::Message(..))));
    }
}

#[test]
fn exhausted_budget_drops_what_nobody_reads() {
    let budget = Arc::new(ReplayBudget::new(1000));
    let queue = || Arc::new(Outbox::replayable(LIMIT, Arc::clone(&budget)));
    let outboxes: Vec<_> = (0..100).map(|_| queue()).collect();
    for outbox in &outboxes {
        outbox.abandon();
        outbox.conclude(message(1, 90));
    }
    assert!(budget.used.load(Ordering::Relaxed) <= 1000);
    let live = queue();
    let mut reader = live.resume();
    live.push_answer(message(1, 90));
    let read = poll_read(&mut reader);
    assert_eq!(
        read,
        Poll::Ready(Read::Message(1, message(1, 90))),
        "readers are served all the same"
    );
}

#[test]
fn sender_is_woken_by_reading_by_hanging_up_and_by_the_end() {
    for end in [
        |reader: &mut Option<Reader>, _: &Outbox| drop(poll_read(reader.as_mut().unwrap())),
        |reader: &mut Option<Reader>, _: &Outbox| *reader = None,
        |_: &mut Option<Reader>, outbox: &Outbox| outbox.detach(),
        |_: &mut Option<Reader>, outbox: &Outbox| outbox.finish(),
    ] {
        let outbox = Arc::new(Outbox::new(LIMIT));
        let mut reader = Some(outbox.resume());
        assert!(outbox.try_push(message(1, 90)));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut sending = std::pin::pin!(outbox.offer(message(2, 90)));
        assert!(sending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        end(&mut reader, &outbox);
        assert!(woken.0.load(Ordering::Relaxed) > 0);
        assert!(sending.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn payer(budget: &Arc<ByteBudget>, name: &str) -> Payer {
    let caller = CallerId::Principal(crate::context::Principal::new(name));
    Payer { budget: Arc::clone(budget), caller }
}

fn large(bytes: usize) -> Bytes {
    Bytes::from(vec![b'x'; bytes])
}

/// Streams of one caller, with a reader that has read nothing so far.
fn unread(budget: &Arc<ByteBudget>, name: &str, n: usize) -> Vec<(Arc<Outbox>, Reader)> {
    let stream = |_| {
        let outbox = Arc::new(Outbox::new(256 << 10).charged_to(payer(budget, name)));
        let reader = outbox.resume();
        (outbox, reader)
    };
    (0..n).map(stream).collect()
}

#[test]
fn a_stream_that_is_read_is_never_charged() {
    let budget = Arc::new(ByteBudget::new(1 << 20));
    let mut streams = unread(&budget, "ana", 1);
    let (outbox, reader) = &mut streams[0];
    for _ in 0..100 {
        assert!(outbox.try_push(large(UNCOUNTED_STREAM_BYTES)));
        assert_eq!(budget.held(), 0);
        assert!(poll_read(reader).is_ready());
    }
}

#[test]
fn undelivered_bytes_of_all_streams_stay_within_the_budget() {
    const LIMIT: usize = 1 << 20;
    let budget = Arc::new(ByteBudget::new(LIMIT));
    let streams = unread(&budget, "ana", 64);
    let others = unread(&budget, "bob", 64);
    let fill = |streams: &[(Arc<Outbox>, Reader)]| {
        for (outbox, _) in streams {
            while outbox.try_push(large(4 << 10)) {}
        }
        streams.iter().map(|(outbox, _)| outbox.lock().bytes).sum::<usize>()
    };
    let allowance = 64 * UNCOUNTED_STREAM_BYTES;
    let held = fill(&streams);
    assert!(held > allowance && held <= allowance + LIMIT / 2, "{held}");
    let held = fill(&others);
    assert!(held > allowance, "one caller leaves room for others: {held}");
    assert!(budget.held() <= LIMIT);
    drop((streams, others));
    assert_eq!(budget.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sender_waits_for_the_budget_until_somebody_reads() {
    let budget = Arc::new(ByteBudget::new(256 << 10));
    let mut streams = unread(&budget, "ana", 2);
    assert!(streams[0].0.try_push(large(128 << 10)));
    let other = Arc::clone(&streams[1].0);
    let waits = tokio::spawn(async move { other.offer(large(64 << 10)).await });
    tokio::time::sleep(PATIENCE / 2).await;
    assert!(!waits.is_finished());
    assert!(poll_read(&mut streams[0].1).is_ready());
    assert!(waits.await.unwrap());
    assert!(!streams[1].0.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_finds_no_room_in_the_budget_ends() {
    let budget = Arc::new(ByteBudget::new(256 << 10));
    let streams = unread(&budget, "ana", 1);
    assert!(streams[0].0.try_push(large(128 << 10)));
    let (mut slow, started) = (unread(&budget, "ana", 1), Instant::now());
    let (outbox, reader) = &mut slow[0];
    assert!(outbox.try_push(large(10 << 10)));
    assert!(!outbox.offer(large(64 << 10)).await);
    assert_eq!(started.elapsed(), PATIENCE);
    assert_eq!(poll_read(reader), Poll::Ready(Read::End));
    assert_eq!(outbox.lock().bytes, 0, "what it held is given back");
    // A client that can come back finds its stream again.
    let replay = Arc::new(ReplayBudget::new(1 << 20));
    let resumable = Outbox::replayable(256 << 10, replay).charged_to(payer(&budget, "ana"));
    let resumable = Arc::new(resumable);
    let mut reader = resumable.resume();
    assert!(resumable.offer(large(64 << 10)).await);
    assert_eq!(poll_read(&mut reader), Poll::Ready(Read::End));
    let mut reader = resumable.resume();
    assert_eq!(poll_read(&mut reader), Poll::Ready(Read::Message(1, large(64 << 10))));
}
