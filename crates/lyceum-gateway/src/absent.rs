//! [`Absent`]: upstreams nobody knows anything of, and what would be theirs by its name.

use std::sync::Arc;

use crate::names;
use crate::upstream::Upstream;

/// Upstreams that have never listed anything, most of them because they were never reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Absent(Vec<Arc<Upstream>>);

impl FromIterator<Arc<Upstream>> for Absent {
    fn from_iter<I: IntoIterator<Item = Arc<Upstream>>>(upstreams: I) -> Absent {
        Absent(upstreams.into_iter().collect())
    }
}

impl Absent {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The upstream that cannot be reached and would have a tool or prompt of this name, if it has
    /// any, and the public name it would have.
    pub(crate) fn named(&self, asked: &str) -> Option<(Arc<Upstream>, String)> {
        let named = |upstream: &Arc<Upstream>| {
            let config = &upstream.config;
            let opening = names::opening(config.prefix());
            let is_it = |before: &str| before == config.prefix() || before == config.name;
            let mut halves = names::halves(asked, '.');
            if let Some((before, own)) = halves.find(|(before, _)| is_it(before)) {
                let public = names::sanitise(&format!("{opening}{own}"));
                return Some((before.len(), Arc::clone(upstream), public));
            }
            let is_prefixed = !opening.is_empty() && asked.starts_with(&opening);
            is_prefixed.then(|| (opening.len(), Arc::clone(upstream), asked.to_owned()))
        };
        // Of those whose prefix begins like another's, the longest says most.
        let found = self.0.iter().rev().filter_map(named).max_by_key(|(length, ..)| *length);
        let (_, upstream, public) = found?;
        upstream.unreached().map(|_| (Arc::clone(&upstream), public))
    }

    /// The upstream that cannot be reached and would have the resource at a public URI, if it has any.
    /// Without a prefix nothing says whose a URI is.
    pub(crate) fn resource(&self, uri: &str) -> Option<Arc<Upstream>> {
        // One setting for all, so any of them knows the form.
        let form = self.0.first()?.uris().form;
        let of_prefix = |(prefix, _): (&str, &str)| {
            self.0.iter().find(|upstream| upstream.config.prefix() == prefix)
        };
        let upstream = form.splits(uri).find_map(of_prefix)?;
        upstream.unreached().map(|_| Arc::clone(upstream))
    }
}
