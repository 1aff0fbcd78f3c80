//! The lockfile: how upstreams described their tools and prompts when somebody last approved of it.
//!
//! A definition is held as a whole, by its SHA-256. The file is JSON,
//! sorted and indented, and keeps the definitions too, so that a change can be shown and not only
//! noticed. What to do about a change is decided elsewhere.

mod definition;
mod diff;
mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use definition::{Definition, Kind};
pub use file::LockError;

/// What was approved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    upstreams: BTreeMap<String, Pins>,
}

/// What was approved of one upstream.
type Pins = BTreeMap<(Kind, String), Definition>;

/// What the lock says about something an upstream offers, or offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The upstream's name for it.
    pub name: String,
    /// What it says.
    pub state: State,
}

/// How something compares with what was approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It is as it was.
    Known,
    /// Nobody has approved of it.
    New,
    /// It is not as it was.
    Changed {
        /// What changed, line by line.
        diff: String,
    },
    /// Only its name is new.
    Renamed {
        /// What it was called.
        from: String,
    },
    /// It was approved of and is not offered any more.
    Missing,
}

impl Lock {
    /// Whether anything was ever approved of this upstream, be it that it offers nothing.
    pub fn knows(&self, upstream: &str) -> bool {
        self.upstreams.contains_key(upstream)
    }

    /// Whether some of it was approved by a lockfile of version 1, which does not hold all members.
    pub fn is_partial(&self) -> bool {
        self.upstreams.values().flat_map(Pins::values).any(Definition::is_partial)
    }

    /// Compares all that an upstream offers of one kind with what was approved: first what it offers,
    /// in its order, then what it does not.
    pub fn judge(&self, upstream: &str, kind: Kind, offered: &[Definition]) -> Vec<Verdict> {
        let none = Pins::new();
        let pins = self.upstreams.get(upstream).unwrap_or(&none);
        let names: BTreeSet<&str> = offered.iter().map(Definition::name).collect();
        let mut missing: Vec<&Definition> = pins
            .iter()
            .filter(|((pinned, name), _)| *pinned == kind && !names.contains(name.as_str()))
            .map(|(_, pin)| pin)
            .collect();
        let mut judge = |definition: &Definition| {
            let pin = pins.get(&(kind, definition.name().to_owned()));
            let renames = |pin: &&Definition| pin.differs_in_name_only(&definition.as_far_as(pin));
            match pin.map(|pin| (pin, definition.as_far_as(pin))) {
                Some((pin, definition)) if pin.hash() == definition.hash() => State::Known,
                Some((pin, definition)) => State::Changed { diff: diff::between(pin, &definition) },
                None => match missing.iter().position(renames) {
                    Some(n) => State::Renamed { from: missing.remove(n).name().to_owned() },
                    None => State::New,
                },
            }
        };
        let mut verdicts: Vec<Verdict> = offered
            .iter()
            .map(|offered| Verdict { name: offered.name().to_owned(), state: judge(offered) })
            .collect();
        let gone =
            |pin: &Definition| Verdict { name: pin.name().to_owned(), state: State::Missing };
        verdicts.extend(missing.into_iter().map(gone));
        verdicts
    }

    /// Approves of one definition, in the place of any other of that name.
    pub fn approve(&mut self, upstream: &str, definition: Definition) {
        let key = (definition.kind(), definition.name().to_owned());
        self.upstreams.entry(upstream.to_owned()).or_default().insert(key, definition);
    }

    /// Approves of an upstream as it is, and of nothing it was before.
    pub fn approve_all(&mut self, upstream: &str, offered: impl IntoIterator<Item = Definition>) {
        self.upstreams.insert(upstream.to_owned(), Pins::new());
        for definition in offered {
            self.approve(upstream, definition);
        }
    }

    /// Takes back what was approved under a name; whether there was something.
    pub fn forget(&mut self, upstream: &str, kind: Kind, name: &str) -> bool {
        let pins = self.upstreams.get_mut(upstream);
        pins.is_some_and(|pins| pins.remove(&(kind, name.to_owned())).is_some())
    }

    /// Takes back all that was approved of an upstream; whether there was something.
    pub fn forget_upstream(&mut self, upstream: &str) -> bool {
        self.upstreams.remove(upstream).is_some()
    }
}
