//! Repeated member names: whether an object says the same thing twice.
//!
//! Small objects are compared name by name on a stack shared by all open objects; an object that
//! grows past [`FEW`] names is sorted once when it closes, so no input makes this quadratic.

use std::cmp::Ordering;

use crate::scan::Str;
use crate::text::unescaped_bytes;

/// Up to this many names an object is compared pairwise.
const FEW: usize = 12;

/// Names of small objects that can be open at once before an object takes its own list.
const SHARED: usize = 32;

/// The names of all small objects that are open, innermost last.
pub(crate) struct Names {
    shared: [Str; SHARED],
    len: usize,
}

/// The names of one open object: a tail of the shared stack until it grows, then a list of its own.
pub(crate) struct Open {
    base: usize,
    many: Vec<Str>,
}

impl Default for Names {
    fn default() -> Names {
        Names { shared: [Str::default(); SHARED], len: 0 }
    }
}

impl Names {
    pub(crate) fn open(&self) -> Open {
        Open { base: self.len, many: Vec::new() }
    }

    /// Adds a name; true if a small object already has it. Large ones answer in [`Names::close`].
    pub(crate) fn repeats(&mut self, open: &mut Open, name: Str, bytes: &[u8]) -> bool {
        if !open.many.is_empty() {
            open.many.push(name);
            return false;
        }
        let seen = &self.shared[open.base..self.len];
        if seen.len() == FEW || self.len == SHARED {
            open.many.reserve(seen.len() * 2 + 2);
            open.many.extend_from_slice(seen);
            open.many.push(name);
            self.len = open.base;
            return false;
        }
        let repeated = seen.iter().any(|other| same(*other, name, bytes));
        self.shared[self.len] = name;
        self.len += 1;
        repeated
    }

    /// Forgets the object's names; true if a large object had one twice.
    pub(crate) fn close(&mut self, mut open: Open, bytes: &[u8]) -> bool {
        self.len = open.base;
        open.many.sort_unstable_by(|a, b| compare(*a, *b, bytes));
        open.many.windows(2).any(|pair| same(pair[0], pair[1], bytes))
    }
}

fn same(a: Str, b: Str, bytes: &[u8]) -> bool {
    if a.escaped || b.escaped {
        return compare(a, b, bytes) == Ordering::Equal;
    }
    bytes[a.span.range()] == bytes[b.span.range()]
}

fn compare(a: Str, b: Str, bytes: &[u8]) -> Ordering {
    let (raw_a, raw_b) = (&bytes[a.span.range()], &bytes[b.span.range()]);
    if a.escaped || b.escaped {
        unescaped_bytes(raw_a).cmp(unescaped_bytes(raw_b))
    } else {
        raw_a.cmp(raw_b)
    }
}
