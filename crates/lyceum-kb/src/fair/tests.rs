//! Who gets the next slot, and how work is stopped.

use std::sync::mpsc;

use tokio::time::{advance, pause, resume};

use super::*;
use crate::Code;

fn caller(name: &str) -> CallerId {
    CallerId::new(name)
}

/// Whether a slot is granted without waiting.
async fn at_once(gate: &FairGate, name: &str) -> Option<WorkSlot> {
    timeout(Duration::ZERO, gate.acquire(&caller(name))).await.ok().map(|slot| slot.unwrap())
}

/// Work that ends only when it is told to.
fn until_cancelled(cancel: &CancelFlag) -> Result<()> {
    while !cancel.is_cancelled() {
        std::thread::sleep(Duration::from_millis(1));
    }
    cancel.check()
}

#[tokio::test]
async fn a_caller_alone_may_use_every_slot() {
    let gate = FairGate::new(3);
    let slots = [at_once(&gate, "a").await, at_once(&gate, "a").await, at_once(&gate, "a").await];
    assert!(slots.iter().all(Option::is_some));
    assert!(at_once(&gate, "a").await.is_none());
}

#[tokio::test]
async fn a_caller_that_fills_its_share_leaves_a_slot_to_others() {
    let gate = FairGate::new(3);
    drop(at_once(&gate, "b").await.unwrap());
    let mine = [at_once(&gate, "a").await, at_once(&gate, "a").await];
    assert!(mine.iter().all(Option::is_some));
    assert!(at_once(&gate, "a").await.is_none());
    assert!(at_once(&gate, "b").await.is_some());
}

#[tokio::test]
async fn heavy_callers_together_leave_a_slot_to_others() {
    let gate = FairGate::new(3);
    drop(at_once(&gate, "small").await.unwrap());
    let names = ["heavy 1", "heavy 2", "heavy 3"];
    for name in names {
        CPU_SHARES.charge(&caller(name), Duration::from_secs(1));
    }
    let mine = [at_once(&gate, names[0]).await, at_once(&gate, names[1]).await];
    assert!(mine.iter().all(Option::is_some));
    assert!(at_once(&gate, names[2]).await.is_none());
    assert!(at_once(&gate, "small").await.is_some());
}

#[tokio::test]
async fn a_free_slot_goes_to_the_caller_with_the_fewest() {
    let gate = FairGate::new(1);
    let held = at_once(&gate, "a").await.unwrap();
    let (sender, order) = mpsc::channel();
    let queue = |name: &'static str| {
        let (gate, sender) = (gate.clone(), sender.clone());
        tokio::spawn(async move {
            let slot = gate.acquire(&caller(name)).await.unwrap();
            sender.send(name).unwrap();
            drop(slot);
        })
    };
    let mut tasks: Vec<_> = (0..10).map(|_| queue("a")).collect();
    tokio::task::yield_now().await;
    tasks.push(queue("b"));
    tokio::task::yield_now().await;
    drop(held);
    for task in tasks {
        task.await.unwrap();
    }
    let order: Vec<&str> = order.try_iter().collect();
    assert_eq!(order[0], "b", "{order:?}");
}

#[tokio::test]
async fn fewer_slots_count_more_than_a_longer_wait() {
    let gate = FairGate::new(4);
    let mut held = Vec::new();
    for name in ["a", "a", "a", "b"] {
        held.push(at_once(&gate, name).await.unwrap());
    }
    // The slots of "a" were granted before that of "b".
    let (a, b) = (caller("a"), caller("b"));
    let (mut of_a, mut of_b) = (Box::pin(gate.acquire(&a)), Box::pin(gate.acquire(&b)));
    assert!(timeout(Duration::ZERO, &mut of_a).await.is_err());
    assert!(timeout(Duration::ZERO, &mut of_b).await.is_err());
    drop(held.remove(0));
    assert!(timeout(Duration::ZERO, &mut of_a).await.is_err());
    assert!(timeout(Duration::ZERO, &mut of_b).await.is_ok());
}

#[tokio::test]
async fn a_caller_with_too_many_waiting_requests_is_refused_and_others_are_not() {
    let gate = FairGate::new(1);
    let _held = at_once(&gate, "a").await.unwrap();
    let name = caller("a");
    let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(gate.acquire(&name))).collect();
    for waiting in &mut waiting {
        assert!(timeout(Duration::ZERO, waiting).await.is_err());
    }
    let refused = timeout(Duration::from_secs(5), gate.acquire(&name)).await;
    let refused = refused.expect("it does not wait").unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("send fewer"), "{refused}");
    assert!(timeout(Duration::ZERO, gate.acquire(&caller("b"))).await.is_err());
    // Those that hang up make room.
    waiting.clear();
    assert!(timeout(Duration::ZERO, gate.acquire(&name)).await.is_err());
}

#[tokio::test]
async fn requests_of_the_knowledge_base_itself_are_never_too_many() {
    let gate = FairGate::new(1);
    let own = CallerId::INTERNAL;
    let _held = gate.acquire(&own).await.unwrap();
    let mut waiting: Vec<_> = (0..=MAX_WAITING).map(|_| Box::pin(gate.acquire(&own))).collect();
    for waiting in &mut waiting {
        assert!(timeout(Duration::ZERO, waiting).await.is_err(), "it waits");
    }
}

