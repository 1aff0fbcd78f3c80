//! Multi-round calls of the modern era: answers and state that travel with the client.
//!
//! A call that needs an answer ends with `input_required`; the client calls again with the answer.
//! What earlier rounds learned comes back inside the sealed `requestState`, bound to the caller, the
//! method, its name and arguments, and a time limit. Nothing is remembered here between rounds.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lyceum_http::{Context, Purpose};
use lyceum_wire::{Member, Request, RpcError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::ask::Ask;
use crate::error::ToolError;
use crate::identity::Identity;
use crate::json::{Object, object};

/// How long a client may take from one round to the next.
const STATE_LIFETIME: Duration = Duration::from_secs(60 * 60);
/// Sealed state above this size would not fit in what clients may send back.
const MAX_STATE_BYTES: usize = 32 * 1024;

/// What earlier rounds of this call brought.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Mutex<Option<Box<Memory>>>);

#[derive(Debug, Default, Serialize, Deserialize)]
struct Memory {
    /// Seconds since 1970 after which the state is void.
    #[serde(rename = "x")]
    expires: u64,
    /// The digest of the arguments it belongs to.
    #[serde(rename = "d", default)]
    arguments: String,
    #[serde(rename = "a", default, skip_serializing_if = "BTreeMap::is_empty")]
    answers: BTreeMap<String, Box<RawValue>>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    state: Option<Box<RawValue>>,
    /// Answers that came with this round and nobody has asked for yet. Those nobody asks for at
    /// all are not carried on.
    #[serde(skip)]
    fresh: BTreeMap<String, Box<RawValue>>,
}

/// The end of a round: what to ask, and what to remember meanwhile.
#[derive(Debug)]
pub(crate) struct Interruption {
    requests: Vec<Ask>,
    request_state: String,
}

impl Rounds {
    /// Reads what a request brings back.
    ///
    /// # Errors
    /// When the state is not ours, not for this call, or too old, or the answers are no object.
    pub(crate) fn read(request: &Request, cx: &Context) -> Result<Self, RpcError> {
        let state = request.params.get(Member::RequestState);
        let responses = request.params.get(Member::InputResponses);
        if state.is_none() && responses.is_none() {
            return Ok(Self::default());
        }
        let mut memory = match state {
            Some(_) => open(request, cx)?,
            None => Memory::default(),
        };
        if let Some(responses) = responses {
            memory.fresh = serde_json::from_slice(responses)
                .map_err(|_| RpcError::invalid_params("inputResponses must be an object"))?;
        }
        Ok(Self(Mutex::new(Some(Box::new(memory)))))
    }

    /// The answer to `ask`, if there is one that makes sense.
    pub(crate) fn answer(&self, ask: &Ask) -> Option<Box<RawValue>> {
        let mut memory = self.lock();
        let memory = memory.as_mut()?;
        if let Some(fresh) = memory.fresh.remove(ask.key()).filter(|fresh| ask.accepts(fresh)) {
            memory.answers.insert(ask.key().to_owned(), fresh);
        }
        memory.answers.get(ask.key()).filter(|answer| ask.accepts(answer)).cloned()
    }

    pub(crate) fn state<T: DeserializeOwned>(&self) -> Option<T> {
        let memory = self.lock();
        serde_json::from_str(memory.as_ref()?.state.as_ref()?.get()).ok()
    }

    pub(crate) fn set_state<T: Serialize>(&self, value: &T) -> Result<(), ToolError> {
        let state = serde_json::value::to_raw_value(value)?;
        self.lock().get_or_insert_default().state = Some(state);
        Ok(())
    }

    /// Ends the round with `asks`, keeping what is known so far.
    pub(crate) fn interrupt(&self, asks: Vec<Ask>, request: &Request, cx: &Context) -> ToolError {
        let mut memory = self.lock();
        let memory = memory.get_or_insert_default();
        memory.expires = now() + STATE_LIFETIME.as_secs();
        memory.arguments = digest(request.params.get(Member::Arguments));
        let payload = serde_json::to_vec(&memory).expect("raw JSON under string keys serializes");
        if payload.len() > MAX_STATE_BYTES {
            let message = "the answers so far are too large to carry on; ask for less at a time";
            return ToolError::rpc(RpcError::internal(message));
        }
        let request_state = with_binding(request, cx, |binding| {
            cx.sealer.seal(Purpose::RequestState, binding, &payload)
        });
        ToolError::interrupted(Interruption { requests: asks, request_state })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Memory>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interruption {
    /// The `input_required` result.
    pub(crate) fn encode(&self, identity: &Identity) -> Vec<u8> {
        object(|result| {
            result.field("resultType", "input_required");
            let mut requests = Object::open(result.member("inputRequests"));
            for ask in &self.requests {
                ask.write(requests.member(ask.key()));
            }
            requests.close();
            result.field("requestState", &self.request_state);
            identity.write_meta(result, lyceum_wire::Era::Modern, &Default::default());
        })
    }
}

fn open(request: &Request, cx: &Context) -> Result<Memory, RpcError> {
    let void = || {
        RpcError::invalid_params(
            "requestState is not valid for this call; start again without requestState",
        )
    };
    let token = request.params.text(Member::RequestState).ok_or_else(void)?;
    let payload = with_binding(request, cx, |binding| {
        cx.sealer.open(Purpose::RequestState, binding, token.as_bytes())
    });
    let memory: Memory = serde_json::from_slice(&payload.ok_or_else(void)?).map_err(|_| void())?;
    // Only now that the state is known to be ours: arguments can be large, and reading them costs many
    // times their size.
    let is_theirs = memory.expires >= now()
        && memory.arguments == digest(request.params.get(Member::Arguments));
    if is_theirs { Ok(memory) } else { Err(void()) }
}

/// What the state is sealed for: this caller, this method, this name. The arguments are in the state.
fn with_binding<T>(request: &Request, cx: &Context, f: impl FnOnce(&[&[u8]]) -> T) -> T {
    let [endpoint, principal] = cx.binding();
    let name = request.params.text(Member::Name).or_else(|| request.params.text(Member::Uri));
    let name = name.unwrap_or_default();
    f(&[endpoint, principal, request.method.as_bytes(), name.as_bytes()])
}

/// A digest of the arguments in one spelling, because a client may write them anew for each round.
fn digest(arguments: Option<&[u8]>) -> String {
    let canonical = match arguments.map(serde_json::from_slice::<Value>) {
        None => "{}".to_owned(),
        Some(value) => value.map(|value| value.to_string()).unwrap_or_default(),
    };
    Sha256::digest(canonical).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
