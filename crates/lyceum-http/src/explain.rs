//! Why an answer has the form it has: the header as read, the rule that fired, the answer.
//!
//! Explains the decisions of [`crate::dialect`] by taking them; it knows no rule itself.

use std::fmt;

use http::Method;

use crate::accept::{Acceptance, Offer, Specificity, parse_accept};
use crate::dialect::{Decision, Dialect, GetAnswer, decide_get, decide_post};

#[cfg(test)]
mod tests;

/// One decision, told in full. Its `Display` is what `lyceum explain` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The header as it was sent.
    pub accept: Option<String>,
    /// The header as it was read.
    pub acceptance: Acceptance,
    /// The dialect of the endpoint.
    pub dialect: Dialect,
    /// What was asked: `POST tools/call`, `GET`.
    pub request: String,
    /// Whether the endpoint answers with SSE at all.
    pub sse_enabled: bool,
    /// The name of the rule that fired.
    pub rule: &'static str,
    /// The answer, in words.
    pub answer: &'static str,
}

/// Takes the decision an endpoint would take and tells why.
///
/// ```
/// use http::Method;
/// use lyceum_http::{dialect::Dialect, explain::explain};
///
/// let told = explain(Some("*/*"), Dialect::AgentData, &Method::POST, "tools/call", true);
/// assert_eq!((told.rule, told.answer), ("wildcard", "json"));
/// ```
pub fn explain(
    accept: Option<&str>,
    dialect: Dialect,
    http_method: &Method,
    rpc_method: &str,
    sse_enabled: bool,
) -> Explanation {
    let acceptance = parse_accept(accept.map(str::as_bytes));
    let policy = dialect.policy();
    let (answer, rule) = if http_method == Method::GET {
        let (answer, rule) = decide_get(policy, &acceptance, sse_enabled);
        (describe_get(answer), rule)
    } else {
        let verdict = decide_post(policy, &acceptance, rpc_method, sse_enabled);
        (describe_post(verdict.decision), verdict.rule)
    };
    let request = match http_method {
        &Method::GET => "GET".to_owned(),
        method => format!("{method} {rpc_method}").trim_end().to_owned(),
    };
    let accept = accept.map(str::to_owned);
    Explanation { accept, acceptance, dialect, request, sse_enabled, rule, answer }
}

/// The value of the `Lyceum-Decision` response header; `answer` is `json` or `sse`.
pub fn decision_header(era: &str, dialect: Dialect, rule: &str, answer: &str) -> String {
    format!("{era}; {dialect}; {rule} -> {answer}")
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, label, value: &dyn fmt::Display| {
            writeln!(f, "{label:<9}{value}")
        };
        line(f, "request", &self.request)?;
        line(f, "accept", &self.accept.as_deref().unwrap_or("(absent)"))?;
        line(f, "mode", &self.acceptance.mode())?;
        line(f, "json", &Told(self.acceptance.json, "application/*"))?;
        line(f, "sse", &Told(self.acceptance.sse, "text/*"))?;
        line(f, "html", &Told(self.acceptance.html, "text/*"))?;
        line(f, "dialect", &self.dialect)?;
        line(f, "streams", &if self.sse_enabled { "on" } else { "off" })?;
        line(f, "rule", &self.rule)?;
        write!(f, "{:<9}{}", "answer", self.answer)
    }
}

/// An offer in words, with the range that covers its type.
struct Told(Offer, &'static str);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Offer { quality, position, specificity } = self.0;
        let place = position.saturating_add(1);
        match specificity {
            Specificity::None => f.write_str("not mentioned"),
            Specificity::Any => write!(f, "q={quality}, by */* in place {place}"),
            Specificity::Type => write!(f, "q={quality}, by {} in place {place}", self.1),
            Specificity::Exact => write!(f, "q={quality}, named in place {place}"),
        }
    }
}

const fn describe_post(decision: Decision) -> &'static str {
    match decision {
        Decision::Json => "json",
        Decision::Sse => "sse",
        Decision::ServersChoice => {
            "json, or sse once the handler sends something before its result"
        }
        Decision::NotAcceptable => "406 Not Acceptable",
    }
}

const fn describe_get(answer: GetAnswer) -> &'static str {
    match answer {
        GetAnswer::Stream => "sse: the session's stream (400 without a session id)",
        GetAnswer::Info => "json: the server info document",
        GetAnswer::Html => "html: a page saying what this is and how to connect",
        GetAnswer::MethodNotAllowed => "405 Method Not Allowed",
        GetAnswer::NotAcceptable => "406 Not Acceptable",
    }
}
