//! Random scripts of writes leave the store in the states a simple model predicts, with every state in the history.

use std::collections::BTreeMap;

use lyceum_kb::store::{Filter, ListPage, Store};
use lyceum_kb::{Change, Code, Fields, Query, Status, VectorStatus, Write};
use proptest::prelude::*;

use super::fresh;
use crate::store::{find, path, text, write};

/// One write of a script.
#[derive(Debug, Clone)]
enum Op {
    Create(u8, u8),
    Upsert(u8, u8),
    Update(u8, u8),
    Tag(u8, u8),
    Delete(u8),
    Restore(u8, i64),
    /// An update that expects a revision.
    Expect(u8, i64),
}

/// What a document should be: text and tag, `None` when deleted.
type State = Option<(u8, Option<u8>)>;

#[derive(Debug, Default)]
struct Model {
    /// All states of each document, oldest first.
    documents: BTreeMap<u8, Vec<State>>,
}

fn op() -> impl Strategy<Value = Op> {
    let (document, value) = (0..3_u8, 0..4_u8);
    prop_oneof![
        (document.clone(), value.clone()).prop_map(|(d, v)| Op::Create(d, v)),
        (document.clone(), value.clone()).prop_map(|(d, v)| Op::Upsert(d, v)),
        (document.clone(), value.clone()).prop_map(|(d, v)| Op::Update(d, v)),
        (document.clone(), value).prop_map(|(d, v)| Op::Tag(d, v)),
        document.clone().prop_map(Op::Delete),
        (document.clone(), 0..6_i64).prop_map(|(d, r)| Op::Restore(d, r)),
        (document, 0..6_i64).prop_map(|(d, r)| Op::Expect(d, r)),
    ]
}

fn body(value: u8) -> String {
    format!("body word{value}")
}

fn as_write(op: &Op) -> Write {
    let tags = |tag: u8| Fields { tags: Some(vec![format!("t{tag}")]), ..Fields::default() };
    let (document, change, expected_revision) = match *op {
        Op::Create(document, value) => (document, Change::Create(text(&body(value))), None),
        Op::Upsert(document, value) => (document, Change::Upsert(text(&body(value))), None),
        Op::Update(document, value) => (document, Change::Update(text(&body(value))), None),
        Op::Tag(document, tag) => (document, Change::Update(tags(tag)), None),
        Op::Delete(document) => (document, Change::Delete, None),
        Op::Restore(document, revision) => (document, Change::Restore(revision), None),
        Op::Expect(document, revision) => {
            (document, Change::Update(text("expected")), Some(revision))
        }
    };
    Write { expected_revision, ..write(&format!("d{document}"), change) }
}

impl Model {
    /// What the write should answer, after changing the model.
    fn apply(&mut self, op: &Op) -> Result<(Status, i64), Code> {
        let (Op::Create(document, _)
        | Op::Upsert(document, _)
        | Op::Update(document, _)
        | Op::Tag(document, _)
        | Op::Delete(document)
        | Op::Restore(document, _)
        | Op::Expect(document, _)) = *op;
        let states = self.documents.entry(document).or_default();
        let current: State = states.last().copied().flatten();
        let (status, next): (Status, State) = match (op, current) {
            (Op::Create(..), Some(_)) => return Err(Code::Conflict),
            (Op::Create(_, value) | Op::Upsert(_, value), None) => {
                (Status::Created, Some((*value, None)))
            }
            (Op::Restore(_, revision), current) => {
                let past = usize::try_from(*revision - 1).ok().and_then(|at| states.get(at));
                let Some(Some(past)) = past else { return Err(Code::NotFound) };
                let _ = current;
                (Status::Restored, Some(*past))
            }
            (_, None) => return Err(Code::NotFound),
            (Op::Upsert(_, value) | Op::Update(_, value), Some((_, tag))) => {
                (Status::Updated, Some((*value, tag)))
            }
            (Op::Tag(_, tag), Some((value, _))) => (Status::Updated, Some((value, Some(*tag)))),
            (Op::Delete(_), Some(_)) => (Status::Deleted, None),
            (Op::Expect(_, revision), Some((_, tag))) => {
                if *revision != states.len() as i64 {
                    return Err(Code::Conflict);
                }
                (Status::Updated, Some((u8::MAX, tag)))
            }
        };
        if next.is_some() && next == current {
            return Ok((Status::Unchanged, states.len() as i64));
        }
        states.push(next);
        Ok((status, states.len() as i64))
    }
}

fn expected_body(value: u8) -> String {
    if value == u8::MAX { "expected".to_owned() } else { body(value) }
}

async fn compare(store: &dyn Store, model: &Model) {
    let mut living = Vec::new();
    for (document, states) in &model.documents {
        let at = format!("d{document}");
        let found = find(store, &at).await;
        let history = store.history(&path(&at), None, 1000).await.unwrap();
        assert_eq!(history.len(), states.len(), "history is complete");
        for (n, state) in states.iter().enumerate() {
            let revision = n as i64 + 1;
            let then = store.document_at(&path(&at), revision).await.unwrap().unwrap();
            assert_eq!(then.meta.is_alive(), state.is_some());
            assert_eq!(history[states.len() - 1 - n].revision, revision);
            check_state(&then.body, &then.meta.tags, *state);
        }
        if let Some(state) = states.last() {
            let document = found.unwrap();
            assert_eq!(document.meta.revision, states.len() as i64);
            check_state(&document.body, &document.meta.tags, *state);
            let expected =
                if state.is_some() { VectorStatus::Pending } else { VectorStatus::Deleted };
            assert_eq!(document.meta.vector_status, expected);
            living.extend(state.map(|(value, _)| (at, value)));
        }
    }
    let page = ListPage { limit: 100, ..ListPage::default() };
    let listed = store.list(&page).await.unwrap();
    let paths: Vec<_> = listed.iter().map(|meta| meta.path.as_str().to_owned()).collect();
    assert_eq!(paths, living.iter().map(|(at, _)| at.clone()).collect::<Vec<_>>());
    for value in 0..4 {
        let query = Query::parse(&format!("word{value}"));
        let hits = store.lexical(&query, &Filter::default(), 100).await.unwrap();
        assert_eq!(hits.len(), living.iter().filter(|(_, found)| *found == value).count());
    }
    assert_eq!(store.check_integrity().await.unwrap(), Vec::<String>::new());
}

fn check_state(body: &str, tags: &[String], state: State) {
    if let Some((value, tag)) = state {
        assert_eq!(body, expected_body(value));
        assert_eq!(tags, tag.map(|tag| format!("t{tag}")).as_slice());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_script_of_writes_leads_where_the_model_says(ops in prop::collection::vec(op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fresh = fresh();
            let store: &dyn Store = &*fresh;
            let mut model = Model::default();
            for op in &ops {
                let answer = store.write(as_write(op)).await;
                let answer = answer.map(|written| (written.status, written.revision));
                assert_eq!(answer.map_err(|error| error.code()), model.apply(op), "{op:?}");
            }
            compare(store, &model).await;
        });
    }
}
