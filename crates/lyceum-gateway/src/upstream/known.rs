//! [`KnownEra`]: the era an upstream was found to speak, so that nobody has to find out again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lyceum_wire::Era;
use tokio::time::Instant;

/// How long it is believed that an upstream has nothing newer to offer.
const LEGACY: Duration = Duration::from_secs(3600);

/// What was found out last, and when.
#[derive(Debug, Default)]
pub(super) struct KnownEra(Mutex<Option<(Era, Instant)>>);

impl KnownEra {
    pub(super) fn get(&self) -> Option<Era> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = |(era, since): &(Era, Instant)| match era {
            Era::Legacy => since.elapsed() < LEGACY,
            Era::Modern => true,
        };
        known.filter(is_good).map(|(era, _)| era)
    }

    pub(super) fn learn(&self, era: Era) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((era, Instant::now()));
    }

    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_old_upstream_is_asked_again_some_day_whether_it_is_still_old() {
        let known = KnownEra::default();
        assert_eq!(known.get(), None);
        for (era, later) in [(Era::Legacy, None), (Era::Modern, Some(Era::Modern))] {
            known.learn(era);
            assert_eq!(known.get(), Some(era));
            // What is learned again is good for as long again.
            for _ in 0..2 {
                tokio::time::sleep(LEGACY - Duration::from_secs(1)).await;
                assert_eq!(known.get(), Some(era));
                known.learn(era);
            }
            tokio::time::sleep(LEGACY).await;
            assert_eq!(known.get(), later);
        }
        known.forget();
        assert_eq!(known.get(), None);
    }
}
