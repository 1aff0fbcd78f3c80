//! The races between a call that ends and a response that decides to stream.

use std::task::{Context, Waker};

use super::*;
use crate::byte_budget::ByteBudget;
use crate::caller::CallerId;
use crate::outbox::Read;

fn outlet() -> PostOutlet {
    let verdict = Verdict { decision: Decision::ServersChoice, rule: "test", can_stream: true };
    let budget = Arc::new(ByteBudget::new(1 << 20));
    let payer = Payer { budget, caller: CallerId::Anonymous };
    PostOutlet::new(verdict, 1000, payer, None, metrics::Counter::noop())
}

/// All a stream has to say, which must have an end.
fn read(stream: &Stream) -> Vec<Bytes> {
    let mut reader = stream.outbox.resume();
    let mut messages = Vec::new();
    loop {
        match reader.poll_read(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Read::Message(_, message)) => messages.push(message),
            Poll::Ready(Read::End) => return messages,
            Poll::Pending => panic!("the stream never ends"),
        }
    }
}

#[test]
fn answer_that_came_before_the_stream_is_on_it() {
    let outlet = outlet();
    let _responding = outlet.responding();
    outlet.complete(Bytes::from_static(b"answer"));
    assert_eq!(read(&outlet.open().unwrap()), ["answer"]);
}

#[test]
fn call_that_ended_without_an_answer_ends_the_stream_made_after_it() {
    let outlet = outlet();
    let _responding = outlet.responding();
    outlet.finish();
    assert!(read(&outlet.open().unwrap()).is_empty());
}

#[test]
fn answer_that_comes_after_the_stream_is_on_it() {
    let outlet = outlet();
    let _responding = outlet.responding();
    let stream = outlet.open().unwrap();
    outlet.complete(Bytes::from_static(b"answer"));
    assert_eq!(read(&stream), ["answer"]);
}

#[tokio::test]
async fn nothing_streams_once_the_response_has_begun_or_never_will() {
    let outlet = outlet();
    drop(outlet.responding());
    assert!(outlet.open().is_none());
    assert_eq!(outlet.send(Bytes::from_static(b"late")).await, Delivery::Dropped);
    assert!(!outlet.release());
}
