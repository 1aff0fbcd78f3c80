//! What one writer wrote to documents that are its alone: what was acknowledged, and what is in doubt.

use serde_json::{Value, json};

use super::dice::Dice;
use super::line::{Line, Operation, Outcome};

/// A text, or `None` where the document is deleted.
pub(super) type State = Option<String>;

const WORDS: [&str; 12] = [
    "harbour", "lantern", "orchard", "granite", "voyage", "copper", "meadow", "signal", "timber",
    "ledger", "window", "thunder",
];

/// One document's past and what may have become of it.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) path: String,
    name: String,
    /// Revision n is at n - 1.
    pub(super) states: Vec<State>,
    /// What was asked for and not answered: the next revision, or not.
    pub(super) doubtful: Option<State>,
    /// Whether it was written since somebody last looked.
    touched: bool,
}

/// The documents of one writer.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) pages: Vec<Page>,
    /// Writes that were acknowledged.
    pub(super) acknowledged: usize,
    dice: Dice,
}

impl Book {
    pub(super) fn new(writer: usize, n_pages: usize, seed: u64) -> Self {
        let page = |n: usize| Page {
            path: format!("writer{writer}/page{n}"),
            name: format!("w{writer}p{n}"),
            states: Vec::new(),
            doubtful: None,
            touched: false,
        };
        let dice = Dice::new(seed ^ writer as u64);
        Self { pages: (0..n_pages).map(page).collect(), acknowledged: 0, dice }
    }

    /// The next operation, and the page it is about.
    pub(super) fn plan(&mut self) -> (usize, Operation) {
        let n = usize::try_from(self.dice.below(self.pages.len() as u64)).unwrap();
        let operation = self.pages[n].plan(&mut self.dice);
        (n, operation)
    }

    pub(super) fn acknowledge(&mut self, n: usize, answer: &Value) {
        let page = &mut self.pages[n];
        page.states.push(page.doubtful.take().expect("only planned writes are acknowledged"));
        assert_eq!(answer["revision"], page.states.len(), "{}: {answer}", page.path);
        self.acknowledged += 1;
    }

    /// Writes until the server no longer answers.
    pub(super) async fn write_until_lost(&mut self, line: &mut Line) {
        loop {
            let (n, operation) = self.plan();
            match line.attempt(&operation).await {
                Outcome::Done(answer) => self.acknowledge(n, &answer),
                Outcome::Lost => return,
                refused @ Outcome::Refused { .. } => panic!("{operation:?}: {refused:?}"),
            }
        }
    }

    /// Holds what the server has against everything written since the last time.
    pub(super) async fn settle(&mut self, line: &mut Line) {
        let mut touched: Vec<&mut Page> =
            self.pages.iter_mut().filter(|page| page.touched).collect();
        for pages in touched.chunks_mut(20) {
            let paths: Vec<&str> = pages.iter().map(|page| page.path.as_str()).collect();
            let answer = line.ask("batch_read", json!({ "paths": paths, "full": true })).await;
            for (page, item) in pages.iter_mut().zip(answer["items"].as_array().unwrap()) {
                page.settle(item);
            }
        }
    }
}

impl Page {
    /// The text, if the document lives.
    pub(super) fn text(&self) -> Option<&str> {
        self.states.last()?.as_deref()
    }

    /// A word that only this revision of this document has.
    pub(super) fn mark(&self, revision: usize) -> String {
        format!("{}r{revision}", self.name)
    }

    fn plan(&mut self, dice: &mut Dice) -> Operation {
        assert!(self.doubtful.is_none(), "one thing at a time");
        let (path, at) = (&self.path, self.states.len());
        let mark = self.mark(at + 1);
        let text = text(&mark, dice);
        let (operation, next) = match (self.text(), dice.below(100)) {
            (None, _) => {
                let arguments = json!({ "path": path, "content": text, "tags": ["old", "new"] });
                (Operation { tool: "upload_document", arguments }, Some(text))
            }
            (Some(_), 0..50) => {
                let arguments = json!({ "path": path, "content": text, "expected_revision": at });
                (Operation { tool: "update_document", arguments }, Some(text))
            }
            (Some(before), 50..85) => {
                let old = self.mark(at);
                let arguments = json!({ "path": path, "old_str": old, "new_str": mark });
                let after = before.replacen(&old, &mark, 1);
                (Operation { tool: "patch_document", arguments }, Some(after))
            }
            (Some(_), 85..92) => {
                let arguments = json!({ "path": path, "content": text, "upsert": true });
                (Operation { tool: "upload_document", arguments }, Some(text))
            }
            (Some(_), _) => {
                let arguments = json!({ "path": path, "expected_revision": at });
                (Operation { tool: "delete_document", arguments }, None)
            }
        };
        self.doubtful = Some(next);
        self.touched = true;
        operation
    }

    /// What the server has must be the last acknowledged state or the one in doubt.
    fn settle(&mut self, item: &Value) {
        let found: State = item["content"].as_str().map(str::to_owned);
        let revision = item["revision"].as_u64().map(|revision| usize::try_from(revision).unwrap());
        let same = |number: usize, state: &State| {
            *state == found && revision.is_none_or(|revision| revision == number)
        };
        let n = self.states.len();
        let nothing = None;
        if !same(n, self.states.last().unwrap_or(&nothing)) {
            let doubtful = self.doubtful.take();
            let applied = doubtful.filter(|state| same(n + 1, state));
            let applied = applied
                .unwrap_or_else(|| panic!("{}: revision {n} is lost, there is {item}", self.path));
            self.states.push(applied);
        }
        self.doubtful = None;
        self.touched = false;
    }
}

fn text(mark: &str, dice: &mut Dice) -> String {
    // Mostly a page or less, now and then what takes many pages of the file.
    let n_words = if dice.below(20) == 0 { 3000 } else { 10 + dice.below(200) };
    let mut text = format!("# Heading\n\n{mark}\n\n");
    for _ in 0..n_words {
        text.push_str(WORDS[usize::try_from(dice.below(12)).unwrap()]);
        text.push(' ');
    }
    text
}
