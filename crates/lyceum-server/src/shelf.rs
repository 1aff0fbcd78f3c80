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

    /// Writes the item as a client of `revision` expects it.
    fn describe(&self, revision: Revision, out: &mut Vec<u8>);
}

/// Items in order of registration.
#[derive(Debug)]
pub(crate) struct Shelf<T> {
    items: Vec<Item<T>>,
    by_key: FxHashMap<String, Arc<T>>,
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
        Self::of(items, last)
    }

    /// The item clients know as `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.by_key.get(key)
    }

    /// The enabled items.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.items.iter().filter(|item| item.enabled).map(|item| &item.value)
    }

    /// Whether there was ever anything here: what is announced must not vanish with the last item.
    pub(crate) fn is_offered(&self) -> bool {
        self.last > 0
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
        Self::of(items, last)
    }

    /// A copy without the item, or `None` when there is no such item.
    pub(crate) fn without(&self, key: &str) -> Option<Self> {
        let mut items = self.items.clone();
        items.retain(|item| item.value.key() != key);
        (items.len() < self.items.len()).then(|| Self::of(items, self.last))
    }

    /// A copy with the item shown or hidden, or `None` when that changes nothing.
    pub(crate) fn with_enabled(&self, key: &str, enabled: bool) -> Option<Self> {
        let mut items = self.items.clone();
        let item = items.iter_mut().find(|item| item.value.key() == key)?;
        if item.enabled == enabled {
            return None;
        }
        item.enabled = enabled;
        Some(Self::of(items, self.last))
    }

    fn of(items: Vec<Item<T>>, last: u64) -> Self {
        let enabled = items.iter().filter(|item| item.enabled);
        let by_key =
            enabled.map(|item| (item.value.key().to_owned(), Arc::clone(&item.value))).collect();
        Self { items, by_key, last, whole: Default::default(), hash: OnceLock::new() }
    }

    /// The SHA-256 hash, in hex, of the enabled items as the newest revision describes them.
    pub(crate) fn hash(&self) -> &str {
        self.hash.get_or_init(|| {
            let mut out = Vec::new();
            array(&mut out, self.iter(), |out, item| item.describe(since::MODERN, out));
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
        if after == 0 && self.by_key.len() <= show.page_size {
            let whole = self.whole[cx.revision as usize]
                .get_or_init(|| self.encode(self.items.iter(), None, cx.revision, show).into());
            return Ok(Outcome::json(whole.clone()));
        }
        let rest = self.items.iter().filter(|item| item.enabled && item.sequence > after);
        let page: Vec<_> = rest.clone().take(show.page_size).collect();
        let last = page.last().filter(|_| rest.count() > show.page_size);
        let next = last.map(|last| page::cursor(T::LIST, last.sequence, cx));
        Ok(Outcome::json(self.encode(page.into_iter(), next, cx.revision, show)))
    }

    fn encode<'a>(
        &self,
        items: impl Iterator<Item = &'a Item<T>>,
        next: Option<String>,
        revision: Revision,
        show: &Presentation<'_>,
    ) -> Vec<u8>
    where
        T: 'a,
    {
        let mut out = Vec::new();
        let mut result = Object::open(&mut out);
        if revision.era() == Era::Modern {
            result.field("resultType", "complete");
        }
        let items = items.filter(|item| item.enabled);
        array(result.member(T::MEMBER), items, |out, item| item.value.describe(revision, out));
        result.optional("nextCursor", next.as_ref());
        if revision.era() == Era::Modern {
            show.cache.write(&mut result);
        }
        show.identity.write_meta(&mut result, revision.era(), &Default::default());
        result.close();
        out
    }
}

impl<T> Clone for Item<T> {
    fn clone(&self) -> Self {
        let Item { sequence, value, enabled } = self;
        Self { sequence: *sequence, value: Arc::clone(value), enabled: *enabled }
    }
}
