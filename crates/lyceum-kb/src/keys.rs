//! Sets of document keys. Keys are given in order, so a bit for each is small, and quick to ask.

use std::fmt;

const BITS: usize = u64::BITS as usize;
/// The largest key a set holds. A store that gave a billion keys would need other means altogether.
const MAX: i64 = 1 << 30;

/// Some documents, by their keys. Keys that no store gives (negative or beyond a billion) are never in it.
#[derive(Clone, Default)]
pub struct Keys {
    words: Vec<u64>,
    len: usize,
}

impl Keys {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub fn contains(&self, key: i64) -> bool {
        let (word, bit) = place(key);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    pub fn insert(&mut self, key: i64) {
        if !(0..=MAX).contains(&key) || self.contains(key) {
            return;
        }
        let (word, bit) = place(key);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
        self.len += 1;
    }

    pub fn remove(&mut self, key: i64) {
        if self.contains(key) {
            let (word, bit) = place(key);
            self.words[word] &= !bit;
            self.len -= 1;
        }
    }

    /// Those that are in `other` as well.
    pub fn and(&self, other: &Keys) -> Keys {
        let words: Vec<u64> = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        let len = words.iter().map(|word| word.count_ones() as usize).sum();
        Keys { words, len }
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let bits = (0..BITS).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| (at * BITS + bit) as i64)
        })
    }

    /// How much memory it takes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }
}

/// Where the bit of a key is; that of a key nobody has is beyond any set.
#[inline]
fn place(key: i64) -> (usize, u64) {
    let key = usize::try_from(key).unwrap_or(usize::MAX);
    (key / BITS, 1 << (key % BITS))
}

impl FromIterator<i64> for Keys {
    fn from_iter<I: IntoIterator<Item = i64>>(keys: I) -> Keys {
        let mut set = Keys::default();
        keys.into_iter().for_each(|key| set.insert(key));
        set
    }
}

impl<const N: usize> From<[i64; N]> for Keys {
    fn from(keys: [i64; N]) -> Keys {
        keys.into_iter().collect()
    }
}

impl PartialEq for Keys {
    fn eq(&self, other: &Keys) -> bool {
        self.len == other.len && self.and(other).len == self.len
    }
}

impl Eq for Keys {}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_another_set_holds(
            put in prop::collection::vec(-3_i64..300, 0..60),
            taken in prop::collection::vec(-3_i64..300, 0..60),
        ) {
            let mut keys: Keys = put.iter().copied().collect();
            let mut expected: BTreeSet<i64> = put.iter().copied().filter(|key| *key >= 0).collect();
            for key in &taken {
                keys.remove(*key);
                expected.remove(key);
            }
            prop_assert_eq!(keys.iter().collect::<Vec<_>>(), expected.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(keys.len(), expected.len());
            prop_assert!((-3..300).all(|key| keys.contains(key) == expected.contains(&key)));
            let others: Keys = taken.iter().copied().collect();
            prop_assert!(keys.and(&others).is_empty());
            prop_assert_eq!(keys.and(&keys), keys.clone());
        }
    }

    #[test]
    fn keys_that_nobody_gives_are_never_in_it() {
        let keys = Keys::from([i64::MIN, -1, MAX + 1, i64::MAX]);
        assert!(keys.is_empty() && !keys.contains(-1) && !keys.contains(i64::MAX));
    }

    #[test]
    fn sets_are_equal_whatever_was_in_them_before() {
        let mut keys = Keys::from([1, 1000]);
        keys.remove(1000);
        assert_eq!(keys, Keys::from([1]));
        assert_ne!(keys, Keys::from([1, 2]));
        assert_ne!(keys, Keys::from([2]));
    }
}
