//! The gateway: what passing a call on costs, beside other gateways, and how the callers of good
//! upstreams fare next to bad ones.
//!
//! Hops are cases like any other (`case::HOPS`), measured by `cpu`; this prints them.

mod beside;
pub(crate) mod front;

use std::collections::BTreeSet;

use crate::case::{Case, HOPS};
use crate::cli::{Cli, Part};
use crate::cpu::{self, Cpu};
use crate::load::Waiting;
use crate::pin::{LOAD_CORE, SERVER_CORE};
use crate::{procfs, report};

const COLUMNS: [&str; 7] = ["hop", "CPU µs", "min–max", "× hyper", "calls/s", "budget", ""];

/// Measures, prints, and says whether a budget was missed; `None` when nothing of this was asked for.
pub(crate) fn run(cli: &Cli) -> anyhow::Result<Option<bool>> {
    let hops: Vec<&Case> = HOPS.iter().filter(|case| cli.selects(case.name)).collect();
    let scenarios = beside::chosen(cli);
    if !cli.wants(Part::Gateway) || (hops.is_empty() && scenarios.is_empty()) {
        return Ok(None);
    }
    let before = procfs::load_average()?;
    let mut missed = false;
    if !hops.is_empty() {
        missed |= measure_hops(cli, &hops);
    }
    if !scenarios.is_empty() {
        missed |= beside::measure(cli, &scenarios)?;
    }
    println!("- gateway: load average {before} before, {} after", procfs::load_average()?);
    Ok(Some(missed))
}

/// Prints the names of what has to be installed, one per line.
pub(crate) fn print_peers(cli: &Cli) {
    let hops = HOPS.iter().filter(|hop| cli.wants(Part::Gateway) && cli.selects(hop.name));
    let names: BTreeSet<&str> = hops.filter_map(Case::peer).collect();
    for name in names {
        println!("{name}");
    }
}

/// Measures and prints every hop with the bare hyper it is compared with.
fn measure_hops(cli: &Cli, hops: &[&Case]) -> bool {
    let mut cases: Vec<&Case> = vec![];
    for baseline in hops.iter().map(|hop| hop.baseline()) {
        if !cases.iter().any(|case| case.name == baseline.name) {
            cases.push(baseline);
        }
    }
    cases.extend(hops);
    let measured =
        cpu::measure(&cases, cli.rounds(), cli.duration(), &cli.programs(), Waiting::Awake);
    println!(
        "gateway on core {SERVER_CORE}, load and upstream on core {LOAD_CORE}; {} rounds of {:?}, medians; \
         CPU of the gateway's process only; ratios to bare hyper answering the same call itself\n",
        cli.rounds(),
        cli.duration()
    );
    let mut missed = false;
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    for (case, cpu) in cases.iter().zip(&measured) {
        let (cells, over) = row(case, cpu);
        rows.push(cells);
        missed |= over;
    }
    report::print_table(&rows);
    for (case, cpu) in cases.iter().zip(&measured) {
        if let Some(remark) = cpu.as_ref().ok().and_then(|cpu| report::strangers(case, cpu)) {
            println!("- {remark}");
        }
    }
    missed
}

/// The line of a case, and whether it is over its budget. What was not measured is.
fn row(case: &Case, cpu: &anyhow::Result<Cpu>) -> (Vec<String>, bool) {
    let most = case.budget().map(|budget| budget.cpu_ratio);
    let ratio = cpu.as_ref().ok().and_then(|cpu| cpu.ratio);
    let over = most.is_some_and(|most| !ratio.is_some_and(|ratio| ratio <= most));
    let verdict = match (cpu, most) {
        (Err(error), _) => format!("not measured: {}", one_line(&format!("{error:#}"))),
        (Ok(_), None) => String::new(),
        (Ok(_), Some(_)) if over => "OVER".to_owned(),
        (Ok(_), Some(_)) => "ok".to_owned(),
    };
    let show = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let cpu = cpu.as_ref().ok();
    let cells = vec![
        case.name.to_owned(),
        show(cpu.map(|cpu| format!("{:.2}", cpu.micros))),
        show(cpu.map(|cpu| format!("{:.2}–{:.2}", cpu.range.0, cpu.range.1))),
        show(ratio.map(|ratio| format!("{ratio:.2}"))),
        show(cpu.map(|cpu| format!("{:.0}", cpu.throughput))),
        most.map_or(String::new(), |most| format!("≤ {most}")),
        verdict,
    ];
    (cells, over)
}

/// A reason that fits in a table.
fn one_line(reason: &str) -> String {
    const LONGEST: usize = 160;
    let words: Vec<&str> = reason.split_whitespace().collect();
    words.join(" ").replace('|', "/").chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn check(name: &str, ratio: Result<f64, &'static str>, verdict: &str, over: bool) {
        let case = HOPS.iter().find(|case| case.name == name).unwrap();
        let cpu = ratio.map_err(|why| anyhow!(why)).map(|ratio| Cpu {
            micros: 20.0,
            range: (19.0, 21.0),
            ratio: Some(ratio),
            throughput: 1.0,
            strangers: 0.0,
        });
        let (cells, is_over) = row(case, &cpu);
        assert_eq!((cells.last().map(String::as_str), is_over), (Some(verdict), over), "{cells:?}");
        assert_eq!(cells.len(), COLUMNS.len());
    }

    #[test]
    fn only_ours_is_judged_and_what_is_missing_says_why() {
        check("ours-hop-modern", Ok(3.0), "ok", false);
        check("ours-hop-modern", Ok(3.01), "OVER", true);
        check("ours-hop-modern", Ok(f64::NAN), "OVER", true);
        check("ours-hop-modern", Err("it\ndied"), "not measured: it died", true);
        check("nginx-hop-modern", Ok(9.0), "", false);
        check("nginx-hop-modern", Err("no apt"), "not measured: no apt", false);
    }
}
