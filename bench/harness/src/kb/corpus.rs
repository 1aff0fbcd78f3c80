//! The documents and the questions, made from their numbers: the same in every run.

use serde_json::{Value, json};

use super::rng::Rng;
use super::words::Words;

const AREAS: [&str; 12] = [
    "engineering",
    "finance",
    "guides",
    "handbook",
    "incidents",
    "legal",
    "marketing",
    "meetings",
    "operations",
    "people",
    "research",
    "support",
];
const TOPICS: usize = 40;
const TAGS: [&str; 24] = [
    "howto", "draft", "final", "internal", "public", "weekly", "archived", "urgent", "security",
    "billing", "mobile", "web", "database", "network", "hiring", "travel", "design", "legal",
    "training", "quality", "budget", "release", "privacy", "partner",
];

/// Kinds of numbers, so that documents and questions have nothing in common by chance.
const PLACES: u64 = 1;
const TEXTS: u64 = 2;

/// A document as it is uploaded.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) path: String,
    title: String,
    tags: Vec<&'static str>,
    body: String,
}

impl Document {
    /// The document of that number.
    pub(super) fn numbered(number: usize) -> Self {
        Self::at(path(number), number)
    }

    /// What the document of that number says, elsewhere.
    pub(super) fn at(path: String, number: usize) -> Self {
        let rng = &mut Rng::new(TEXTS, number as u64);
        let tags = (0..rng.between(1, 3)).map(|_| tag(rng)).collect();
        Self { path, title: title(rng), tags, body: body(rng) }
    }

    /// The arguments of `upload_document`.
    pub(super) fn arguments(&self) -> Value {
        let Self { path, title, tags, body } = self;
        json!({ "path": path, "title": title, "tags": tags, "content": body, "upsert": true })
    }

    pub(super) fn into_body(self) -> String {
        self.body
    }
}

/// Where the document of that number is.
pub(super) fn path(number: usize) -> String {
    let rng = &mut Rng::new(PLACES, number as u64);
    format!("{}{}-{number:06}.md", folder(rng), Words::get().telling(rng))
}

/// A folder with about one in five hundred of the documents.
pub(super) fn folder(rng: &mut Rng) -> String {
    format!("{}topic-{:02}/", area(rng), rng.below(TOPICS))
}

/// A folder with about one in twelve of the documents.
pub(super) fn area(rng: &mut Rng) -> String {
    format!("{}/", AREAS[rng.below(AREAS.len())])
}

/// A tag; the first are many times as frequent as the last.
pub(super) fn tag(rng: &mut Rng) -> &'static str {
    TAGS[rng.below(TAGS.len()).min(rng.below(TAGS.len()))]
}

/// One to six words, frequent and rare ones as texts have them; every other one reads like a question.
pub(super) fn question(rng: &mut Rng) -> String {
    let n = rng.between(1, 6);
    let words: Vec<&str> = (0..n).map(|_| Words::get().telling(rng)).collect();
    let lead = if n > 1 && rng.below(2) == 0 { "how to " } else { "" };
    format!("{lead}{}", words.join(" "))
}

/// Two to four words that most documents have: the most that words can be asked to do.
pub(super) fn common_question(rng: &mut Rng) -> String {
    let words: Vec<&str> = (0..rng.between(2, 4)).map(|_| Words::common(rng)).collect();
    words.join(" ")
}

fn title(rng: &mut Rng) -> String {
    let words: Vec<&str> = (0..rng.between(2, 5)).map(|_| Words::get().telling(rng)).collect();
    capital(&words.join(" "))
}

/// Markdown of 150 to 300 words in sentences, paragraphs and sections.
fn body(rng: &mut Rng) -> String {
    let mut text = String::new();
    let mut left = rng.between(150, 300);
    for sentence in 0.. {
        match sentence {
            _ if left == 0 => break,
            n if n % 8 == 0 => text.push_str(&format!("\n\n## {}\n\n", title(rng))),
            n if n % 4 == 0 => text.push_str("\n\n"),
            _ => text.push(' '),
        }
        let words: Vec<&str> =
            (0..rng.between(6, 14).min(left)).map(|_| Words::get().any(rng)).collect();
        left -= words.len();
        text.push_str(&capital(&words.join(" ")));
        text.push('.');
    }
    text.trim_start().to_owned()
}

fn capital(text: &str) -> String {
    let (first, rest) = text.split_at(usize::from(!text.is_empty()));
    first.to_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_always_makes_the_same_document_and_another_number_another() {
        let arguments = |number| Document::numbered(number).arguments();
        assert_eq!(arguments(7), arguments(7));
        assert_ne!(arguments(7)["content"], arguments(8)["content"]);
        assert_ne!(path(7), path(8));
    }

    #[test]
    fn documents_are_as_long_as_they_should_be() {
        for number in 0..200 {
            let words = Document::numbered(number).body.split_whitespace().count();
            // Headings come on top.
            assert!((150..=330).contains(&words), "{words}");
        }
    }

    #[test]
    fn a_document_is_in_a_folder_that_is_asked_for() {
        let (area, topic) = ("guides/", "/topic-07/");
        let paths: Vec<String> = (0..5_000).map(path).collect();
        assert!(paths.iter().any(|path| path.starts_with(area) && path.contains(topic)));
    }
}
