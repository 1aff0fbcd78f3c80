//! The scenarios that cannot apply behind a gateway, and why; most of them because the server knows
//! only the era before.
//!
//! The step fails when one of them passes, so the lists stay true.

use crate::conformance::Exception;

const ONE_SESSION: &str = "one legacy session, shared by many clients, declares one set of \
    capabilities for all of them";

const ITS_OWN_KEY: &str =
    "the tool chooses the key of its question, and a legacy question has none";

/// For a legacy client, whatever the server is.
pub(super) const OF_ANY_SERVER: &[Exception] = &[Exception {
    scenario: "server-sse-polling",
    checks: &[],
    reason: "a server that ends a stream to be asked again is asked by the gateway, whose client \
        gets the result in one piece",
}];

/// For a modern client in front of a server that knows no revision without a handshake.
pub(super) const OF_A_LEGACY_SERVER: &[Exception] = &[
    Exception {
        scenario: "input-required-result-basic-elicitation",
        checks: &[],
        reason: ITS_OWN_KEY,
    },
    Exception {
        scenario: "input-required-result-ignore-extra-params",
        checks: &["sep-2322-ignore-unexpected-params"],
        reason: ITS_OWN_KEY,
    },
    Exception {
        scenario: "input-required-result-capability-check",
        checks: &[],
        reason: ONE_SESSION,
    },
    Exception {
        scenario: "server-stateless",
        checks: &[
            "sep-2575-server-rejects-undeclared-capability",
            "sep-2575-missing-capability-http-400",
        ],
        reason: ONE_SESSION,
    },
    Exception {
        scenario: "tasks-mrtr-composition",
        checks: &[],
        reason: "a legacy call is a task from its start, so its questions are the task's",
    },
    Exception {
        scenario: "tasks-required-task-error",
        checks: &[],
        reason: "the gateway waits for the task on behalf of a client that cannot follow it",
    },
];
