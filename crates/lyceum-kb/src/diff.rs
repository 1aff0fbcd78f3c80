//! What changed between two texts, line by line.

use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use similar::{ChangeTag, DiffOp, DiffTag, TextDiff};

/// After this long, what is not yet compared counts as replaced: correct, but longer than it need be.
const MAX_TIME: Duration = Duration::from_millis(500);
/// Lines that are compared with each other, in both texts; each takes about a hundred bytes.
const MAX_LINES: usize = 200_000;
/// Bytes of the diff itself.
const MAX_SIZE: usize = 256 * 1024;
/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// The difference between two texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// In unified format; empty when nothing changed.
    pub unified: String,
    /// Lines that came and went, all of them.
    pub added: usize,
    pub removed: usize,
    /// Whether `unified` ends before all changes are shown.
    pub truncated: bool,
}

/// Compares `old` with `new`; the names stand in the first two lines.
///
/// Takes up to a second and a few times the memory of the texts: not for async threads.
pub fn diff(old: &str, new: &str, old_name: &str, new_name: &str) -> Diff {
    let mut diff = Diff::default();
    if old == new {
        return diff;
    }
    diff.unified = format!("--- {}\n+++ {}\n", one_line(old_name), one_line(new_name));
    let (old, new, n_before) = changed_region(old, new);
    if count_lines(old) + count_lines(new) > MAX_LINES {
        diff.replace(old, new, n_before);
    } else {
        diff.compare(old, new, n_before);
    }
    diff
}

impl Diff {
    /// Compares two regions that `n_before` equal lines come before.
    fn compare(&mut self, old: &str, new: &str, n_before: usize) {
        let lines = TextDiff::configure().timeout(MAX_TIME).diff_lines(old, new);
        for op in lines.ops().iter().filter(|op| op.tag() != DiffTag::Equal) {
            self.removed += op.old_range().len();
            self.added += op.new_range().len();
        }
        let mut unified = lines.unified_diff();
        for hunk in unified.context_radius(CONTEXT).iter_hunks() {
            let ranges = |range: fn(&DiffOp) -> Range<usize>| {
                let start = hunk.ops().first().map_or(0, |op| range(op).start);
                let end = hunk.ops().last().map_or(0, |op| range(op).end);
                n_before + start..n_before + end
            };
            self.push_header(ranges(DiffOp::old_range), ranges(DiffOp::new_range));
            for change in hunk.iter_changes() {
                let sign = match change.tag() {
                    ChangeTag::Equal => ' ',
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                };
                if !self.push_line(sign, change.value()) {
                    return;
                }
            }
        }
    }

    /// Takes all of `old` for removed and all of `new` for added: correct, but longer than it need be.
    fn replace(&mut self, old: &str, new: &str, n_before: usize) {
        self.removed = count_lines(old);
        self.added = count_lines(new);
        self.push_header(n_before..n_before + self.removed, n_before..n_before + self.added);
        let removed = old.split_inclusive(['\n', '\r']).map(|line| ('-', line));
        let added = new.split_inclusive(['\n', '\r']).map(|line| ('+', line));
        removed.chain(added).all(|(sign, line)| self.push_line(sign, line));
    }

    fn push_header(&mut self, old: Range<usize>, new: Range<usize>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.unified, "@@ -{} +{} @@", numbers(old), numbers(new));
    }

    /// Adds a line if there is room for it.
    fn push_line(&mut self, sign: char, line: &str) -> bool {
        if self.unified.len() + line.len() > MAX_SIZE {
            self.truncated = true;
            return false;
        }
        self.unified.push(sign);
        self.unified.push_str(line);
        if !line.ends_with(['\n', '\r']) {
            self.unified.push_str("\n\\ No newline at end of file\n");
        }
        true
    }
}

/// Lines as a header of a hunk numbers them.
fn numbers(lines: Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        n => format!("{},{n}", lines.start + 1),
    }
}

/// The parts that differ, with some lines around them, and how many lines come before. Most changes of large texts are
/// small, and what is the same at both ends need not be kept line by line.
fn changed_region<'a>(old: &'a str, new: &'a str) -> (&'a str, &'a str, usize) {
    let same = old.bytes().zip(new.bytes()).take_while(|(one, other)| one == other).count();
    let start = line_start_before(&old.as_bytes()[..same], CONTEXT);
    let before = &old[..start];
    let (old, new) = (&old[start..], &new[start..]);
    let room = old.len().min(new.len()) - (same - start);
    let ends = old.bytes().rev().zip(new.bytes().rev()).take(room);
    let same = ends.take_while(|(one, other)| one == other).count();
    let after = same - line_end_after(&old.as_bytes()[old.len() - same..], CONTEXT);
    (&old[..old.len() - after], &new[..new.len() - after], count_lines(before))
}

/// Where the line begins that is `n` whole lines before the end of `text`.
fn line_start_before(text: &[u8], n: usize) -> usize {
    memchr::memrchr_iter(b'\n', text).nth(n).map_or(0, |at| at + 1)
}

/// Where the line ends that is `n` whole lines after the first end of a line in `text`.
fn line_end_after(text: &[u8], n: usize) -> usize {
    memchr::memchr_iter(b'\n', text).nth(n).map_or(text.len(), |at| at + 1)
}

/// Lines that end with LF, CR or both, and a last one that does not end.
fn count_lines(text: &str) -> usize {
    let bytes = text.as_bytes();
    let pairs = memchr::memmem::find_iter(bytes, b"\r\n").count();
    let ends = memchr::memchr2_iter(b'\n', b'\r', bytes).count();
    ends - pairs + usize::from(!text.is_empty() && !text.ends_with(['\n', '\r']))
}

