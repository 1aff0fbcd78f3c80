//! From a read header and a policy to an answer.
//!
//! Pure: no request, no response, no dialect by name. Every answer comes with the name of the rule
//! that gave it, for logs, metrics and `lyceum explain`.

use super::{Choice, GetHtml, GetOther, GetSse, Policy, Ranges, ServersChoice};
use crate::accept::Specificity::Any;
use crate::accept::{AcceptMode, Acceptance, Offer};

/// The method that is nothing but its stream.
const LISTEN: &[u8] = b"subscriptions/listen";

/// The form of the answer to a POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// A JSON body.
    Json,
    /// An event stream.
    Sse,
    /// JSON, unless something has to be sent before the result: then an event stream.
    ServersChoice,
    /// Status 406.
    NotAcceptable,
}

/// What [`decide_post`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The form of the answer.
    pub decision: Decision,
    /// The short, stable name of the rule that fired.
    pub rule: &'static str,
    /// Whether an event stream is possible at all: SSE is on and the client takes it, if not gladly.
    /// A legacy handler that must ask the client something upgrades whenever this holds.
    pub can_stream: bool,
}

/// The form of the answer to a GET (in the legacy eras; modern clients never send one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GetAnswer {
    /// The session's event stream.
    Stream,
    /// The JSON document that says what this server is.
    Info,
    /// A short page that says the same to a person.
    Html,
    /// Status 405.
    MethodNotAllowed,
    /// Status 406.
    NotAcceptable,
}

/// The row of the table a header falls into.
#[derive(Clone, Copy)]
enum Row {
    Absent,
    Wildcard,
    JsonOnly,
    SseOnly,
    SseHigher,
    JsonHigher,
    BothEqual,
    OtherTypes,
}

/// Chooses the form of the answer to a POST of the JSON-RPC method `method` (empty if unknown).
pub fn decide_post(
    policy: &Policy,
    acceptance: &Acceptance,
    method: impl AsRef<[u8]>,
    sse_enabled: bool,
) -> Verdict {
    let method = method.as_ref();
    let can_stream = sse_enabled && acceptance.sse.accepted();
    let verdict = |decision, rule| Verdict { decision, rule, can_stream };
    if method == LISTEN {
        // There is no JSON form of a subscription, so neither preference nor dialect matters.
        let decision = if can_stream { Decision::Sse } else { Decision::NotAcceptable };
        return verdict(decision, "listen");
    }
    let row = Row::of(policy, acceptance);
    if !sse_enabled && !row.refused_without_sse(policy) {
        return verdict(Decision::Json, "sse-off");
    }
    let decision = match row.choice(policy) {
        Choice::Json => Decision::Json,
        Choice::Sse => Decision::Sse,
        Choice::NotAcceptable => Decision::NotAcceptable,
        Choice::FirstListed if acceptance.sse.position < acceptance.json.position => Decision::Sse,
        Choice::FirstListed => Decision::Json,
        Choice::Servers => match policy.servers_choice {
            ServersChoice::LazyUpgrade => Decision::ServersChoice,
            ServersChoice::StreamToolCalls if method == b"tools/call" => Decision::Sse,
            ServersChoice::StreamToolCalls => Decision::Json,
        },
    };
    verdict(decision, row.name())
}

/// Chooses the form of the answer to a GET, and names the rule that fired.
pub fn decide_get(
    policy: &Policy,
    acceptance: &Acceptance,
    sse_enabled: bool,
) -> (GetAnswer, &'static str) {
    if prefers_html(acceptance) {
        return match policy.get_html {
            GetHtml::Page => (GetAnswer::Html, "get-html"),
            GetHtml::NotAcceptable => (GetAnswer::NotAcceptable, "get-html"),
        };
    }
    if takes_sse(policy, acceptance) {
        let answer = answer_to_sse(policy, acceptance);
        match answer {
            // A server without a GET stream says so with 405 (Streamable HTTP, "Listening for
            // Messages from the Server"), which SDK clients know. Whoever did not ask for SSE by name
            // is treated like one who does not take it.
            GetAnswer::Stream if !sse_enabled && policy.get_sse == GetSse::AsPost => {
                return (GetAnswer::Info, "sse-off");
            }
            GetAnswer::Stream if !sse_enabled && acceptance.sse.named() => {
                return (GetAnswer::MethodNotAllowed, "sse-off");
            }
            GetAnswer::Stream if !sse_enabled => {}
            _ => return (answer, "get-sse"),
        }
    }
    match policy.get_other {
        GetOther::Info => (GetAnswer::Info, "get-other"),
        GetOther::NotAcceptable => (GetAnswer::NotAcceptable, "get-other"),
    }
}

