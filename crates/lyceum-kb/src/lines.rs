//! Ranges of lines, as callers write them: `10-20`, `10-`, `10`.

use std::ops::Range;

use crate::{Error, Result};

/// Lines counted from 1, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    first: usize,
    /// `None` means to the end.
    last: Option<usize>,
}

impl Lines {
    pub fn parse(text: &str) -> Result<Lines> {
        let text = text.trim();
        let lines = match text.split_once('-') {
            None => Lines { first: number(text)?, last: Some(number(text)?) },
            Some((first, "")) => Lines { first: number(first)?, last: None },
            Some((first, last)) => Lines { first: number(first)?, last: Some(number(last)?) },
        };
        match lines.last {
            Some(last) if last < lines.first => {
                Err(Error::invalid(format!("lines: {last} comes before {}", lines.first)))
            }
            _ => Ok(lines),
        }
    }

    /// The bytes of these lines, line ends included. A range may end past the text but not begin there.
    pub fn range(self, body: &str) -> Result<Range<usize>> {
        let mut starts = body.split_inclusive('\n').scan(0, |next, line| {
            let start = *next;
            *next += line.len();
            Some(start)
        });
        let Some(start) = starts.by_ref().nth(self.first - 1) else {
            let count = body.split_inclusive('\n').count();
            return Err(Error::invalid(format!(
                "lines: the document has {count} lines, so none begin at {}",
                self.first
            ))
            .with("lines", count));
        };
        let end = self.last.and_then(|last| starts.nth(last - self.first)).unwrap_or(body.len());
        Ok(start..end)
    }
}

fn number(text: &str) -> Result<usize> {
    match text.trim().parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(Error::invalid("lines: give a range such as 10-20, counted from 1")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Code;

    const BODY: &str = "one\ntwo\r\n\nfour";

    #[track_caller]
    fn check(lines: &str, expected: &str) {
        let range = Lines::parse(lines).unwrap().range(BODY).unwrap();
        assert_eq!(&BODY[range], expected, "{lines}");
    }

    #[track_caller]
    fn refuses(lines: &str, body: &str, says: &str) {
        let error = Lines::parse(lines).and_then(|lines| lines.range(body)).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(error.message().contains(says), "{error}");
    }

    #[test]
    fn lines_include_both_ends() {
        check("1-2", "one\ntwo\r\n");
        check("2", "two\r\n");
        check(" 3 - 3 ", "\n");
        check("3-", "\nfour");
        check("1-99999", BODY);
        check("4-18446744073709551615", "four");
    }

    #[test]
    fn impossible_ranges_say_why() {
        for lines in
            ["", "-", "0", "0-3", "-3", "a-b", "1-2-3", "1,2", "1.5", "99999999999999999999"]
        {
            refuses(lines, BODY, "10-20");
        }
        refuses("3-2", BODY, "2 comes before 3");
        refuses("5-6", BODY, "has 4 lines");
        refuses("1-6", "", "has 0 lines");
    }

    proptest! {
        #[test]
        fn every_range_is_a_slice_or_refused(lines in "[0-9 -]{0,6}|\\PC*", body in any::<String>()) {
            if let Ok(range) = Lines::parse(&lines).and_then(|lines| lines.range(&body)) {
                prop_assert!(body.get(range).is_some());
            }
        }
    }
}