fn one_line(name: &str) -> String {
    name.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::Instant;

    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, counts: (usize, usize), expected: &str) {
        let diff = diff(old, new, "1", "2");
        assert_eq!((diff.added, diff.removed, diff.truncated), (counts.0, counts.1, false));
        let hunks = diff.unified.strip_prefix("--- 1\n+++ 2\n").unwrap_or(&diff.unified);
        assert_eq!(hunks, expected);
    }

    #[test]
    fn changes_are_shown_with_their_surroundings() {
        check("a\nb\nc\n", "a\nB\nc\n", (1, 1), "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n");
        check("a\n", "a\nb\n", (1, 0), "@@ -1 +1,2 @@\n a\n+b\n");
        check("a\n", "", (0, 1), "@@ -1 +0,0 @@\n-a\n");
        check(
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n",
            "1\n2\n3\n4\n5\n6\n7\n8\n",
            (0, 1),
            "@@ -6,4 +6,3 @@\n 6\n 7\n 8\n-9\n",
        );
    }

    #[test]
    fn equal_texts_have_no_difference() {
        check("a\nb", "a\nb", (0, 0), "");
        check("", "", (0, 0), "");
    }

    #[test]
    fn a_missing_last_line_end_is_a_difference() {
        check("a", "a\n", (1, 1), "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    }

    #[test]
    fn names_stay_on_their_line() {
        let diff = diff("a\n", "b\n", "x\ny", "z");
        assert!(diff.unified.starts_with("--- x y\n+++ z\n@@"));
    }

    #[test]
    fn large_differences_are_cut_and_do_not_take_for_ever() {
        let lines = |seed: u64| -> String {
            let mut state = seed;
            let next = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                format!("line {}\n", (state >> 33) % 5_003)
            };
            (0..50_000).map(next).collect()
        };
        let started = Instant::now();
        let diff = diff(&lines(1), &lines(2), "1", "2");
        assert!(diff.truncated && diff.unified.len() < MAX_SIZE + 100);
        assert!(diff.added > 0 && diff.added == diff.removed);
        assert!(started.elapsed() < MAX_TIME * 20, "{:?}", started.elapsed());
    }

    #[test]
    fn a_small_change_in_a_large_text_is_shown_where_it_is() {
        let line = |n: usize| format!("line {n}\n");
        let old: String = (1..=300_000).map(line).collect();
        let new = old.replace("line 200000\n", "other\nlines\n");
        let (header, lines) = ("@@ -199997,7 +199997,8 @@\n", |from: usize, to: usize| {
            (from..=to).map(|n| format!(" line {n}\n")).collect::<String>()
        });
        let expected = format!(
            "{header}{}-line 200000\n+other\n+lines\n{}",
            lines(199_997, 199_999),
            lines(200_001, 200_003)
        );
        check(&old, &new, (2, 1), &expected);
    }

    #[test]
    fn texts_of_too_many_lines_are_not_compared_line_by_line() {
        let n = 1 << 20;
        let diff = diff(&"\n".repeat(n), &"x\r\n".repeat(n), "1", "2");
        assert_eq!((diff.added, diff.removed, diff.truncated), (n, n, true));
        assert!(diff.unified.starts_with("--- 1\n+++ 2\n@@ -1,1048576 +1,1048576 @@\n-\n-\n"));
        assert!(diff.unified.len() < MAX_SIZE + 100);
    }

    #[test]
    fn one_long_line_is_too_much_to_show() {
        let diff = diff(&"a".repeat(4 << 20), &"b".repeat(4 << 20), "1", "2");
        assert_eq!((diff.added, diff.removed, diff.truncated), (1, 1, true));
        assert!(diff.unified.len() < 100);
    }

    /// Applies a diff that shows every line.
    fn apply(old: &str, unified: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let (mut new, mut at) = (String::new(), 0);
        for line in unified.split_inclusive('\n').skip(2) {
            match line.split_at(1) {
                ("@", rest) => {
                    let mut numbers = rest[3..].split([',', ' ']);
                    let start: usize = numbers.next().unwrap().parse().unwrap();
                    let empty = numbers.next() == Some("0");
                    let start = if empty { start } else { start - 1 };
                    new.extend(old[at..start].iter().copied());
                    at = start;
                }
                ("+", added) => new.push_str(added),
                ("-", removed) => {
                    assert_eq!(removed.trim_end(), old[at].trim_end());
                    at += 1;
                }
                (" ", kept) => {
                    new.push_str(kept);
                    at += 1;
                }
                _ => new.truncate(new.trim_end_matches('\n').len()),
            }
        }
        new.extend(old[at..].iter().copied());
        new
    }

    proptest! {
        #[test]
        fn a_diff_leads_from_the_old_to_the_new(old in "([ab]\n){0,12}", new in "([ab]\n){0,12}") {
            let diff = diff(&old, &new, "1", "2");
            prop_assert_eq!(apply(&old, &diff.unified), new.clone());
            prop_assert_eq!(old.lines().count() + diff.added, new.lines().count() + diff.removed);
        }

        #[test]
        fn any_two_texts_can_be_compared(old in any::<String>(), new in any::<String>()) {
            let diff = diff(&old, &new, &new, &old);
            prop_assert_eq!(diff.unified.is_empty(), old == new);
        }
    }
}
