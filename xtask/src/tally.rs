//! What a step found: how many checks passed, which failed, what deserves a look.

/// The outcome of one step, or of the whole run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    /// One line per failed check, saying which and why.
    pub(crate) failed: Vec<String>,
    /// Shown in the summary; never decides.
    pub(crate) warnings: Vec<String>,
}

impl Tally {
    /// One check, passed.
    pub(crate) fn one() -> Self {
        Self { passed: 1, ..Self::default() }
    }

    pub(crate) fn fail(&mut self, why: impl Into<String>) {
        self.failed.push(why.into());
    }

    pub(crate) fn warn(&mut self, what: impl Into<String>) {
        self.warnings.push(what.into());
    }

    /// Adds another outcome to this one, its lines marked with where they came from.
    pub(crate) fn absorb(&mut self, origin: &str, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed.iter().map(|line| format!("{origin}: {line}")));
        self.warnings.extend(other.warnings.iter().map(|line| format!("{origin}: {line}")));
    }
}
