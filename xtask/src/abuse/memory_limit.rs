//! How much memory a case may take: a fixed amount beyond the idle server, or terms of the formula in
//! `docs/operations.md` ("Memory").

/// What the peak of the server's resident memory is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MemoryLimit {
    /// MiB beyond what the idle server has.
    OverIdle(f64),
    /// MiB of the whole process.
    Process(f64),
}

/// MiB a case may take beyond what the idle server has, if large answers are not its point.
pub(super) const MEMORY_MIB: f64 = 300.0;

// Terms of the formula with the default limits.
const PROGRAM_MIB: f64 = 256.0;
const BODIES_MIB: f64 = 256.0;
const ANSWERS_MIB: f64 = 256.0;
const RELAY_MIB: f64 = 192.0;
const FRAMED_ANSWERS_MIB: f64 = 160.0;
const WORK_MIB: f64 = 256.0;
const STREAMS_MIB: f64 = 64.0;
const REPLAY_MIB: f64 = 64.0;
const WRITES_MIB: f64 = 70.0;
const INDEXING_MIB: f64 = 128.0;
const CONVERSIONS_MIB: f64 = 192.0;
const TASK_RESULTS_MIB: f64 = 64.0;

/// The whole formula: what any number of callers can make the process take. Connections, streams and
/// indexed pieces come on top, so a server within this is within the formula.
pub(super) const ALL_CALLERS: MemoryLimit = MemoryLimit::Process(
    PROGRAM_MIB
        + BODIES_MIB
        + ANSWERS_MIB
        + RELAY_MIB
        + FRAMED_ANSWERS_MIB
        + WORK_MIB
        + STREAMS_MIB
        + REPLAY_MIB
        + WRITES_MIB
        + INDEXING_MIB
        + CONVERSIONS_MIB
        + TASK_RESULTS_MIB,
);

/// What one caller that reads large answers can make the process take: the program, half of each
/// budget that answers and the work for them are charged to, because a caller leaves half to the
/// others, and answers that are being joined.
pub(super) const ONE_READER: MemoryLimit =
    MemoryLimit::Process(PROGRAM_MIB + ANSWERS_MIB / 2.0 + WORK_MIB / 2.0 + FRAMED_ANSWERS_MIB);

impl MemoryLimit {
    /// How a peak exceeds the limit, in words.
    pub(super) fn fault(self, idle_mib: f64, peak_over_idle_mib: f64) -> Option<String> {
        match self {
            Self::OverIdle(limit) if peak_over_idle_mib > limit => {
                Some(format!("took {peak_over_idle_mib:.0} MiB over idle; it may take {limit:.0}"))
            }
            Self::Process(limit) if idle_mib + peak_over_idle_mib > limit => Some(format!(
                "the process took {:.0} MiB; docs/operations.md allows {limit:.0}",
                idle_mib + peak_over_idle_mib
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_are_those_of_the_operations_manual() {
        let manual = include_str!("../../../docs/operations.md");
        let MemoryLimit::Process(all) = ALL_CALLERS else { panic!("a limit of the process") };
        assert!(manual.contains(&format!("stays below **{all} MiB**")));
        let rows: Vec<&str> = manual
            .lines()
            .skip_while(|line| !line.starts_with("| Term |"))
            .skip(2)
            .filter_map(|line| line.split('|').nth(2)?.trim().strip_suffix(" MiB"))
            .collect();
        let terms = [
            PROGRAM_MIB,
            BODIES_MIB,
            ANSWERS_MIB,
            RELAY_MIB,
            FRAMED_ANSWERS_MIB,
            WORK_MIB,
            STREAMS_MIB,
            REPLAY_MIB,
            WRITES_MIB,
            INDEXING_MIB,
            CONVERSIONS_MIB,
            TASK_RESULTS_MIB,
        ];
        assert_eq!(rows, terms.map(|term| term.to_string()));
    }

    #[test]
    fn each_kind_of_limit_is_held_against_its_own_peak() {
        assert_eq!(MemoryLimit::OverIdle(300.0).fault(500.0, 299.0), None);
        assert!(MemoryLimit::OverIdle(300.0).fault(0.0, 301.0).is_some());
        assert_eq!(MemoryLimit::Process(600.0).fault(100.0, 499.0), None);
        assert!(MemoryLimit::Process(600.0).fault(100.0, 501.0).is_some());
    }
}
