//! What changed between two texts, line by line.

use std::fmt::Write;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// After this long, what is not yet compared counts as replaced: correct, but longer than it need be.
const MAX_TIME: Duration = Duration::from_millis(500);
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
pub fn diff(old: &str, new: &str, old_name: &str, new_name: &str) -> Diff {
    let lines = TextDiff::configure().timeout(MAX_TIME).diff_lines(old, new);
    let mut diff = Diff::default();
    for op in lines.ops() {
        if op.tag() != similar::DiffTag::Equal {
            diff.removed += op.old_range().len();
            diff.added += op.new_range().len();
        }
    }
    let mut unified = lines.unified_diff();
    for hunk in unified.context_radius(CONTEXT).iter_hunks() {
        if diff.unified.is_empty() {
            diff.unified = format!("--- {}\n+++ {}\n", one_line(old_name), one_line(new_name));
        }
        // Writing to a string cannot fail.
        let _ = writeln!(diff.unified, "{}", hunk.header());
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            if diff.unified.len() + change.value().len() > MAX_SIZE {
                diff.truncated = true;
                return diff;
            }
            let _ = write!(diff.unified, "{sign}{change}");
            if change.missing_newline() {
                diff.unified.push_str("\\ No newline at end of file\n");
            }
        }
    }
    diff
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
