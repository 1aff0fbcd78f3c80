//! Times as people and programs write them (RFC 3339), to and from milliseconds since 1970.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use lyceum_kb::{Error, Millis};

/// `2026-11-16T09:30:00.250Z`.
pub(crate) fn written(at: Millis) -> String {
    let time = Timestamp::from_millisecond(at).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

/// Reads a date, or a time with its offset.
pub(crate) fn read(name: &str, text: &str) -> lyceum_kb::Result<Millis> {
    parse(text.trim()).ok_or_else(|| {
        Error::invalid(format!(
            "{name}: give a time such as 2026-11-16T09:30:00Z, or a date such as 2026-11-16"
        ))
    })
}

fn parse(text: &str) -> Option<Millis> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time.as_millisecond());
    }
    // A date alone is ten characters; jiff would read one out of an incomplete time, too.
    let date: Date = text.parse().ok().filter(|_| text.len() == 10)?;
    let midnight = date.to_zoned(TimeZone::UTC).ok()?;
    Some(midnight.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for (text, expected) in [
            ("1970-01-01", 0),
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00.5Z", 951_825_600_500),
            ("2026-11-16T09:30:00.250+02:00", 1_794_814_200_250),
            ("1969-12-31T23:59:59.999z", -1),
            ("2026-11-16 00:00:00-00:30", 1_794_789_000_000),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
            assert_eq!(parse(&written(expected)), Some(expected), "{text}");
        }
        assert_eq!(written(951_825_600_500), "2000-02-29T12:00:00.500Z");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "yesterday",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-11-16T",
            "2026-11-16T09:30:00",
            "2026-11-16T25:00:00Z",
            "２０２６-11-16",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
