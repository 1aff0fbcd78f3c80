//! [`Owed`]: lists that could not be fetched, and when they are asked for again.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::backoff::Backoff;
use crate::listing::Kind;

/// What is asked for again, with pauses that grow as long as anything is owed.
#[derive(Debug)]
pub(super) struct Owed {
    kinds: BTreeSet<Kind>,
    due: Instant,
    backoff: Backoff,
}

impl Owed {
    pub(super) fn new() -> Owed {
        Owed { kinds: BTreeSet::new(), due: Instant::now(), backoff: Backoff::rare() }
    }

    /// Takes in what came of a listing: these kinds are worth another try.
    pub(super) fn add(&mut self, kinds: BTreeSet<Kind>, chance: u8) {
        if !kinds.is_empty() {
            self.kinds.extend(kinds);
            self.due = Instant::now() + self.backoff.next(chance);
        } else if self.kinds.is_empty() {
            self.backoff.reset();
        }
    }

    /// What to ask for now.
    pub(super) fn take_due(&mut self) -> BTreeSet<Kind> {
        match Instant::now() >= self.due {
            true => std::mem::take(&mut self.kinds),
            false => BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_owed_is_due_ever_more_rarely_until_nothing_is() {
        let (mut owed, start) = (Owed::new(), Instant::now());
        let mut asked = Vec::new();
        while start.elapsed() < Duration::from_secs(3600) {
            let due = owed.take_due();
            if !due.is_empty() || asked.is_empty() {
                asked.push(start.elapsed().as_secs());
                owed.add(BTreeSet::from([Kind::Tools]), 128);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert!(asked[..4] == [0, 1, 2, 4] && (20..30).contains(&asked.len()), "{asked:?}");
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(owed.take_due(), BTreeSet::from([Kind::Tools]));
        owed.add(BTreeSet::new(), 128);
        owed.add(BTreeSet::from([Kind::Prompts]), 128);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            owed.take_due(),
            BTreeSet::from([Kind::Prompts]),
            "it starts from the beginning"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn all_that_is_owed_is_asked_for_together_and_what_was_fetched_meanwhile_hurries_nobody()
    {
        let (mut owed, second) = (Owed::new(), Duration::from_secs(1));
        for kind in [Kind::Tools, Kind::Prompts] {
            owed.add(BTreeSet::from([kind]), 128);
        }
        // Other lists are fetched, over and over.
        for _ in 0..20 {
            owed.add(BTreeSet::new(), 128);
        }
        assert_eq!(owed.take_due(), BTreeSet::new());
        tokio::time::sleep(second).await;
        assert_eq!(owed.take_due(), BTreeSet::from([Kind::Tools, Kind::Prompts]));
        owed.add(BTreeSet::from([Kind::Tools]), 128);
        tokio::time::sleep(second / 2).await;
        assert_eq!(owed.take_due(), BTreeSet::new(), "the third pause is longer than the first");
        tokio::time::sleep(second).await;
        assert_eq!(owed.take_due(), BTreeSet::from([Kind::Tools]));
    }
}
