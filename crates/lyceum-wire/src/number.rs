//! Comparing JSON numbers exactly, whatever their size: `42` is `42.0`, and 2^53 is not 2^53 + 1.

use crate::scan::number_length;

/// A decimal number as sign, significant digits and the power of ten of the last digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// The number a token writes; None if it is not a JSON number (or one beyond any use).
    pub(crate) fn parse(token: &[u8]) -> Option<Decimal> {
        if number_length(token) != Some(token.len()) {
            return None;
        }
        let (negative, unsigned) = match token {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, token),
        };
        let (mantissa, exponent) = match unsigned.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(at) => (&unsigned[..at], parse_exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
        let fraction = mantissa.len().saturating_sub(point + 1) as i64;
        let mut digits: Vec<u8> = mantissa.iter().copied().filter(|byte| *byte != b'.').collect();
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        let mut exponent = exponent.checked_sub(fraction)?;
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent = exponent.checked_add(1)?;
        }
        if digits.is_empty() {
            return Some(Decimal { negative: false, digits, exponent: 0 });
        }
        Some(Decimal { negative, digits, exponent })
    }

    /// Whether the number has no fraction.
    pub(crate) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
