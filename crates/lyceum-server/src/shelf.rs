//! One kind of thing a server offers, in order, found by name: tools, resources, templates, prompts.
//!
//! A shelf never changes; a changed copy replaces it. So readers never wait, and lists can be
//! written once per revision and kept.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use lyceum_http::{Context, Outcome};
use lyceum_wire::{Era, Request, Revision, RpcError};
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use crate::cache::Cache;
use crate::foreign::ForeignItem;
use crate::identity::Identity;
use crate::json::{Object, array};
use crate::page::{self, List};
use crate::since;

/// Something that appears in a list.
pub(crate) trait Listed {
    /// Which list.
    const LIST: List;
    /// The member of the result that holds the items.
    const MEMBER: &'static str;

    /// What clients find it by.
    fn key(&self) -> &str;

    /// Whether requests for it have to repeat arguments in headers.
    fn is_mirrored(&self) -> bool {
        false
    }

    /// Writes the item as a client of `revision` expects it.
    fn describe(&self, revision: Revision, out: &mut Vec<u8>);
}

/// Where the sequence numbers of foreign items begin; own items never get there.
const FOREIGN: u64 = 1 << 32;

/// Items in order of registration, then those other servers answer for.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    items: Vec<Item<T>>,
    by_key: FxHashMap<String, Arc<T>>,
    mirrored: Vec<Arc<T>>,
    foreign: Vec<Arc<ForeignItem>>,
    last: u64,
    /// The whole list as one page, per revision.
    whole: [OnceLock<Bytes>; Revision::ALL.len()],
    hash: OnceLock<String>,
}

#[derive(Debug)]
struct Item<T> {
    sequence: u64,
    value: Arc<T>,
    enabled: bool,
}

/// One line of a list.
enum Entry<'a, T> {
    Own(&'a T),
    Foreign(&'a ForeignItem),
}

/// How lists of a server are presented.
pub(crate) struct Presentation<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) cache: Cache,
    pub(crate) page_size: usize,
}

impl<T: Listed> Shelf<T> {
    /// A shelf of `values`, in their order; of several with the same key, the last one counts.
    pub(crate) fn new(values: Vec<T>) -> Self {
        let mut places: HashMap<String, usize> = HashMap::with_capacity(values.len());
        let mut items: Vec<Item<T>> = Vec::with_capacity(values.len());
        for value in values {
            let next = items.len();
            let place = *places.entry(value.key().to_owned()).or_insert(next);
            let item = Item { sequence: place as u64 + 1, value: Arc::new(value), enabled: true };
            if place == next {
                items.push(item);
            } else {
                items[place] = item;
            }
        }
        let last = items.len() as u64;
        Self::of(items, last, Vec::new())
    }

