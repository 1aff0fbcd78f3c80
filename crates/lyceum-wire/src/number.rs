//! Reading JSON numbers that stand for whole numbers, exactly: `42`, `42.0` and `4.2e1` are one.
//!
//! Only the range every JSON reader agrees on is read: beyond 2^53 − 1 two parsers of one text may
//! see two numbers, so the protocol forbids such values where they are compared.

use crate::scan::number_length;

/// The largest whole number a double holds without doubt.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// The whole number a token writes; None if it is no JSON number, has a fraction, or is not safe.
pub(crate) fn safe_integer(token: &[u8]) -> Option<i64> {
    if number_length(token) != Some(token.len()) {
        return None;
    }
    let (negative, unsigned) = match token {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, token),
    };
    let split = unsigned.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = unsigned.split_at(split.unwrap_or(unsigned.len()));
    let (value, zeros) = significant(mantissa)?;
    if value == 0 {
        return Some(0);
    }
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let n_decimals = mantissa.len().saturating_sub(point + 1);
    let exponent = match exponent {
        [] => 0,
        [_, exponent @ ..] => std::str::from_utf8(exponent).ok()?.parse::<i64>().ok()?,
    };
    let power = exponent.checked_add(zeros)?.checked_sub(i64::try_from(n_decimals).ok()?)?;
    let value = scale(value, power)?;
    let value = i64::try_from(value).ok().filter(|_| value <= MAX_SAFE)?;
    Some(if negative { -value } else { value })
}

/// The digits of a mantissa as one number, without its trailing zeros, and how many those are.
fn significant(mantissa: &[u8]) -> Option<(u64, i64)> {
    let mut value: u64 = 0;
    let mut zeros = 0;
    for digit in mantissa.iter().filter(|byte| **byte != b'.') {
        zeros += 1;
        if *digit != b'0' {
            value = scale(value, zeros)?.checked_add(u64::from(digit - b'0'))?;
            zeros = 0;
        }
    }
    Some((value, zeros))
}

fn scale(value: u64, power: i64) -> Option<u64> {
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10u64.checked_pow(u32::try_from(power).ok()?)?)
}

#[cfg(test)]
mod tests {
    use super::safe_integer;

    #[track_caller]
    fn check(token: &str, expected: Option<i64>) {
        assert_eq!(safe_integer(token.as_bytes()), expected, "{token}");
    }

    #[test]
    fn spellings_of_one_number_are_equal() {
        for token in ["42", "42.0", "42.000", "4.2e1", "4.2E+1", "420e-1", "4200.00e-2"] {
            check(token, Some(42));
        }
        check("-7", Some(-7));
        for zero in ["0", "-0", "0.0", "0e99999999999999999999999"] {
            check(zero, Some(0));
        }
        check("1000000000000000000000000000000e-30", Some(1));
    }

    #[test]
    fn fractions_and_non_numbers_are_none() {
        for token in ["1.5", "1e-1", "", "-", "+1", "01", "1.", ".5", "1 ", "0x1", "NaN", "true"] {
            check(token, None);
        }
    }

    #[test]
    fn unsafe_integers_are_none() {
        check("9007199254740991", Some(9_007_199_254_740_991));
        check("-9007199254740991", Some(-9_007_199_254_740_991));
        for token in [
            "9007199254740992",
            "-9007199254740992",
            "1e16",
            "18446744073709551616",
            "1e999999999999",
        ] {
            check(token, None);
        }
    }
}
