//! Answers that become streams: when they do, what ends them, and how a lost one is resumed.

mod backpressure;
mod disconnect;
mod keep_alive;
mod polling;
mod questions;
mod resume;
mod standalone;
mod upgrade;

use lyceum_http::Delivery;
use lyceum_testkit::{Event, Request};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::lab::{Lab, Live, call, modern};
use crate::puppet::Puppet;

/// Begins a request on a task of its own.
fn begin(lab: &Lab, request: Request) -> JoinHandle<Live> {
    let lab = lab.clone();
    tokio::spawn(async move { lab.open(&request).await })
}

/// A puppet's call in a session.
fn puppet_call(session: &str) -> Request {
    call(session, 7, "puppet", json!({"name": "p"}))
}

/// A puppet's call by a modern client.
fn modern_puppet() -> Request {
    modern(7, "puppet", json!({"name": "p"}))
}

/// Starts a puppet's call and makes it send a first notification, so that it streams.
async fn streaming(lab: &Lab, request: Request) -> (Puppet, Live) {
    let opening = begin(lab, request);
    let puppet = lab.fixture.puppet("p").await;
    assert_eq!(puppet.notify("first").await, Delivery::Queued);
    let live = opening.await.unwrap();
    assert_eq!(live.head.get("content-type"), Some("text/event-stream; charset=utf-8"));
    (puppet, live)
}

/// What events say, in short: `prime`, the text of a notification, or `= result`.
fn told(events: &[Event]) -> Vec<String> {
    let tell = |event: &Event| {
        if event.data.is_empty() {
            return "prime".to_owned();
        }
        let message = event.json();
        match message["params"]["data"].as_str() {
            Some(note) => note.to_owned(),
            None => match message["result"]["content"][0]["text"].as_str() {
                Some(text) => format!("= {text}"),
                None => message.to_string(),
            },
        }
    };
    events.iter().map(tell).collect()
}
