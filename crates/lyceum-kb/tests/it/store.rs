//! What every store must do: one function per claim, each given an empty store.
//!
//! A kind of store runs them all with [`suite!`], naming a function that opens an empty one with [`policy`].

pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod records;
pub(crate) mod search;
pub(crate) mod vectors;
pub(crate) mod writes;

use lyceum_kb::store::Store;
use lyceum_kb::{
    Actor, Change, Code, DocPath, Document, Fields, Idempotency, Policy, Status, Write, Written,
};

/// Makes a test of every claim.
macro_rules! suite {
    ($open:path) => {
        suite! { $open =>
            history:
                every_revision_is_kept
                a_purge_takes_every_text_away
                history_goes_on_before_a_revision
                a_document_is_as_it_was
                a_deleted_document_comes_back
                restoring_tags_does_not_embed_again;
            list:
                l01_an_empty_prefix_lists_everything
                l02_a_prefix_does_not_leak
                l03_an_underscore_is_literal
                l04_a_percent_sign_is_literal
                l05_an_unknown_prefix_gives_an_empty_page
                l06_deleted_documents_are_left_out
                l07_offsets_cut_the_list
                l11_five_clients_list_at_once
                l12_ten_clients_list_at_once
                l14_the_order_is_stable
                a_cursor_goes_on_where_the_page_ended
                tags_are_completed_in_order;
            records:
                a_write_leaves_an_audit_line
                a_refused_write_leaves_none
                the_trail_is_read_backwards
                keys_are_kept_and_revoked
                an_answer_is_given_again
                a_key_with_other_arguments_is_a_conflict
                a_key_belongs_to_a_principal_and_a_tool
                a_refused_write_may_be_tried_again
                a_new_store_is_healthy_and_whole;
            search:
                words_find_living_documents
                titles_count_more_than_bodies
                a_filter_is_applied_before_the_limit
                filters_combine
                odd_queries_are_never_an_error
                text_in_a_filter_is_never_sql
                matching_gives_the_keys;
            vectors:
                the_first_vectors_decide_how_long_all_are
                what_ends_its_worker_is_leased_alone_and_then_given_up
                what_is_given_back_in_time_is_as_if_it_had_not_been_leased
                the_first_set_is_active
                a_changed_text_is_claimed_once
                c01_one_job_per_change
                c02_running_again_changes_nothing
                c04_other_fields_do_not_embed_again
                c07_skipped_prefixes_are_not_embedded
                a_delete_behind_an_insert_does_not_resurrect
                a_stale_text_does_not_overwrite
                a_lost_lease_does_not_count
                an_expired_lease_is_claimed_again
                a_job_given_back_waits
                a_dead_letter_keeps_its_reason
                changes_are_read_in_order
                a_new_model_is_built_beside_the_old
                a_set_is_complete_with_few_exceptions
                what_is_missing_is_enqueued
                the_backlog_is_counted
                documents_and_vectors_are_compared;
            writes:
                a_document_is_created_and_read
                creating_twice_is_a_conflict
                an_update_keeps_what_is_not_given
                an_update_without_a_difference_is_unchanged
                a_patch_replaces_one_passage
                a_delete_is_soft
                a_document_can_be_created_again
                an_expected_revision_is_checked
                a_document_that_is_too_large_is_refused
                empty_text_is_skipped_by_the_indexer
                sixty_four_writers_lose_no_update;
        }
    };
    ($open:path => $($topic:ident: $($claim:ident)*;)*) => {
        $(mod $topic {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $claim() {
                let store = $open();
                $crate::store::$topic::$claim(&*store).await;
            })*
        })*
    };
}

/// The rules of the stores under test.
pub(crate) fn policy() -> Policy {
    Policy { max_body: 64 * 1024, skip_prefixes: vec!["skipped/".to_owned()], ..Policy::default() }
}

pub(crate) fn path(text: &str) -> DocPath {
    DocPath::parse(text).unwrap()
}

pub(crate) fn write(at: &str, change: Change) -> Write {
    let by = Actor {
        principal: "alice".to_owned(),
        profile: "/mcp".to_owned(),
        tool: "test".to_owned(),
        request_id: "r1".to_owned(),
    };
    Write { path: path(at), change, expected_revision: None, idempotency: None, by }
}

pub(crate) fn text(body: &str) -> Fields {
    Fields { body: Some(body.to_owned()), ..Fields::default() }
}

pub(crate) fn tagged(body: &str, tags: &[&str]) -> Fields {
    Fields { tags: Some(tags.iter().map(|tag| (*tag).to_owned()).collect()), ..text(body) }
}

pub(crate) fn keyed(mut write: Write, key: &str, digest: u8) -> Write {
    write.idempotency = Some(Idempotency { key: key.to_owned(), digest: [digest; 32] });
    write
}

pub(crate) async fn create(store: &dyn Store, at: &str, body: &str) -> Written {
    done(store, write(at, Change::Create(text(body)))).await
}

pub(crate) async fn update(store: &dyn Store, at: &str, body: &str) -> Written {
    done(store, write(at, Change::Update(text(body)))).await
}

pub(crate) async fn delete(store: &dyn Store, at: &str) -> Written {
    done(store, write(at, Change::Delete)).await
}

pub(crate) async fn done(store: &dyn Store, write: Write) -> Written {
    store.write(write).await.unwrap()
}

/// The code a write is refused with.
pub(crate) async fn refused(store: &dyn Store, write: Write) -> Code {
    store.write(write).await.unwrap_err().code()
}

pub(crate) async fn get(store: &dyn Store, at: &str) -> Document {
    find(store, at).await.unwrap()
}

pub(crate) async fn find(store: &dyn Store, at: &str) -> Option<Document> {
    store.documents(&[path(at)]).await.unwrap().remove(0)
}

pub(crate) fn outcome(written: &Written) -> (Status, i64) {
    (written.status, written.revision)
}

/// Runs the futures side by side on this task.
pub(crate) async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    use std::pin::pin;
    use std::task::Poll;
    let mut boxed: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = boxed.iter().map(|_| None).collect();
    let all = std::future::poll_fn(|context| {
        for (future, output) in boxed.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *output = Some(value);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    });
    pin!(all).await;
    outputs.into_iter().flatten().collect()
}
