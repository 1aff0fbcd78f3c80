//! [`Drift`]: definitions of upstreams that are not what they were.
//!
//! With a lockfile, a tool whose definition is not the approved one is held back until it is. An
//! upstream the lockfile does not know, and every upstream without a lockfile, is trusted at first
//! use; what changes later is told and shown.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::invisible;
use crate::listing::Listing;
use crate::lock::{Definition, Kind, Lock, State, Verdict};
use crate::upstream::Upstream;

/// What is known about the definitions of all upstreams.
#[derive(Debug, Default)]
pub(crate) struct Drift {
    lock: Option<Lock>,
    /// What was there at first use, for upstreams that are not locked.
    seen: Lock,
    judged: HashMap<String, Judged>,
}

/// What was found about one listing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judged {
    listing: Arc<Listing>,
    /// Own names of tools that are held back, and why.
    pub(crate) held_back: Vec<(String, String)>,
    /// Own names of tools that are shown although they are not what they were at first use, and what
    /// is different.
    pub(crate) changed: Vec<(String, String)>,
    /// Characters nobody sees, and where.
    pub(crate) flagged: Vec<String>,
}

impl Drift {
    /// Judges by another lockfile from now on.
    pub(crate) fn set_lock(&mut self, lock: Option<Lock>) {
        self.lock = lock;
        self.judged.clear();
    }

    /// Whether there is a lockfile to judge by.
    pub(crate) fn is_locked(&self) -> bool {
        self.lock.is_some()
    }

    /// The tools that are held back: upstream and own name.
    pub(crate) fn held_back(&mut self, upstreams: &[Arc<Upstream>]) -> HashSet<(String, String)> {
        let mut held_back = HashSet::new();
        for upstream in upstreams {
            let name = &upstream.config.name;
            let judged = self.judge(name, &upstream.listing());
            held_back.extend(judged.held_back.iter().map(|(tool, _)| (name.clone(), tool.clone())));
        }
        self.judged.retain(|name, _| upstreams.iter().any(|known| known.config.name == *name));
        held_back
    }

    /// What was found about an upstream.
    pub(crate) fn about(&self, upstream: &str) -> Judged {
        self.judged.get(upstream).cloned().unwrap_or_default()
    }

    fn judge(&mut self, upstream: &str, listing: &Arc<Listing>) -> &Judged {
        let is_same = |judged: &Judged| Arc::ptr_eq(&judged.listing, listing);
        if !self.judged.get(upstream).is_some_and(is_same) {
            let judged = self.look(upstream, listing);
            self.judged.insert(upstream.to_owned(), judged);
        }
        &self.judged[upstream]
    }

    fn look(&mut self, upstream: &str, listing: &Arc<Listing>) -> Judged {
        let definitions = definitions(listing);
        let locked = self.lock.as_ref().filter(|lock| lock.knows(upstream));
        let verdicts = locked.unwrap_or(&self.seen).judge(upstream, Kind::Tool, &definitions);
        let is_first = locked.is_none() && !self.seen.knows(upstream);
        let differs = |verdict: Verdict| Some((verdict.name, told(&verdict.state)?));
        let differing: Vec<_> =
            verdicts.into_iter().filter(|_| !is_first).filter_map(differs).collect();
        let (mut held_back, mut changed) = (Vec::new(), Vec::new());
        if locked.is_some() {
            for (tool, why) in &differing {
                tracing::warn!(upstream, tool, "a tool is held back until it is approved: {why}");
            }
            held_back = differing;
        } else {
            // What was there at first use is what counts; each difference is told of once.
            let before = self.judged.get(upstream).map(|judged| &judged.changed[..]);
            let before = before.unwrap_or_default();
            for (tool, why) in differing.iter().filter(|change| !before.contains(change)) {
                tracing::warn!(upstream, tool, "a tool is not what it was: {why}");
            }
            changed = differing;
        }
        if is_first && !listing.tools.is_empty() {
            self.seen.approve_all(upstream, definitions);
        }
        let flagged = flagged(listing);
        for finding in &flagged {
            tracing::warn!(upstream, "characters nobody sees: {finding}");
        }
        Judged { listing: Arc::clone(listing), held_back, changed, flagged }
    }
}

/// The definitions of a listing's tools, as a lockfile keeps them.
pub(crate) fn definitions(listing: &Listing) -> Vec<Definition> {
    let read = |raw: &bytes::Bytes| {
        Definition::read(Kind::Tool, std::str::from_utf8(raw).unwrap_or_default()).ok()
    };
    listing.tools.iter().filter_map(|tool| read(&tool.raw)).collect()
}

