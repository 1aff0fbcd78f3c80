//! Runs the parts that were asked for and prints the tables, the verdicts and the remarks.

use std::time::Duration;

use crate::case::{CASES, Case, IDLE, Idle, Program};
use crate::cli::{Cli, Part};
use crate::cpu::Cpu;
use crate::load::Waiting;
use crate::memory::{self, Memory};
use crate::verdict::{self, Figures};
use crate::{cpu, instructions, syscalls, tool};

/// Above this share of the two cores, wall-clock figures mean little.
const STRANGERS: f64 = 0.1;

/// Measures, prints, and says whether a budget was missed; `None` when nothing of this was asked for.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<Option<bool>> {
    let chosen: Vec<&Case> = CASES.iter().filter(|case| cli.selects(case.name)).collect();
    let mut remarks = vec![];
    let cases: Vec<_> = measure_cases(cli, &chosen, &mut remarks);
    let idle = if cli.wants(Part::Memory) { measure_idle(cli) } else { vec![] };
    if cases.is_empty() && idle.is_empty() {
        return Ok(None);
    }

    let mut missed = false;
    if !cases.is_empty() {
        println!(
            "server on core {}, load on core {}; {} rounds of {:?}, medians; ratios to bare hyper\n",
            crate::pin::SERVER_CORE,
            crate::pin::LOAD_CORE,
            cli.rounds(),
            cli.duration()
        );
        let mut rows = vec![CASE_COLUMNS.map(str::to_owned).to_vec()];
        for (case, figures) in &cases {
            let budget = case.budget().map(|budget| verdict::of_case(&budget, figures));
            missed |= budget.as_ref().is_some_and(|missed| !missed.is_empty());
            rows.push(case_row(case, figures, budget));
            remarks.extend(case_remarks(case, figures));
        }
        print_table(&rows);
    }
    if !idle.is_empty() {
        let mut rows = vec![IDLE_COLUMNS.map(str::to_owned).to_vec()];
        for (idle, streams, memory) in &idle {
            let budget = (idle.program == Program::Ours).then(|| verdict::of_idle(memory));
            missed |= budget.as_ref().is_some_and(|missed| !missed.is_empty());
            rows.push(idle_row(idle, *streams, memory, budget));
            if let Err(error) = memory {
                remarks.push(format!("{} with {streams} streams: {error:#}", idle.name));
            }
        }
        print_table(&rows);
    }
    for remark in remarks {
        println!("- {remark}");
    }
    Ok(Some(missed))
}

const CASE_COLUMNS: [&str; 8] =
    ["case", "CPU µs", "min–max", "× hyper", "req/s", "instructions", "syscalls", "verdict"];
const IDLE_COLUMNS: [&str; 7] =
    ["idle streams", "held", "dropped", "before MiB", "with MiB", "KiB each", "verdict"];

fn measure_cases<'a>(
    cli: &Cli,
    chosen: &[&'a Case],
    remarks: &mut Vec<String>,
) -> Vec<(&'a Case, Figures)> {
    let requests = if cli.quick { 400 } else { 1000 };
    let mut has = |part, tool: &str| {
        let absent = cli.wants(part).then(|| tool::require(tool).err()).flatten();
        remarks.extend(absent.iter().map(|absent| format!("{part:?} not measured: {absent}")));
        cli.wants(part) && absent.is_none()
    };
    let counted = has(Part::Instructions, "valgrind");
    let traced = has(Part::Syscalls, "strace");
    let timed = cli.wants(Part::Cpu);
    if !(counted || traced || timed) {
        return vec![];
    }
    let programs = cli.programs();
    let mut cpu = if timed {
        cpu::measure(chosen, cli.rounds(), cli.duration(), &programs, Waiting::Asleep)
    } else {
        vec![]
    };
    let figures = chosen.iter().map(|case| Figures {
        cpu: (!cpu.is_empty()).then(|| cpu.remove(0)),
        instructions: counted.then(|| instructions::measure(case, requests, &programs)),
        syscalls: traced.then(|| syscalls::measure(case, requests, &programs)),
    });
    chosen.iter().copied().zip(figures).collect()
}

