//! All cases, in the order they run.

mod answers;
mod connections;
mod framing;
mod gateway;
mod history;
mod http2;
mod processes;
mod searches;
mod subscriptions;
mod texts;
mod transport;

use super::case::AbuseCase;

/// Bytes of arguments that just fit into a request body.
const FIFTEEN_MB: usize = 15_000_000;

/// Every case.
pub(super) fn all() -> Vec<AbuseCase> {
    let groups: [&[AbuseCase]; 11] = [
        &connections::CASES,
        &texts::CASES,
        &searches::CASES,
        &answers::CASES,
        &subscriptions::CASES,
        &transport::CASES,
        &framing::CASES,
        &http2::CASES,
        &history::CASES,
        &gateway::CASES,
        &processes::CASES,
    ];
    groups.concat()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let all = all();
        let names: HashSet<_> = all.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|case| case.name.len() <= 16 && !case.about.is_empty()));
    }

    #[test]
    fn what_limits_the_whole_server_attacks_alone() {
        assert!(all().iter().all(|case| case.shell.is_none() || !case.together));
    }
}
