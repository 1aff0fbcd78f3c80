//! How well search finds: questions with known answers over the documents of an invented team.
//!
//! `corpus/gold.tsv` holds the questions. Some use the words of their document, some only its meaning, some quote an
//! identifier. The floors are what was measured, less a small margin: a change that falls below them made search worse.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lyceum_kb::embed::StaticModel;
use lyceum_kb::store::sqlite::SqliteStore;
use lyceum_kb::{
    Actor, Change, DocPath, Fields, Hit, Indexer, Kb, MimeType, Mode, Outline, Policy, Search,
    Write,
};
use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep};

/// More than there are documents, so that every ranking is complete.
const ALL: usize = 1_000;

/// A question and the documents that answer it.
struct Question {
    kind: String,
    text: String,
    answers: Vec<String>,
}

/// How good a ranking is, 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
struct Quality {
    ndcg10: f64,
    recall5: f64,
    recall10: f64,
}

/// What is demanded of an order for a kind of question.
struct Floor {
    kind: &'static str,
    order: &'static str,
    least: Quality,
}

const FLOORS: [Floor; 6] = [
    floor("all", "lexical", 0.69, 0.73, 0.78),
    floor("all", "vector", 0.57, 0.66, 0.78),
    floor("all", "blended", 0.735, 0.75, 0.85),
    floor("words", "blended", 0.96, 0.98, 0.98),
    floor("meaning", "blended", 0.53, 0.55, 0.74),
    floor("identifier", "blended", 0.98, 0.98, 0.98),
];

const fn floor(
    kind: &'static str,
    order: &'static str,
    ndcg10: f64,
    recall5: f64,
    recall10: f64,
) -> Floor {
    Floor { kind, order, least: Quality { ndcg10, recall5, recall10 } }
}

/// One way to order the hits of a search.
type Order = fn(&Hit) -> Option<f32>;

const ORDERS: [(&str, Order); 3] = [
    ("lexical", |hit| hit.explanation?.lexical.map(|(raw, _)| raw)),
    ("vector", |hit| hit.explanation?.vector.map(|(raw, _)| raw)),
    ("blended", |hit| Some(hit.score)),
];

impl Quality {
    /// Whether it is at least as good, in every respect.
    fn reaches(&self, least: &Quality) -> bool {
        self.ndcg10 >= least.ndcg10
            && self.recall5 >= least.recall5
            && self.recall10 >= least.recall10
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn questions() -> Vec<Question> {
    let text = fs::read_to_string(corpus().join("gold.tsv")).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let [kind, text, answers] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("three columns, please: {line}");
        };
        let answers = answers.split(',').map(str::to_owned).collect();
        Question { kind: kind.to_owned(), text: text.to_owned(), answers }
    });
    rows.collect()
}

/// The names of all documents, sorted, so that every run stores them in the same order.
fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(corpus())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".md").map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}

/// A knowledge base with all documents, indexed.
async fn library(directory: &TempDir) -> Kb {
    let store = SqliteStore::open(&directory.path().join("kb.sqlite"), Policy::default()).unwrap();
    let model = Arc::new(StaticModel::new());
    let kb = Kb::open(Arc::new(store), model, Vec::new()).await.unwrap();
    for name in names() {
        let body = fs::read_to_string(corpus().join(format!("{name}.md"))).unwrap();
        let title = Outline::new(&body, MimeType::Markdown).headings()[0].text.clone();
        let fields = Fields { title: Some(title), body: Some(body), ..Fields::default() };
        let write = Write {
            path: DocPath::parse(&name).unwrap(),
            change: Change::Create(fields),
            expected_revision: None,
            idempotency: None,
            by: Actor::default(),
        };
        kb.write(write).await.unwrap();
    }
    let _indexer = Indexer::start(kb.clone()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_indexed(&kb).await {
        assert!(Instant::now() < deadline, "the indexer does not finish");
        sleep(Duration::from_millis(10)).await;
    }
    kb.load_vectors().await.unwrap();
    kb
}

async fn is_indexed(kb: &Kb) -> bool {
    let missing = kb.store().audit_sync().await.unwrap().n_documents_without_vectors;
    kb.store().active_set().await.unwrap().is_some() && missing == 0
}

async fn search(kb: &Kb, query: &str) -> Vec<Hit> {
    let search = Search { query: query.to_owned(), limit: ALL, explain: true, ..Search::default() };
    let found = kb.search(&search).await.unwrap();
    assert_eq!((found.mode, found.degraded), (Mode::Hybrid, None));
    found.hits
}

/// The paths of the hits that `order` knows, best first.
fn ranking(hits: &[Hit], order: Order) -> Vec<&str> {
    let mut ranked: Vec<(f32, &Hit)> =
        hits.iter().filter_map(|hit| Some((order(hit)?, hit))).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.meta.key.cmp(&b.1.meta.key)));
    ranked.into_iter().map(|(_, hit)| hit.meta.path.as_str()).collect()
}

fn quality(ranking: &[&str], answers: &[String]) -> Quality {
    let is_answer = |path: &&str| answers.iter().any(|answer| answer == path);
    let gain = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
    let found = |n: usize| ranking.iter().take(n).filter(|path| is_answer(path)).count() as f64;
    let top = ranking.iter().take(10).enumerate();
    let dcg: f64 = top.filter(|(_, path)| is_answer(path)).map(|(rank, _)| gain(rank)).sum();
    let ideal: f64 = (0..answers.len().min(10)).map(gain).sum();
    let all = answers.len() as f64;
    Quality { ndcg10: dcg / ideal, recall5: found(5) / all, recall10: found(10) / all }
}

fn mean(of: &[Quality]) -> Quality {
    let n = of.len().max(1) as f64;
    let mean = |part: fn(&Quality) -> f64| of.iter().map(part).sum::<f64>() / n;
    Quality {
        ndcg10: mean(|one| one.ndcg10),
        recall5: mean(|one| one.recall5),
        recall10: mean(|one| one.recall10),
    }
}

#[test]
fn every_answer_is_a_document_and_there_are_enough_questions() {
    let (questions, names) = (questions(), names());
    assert!(questions.len() >= 60 && names.len() >= 80);
    for question in &questions {
        for answer in &question.answers {
            assert!(names.contains(answer), "{answer} answers {:?}", question.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_finds_the_documents_that_answer() {
    let directory = tempfile::tempdir().unwrap();
    let kb = library(&directory).await;
    let mut measured: HashMap<(&str, String), Vec<Quality>> = HashMap::new();
    for question in questions() {
        let hits = search(&kb, &question.text).await;
        for (name, order) in ORDERS {
            let quality = quality(&ranking(&hits, order), &question.answers);
            for kind in ["all", &question.kind] {
                measured.entry((name, kind.to_owned())).or_default().push(quality);
            }
        }
    }
    let of = |kind: &str, order: &'static str| mean(&measured[&(order, kind.to_owned())]);
    for kind in ["all", "words", "meaning", "identifier"] {
        for (order, _) in ORDERS {
            eprintln!("{kind:>10} {order:>8} {:.3?}", of(kind, order));
        }
    }
    for Floor { kind, order, least } in FLOORS {
        let found = of(kind, order);
        assert!(found.reaches(&least), "{kind} {order}: {found:.3?} is below {least:.3?}");
    }
    for kind in ["all", "words", "meaning", "identifier"] {
        let (blended, lexical) = (of(kind, "blended"), of(kind, "lexical"));
        assert!(blended.reaches(&lexical), "{kind}: {blended:.3?} is below {lexical:.3?}");
    }
}
