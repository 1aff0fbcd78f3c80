//! `input_required`: a modern server wants to know more before it can finish a call.
//!
//! Reads such a result, has the handler answer it, and yields what the retry must carry. Nothing is
//! remembered between rounds or calls.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use lyceum_wire::{Object, Writer};
use memchr::memmem::Finder;
use tokio::task::JoinSet;

use super::error::ClientError;
use super::handler::{Handler, ServerRequest};
use super::params::Retry;
use super::silence::Silence;

/// The only methods whose calls may ask for input.
const METHODS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

const INPUT_REQUIRED: &str = "input_required";
static ASKING: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(INPUT_REQUIRED));

/// What a server wants to know.
#[derive(Debug)]
pub(crate) struct InputRequired {
    /// None if the member is absent: the server only wants its state back.
    requests: Option<Vec<ServerRequest>>,
    state: Option<Bytes>,
}

impl InputRequired {
    /// Reads the result of a call; None if the call is complete. A result that does not say what it
    /// is, is complete.
    pub(crate) fn read(
        method: &str,
        result: &Bytes,
        max_requests: usize,
    ) -> Result<Option<InputRequired>, ClientError> {
        let bad = |why: &str| ClientError::protocol(format!("its input_required result {why}"));
        // Most results are complete, and some are large: they need not be taken apart to see that. (A
        // server that writes an ASCII word with escapes does not want to be understood.)
        if !METHODS.contains(&method) || ASKING.find(result).is_none() {
            return Ok(None);
        }
        let Ok(members) = Object::parse(result) else { return Ok(None) };
        if members.text("resultType").as_deref() != Some(INPUT_REQUIRED) {
            return Ok(None);
        }
        let state = members.get("requestState");
        if state.is_some_and(|state| !state.starts_with('"')) {
            return Err(bad("has a requestState that is not a string"));
        }
        let requests = members.get("inputRequests").map(|raw| requests(result, raw));
        let requests = requests.transpose().map_err(|why| bad(&why))?;
        if requests.as_ref().is_some_and(|requests| requests.len() > max_requests) {
            return Err(bad("asks for too much at once"));
        }
        if requests.is_none() && state.is_none() {
            return Err(bad("asks for nothing"));
        }
        let state = state.map(|state| result.slice_ref(state.as_bytes()));
        Ok(Some(InputRequired { requests, state }))
    }

    /// Has the handler answer, all requests at once, and yields the retry.
    pub(crate) async fn answer(
        self,
        handler: &Handler,
        silence: &Arc<Silence>,
    ) -> Result<Retry, ClientError> {
        let Some(requests) = self.requests else {
            return Ok(Retry { responses: None, state: self.state });
        };
        let _busy = silence.busy();
        let keys: Vec<String> = requests.iter().flat_map(|request| request.key.clone()).collect();
        let mut asked = JoinSet::new();
        for (at, request) in requests.into_iter().enumerate() {
            let handler = handler.clone();
            asked.spawn(async move { (at, handler.request(request).await) });
        }
        let mut answers = vec![Bytes::new(); keys.len()];
        while let Some(answered) = asked.join_next().await {
            let (at, answer) = answered.map_err(|panic| ClientError::Broken(panic.into()))?;
            let key = || keys[at].clone();
            answers[at] = answer.map_err(|error| ClientError::Input { key: key(), error })?;
        }
        let mut responses = Writer::new();
        for (key, answer) in keys.iter().zip(&answers) {
            responses.raw(key, answer);
        }
        Ok(Retry { responses: Some(responses.finish()), state: self.state })
    }
}

fn requests(result: &Bytes, raw: &str) -> Result<Vec<ServerRequest>, String> {
    let requests = Object::parse(raw.as_bytes())?;
    let read = |(key, raw): (&str, &str)| {
        let request = Object::parse(raw.as_bytes())?;
        let method = request.text("method").ok_or("has a request without a method")?;
        let params = request.get("params").map(|params| result.slice_ref(params.as_bytes()));
        Ok(ServerRequest { method, params, key: Some(key.to_owned()) })
    };
    requests.iter().map(read).collect()
}
