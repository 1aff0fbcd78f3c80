//! [`ClientCapabilities`]: what a client says it can do, as a bit set.
//!
//! Only the capabilities a server acts on are kept; the raw object stays with the request.

use std::ops::BitOr;

use crate::scan::{Kind, Scan, Scanner};

/// The extension that brings tasks to 2026-07-28.
const TASKS_EXTENSION: &[u8] = b"io.modelcontextprotocol/tasks";

/// A set of client capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientCapabilities(u16);

impl ClientCapabilities {
    /// `sampling`: the client can ask a model.
    pub const SAMPLING: Self = Self(1);
    /// `sampling.tools`.
    pub const SAMPLING_TOOLS: Self = Self(1 << 1);
    /// `sampling.context`.
    pub const SAMPLING_CONTEXT: Self = Self(1 << 2);
    /// `elicitation.form`, or an `elicitation` that names no mode.
    pub const ELICITATION_FORM: Self = Self(1 << 3);
    /// `elicitation.url`.
    pub const ELICITATION_URL: Self = Self(1 << 4);
    /// `roots`: the client can list roots.
    pub const ROOTS: Self = Self(1 << 5);
    /// `roots.listChanged` is true.
    pub const ROOTS_LIST_CHANGED: Self = Self(1 << 6);
    /// `extensions["io.modelcontextprotocol/tasks"]`.
    pub const TASKS_EXTENSION: Self = Self(1 << 7);
    /// `tasks.requests.sampling.createMessage` of 2025-11-25.
    pub const TASKS_SAMPLING: Self = Self(1 << 8);
    /// `tasks.requests.elicitation.create` of 2025-11-25.
    pub const TASKS_ELICITATION: Self = Self(1 << 9);

    const KNOWN: u16 = (1 << 10) - 1;

    /// Reads a raw `ClientCapabilities` object; None if `raw` is not an object.
    pub fn parse(raw: &[u8]) -> Option<Self> {
        if raw == b"{}" {
            return Some(Self::default());
        }
        let mut scanner = Scanner::new(raw).ok()?;
        let mut found = Self::default();
        if scanner.ahead() != b'{' {
            return None;
        }
        members(&mut scanner, &mut |scanner, name| found.top(scanner, name)).ok()?;
        scanner.end().ok()?;
        Some(found)
    }

    /// The set as bits, for sealing into a session id.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The set from its bits; unknown ones are dropped.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & Self::KNOWN)
    }

    /// Whether all of `needed` are in the set.
    pub const fn has(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    fn top(&mut self, scanner: &mut Scanner<'_>, name: &[u8]) -> Scan<()> {
        if scanner.peek() != b'{' {
            return scanner.skip();
        }
        match name {
            b"sampling" => {
                self.add(Self::SAMPLING);
                members(scanner, &mut |scanner, name| match name {
                    b"tools" => self.add_object(scanner, Self::SAMPLING_TOOLS),
                    b"context" => self.add_object(scanner, Self::SAMPLING_CONTEXT),
                    _ => scanner.skip(),
                })
            }
            b"elicitation" => self.elicitation(scanner),
            b"roots" => {
                self.add(Self::ROOTS);
                members(scanner, &mut |scanner, name| {
                    let (_, span) = scanner.token()?;
                    if name == b"listChanged" && &scanner.bytes[span.range()] == b"true" {
                        self.add(Self::ROOTS_LIST_CHANGED);
                    }
                    Ok(())
                })
            }
            b"extensions" => members(scanner, &mut |scanner, name| match name {
                TASKS_EXTENSION => self.add_object(scanner, Self::TASKS_EXTENSION),
                _ => scanner.skip(),
            }),
            b"tasks" => self.tasks(scanner),
            _ => scanner.skip(),
        }
    }

    // An `elicitation` without modes means form: that is what it meant before there were modes.
    fn elicitation(&mut self, scanner: &mut Scanner<'_>) -> Scan<()> {
        let mut modes = Self::default();
        members(scanner, &mut |scanner, name| match name {
            b"form" => modes.add_object(scanner, Self::ELICITATION_FORM),
            b"url" => modes.add_object(scanner, Self::ELICITATION_URL),
            _ => scanner.skip(),
        })?;
        if modes == Self::default() {
            modes = Self::ELICITATION_FORM;
        }
        self.add(modes);
        Ok(())
    }

    fn tasks(&mut self, scanner: &mut Scanner<'_>) -> Scan<()> {
        nested(scanner, b"requests", &mut |scanner, name| match name {
            b"sampling" => nested(scanner, b"", &mut |scanner, name| match name {
                b"createMessage" => self.add_object(scanner, Self::TASKS_SAMPLING),
                _ => scanner.skip(),
            }),
            b"elicitation" => nested(scanner, b"", &mut |scanner, name| match name {
                b"create" => self.add_object(scanner, Self::TASKS_ELICITATION),
                _ => scanner.skip(),
            }),
            _ => scanner.skip(),
        })
    }

    fn add(&mut self, more: Self) {
        self.0 |= more.0;
    }

    fn add_object(&mut self, scanner: &mut Scanner<'_>, capability: Self) -> Scan<()> {
        if scanner.value()? == Kind::Object {
            self.add(capability);
        }
        Ok(())
    }
}

impl BitOr for ClientCapabilities {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

type Each<'f> = &'f mut dyn FnMut(&mut Scanner<'_>, &[u8]) -> Scan<()>;

fn members(scanner: &mut Scanner<'_>, each: Each<'_>) -> Scan<()> {
    scanner.members(|scanner, name| {
        let name = scanner.text(name);
        each(scanner, name.as_bytes())
    })
}

/// The members of the object here, or, with a `key`, of the object under that key.
fn nested(scanner: &mut Scanner<'_>, key: &[u8], each: Each<'_>) -> Scan<()> {
    if scanner.peek() != b'{' {
        return scanner.skip();
    }
    if key.is_empty() {
        return members(scanner, each);
    }
    members(scanner, &mut |scanner, name| {
        if name == key { nested(scanner, b"", each) } else { scanner.skip() }
    })
}

#[cfg(test)]
mod tests;