#[tokio::test]
async fn work_of_the_knowledge_base_itself_has_no_deadline() {
    let gate = FairGate::new(1);
    let (release, held) = mpsc::channel::<()>();
    pause();
    let run = tokio::spawn(async move {
        let work = move |cancel: &CancelFlag| {
            let _ = held.recv();
            cancel.check()
        };
        gate.run(&CallerId::INTERNAL, work).await
    });
    tokio::task::yield_now().await;
    advance(DEADLINE + Duration::from_secs(1)).await;
    tokio::task::yield_now().await;
    assert!(!run.is_finished());
    drop(release);
    run.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_oldest_request_beyond_its_slice_is_shed_one_at_a_time() {
    let gate = FairGate::new(4);
    let own = gate.acquire(&CallerId::INTERNAL).await.unwrap();
    let old = at_once(&gate, "a").await.unwrap();
    advance(SLICE / 2).await;
    let young = at_once(&gate, "b").await.unwrap();
    let shed = || {
        gate.lock().shed();
        [&own, &old, &young].map(|slot| slot.cancel.is_cancelled())
    };
    assert_eq!(shed(), [false, false, false], "all are within their slices");
    advance(SLICE).await;
    let abandoned = at_once(&gate, "c").await.unwrap();
    abandoned.cancel.cancel(CancelReason::Abandoned);
    assert_eq!(shed(), [false, false, false], "one that was told to stop makes room already");
    drop(abandoned);
    assert_eq!(shed(), [false, true, false]);
    advance(SLICE).await;
    drop(old);
    gate.lock().shed();
    assert!(young.cancel.is_cancelled() && !own.cancel.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn callers_that_went_away_take_no_share() {
    let gate = FairGate::new(2);
    drop(at_once(&gate, "gone").await.unwrap());
    advance(ACTIVE + Duration::from_secs(1)).await;
    let slots = [at_once(&gate, "a").await, at_once(&gate, "a").await];
    assert!(slots.iter().all(Option::is_some));
    assert_eq!(gate.lock().callers.len(), 1);
}

#[tokio::test]
async fn work_is_charged_and_goes_on_at_low_priority_when_the_share_is_used_up() {
    let gate = FairGate::new(1);
    let name = caller("charged");
    let thread = |_: &CancelFlag| {
        let start = thread_cpu_time();
        while thread_cpu_time() == start {}
        Ok(std::thread::current().name().unwrap_or_default().to_owned())
    };
    // So that nothing of the share comes back meanwhile.
    pause();
    let first = gate.run(&name, thread).await.unwrap();
    assert_ne!(first, "bulk-work");
    // The burst alone would not use it up.
    CPU_SHARES.charge(&name, Duration::from_secs(1));
    assert!(CPU_SHARES.is_used_up(&name));
    resume();
    CPU_SHARES.charge(&name, Duration::from_secs(1));
    assert_eq!(gate.run(&name, thread).await.unwrap(), "bulk-work");
}

#[tokio::test]
async fn dropping_the_future_stops_the_work_and_frees_the_slot() {
    let gate = FairGate::new(1);
    let name = caller("a");
    let (sender, stopped) = mpsc::channel();
    let (begin, begun) = oneshot::channel();
    let work = move |cancel: &CancelFlag| {
        begin.send(()).unwrap();
        let ended = until_cancelled(cancel);
        sender.send(ended.clone()).unwrap();
        ended
    };
    tokio::select! {
        _ = gate.run(&name, work) => panic!("it runs until it is cancelled"),
        begun = begun => begun.unwrap(),
    }
    gate.run(&name, |_| Ok(())).await.unwrap();
    // Stopped at once, and not because another request waited for its slot.
    let error = stopped.recv().unwrap().unwrap_err();
    assert!(error.message().contains("hung up"), "{error}");
}

#[tokio::test]
async fn work_past_its_deadline_is_stopped_and_says_so() {
    let gate = FairGate::new(1);
    pause();
    let run = tokio::spawn({
        let gate = gate.clone();
        async move { gate.run(&caller("a"), until_cancelled).await }
    });
    tokio::task::yield_now().await;
    advance(DEADLINE + Duration::from_secs(1)).await;
    let error = run.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("took longer than 5 s"), "{error}");
}

#[tokio::test]
async fn slow_work_makes_room_when_others_wait() {
    let gate = FairGate::new(1);
    let slow = tokio::spawn({
        let gate = gate.clone();
        async move { gate.run(&caller("a"), until_cancelled).await }
    });
    tokio::task::yield_now().await;
    gate.run(&caller("b"), |_| Ok(())).await.unwrap();
    let error = slow.await.unwrap().unwrap_err();
    assert!(error.message().contains("expensive"), "{error}");
}

#[tokio::test]
async fn work_that_panics_gives_its_slot_back() {
    let gate = FairGate::new(1);
    let name = caller("a");
    let panicking = gate.run(&name, |_| -> Result<()> { panic!("on purpose") });
    assert_eq!(panicking.await.unwrap_err().code(), Code::Internal);
    gate.run(&caller("a"), |_| Ok(())).await.unwrap();
}
