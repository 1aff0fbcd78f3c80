//! Repeated member names: whether an object says the same thing twice.
//!
//! Small objects are compared name by name on a stack shared by all open objects; an object that
//! grows past [`FEW`] names is sorted once when it closes, so no input makes this quadratic.

use std::borrow::Cow;

use crate::scan::{Span, Str};
use crate::text::unescaped_bytes;

/// Up to this many names an object is compared pairwise.
const FEW: usize = 12;

/// Names of small objects that can be open at once before an object takes its own list.
const SHARED: usize = 24;

/// The names of all small objects that are open, innermost last. None of them has escapes.
pub(crate) struct Names {
    shared: [Span; SHARED],
    len: usize,
}

/// The names of one open object: a tail of the shared stack until it grows, then a list of its own.
pub(crate) struct Open {
    base: usize,
    /// How long the shared stack may get before this object takes its own list.
    limit: usize,
    /// One bit per name so far. A name whose bit is free is new, and need not be compared.
    marks: u64,
    many: Vec<Str>,
}

impl Default for Names {
    fn default() -> Names {
        Names { shared: [Span::default(); SHARED], len: 0 }
    }
}

impl Names {
    #[inline]
    pub(crate) fn open(&self) -> Open {
        let base = self.len;
        Open { base, limit: SHARED.min(base + FEW), marks: 0, many: Vec::new() }
    }

    /// Adds a name; true if a small object already has it. Large ones answer in [`Names::close`].
    #[inline]
    pub(crate) fn repeats(&mut self, open: &mut Open, name: Str, bytes: &[u8]) -> bool {
        let mark = mark(name.span, bytes);
        let marked = open.marks & mark != 0;
        open.marks |= mark;
        if marked || name.escaped || self.len >= open.limit {
            return self.repeats_slowly(open, name, bytes);
        }
        self.push(name.span);
        false
    }

    /// Forgets the object's names; true if a large object had one twice.
    #[inline]
    pub(crate) fn close(&mut self, open: Open, bytes: &[u8]) -> bool {
        self.len = open.base;
        !open.many.is_empty() && any_twice(open.many, bytes)
    }

    #[inline]
    fn push(&mut self, name: Span) {
        if let Some(free) = self.shared.get_mut(self.len) {
            *free = name;
            self.len += 1;
        }
    }

    #[inline(never)]
    fn repeats_slowly(&mut self, open: &mut Open, name: Str, bytes: &[u8]) -> bool {
        let seen = &self.shared[open.base..self.len];
        if name.escaped || self.len >= open.limit {
            open.many.extend(seen.iter().map(|span| Str { span: *span, escaped: false }));
            open.many.push(name);
            open.limit = open.base;
            self.len = open.base;
            return false;
        }
        let repeated = seen.iter().any(|other| bytes[other.range()] == bytes[name.span.range()]);
        self.push(name.span);
        repeated
    }
}

/// A bit chosen by a name's length and its outer letters; those of one MCP object rarely collide.
#[inline]
fn mark(name: Span, bytes: &[u8]) -> u64 {
    // An empty name's outer letters are its quotes.
    let at = |index: u32| u32::from(bytes.get(index as usize).copied().unwrap_or(0));
    1 << ((at(name.start) + at(name.end - 1) + 8 * name.len()) & 63)
}

/// Sorts by length first, so that names of different lengths are never read, and unescapes each name
/// once instead of in every comparison.
#[cold]
fn any_twice(names: Vec<Str>, bytes: &[u8]) -> bool {
    let text = |name: &Str| match &bytes[name.span.range()] {
        raw if name.escaped => Cow::Owned(unescaped_bytes(raw).collect()),
        raw => Cow::Borrowed(raw),
    };
    let mut names: Vec<Cow<'_, [u8]>> = names.iter().map(text).collect();
    names.sort_unstable_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    names.windows(2).any(|pair| pair[0] == pair[1])
}
