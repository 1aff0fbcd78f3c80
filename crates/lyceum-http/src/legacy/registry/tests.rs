//! What the registry remembers, and that it is bounded.

use lyceum_wire::{ClientCapabilities, Revision};

use super::*;
use crate::byte_budget::ByteBudget;
use crate::caller::CallerId;
use crate::legacy::RunningCall;

fn payer() -> Payer {
    Payer { budget: Arc::new(ByteBudget::new(1 << 20)), caller: CallerId::Anonymous }
}

fn token() -> SessionToken {
    SessionToken::mint(Revision::V2025_11_25, ClientCapabilities::default())
}

#[test]
fn newest_of_too_many_revocations_are_remembered() {
    let sessions = Sessions::new(Limits::default());
    let tokens: Vec<_> = (0..2 * MAX_REVOKED as u64)
        .map(|at| SessionToken { issued: unix_now() + at / 1000, ..token() })
        .collect();
    tokens.iter().for_each(|token| sessions.revoke(token));
    let kept: usize = sessions.shards.iter().map(|shard| read(shard).revoked.len()).sum();
    assert!((MAX_REVOKED / 2..=MAX_REVOKED).contains(&kept), "{kept}");
    let newest = &tokens[tokens.len() - MAX_REVOKED / 4..];
    assert!(newest.iter().all(|token| sessions.find(token).is_err()));
}

#[test]
fn revocations_of_one_moment_are_not_all_forgotten_together() {
    let mut revoked: FxHashMap<_, u64> =
        (0..1000).map(|key: u128| (key.to_be_bytes(), 7)).collect();
    forget_some(&mut revoked);
    assert_eq!(revoked.len(), 500);
}

#[test]
fn journal_is_rewritten_before_it_grows_without_bound() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("revoked");
    let expiry = unix_now() + 1000;
    let full: String = (0..2 * MAX_REVOKED).map(|key| format!("{key:032x} {expiry}\n")).collect();
    std::fs::write(&path, full).unwrap();
    let sessions = Sessions::new(Limits::default()).remember_in(&path).unwrap();
    let last = token();
    sessions.revoke(&last);
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    assert!((MAX_REVOKED / 2..=MAX_REVOKED).contains(&lines), "{lines}");
    let again = Sessions::new(Limits::default()).remember_in(&path).unwrap();
    assert!(again.find(&last).is_err());
}

#[tokio::test(start_paused = true)]
async fn sweeper_comes_and_goes_with_the_sessions() {
    let limits = Limits { session_idle: Duration::from_secs(1), ..Limits::default() };
    let sessions = Arc::new(Sessions::new(limits));
    for _ in 0..20 {
        sessions.live(&token(), None).unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(sessions.len(), 0);
        assert!(!sessions.sweeping.load(Ordering::Acquire), "no sweeper without sessions");
    }
}

#[tokio::test]
async fn sessions_are_capped_and_the_count_is_exact() {
    let limits = Limits { sessions: 3, ..Limits::default() };
    let sessions = Arc::new(Sessions::new(limits));
    let tokens: Vec<_> = (0..4).map(|_| token()).collect();
    for token in &tokens[..3] {
        sessions.live(token, None).unwrap();
        sessions.live(token, None).unwrap();
    }
    assert!(sessions.live(&tokens[3], None).is_err());
    sessions.remove(tokens[0].key);
    sessions.remove(tokens[0].key);
    assert_eq!(sessions.len(), 2);
    sessions.live(&tokens[3], None).unwrap();
    assert!(sessions.live(&tokens[0], None).is_err());
}

#[tokio::test(start_paused = true)]
async fn whoever_finds_a_session_keeps_it_from_being_swept() {
    const TTL: Duration = Duration::from_secs(10);
    let sessions = Arc::new(Sessions::new(Limits::default()));
    let token = token();
    let session = sessions.live(&token, None).unwrap();
    assert!(!session.sweep(TTL));
    tokio::time::sleep(TTL).await;
    assert!(session.sweep(TTL), "nobody used it");
    let found = sessions.find(&token).unwrap().unwrap();
    sessions.remove_if(token.key, |session| session.sweep(TTL));
    assert!(Arc::ptr_eq(&found, &sessions.get(token.key).unwrap()));
    session.sweep(TTL);
    tokio::time::sleep(TTL).await;
    sessions.sweep(TTL);
    assert!(sessions.find(&token).unwrap().is_none());
    assert_eq!(sessions.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn session_is_in_use_until_its_calls_have_ended() {
    const TTL: Duration = Duration::from_secs(10);
    let sessions = Arc::new(Sessions::new(Limits::default()));
    let session = sessions.live(&token(), None).unwrap();
    let call = RunningCall::admit(&sessions, None, Some(Arc::clone(&session)), None).unwrap();
    for _ in 0..3 {
        assert!(!session.sweep(TTL));
        tokio::time::sleep(TTL).await;
    }
    drop(call);
    assert!(!session.sweep(TTL), "a call has just ended");
    tokio::time::sleep(TTL).await;
    assert!(session.sweep(TTL));
}

#[tokio::test]
async fn calls_that_begin_as_their_session_ends_are_stopped() {
    let sessions = Arc::new(Sessions::new(Limits::default()));
    let token = token();
    let session = sessions.live(&token, None).unwrap();
    sessions.revoke(&token);
    let call = RunningCall::admit(&sessions, None, Some(session), None).unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(call.poll_stopped(&mut context).is_ready());
    assert!(sessions.find(&token).is_err());
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_in_a_session_that_was_ended_before_it_had_live_state() {
    let sessions = Arc::new(Sessions::new(Limits::default()));
    let token = token();
    assert!(sessions.find(&token).unwrap().is_none());
    sessions.revoke(&token);
    let session = sessions.live(&token, None).unwrap();
    assert_eq!(sessions.len(), 0);
    let call = RunningCall::admit(&sessions, None, Some(Arc::clone(&session)), None).unwrap();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(call.poll_stopped(&mut context).is_ready());
    assert!(session.standalone(|| sessions.outbox(payer())).is_finished());
    assert!(!session.add_stream(1, Arc::new(sessions.outbox(payer())), 1));
    let asked = session.ask("roots/list", Duration::from_secs(60), |_| async {}).await;
    assert!(asked.unwrap_err().message.contains("session ended"));
    assert!(sessions.find(&token).is_err());
}

#[tokio::test(start_paused = true)]
async fn notifications_do_not_keep_a_session_whose_client_has_left() {
    const TTL: Duration = Duration::from_secs(10);
    let sessions = Arc::new(Sessions::new(Limits::default()));
    let session = sessions.live(&token(), None).unwrap();
    let standalone = session.standalone(|| sessions.outbox(payer()));
    drop(standalone.resume());
    assert!(!session.sweep(TTL), "the client may come back");
    for _ in 0..4 {
        session.notify(bytes::Bytes::from_static(b"{}"));
        tokio::time::sleep(TTL / 4).await;
    }
    assert!(session.sweep(TTL), "a session without a reader expires");
}
