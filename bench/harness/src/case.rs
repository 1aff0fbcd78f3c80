//! What is measured: the servers, the requests sent to them and the budgets of ours. Data only.

/// A program that answers the echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// hyper answering a constant.
    Hyper,
    /// axum with typed JSON.
    Axum,
    /// rmcp without sessions, answering JSON.
    RmcpJson,
    /// rmcp with sessions and event streams.
    RmcpStateful,
    /// Our example server.
    Ours,
    /// Something in front of a cheap server that speaks this era.
    Front(Front, Era),
}

/// What passes requests on to another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// Our gateway.
    Lyceum,
    /// The `mcp-proxy` crate.
    McpProxy,
    /// FastMCP's proxy.
    FastMcp,
    /// nginx, which knows nothing of MCP.
    Nginx,
}

/// Which kind of client a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// A client of 2025-11-25.
    Legacy,
    /// A client of 2026-07-28: `_meta` and routing headers.
    Modern,
}

/// The media type an answer must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Json,
    Sse,
}

/// One row of the table: a server and the request it is loaded with.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    pub(crate) path: &'static str,
    /// What the echo is called there.
    pub(crate) tool: &'static str,
    pub(crate) era: Era,
    pub(crate) session: bool,
    pub(crate) accept: &'static str,
    pub(crate) shape: Shape,
}

/// An idle stream whose memory is measured.
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) name: &'static str,
    pub(crate) program: Program,
    pub(crate) path: &'static str,
    pub(crate) session: bool,
}

/// The most one of our requests may cost.
#[derive(Debug, PartialEq)]
pub(crate) struct Budget {
    /// Of bare hyper answering the same request in the same shape.
    pub(crate) cpu_ratio: f64,
    pub(crate) instructions: Option<f64>,
    pub(crate) syscalls: Option<f64>,
}

/// The most one of our idle sessions with a stream may keep resident, in KiB.
pub(crate) const IDLE_KIB: f64 = 16.0;

const BOTH: &str = "application/json, text/event-stream";
const EVENTS: &str = "text/event-stream";

/// Every case is divided by the bare hyper one that gets the same request and answers in the same
/// shape: hyper's own cost grows with the headers it reads.
pub(crate) static CASES: &[Case] = &[
    case("hyper-json", Program::Hyper, Era::Legacy, BOTH, Shape::Json),
    case("hyper-json-session", Program::Hyper, Era::Legacy, BOTH, Shape::Json).in_session(),
    case("hyper-json-modern", Program::Hyper, Era::Modern, BOTH, Shape::Json),
    case("hyper-sse", Program::Hyper, Era::Legacy, BOTH, Shape::Sse).at("/sse"),
    case("hyper-sse-session", Program::Hyper, Era::Legacy, BOTH, Shape::Sse)
        .at("/sse")
        .in_session(),
    case("hyper-sse-modern", Program::Hyper, Era::Modern, BOTH, Shape::Sse).at("/sse"),
    case("axum-json", Program::Axum, Era::Legacy, BOTH, Shape::Json),
    case("axum-sse", Program::Axum, Era::Legacy, BOTH, Shape::Sse).at("/sse"),
    case("rmcp-legacy-json", Program::RmcpJson, Era::Legacy, BOTH, Shape::Json),
    case("rmcp-modern-json", Program::RmcpJson, Era::Modern, BOTH, Shape::Json),
    case("rmcp-session-sse", Program::RmcpStateful, Era::Legacy, BOTH, Shape::Sse).in_session(),
    case("ours-legacy-json", Program::Ours, Era::Legacy, BOTH, Shape::Json),
    case("ours-session-json", Program::Ours, Era::Legacy, BOTH, Shape::Json).in_session(),
    case("ours-legacy-sse", Program::Ours, Era::Legacy, EVENTS, Shape::Sse),
    case("ours-session-sse", Program::Ours, Era::Legacy, EVENTS, Shape::Sse).in_session(),
    case("ours-modern-json", Program::Ours, Era::Modern, BOTH, Shape::Json),
    case("ours-modern-sse", Program::Ours, Era::Modern, EVENTS, Shape::Sse),
];

