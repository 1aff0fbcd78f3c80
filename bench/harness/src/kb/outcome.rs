//! What a run came to, and its line in the table.

use std::time::Duration;

/// Every call of one run.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Of each call, shortest first.
    latencies: Vec<Duration>,
    elapsed: Duration,
    cpu: Option<Duration>,
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Row {
    name: String,
    documents: usize,
    clients: usize,
    rate: Option<f64>,
    /// Milliseconds that 50, 95 and 99 % of the answers took at most.
    percentiles: Option<[f64; 3]>,
    cpu: Option<Duration>,
    budget: Option<String>,
    over: bool,
}

impl Outcome {
    pub(super) fn new(mut latencies: Vec<Duration>, elapsed: Duration) -> Self {
        latencies.sort_unstable();
        Self { latencies, elapsed, cpu: None }
    }

    /// With what each call cost the server, which others on the same cores make little difference to.
    pub(super) fn with_cpu(self, cpu: Duration) -> Self {
        Self { cpu: Some(cpu), ..self }
    }

    /// Answers per second.
    pub(super) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Milliseconds that `share` of the calls took at most.
    fn milliseconds(&self, share: f64) -> f64 {
        let at = (self.latencies.len() as f64 * share).ceil() as usize;
        let latency = self.latencies.get(at.saturating_sub(1));
        latency.map_or(f64::NAN, |latency| latency.as_secs_f64() * 1e3)
    }
}

impl Row {
    /// A line whose budget is held against the 95th percentile.
    pub(super) fn new(
        name: &str,
        documents: usize,
        clients: usize,
        outcome: &Outcome,
        budget: impl Into<Option<f64>>,
    ) -> Self {
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| outcome.milliseconds(share));
        let budget = budget.into();
        Self {
            name: name.to_owned(),
            documents,
            clients,
            rate: Some(outcome.rate()),
            percentiles: Some([p50, p95, p99]),
            cpu: outcome.cpu,
            budget: budget.map(|most| format!("p95 ≤ {most}")),
            // What was not measured is not within its budget either.
            over: budget.is_some_and(|most| p95.is_nan() || p95 > most),
        }
    }

    /// A line about how many times one rate is another.
    pub(super) fn ratio(
        name: &str,
        documents: usize,
        clients: usize,
        ratio: f64,
        least: impl Into<Option<f64>>,
    ) -> Self {
        let least = least.into();
        Self {
            name: format!("{name}, × one writer: {ratio:.1}"),
            documents,
            clients,
            rate: None,
            percentiles: None,
            cpu: None,
            budget: least.map(|least| format!("≥ {least}")),
            over: least.is_some_and(|least| ratio.is_nan() || ratio < least),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn columns() -> Vec<String> {
        [
            "operation",
            "documents",
            "clients",
            "calls/s",
            "p50 ms",
            "p95 ms",
            "p99 ms",
            "CPU ms",
            "budget",
            "",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let percentile =
            |at: usize| self.percentiles.map_or(String::new(), |all| format!("{:.2}", all[at]));
        let verdict = match (&self.budget, self.over) {
            (None, _) => "",
            (Some(_), false) => "ok",
            (Some(_), true) => "OVER",
        };
        vec![
            self.name.clone(),
            self.documents.to_string(),
            self.clients.to_string(),
            self.rate.map_or(String::new(), |rate| format!("{rate:.0}")),
            percentile(0),
            percentile(1),
            percentile(2),
            self.cpu.map_or(String::new(), |cpu| format!("{:.2}", cpu.as_secs_f64() * 1e3)),
            self.budget.clone().unwrap_or_default(),
            verdict.to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(milliseconds: impl Iterator<Item = u64>) -> Outcome {
        Outcome::new(milliseconds.map(Duration::from_millis).collect(), Duration::from_secs(2))
    }

    #[test]
    fn the_budget_is_held_against_the_95th_percentile() {
        let row = |budget| Row::new("x", 1, 1, &outcome((1..=100).rev()), budget);
        assert_eq!(row(95.0).cells()[3..], ["50", "50.00", "95.00", "99.00", "", "p95 ≤ 95", "ok"]);
        assert!(row(94.9).is_over() && !row(95.0).is_over());
    }

    #[test]
    fn no_answers_keep_no_budget() {
        assert!(Row::new("x", 1, 1, &outcome([].into_iter()), 5.0).is_over());
        assert!(!Row::new("x", 1, 1, &outcome([].into_iter()), None).is_over());
        assert!(Row::ratio("x", 1, 8, f64::NAN, 5.0).is_over());
        assert!(!Row::ratio("x", 1, 8, 1.0, None).is_over());
        assert!(
            Row::ratio("x", 1, 8, 4.9, 5.0).is_over() && !Row::ratio("x", 1, 8, 5.0, 5.0).is_over()
        );
    }
}