    /// The item clients know as `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.by_key.get(key)
    }

    /// The enabled items that have to be mirrored in headers.
    pub(crate) fn mirrored(&self) -> &[Arc<T>] {
        &self.mirrored
    }

    /// The enabled items.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.iter().filter(|item| item.enabled).map(|item| &item.value)
    }

    /// Whether there was ever anything of our own here: what is announced must not vanish with the
    /// last item.
    pub(crate) fn is_offered(&self) -> bool {
        self.last > 0
    }

    /// Whether clients are told of this kind: not when all of it is hidden.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_offered() && (self.items.is_empty() || self.iter().next().is_some())
    }

    /// The items other servers answer for.
    pub(crate) fn foreign(&self) -> &[Arc<ForeignItem>] {
        &self.foreign
    }

    /// A copy with other foreign items, or `None` when that changes nothing.
    pub(crate) fn with_foreign(&self, foreign: &[Arc<ForeignItem>]) -> Option<Self> {
        let shown = foreign.iter().filter(|item| !self.by_key.contains_key(item.key()));
        let shown: Vec<_> = shown.cloned().collect();
        (shown != self.foreign).then(|| Self::of(self.items.clone(), self.last, shown))
    }

    /// A copy with `value` added, or put in the place of the item with the same key.
    pub(crate) fn with(&self, value: Arc<T>) -> Self {
        let mut items = self.items.clone();
        let mut last = self.last;
        match items.iter_mut().find(|item| item.value.key() == value.key()) {
            Some(item) => *item = Item { sequence: item.sequence, value, enabled: true },
            None => {
                last += 1;
                items.push(Item { sequence: last, value, enabled: true });
            }
        }
        Self::of(items, last, self.foreign.clone())
    }

    /// A copy without the item, or `None` when there is no such item.
    pub(crate) fn without(&self, key: &str) -> Option<Self> {
        let mut items = self.items.clone();
        items.retain(|item| item.value.key() != key);
        (items.len() < self.items.len()).then(|| Self::of(items, self.last, self.foreign.clone()))
    }

    /// A copy in which `enabled` says of each item by its key, and whether it is shown now, whether
    /// it is to be shown; `None` when that changes nothing.
    pub(crate) fn with_enabled(&self, enabled: impl Fn(&str, bool) -> bool) -> Option<Self> {
        let mut items = self.items.clone();
        let mut changed = false;
        for item in &mut items {
            let now = enabled(item.value.key(), item.enabled);
            changed |= std::mem::replace(&mut item.enabled, now) != now;
        }
        changed.then(|| Self::of(items, self.last, self.foreign.clone()))
    }

    fn of(items: Vec<Item<T>>, last: u64, foreign: Vec<Arc<ForeignItem>>) -> Self {
        let enabled = || items.iter().filter(|item| item.enabled).map(|item| &item.value);
        let by_key = enabled().map(|value| (value.key().to_owned(), Arc::clone(value))).collect();
        let mirrored = enabled().filter(|value| value.is_mirrored()).cloned().collect();
        let (whole, hash) = (Default::default(), OnceLock::new());
        Self { items, by_key, mirrored, foreign, last, whole, hash }
    }

    /// What is listed, in order, from the sequence number `after` on.
    fn entries(&self, after: u64) -> impl Iterator<Item = (u64, Entry<'_, T>)> + Clone {
        let own = self.items.iter().filter(|item| item.enabled);
        let own = own.map(|item| (item.sequence, Entry::Own(&*item.value)));
        let foreign = self.foreign.iter().zip(FOREIGN..);
        let foreign = foreign.map(|(item, sequence)| (sequence, Entry::Foreign(item)));
        own.chain(foreign).filter(move |(sequence, _)| *sequence > after)
    }

    /// The SHA-256 hash, in hex, of the enabled items as the newest revision describes them.
    pub(crate) fn hash(&self) -> &str {
        self.hash.get_or_init(|| {
            let mut out = Vec::new();
            array(&mut out, self.entries(0), |out, (_, item)| item.describe(since::MODERN, out));
            Sha256::digest(&out).iter().map(|byte| format!("{byte:02x}")).collect()
        })
    }

    /// Answers the list request of this shelf.
    pub(crate) fn list(
        &self,
        request: &Request,
        cx: &Context,
        show: &Presentation<'_>,
    ) -> Result<Outcome, RpcError> {
        let after = page::start(T::LIST, request, cx)?;
        if after == 0 && self.by_key.len() + self.foreign.len() <= show.page_size {
            let whole = self.whole[cx.revision as usize].get_or_init(|| {
                let all = self.entries(0).map(|(_, entry)| entry);
                encode(all, None, cx.revision, show).into()
            });
            return Ok(Outcome::json(whole.clone()));
        }
        let rest = self.entries(after);
        let page: Vec<_> = rest.clone().take(show.page_size).collect();
        let last = page.last().filter(|_| rest.count() > show.page_size);
        let next = last.map(|(sequence, _)| page::cursor(T::LIST, *sequence, cx));
        let page = page.iter().map(|(_, entry)| *entry);
        Ok(Outcome::json(encode(page, next, cx.revision, show)))
    }
}

fn encode<'a, T: Listed + 'a>(
    entries: impl Iterator<Item = Entry<'a, T>>,
    next: Option<String>,
    revision: Revision,
    show: &Presentation<'_>,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut result = Object::open(&mut out);
    if revision.era() == Era::Modern {
        result.field("resultType", "complete");
    }
    array(result.member(T::MEMBER), entries, |out, entry| entry.describe(revision, out));
    result.optional("nextCursor", next.as_ref());
    if revision.era() == Era::Modern {
        show.cache.write(&mut result);
    }
    show.identity.write_meta(&mut result, revision.era(), &Default::default());
    result.close();
    out
}

impl<T: Listed> Entry<'_, T> {
    fn describe(self, revision: Revision, out: &mut Vec<u8>) {
        match self {
            Entry::Own(item) => item.describe(revision, out),
            Entry::Foreign(item) => out.extend_from_slice(item.definition(revision.era())),
        }
    }
}

impl<T> Clone for Entry<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Entry<'_, T> {}

impl<T> Clone for Item<T> {
    fn clone(&self) -> Self {
        let Item { sequence, value, enabled } = self;
        Self { sequence: *sequence, value: Arc::clone(value), enabled: *enabled }
    }
}