/// The same request through something that passes it on, in front of a server of next to no cost.
pub(crate) static HOPS: &[Case] = &[
    hop("ours-hop-legacy", Front::Lyceum, Era::Legacy, Era::Modern),
    hop("ours-hop-session", Front::Lyceum, Era::Legacy, Era::Modern).in_session(),
    hop("ours-hop-modern", Front::Lyceum, Era::Modern, Era::Modern),
    hop("ours-hop-session-to-legacy", Front::Lyceum, Era::Legacy, Era::Legacy).in_session(),
    hop("ours-hop-modern-to-legacy", Front::Lyceum, Era::Modern, Era::Legacy),
    hop("nginx-hop-legacy", Front::Nginx, Era::Legacy, Era::Legacy),
    hop("nginx-hop-modern", Front::Nginx, Era::Modern, Era::Modern),
    hop("mcp-proxy-hop-legacy", Front::McpProxy, Era::Legacy, Era::Legacy),
    hop("mcp-proxy-hop-session", Front::McpProxy, Era::Legacy, Era::Legacy).in_session(),
    hop("fastmcp-hop-legacy", Front::FastMcp, Era::Legacy, Era::Legacy),
];

pub(crate) const IDLE: &[Idle] = &[
    Idle { name: "hyper-stream", program: Program::Hyper, path: "/sse", session: false },
    Idle { name: "rmcp-stream", program: Program::RmcpStateful, path: "/mcp", session: true },
    Idle { name: "ours-stream", program: Program::Ours, path: "/mcp", session: true },
];

const fn case(
    name: &'static str,
    program: Program,
    era: Era,
    accept: &'static str,
    shape: Shape,
) -> Case {
    Case { name, program, path: "/mcp", tool: "echo", era, session: false, accept, shape }
}

/// From a client of one era to a server of another, or the same.
const fn hop(name: &'static str, front: Front, client: Era, upstream: Era) -> Case {
    let mut hop = case(name, Program::Front(front, upstream), client, BOTH, Shape::Json);
    (hop.path, hop.tool) = match front {
        Front::Lyceum => ("/mcp", "up_echo"),
        Front::McpProxy => ("/", "up/echo"),
        Front::FastMcp | Front::Nginx => ("/mcp", "echo"),
    };
    hop
}

impl Front {
    /// What it is installed as; ours is built.
    pub(crate) fn peer(self) -> Option<&'static str> {
        match self {
            Front::Lyceum => None,
            Front::McpProxy => Some("mcp-proxy"),
            Front::FastMcp => Some("fastmcp"),
            Front::Nginx => Some("nginx"),
        }
    }
}

impl Case {
    const fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    const fn in_session(mut self) -> Self {
        self.session = true;
        self
    }

    /// The bare hyper case this one is divided by.
    pub(crate) fn baseline(&self) -> &'static Case {
        let same_request = |case: &&Case| {
            case.program == Program::Hyper
                && (case.shape, case.era, case.session) == (self.shape, self.era, self.session)
        };
        CASES.iter().find(same_request).expect("every kind of request has a bare hyper case")
    }

    /// The program of other people's that it needs.
    pub(crate) fn peer(&self) -> Option<&'static str> {
        match self.program {
            Program::Front(front, _) => front.peer(),
            _ => None,
        }
    }

    pub(crate) fn is_baseline(&self) -> bool {
        std::ptr::eq(self, self.baseline())
    }

    /// Only ours has budgets; the others are there for scale.
    pub(crate) fn budget(&self) -> Option<Budget> {
        // Three calls: epoll_wait, recv, send.
        let syscalls = Some(3.0);
        match (self.program, self.shape) {
            (Program::Ours, Shape::Json) => {
                Some(Budget { cpu_ratio: 1.3, instructions: Some(32_000.0), syscalls })
            }
            (Program::Ours, Shape::Sse) => {
                Some(Budget { cpu_ratio: 1.4, instructions: None, syscalls })
            }
            // Twice the exchange, and what is between the two.
            (Program::Front(Front::Lyceum, _), _) => {
                Some(Budget { cpu_ratio: 3.0, instructions: None, syscalls: None })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_divided_by_a_bare_hyper_case_of_its_kind() {
        for case in CASES.iter().chain(HOPS) {
            let baseline = case.baseline();
            assert_eq!((baseline.program, baseline.shape), (Program::Hyper, case.shape));
            assert_eq!((baseline.era, baseline.session), (case.era, case.session));
            assert!(baseline.is_baseline());
        }
    }

    #[test]
    fn every_case_of_ours_has_a_budget_and_no_other_has() {
        for case in CASES {
            assert_eq!(case.budget().is_some(), case.program == Program::Ours, "{}", case.name);
        }
    }
}
