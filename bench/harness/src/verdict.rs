//! Whether the figures of a case keep its budget. Pure functions; `report` prints what they say.

use crate::case::{Budget, IDLE_KIB};
use crate::cpu::Cpu;
use crate::memory::Memory;
use crate::syscalls::Syscalls;

/// A few calls belong to timers and to the tracer's coming and going, not to requests.
const SYSCALL_SLACK: f64 = 0.05;

/// What was measured of a case; `None` was not asked for, an error was asked for and failed.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) cpu: Option<anyhow::Result<Cpu>>,
    pub(crate) instructions: Option<anyhow::Result<f64>>,
    pub(crate) syscalls: Option<anyhow::Result<Syscalls>>,
}

/// The budgets missed, in words; empty when all that were measured are kept.
pub(crate) fn of_case(budget: &Budget, figures: &Figures) -> Vec<String> {
    let mut missed = vec![];
    if let Some(cpu) = &figures.cpu {
        match cpu.as_ref().ok().and_then(|cpu| cpu.ratio) {
            Some(ratio) if ratio <= budget.cpu_ratio => {}
            Some(ratio) => missed.push(format!("cpu {ratio:.2} > {}", budget.cpu_ratio)),
            None => missed.push("cpu not measured".to_owned()),
        }
    }
    if let (Some(most), Some(instructions)) = (budget.instructions, &figures.instructions) {
        match instructions {
            Ok(count) if *count <= most => {}
            Ok(count) => missed.push(format!("instructions {count:.0} > {most:.0}")),
            Err(_) => missed.push("instructions not measured".to_owned()),
        }
    }
    if let (Some(most), Some(syscalls)) = (budget.syscalls, &figures.syscalls) {
        match syscalls.as_ref().map(|syscalls| syscalls.per_request) {
            Ok(count) if count <= most + SYSCALL_SLACK => {}
            Ok(count) => missed.push(format!("syscalls {count:.2} > {most}")),
            Err(_) => missed.push("syscalls not measured".to_owned()),
        }
    }
    missed
}

/// The same for idle streams.
pub(crate) fn of_idle(memory: &anyhow::Result<Memory>) -> Vec<String> {
    let Ok(memory) = memory else { return vec!["not measured".to_owned()] };
    let mut missed = vec![];
    let kib = memory.kib_per_stream();
    if kib > IDLE_KIB {
        missed.push(format!("{kib:.1} KiB > {IDLE_KIB}"));
    }
    if memory.dropped > 0 {
        missed.push(format!("{} dropped", memory.dropped));
    }
    missed
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    const BUDGET: Budget =
        Budget { cpu_ratio: 1.3, instructions: Some(32_000.0), syscalls: Some(3.0) };

    fn figures(ratio: Option<f64>, instructions: f64, per_request: f64) -> Figures {
        let cpu = Cpu { micros: 7.0, range: (7.0, 7.0), ratio, throughput: 1.0, strangers: 0.0 };
        Figures {
            cpu: Some(Ok(cpu)),
            instructions: Some(Ok(instructions)),
            syscalls: Some(Ok(Syscalls { per_request, each: vec![] })),
        }
    }

    fn check(figures: &Figures, missed: &[&str]) {
        assert_eq!(of_case(&BUDGET, figures), missed);
    }

    #[test]
    fn each_figure_is_held_to_its_own_budget() {
        check(&figures(Some(1.3), 32_000.0, 3.04), &[]);
        check(&figures(Some(1.31), 32_000.0, 3.0), &["cpu 1.31 > 1.3"]);
        check(&figures(Some(1.0), 32_001.0, 3.0), &["instructions 32001 > 32000"]);
        check(&figures(Some(1.0), 1.0, 4.0), &["syscalls 4.00 > 3"]);
    }

    #[test]
    fn a_failed_measurement_misses_its_budget_and_one_not_asked_for_does_not() {
        check(&Figures::default(), &[]);
        check(&figures(None, 1.0, 1.0), &["cpu not measured"]);
        let failed = Figures { instructions: Some(Err(anyhow!("gone"))), ..Figures::default() };
        check(&failed, &["instructions not measured"]);
        let failed = Figures { syscalls: Some(Err(anyhow!("gone"))), ..Figures::default() };
        check(&failed, &["syscalls not measured"]);
    }

    #[test]
    fn idle_streams_must_be_small_and_all_there() {
        let memory = |with_kib, dropped| {
            of_idle(&Ok(Memory { streams: 100, before_kib: 1000.0, with_kib, dropped }))
        };
        assert_eq!(memory(2600.0, 0), [""; 0]);
        assert_eq!(memory(2700.0, 1), ["17.0 KiB > 16", "1 dropped"]);
        assert_eq!(of_idle(&Err(anyhow!("gone"))), ["not measured"]);
    }
}
