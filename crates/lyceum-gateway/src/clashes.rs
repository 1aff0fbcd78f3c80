//! [`Clashes`]: names and URIs that more than one wants, in words for people.

use std::collections::HashMap;

use crate::names::Names;

/// Clashes told of one upstream; of further ones there is only the number.
const MAX_TOLD: usize = 100;

/// What upstreams could not have because others had it before, by upstream.
#[derive(Debug, Default)]
pub(crate) struct Clashes(HashMap<String, Told>);

#[derive(Debug, Default)]
struct Told {
    texts: Vec<String>,
    n_more: usize,
}

impl Clashes {
    /// The names of one kind of thing, which are usually called `what`.
    pub(crate) fn names(&mut self, what: &str, names: &Names) {
        for collision in names.collisions() {
            let (name, renamed) = (&collision.name, &collision.renamed);
            let keeper = whose(&collision.keeper.upstream);
            let text = format!("{what}{name} is taken by {keeper}, shown as {renamed}");
            self.tell(&collision.other.upstream, text);
        }
        for (alias, source) in names.dead_aliases() {
            let text = match names.find(alias) {
                Some(keeper) => {
                    let keeper = whose(&keeper.upstream);
                    format!("alias {alias} is taken by {keeper}, not used")
                }
                None => format!("alias {alias} is taken by another alias, not used"),
            };
            self.tell(&source.upstream, text);
        }
    }

    /// A URI, or a template of URIs, that `keeper` has already.
    pub(crate) fn uri(&mut self, upstream: &str, what: &str, uri: &str, keeper: &str) {
        let keeper = whose(keeper);
        self.tell(upstream, format!("{what} {uri} is taken by {keeper}, not shown"));
    }

    /// Something an upstream lists again under the same name.
    pub(crate) fn repeated(&mut self, upstream: &str, what: &str, key: &str) {
        self.tell(upstream, format!("{what} {key} is listed more than once, the first is shown"));
    }

    /// What an upstream could not have.
    pub(crate) fn about(&self, upstream: &str) -> Vec<String> {
        let Some(told) = self.0.get(upstream) else { return Vec::new() };
        let more = (told.n_more > 0).then(|| format!("and {} more are taken", told.n_more));
        told.texts.iter().cloned().chain(more).collect()
    }

    /// Writes to the log what `before` did not know.
    pub(crate) fn log_new(&self, before: &Clashes) {
        for (upstream, told) in &self.0 {
            let known = before.0.get(upstream).map_or(&[][..], |told| &told.texts);
            for text in told.texts.iter().filter(|text| !known.contains(text)) {
                tracing::warn!(upstream, "{text}");
            }
        }
    }

    fn tell(&mut self, upstream: &str, text: String) {
        let told = self.0.entry(upstream.to_owned()).or_default();
        match told.texts.len() < MAX_TOLD {
            true => told.texts.push(text),
            false => told.n_more += 1,
        }
    }
}

/// An upstream in words; without a name it is the server itself.
fn whose(upstream: &str) -> &str {
    if upstream.is_empty() { "this server" } else { upstream }
}
