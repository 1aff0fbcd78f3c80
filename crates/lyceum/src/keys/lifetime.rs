//! How long a key is good for, as people write it: `30d`, `12h`, `never`.

use std::str::FromStr;

use lyceum_kb::Millis;

const HOUR: Millis = 3_600_000;
const DAY: Millis = 24 * HOUR;
/// Long enough for anything that should expire at all.
const LONGEST_DAYS: Millis = 36_500;

/// How long a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Milliseconds(Millis),
    Unlimited,
}

impl Lifetime {
    /// When a key made `now` expires.
    pub(crate) fn end(self, now: Millis) -> Option<Millis> {
        match self {
            Self::Milliseconds(lifetime) => Some(now + lifetime),
            Self::Unlimited => None,
        }
    }
}

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::Unlimited);
        }
        let unit = [("d", DAY), ("h", HOUR), ("m", HOUR / 60), ("s", 1000)];
        let parsed = unit.into_iter().find_map(|(suffix, unit)| {
            let number: Millis = text.strip_suffix(suffix)?.parse().ok()?;
            number.checked_mul(unit).filter(|span| (1..=LONGEST_DAYS * DAY).contains(span))
        });
        parsed
            .map(Self::Milliseconds)
            .ok_or_else(|| format!("{text:?} is no lifetime; write 90d, 12h or never"))
    }
}