fn measure_idle(cli: &Cli) -> Vec<(&'static Idle, usize, anyhow::Result<Memory>)> {
    let (counts, seconds): (&[usize], u64) =
        if cli.quick { (&[1_000], 2) } else { (&[1_000, 10_000], 10) };
    let (duration, programs) = (Duration::from_secs(seconds), cli.programs());
    let chosen = IDLE.iter().filter(|idle| cli.selects(idle.name));
    chosen
        .flat_map(|idle| counts.iter().map(move |streams| (idle, *streams)))
        .map(|(idle, n)| (idle, n, memory::measure(idle, n, duration, &programs)))
        .collect()
}

fn case_row(case: &Case, figures: &Figures, missed: Option<Vec<String>>) -> Vec<String> {
    let cpu = figures.cpu.as_ref().and_then(|cpu| cpu.as_ref().ok());
    let show = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let instructions = figures.instructions.as_ref().and_then(|count| count.as_ref().ok());
    let syscalls = figures.syscalls.as_ref().and_then(|count| count.as_ref().ok());
    vec![
        case.name.to_owned(),
        show(cpu.map(|cpu| format!("{:.2}", cpu.micros))),
        show(cpu.map(|cpu| format!("{:.2}–{:.2}", cpu.range.0, cpu.range.1))),
        show(cpu.and_then(|cpu| cpu.ratio).map(|ratio| format!("{ratio:.2}"))),
        show(cpu.map(|cpu| format!("{:.0}", cpu.throughput))),
        show(instructions.map(|count| format!("{count:.0}"))),
        show(syscalls.map(|count| format!("{:.2}", count.per_request))),
        verdict_cell(missed),
    ]
}

fn idle_row(
    idle: &Idle,
    streams: usize,
    memory: &anyhow::Result<Memory>,
    missed: Option<Vec<String>>,
) -> Vec<String> {
    let memory = memory.as_ref().ok();
    let show = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    vec![
        idle.name.to_owned(),
        streams.to_string(),
        show(memory.map(|memory| memory.dropped.to_string())),
        show(memory.map(|memory| format!("{:.1}", memory.before_kib / 1024.0))),
        show(memory.map(|memory| format!("{:.1}", memory.with_kib / 1024.0))),
        show(memory.map(|memory| format!("{:.1}", memory.kib_per_stream()))),
        verdict_cell(missed),
    ]
}

fn verdict_cell(missed: Option<Vec<String>>) -> String {
    match missed {
        None => String::new(),
        Some(missed) if missed.is_empty() => "ok".to_owned(),
        Some(missed) => format!("MISSED: {}", missed.join(", ")),
    }
}

/// Why a figure is missing, which system calls there are beyond three, and who else was on the core.
fn case_remarks(case: &Case, figures: &Figures) -> Vec<String> {
    let mut remarks = vec![];
    let mut failed = |what: &str, error: Option<&anyhow::Error>| {
        remarks.extend(error.map(|error| format!("{}: {what} not measured: {error:#}", case.name)));
    };
    failed("cpu", figures.cpu.as_ref().and_then(|cpu| cpu.as_ref().err()));
    failed("instructions", figures.instructions.as_ref().and_then(|count| count.as_ref().err()));
    failed("syscalls", figures.syscalls.as_ref().and_then(|count| count.as_ref().err()));
    let cpu = figures.cpu.as_ref().and_then(|cpu| cpu.as_ref().ok());
    remarks.extend(cpu.and_then(|cpu| strangers(case, cpu)));
    if let Some(Ok(syscalls)) = &figures.syscalls
        && syscalls.per_request > 3.1
    {
        let each: Vec<String> =
            syscalls.each.iter().map(|(name, count)| format!("{name} {count:.2}")).collect();
        remarks.push(format!("{}: {}", case.name, each.join(", ")));
    }
    remarks
}

/// Who else was on the two cores, if that matters.
pub(crate) fn strangers(case: &Case, cpu: &Cpu) -> Option<String> {
    let percent = cpu.strangers * 100.0;
    (cpu.strangers > STRANGERS)
        .then(|| format!("{}: {percent:.0} % of the two cores went to others", case.name))
}

pub(crate) fn print_table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let length = |text: &String| text.chars().count();
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(length).max().unwrap_or(0))
        .collect();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("| {} |", cells.join(" | "));
        if index == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            println!("| {} |", rules.join(" | "));
        }
    }
    println!();
}
