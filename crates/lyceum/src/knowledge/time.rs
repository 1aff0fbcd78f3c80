//! Times as people and programs write them (RFC 3339), to and from milliseconds since 1970.

use lyceum_kb::{Error, Millis};

const DAY: i64 = 24 * 60 * 60 * 1000;

/// `2026-11-16T09:30:00.250Z`.
pub(crate) fn written(at: Millis) -> String {
    let (year, month, day) = date(at.div_euclid(DAY));
    let rest = at.rem_euclid(DAY);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
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
    let (date, time) = text.split_at_checked(10)?;
    let [year, month, day] = fields(date, '-', [4, 2, 2])?;
    let in_year = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    let midnight = in_year.then(|| days(year, month, day) * DAY)?;
    if time.is_empty() {
        return Some(midnight);
    }
    let time = time.strip_prefix(['T', 't', ' '])?;
    let (clock, rest) = time.split_at_checked(8)?;
    let [hour, minute, second] = fields(clock, ':', [2, 2, 2])?;
    // A leap second is the first of the next minute.
    let on_clock = hour < 24 && minute < 60 && second <= 60;
    let (millis, offset) = fraction(rest)?;
    let since_midnight = ((hour * 60 + minute) * 60 + second) * 1000 + millis;
    on_clock.then_some(midnight + since_midnight - offset_of(offset)?)
}

/// Milliseconds of a fraction of a second, and what follows it.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(digits) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    let millis: String = digits[..end].chars().chain("00".chars()).take(3).collect();
    Some((millis.parse().ok()?, &digits[end..]))
}

/// Milliseconds east of Greenwich.
fn offset_of(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let [hours, minutes] = fields(&text[1..], ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// Numbers of fixed widths between separators.
fn fields<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next().filter(|part| part.len() == width)?;
        *number = part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

fn days_in(year: i64, month: i64) -> i64 {
    let next = if month == 12 { days(year + 1, 1, 1) } else { days(year, month + 1, 1) };
    next - days(year, month, 1)
}

/// Days from 1970-01-01 to a date. Years begin in March here, so that the leap day is the last one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (cycle, of_cycle) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    cycle * 146_097 + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + day_of_year - 719_468
}

/// The date that many days after 1970-01-01.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (cycle, of_cycle) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let day_of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year + i64::from(month <= 2), month, day)
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
            ("2026-11-16T09:30:00.2509+02:00", 1_794_814_200_250),
            ("1969-12-31T23:59:59.999z", -1),
            ("2026-11-16 00:00:00-00:30", 1_794_789_000_000),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
            assert_eq!(parse(&written(expected)), Some(expected), "{text}");
        }
        assert_eq!(written(951_825_600_500), "2000-02-29T12:00:00.500Z");
    }

    #[test]
    fn every_day_of_four_centuries_comes_back() {
        for day in -150_000..150_000 {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month, of_month), day);
        }
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
            "2026-11-16T09:30",
            "2026-11-16T09:30:00",
            "2026-11-16T24:00:00Z",
            "2026-11-16T09:30:00+2:00",
            "2026-11-16T09:30:00.Z5",
            "２０２６-11-16",
            "+026-11-16",
            "2026-11-16Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