fn answer_to_sse(policy: &Policy, acceptance: &Acceptance) -> GetAnswer {
    match policy.get_sse {
        GetSse::Stream => GetAnswer::Stream,
        GetSse::InfoOrNotAllowed if takes_json(policy, acceptance) => GetAnswer::Info,
        GetSse::InfoOrNotAllowed => GetAnswer::MethodNotAllowed,
        GetSse::AsPost => match decide_post(policy, acceptance, "", true).decision {
            Decision::Sse => GetAnswer::Stream,
            _ => GetAnswer::Info,
        },
    }
}

/// Whether `text/html` is named and liked better than JSON and SSE: by a higher quality, or by being
/// named where they are only covered by a range, as in a browser's `text/html, */*`.
fn prefers_html(acceptance: &Acceptance) -> bool {
    let rank = |offer: &Offer| (offer.quality, offer.specificity);
    acceptance.html.named()
        && rank(&acceptance.html) > rank(&acceptance.json)
        && rank(&acceptance.html) > rank(&acceptance.sse)
}

fn takes_json(policy: &Policy, acceptance: &Acceptance) -> bool {
    let json = &acceptance.json;
    match policy.ranges {
        Ranges::Count => json.accepted(),
        Ranges::Ignored => json.named(),
        Ranges::AnyIsJson => json.named() || (json.accepted() && json.specificity == Any),
    }
}

fn takes_sse(policy: &Policy, acceptance: &Acceptance) -> bool {
    match policy.ranges {
        Ranges::Count => acceptance.sse.accepted(),
        Ranges::Ignored | Ranges::AnyIsJson => acceptance.sse.named(),
    }
}

impl Row {
    fn of(policy: &Policy, acceptance: &Acceptance) -> Row {
        let Acceptance { json, sse, .. } = acceptance;
        match acceptance.mode() {
            AcceptMode::Absent => return Row::Absent,
            AcceptMode::Wildcard => return Row::Wildcard,
            _ => {}
        }
        match (takes_json(policy, acceptance), takes_sse(policy, acceptance)) {
            (true, true) if sse.quality > json.quality => Row::SseHigher,
            (true, true) if sse.quality < json.quality => Row::JsonHigher,
            (true, true) => Row::BothEqual,
            (true, false) => Row::JsonOnly,
            (false, true) => Row::SseOnly,
            (false, false) if json.accepted() || sse.accepted() => Row::Wildcard,
            (false, false) => Row::OtherTypes,
        }
    }

    const fn choice(self, policy: &Policy) -> Choice {
        match self {
            Row::Absent => policy.absent,
            Row::Wildcard => policy.wildcard,
            Row::JsonOnly => policy.json_only,
            Row::SseOnly => policy.sse_only,
            Row::SseHigher => policy.sse_higher,
            Row::JsonHigher => policy.json_higher,
            Row::BothEqual => policy.both_equal,
            Row::OtherTypes => policy.other_types,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Row::Absent => "absent",
            Row::Wildcard => "wildcard",
            Row::JsonOnly => "json-only",
            Row::SseOnly => "sse-only",
            Row::SseHigher => "sse-higher",
            Row::JsonHigher => "json-higher",
            Row::BothEqual => "both-equal",
            Row::OtherTypes => "other-types",
        }
    }

    /// Whether the header is refused even where SSE is switched off.
    ///
    /// The switch forces JSON and beats the header: whoever takes JSON or SSE gets JSON, also in
    /// `strict`, which otherwise wants both named; the half that is missing would never be sent. But
    /// a header that takes neither, or none where one is required, says nothing about streams that
    /// the switch could overrule, so it is refused as before.
    fn refused_without_sse(self, policy: &Policy) -> bool {
        matches!(self, Row::Absent | Row::OtherTypes)
            && matches!(self.choice(policy), Choice::NotAcceptable)
    }
}
