//! A vocabulary whose words are as unevenly frequent as those of a language.

use std::sync::OnceLock;

use super::rng::Rng;

/// As many different words as a large collection of technical texts has.
const WORDS: usize = 20_000;

/// The most frequent words; searches drop them.
const LITTLE: [&str; 40] = [
    "the", "of", "and", "to", "a", "in", "is", "it", "that", "for", "was", "on", "are", "as",
    "with", "they", "be", "at", "this", "have", "from", "or", "had", "by", "but", "not", "what",
    "were", "we", "when", "your", "can", "there", "an", "which", "their", "if", "will", "how",
    "about",
];

/// Frequent words that searches do not drop.
const COMMON: [&str; 60] = [
    "system", "time", "service", "data", "user", "team", "work", "change", "new", "release",
    "request", "server", "account", "document", "file", "test", "report", "error", "customer",
    "value", "process", "network", "version", "number", "message", "access", "order", "group",
    "project", "key", "status", "page", "storage", "check", "update", "support", "plan", "table",
    "window", "record", "policy", "market", "review", "delivery", "code", "backup", "contract",
    "signal", "memory", "queue", "garden", "water", "engine", "invoice", "travel", "energy",
    "school", "health", "music", "harbour",
];

/// The words, most frequent first, with the share of all text up to and with each.
#[derive(Debug)]
pub(super) struct Words {
    words: Vec<String>,
    shares: Vec<f64>,
}

impl Words {
    /// The one vocabulary of every document and query.
    pub(super) fn get() -> &'static Self {
        static WORDS: OnceLock<Words> = OnceLock::new();
        WORDS.get_or_init(Self::new)
    }

    /// Zipf's law: the word of rank n is an nth as frequent as the first.
    fn new() -> Self {
        let given = LITTLE.iter().chain(&COMMON).map(|word| (*word).to_owned());
        let words: Vec<String> = given.chain((0..).map(invented)).take(WORDS).collect();
        let mut total = 0.0;
        let mut shares: Vec<f64> = (1..=words.len())
            .map(|rank| {
                total += 1.0 / rank as f64;
                total
            })
            .collect();
        shares.iter_mut().for_each(|share| *share /= total);
        Self { words, shares }
    }

    /// A word as text has them.
    pub(super) fn any(&self, rng: &mut Rng) -> &str {
        self.at(rng.unit())
    }

    /// A word that says something, the frequent ones among them more often.
    pub(super) fn telling(&self, rng: &mut Rng) -> &str {
        let little = self.shares[LITTLE.len() - 1];
        self.at(little + rng.unit() * (1.0 - little))
    }

    /// One of the words that most documents have, and that searches do not drop.
    pub(super) fn common(rng: &mut Rng) -> &'static str {
        COMMON[rng.below(20)]
    }

    fn at(&self, share: f64) -> &str {
        let rank = self.shares.partition_point(|upto| *upto <= share);
        &self.words[rank.min(self.words.len() - 1)]
    }
}

/// A word that can be spoken, different for each number below half a million.
fn invented(number: usize) -> String {
    const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
    const VOWELS: &[u8; 5] = b"aeiou";
    // Scattered, so that neighbours in frequency do not begin alike.
    let mut rest = number * 7919 % 512_000;
    let mut word = String::new();
    for _ in 0..3 {
        let syllable = rest % 80;
        rest /= 80;
        word.push(char::from(CONSONANTS[syllable / 5]));
        word.push(char::from(VOWELS[syllable % 5]));
    }
    word
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_word_is_there_once() {
        let words: HashSet<&String> = Words::get().words.iter().collect();
        assert_eq!(words.len(), WORDS);
    }

    #[test]
    fn the_first_word_is_ten_times_as_frequent_as_the_tenth() {
        let (words, mut rng) = (Words::get(), Rng::new(0, 0));
        let texts: Vec<&str> = (0..200_000).map(|_| words.any(&mut rng)).collect();
        let count = |word| texts.iter().filter(|text| **text == word).count() as f64;
        let ratio = count(LITTLE[0]) / count(LITTLE[9]);
        assert!((9.0..11.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn telling_words_are_not_the_little_ones() {
        let (words, mut rng) = (Words::get(), Rng::new(0, 1));
        assert!((0..10_000).all(|_| !LITTLE.contains(&words.telling(&mut rng))));
    }
}