/// What is wrong with a tool; None if nothing is.
fn told(state: &State) -> Option<String> {
    Some(match state {
        State::Known | State::Missing => return None,
        State::New => "it is new".to_owned(),
        State::Renamed { from } => format!("it was called {from}"),
        State::Changed { diff } => format!("its definition changed\n{diff}"),
    })
}

fn flagged(listing: &Listing) -> Vec<String> {
    let look = |item: &crate::listing::Item| -> Vec<String> {
        let text = std::str::from_utf8(&item.raw).unwrap_or_default();
        let key = invisible::visible(&item.key).into_owned();
        invisible::find(text).iter().map(|finding| format!("{key}: {finding}")).collect()
    };
    let all = listing.tools.iter().chain(&listing.prompts).chain(&listing.resources);
    all.chain(&listing.templates).flat_map(look).take(MAX_FLAGGED).collect()
}

/// Findings told of one upstream.
const MAX_FLAGGED: usize = 100;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::listing::Item;

    fn listing(tools: &[(&str, &str)]) -> Arc<Listing> {
        let item = |(name, description): &(&str, &str)| {
            let raw = format!(
                r#"{{"name":"{name}","description":"{description}","inputSchema":{{"type":"object"}}}}"#
            );
            Item::new((*name).to_owned(), Bytes::from(raw))
        };
        let tools = tools.iter().map(item).collect();
        Arc::new(Listing { tools, ..Listing::default() })
    }

    fn held(drift: &mut Drift, tools: &[(&str, &str)]) -> Vec<String> {
        let judged = drift.judge("up", &listing(tools));
        judged.held_back.iter().map(|(tool, _)| tool.clone()).collect()
    }

    #[test]
    fn a_locked_upstream_shows_only_what_was_approved() {
        let mut lock = Lock::default();
        lock.approve_all("up", definitions(&listing(&[("a", "A"), ("b", "B")])));
        let mut drift = Drift::default();
        drift.set_lock(Some(lock.clone()));
        assert_eq!(held(&mut drift, &[("a", "A"), ("b", "B")]), [""; 0]);
        assert_eq!(held(&mut drift, &[("a", "A"), ("b", "do evil")]), ["b"]);
        assert_eq!(held(&mut drift, &[("a", "A"), ("c", "C")]), ["c"]);
        let judged = drift.about("up");
        assert!(judged.held_back[0].1.contains("new"), "{judged:?}");
        lock.approve_all("up", definitions(&listing(&[("a", "A"), ("c", "C")])));
        drift.set_lock(Some(lock));
        assert_eq!(held(&mut drift, &[("a", "A"), ("c", "C")]), [""; 0]);
    }

    #[test]
    fn without_a_lock_for_it_an_upstream_is_trusted_and_what_changed_is_shown() {
        let mut drift = Drift::default();
        let mut changed = |lock: Option<Lock>, tools: &[(&str, &str)]| {
            if lock.is_some() {
                drift.set_lock(lock);
            }
            assert_eq!(held(&mut drift, tools), [""; 0]);
            let judged = drift.about("up");
            judged.changed.into_iter().map(|(tool, _)| tool).collect::<Vec<_>>()
        };
        // It is not first used before it offers anything.
        assert_eq!(changed(None, &[]), [""; 0]);
        assert_eq!(changed(None, &[("a", "A"), ("b", "B")]), [""; 0]);
        assert_eq!(changed(None, &[("a", "changed"), ("b", "B")]), ["a"]);
        assert_eq!(changed(None, &[("a", "changed"), ("b", "B"), ("c", "C")]), ["a", "c"]);
        let mut other = Lock::default();
        other.approve_all("other", definitions(&listing(&[("a", "A")])));
        assert_eq!(changed(Some(other), &[("a", "once more"), ("b", "B")]), ["a"]);
        assert_eq!(changed(None, &[("a", "A"), ("b", "B")]), [""; 0], "as it was");
    }

    #[test]
    fn what_nobody_sees_is_flagged() {
        let mut drift = Drift::default();
        let judged = drift.judge("up", &listing(&[("a", "nice\\u200b"), ("b", "plain")]));
        assert_eq!(judged.flagged.len(), 1, "{judged:?}");
        assert!(judged.flagged[0].starts_with("a: "), "{judged:?}");
    }
}
