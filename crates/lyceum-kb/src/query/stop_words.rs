//! Words so common in English that they say nothing about a document.

/// Sorted, so that a look-up is a binary search.
const STOP_WORDS: &[&str] = &[
    "a", "about", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being", "but", "by",
    "can", "could", "d", "did", "do", "does", "doing", "done", "for", "from", "get", "had", "has",
    "have", "he", "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just",
    "ll", "m", "may", "me", "might", "must", "my", "no", "not", "of", "on", "or", "our", "ours",
    "re", "s", "shall", "she", "should", "so", "some", "such", "t", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "too", "us", "ve", "very",
    "was", "we", "were", "what", "when", "where", "which", "who", "whom", "whose", "why", "will",
    "with", "would", "you", "your", "yours",
];

pub(super) fn contains(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

#[test]
fn stop_words_are_sorted() {
    assert!(STOP_WORDS.is_sorted());
}
